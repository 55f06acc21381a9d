"""Slabs: the rows of all partitions in the order of their keys, cut at every 131,072 rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubarray.tables.format import locations
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.format.slabs import slabs
from tests.tables.write.test_partition import written

SCHEMA = Schema(
    {"a.x": Field("i4", nullable=True), "b.y": Field("u1", (None,)), "t": Field("i8", index=True)},
    rows_per_block={"a": 4, "b": 1},
)


def rows_of(first, count):
    return [
        {"a.x": None if (first + i) % 5 == 0 else first + i, "b.y": np.full(i % 3, i, "u1"), "t": first + i}
        for i in range(count)
    ]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 23), max_size=5), st.integers(1, 17))
def test_slabs_hold_every_row_once_whatever_the_partitions_and_the_cut(make_root, counts, slab_rows):
    root = make_root("memory")
    parts = [written(root, SCHEMA, rows_of(100 * i, count), f"k{i}") for i, count in enumerate(counts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locations, "SLAB_ROWS", slab_rows)
        result = list(slabs(parts, SCHEMA, str))
    assert [item.rows for item in result[:-1]] == [slab_rows] * (len(result) - 1)
    assert sum(item.rows for item in result) == sum(counts)
    keys = [key for item in result for key in item.index["partition"].to_pylist()]
    assert keys == [f"k{i}" for i, count in enumerate(counts) for _ in range(count)]
    times = [time for item in result for time in item.index["t"].to_pylist()]
    assert times == [100 * i + row for i, count in enumerate(counts) for row in range(count)]
    for group in SCHEMA.groups:
        first, expected = 0, []
        for part in parts:
            moved = part.locations[group].copy()
            moved["chunk"][moved["length"] > 0] += first
            first += len(part.chunk_files)
            expected.append(moved.tobytes())
        assert b"".join(item.locations[group].tobytes() for item in result) == b"".join(expected)
        digests = b"".join(item.digests[group].tobytes() for item in result)
        assert digests == b"".join(part.digests[group].tobytes() for part in parts)
        for item in result:
            assert len(item.digests[group]) == locations.begin_blocks(item.locations[group]).sum()


def test_keys_may_be_numbers(root):
    parts = [written(root, SCHEMA, rows_of(0, 2), key) for key in (-1, 9, 10)]
    (slab,) = slabs(parts, SCHEMA, int)
    assert slab.index["partition"].to_pylist() == [-1, -1, 9, 9, 10, 10]
