"""Blocks that are there already: found by their digests, and counted in bytes."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.format import locations
from hubarray.tables.write.dedup import StoredBlock, StoredBlocks
from hubarray.tables.write.group_writer import GroupWriter

# Digests of which halves are often equal.
DIGESTS = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(
    lambda two: b"".join(n.to_bytes(8, "little") for n in two)
)


def stored(digests, first):
    result = locations.empty(len(digests), rows_per_block=1)
    for i, name in enumerate(("offset", "length", "check")):
        result[name] = np.arange(first, first + len(digests)) * 10 + i
    return np.frombuffer(b"".join(digests), "V16"), np.arange(first, first + len(digests), dtype="u4"), result


@given(st.lists(st.lists(DIGESTS, max_size=6), max_size=4), st.lists(DIGESTS, max_size=8))
def test_a_block_is_found_as_the_first_table_has_it(parts, asked):
    blocks, model, count = StoredBlocks(), {}, 0
    for part in parts:
        blocks.add(*stored(part, count))
        for i, digest in enumerate(part, count):
            model.setdefault(digest, StoredBlock(i, 10 * i, 10 * i + 1, 10 * i + 2))
        count += len(part)
        assert [blocks.get(digest) for digest in asked] == [model.get(digest) for digest in asked]


class Packs:
    """Takes chunk files and keeps nothing."""

    def add(self, pieces):
        return np.zeros((), hub.blobs.ref.REF)


def test_a_writer_holds_few_bytes_for_each_block_beside_its_chunk_file():
    group = hub.Schema({"v": hub.Field(bytes)}).groups["v"]
    writer = GroupWriter(group, lambda: "here", StoredBlocks(), [])
    rows = 20_000
    tracemalloc.start()
    for i in range(rows):
        writer.append({"v": i.to_bytes(8, "little")})
        writer.end_block(Packs())
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1.3 * writer.open_bytes + 60 * rows
    assert len(writer.locations()) == len(writer.digests()) == rows
