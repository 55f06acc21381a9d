"""Rows by their blocks are what they are one by one."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hubarray.tables.format import locations
from hubarray.tables.snapshot import block_spans
from hubarray.tables.snapshot.block_spans import block_table, coalesced_starts


@st.composite
def slabs(draw):
    """Locations of a slab as writers lay them, and now and then not so."""
    result, offset, chunk = [], 0, 0
    for _ in range(draw(st.integers(1, 12))):
        rows, length = draw(st.integers(1, 6)), draw(st.sampled_from([10, 10, 10, 17]))
        first = draw(st.sampled_from([0, 0, 0, 2]))
        result += [(chunk, offset, length, len(result) + 1, first + i) for i in range(rows)]
        offset += length
        if draw(st.integers(0, 4)) == 0:
            chunk, offset = chunk + 1, 0
    slab = locations.empty(len(result), rows_per_block=8)
    slab[:] = result
    # The check is of the block, not of the row.
    slab["check"] = (slab["chunk"].astype(np.uint64) * 1000 + slab["offset"]).astype("u4")
    kind = draw(st.sampled_from(["in order", "in order", "in order", "null", "swapped"]))
    at = draw(st.integers(0, len(result) - 1))
    if kind == "null":
        slab[at] = 0
    elif kind == "swapped":
        slab[[0, at]] = slab[[at, 0]]
    return slab


@given(data=st.data(), slab=slabs())
def test_a_cut_has_each_rows_block_and_its_row_there(data, slab):
    table = block_table(slab)
    if table is None:
        key = slab["chunk"].astype(int) * 10**6 + slab["offset"]
        steps = np.diff(key)
        rows = np.diff(slab["row"].astype(int))
        assert not slab["length"].all() or (steps < 0).any() or ((steps == 0) & (rows != 1)).any()
        return
    first = data.draw(st.integers(0, len(slab) - 1))
    end = data.draw(st.integers(first + 1, len(slab)))
    cut = table.cut(first, end)
    assert (cut.bounds[0], cut.bounds[-1], len(cut.bounds)) == (0, end - first, len(cut.blocks) + 1)
    for i, row in enumerate(range(first, end)):
        block = int(np.searchsorted(cut.bounds, i, side="right")) - 1
        assert cut.blocks[block]["offset"] == slab[row]["offset"]
        assert cut.blocks[block]["chunk"] == slab[row]["chunk"]
        assert cut.first_rows[block] + i - cut.bounds[block] == slab[row]["row"]


@given(data=st.data(), slab=slabs(), joined_bytes=st.sampled_from([1, 25, 1 << 20]), alike=st.booleans())
def test_whole_blocks_side_by_side_are_read_as_one(data, slab, joined_bytes, alike):
    table = block_table(slab)
    assume(table is not None)
    cut = table.cut(0, len(slab))
    is_whole = (np.diff(cut.bounds) == 4) & (cut.first_rows == 0)
    follow = np.array(data.draw(st.lists(st.booleans(), min_size=len(is_whole) - 1, max_size=len(is_whole) - 1)), bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_spans, "_JOINED_BYTES", joined_bytes)
        chunks = cut.blocks["chunk"].astype(np.uint64)
        heads = coalesced_starts(cut.blocks, chunks, is_whole, are_alike=alike, rows_follow=follow)
    begins = [0]
    for block in range(1, len(cut.blocks)):
        before, this = cut.blocks[block - 1], cut.blocks[block]
        joined = (
            is_whole[block - 1]
            and is_whole[block]
            and follow[block - 1]
            and this["chunk"] == before["chunk"]
            and this["offset"] == before["offset"] + before["length"]
            and this["offset"] // joined_bytes == before["offset"] // joined_bytes
            and (this["length"] == before["length"] or not alike)
        )
        begins += [] if joined else [block]
    assert heads.tolist() == [*begins, len(cut.blocks)]
