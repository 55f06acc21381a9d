"""Chunk files: they close at a block, at a size that the blocks alone decide."""

from hypothesis import given
from hypothesis import strategies as st

from hubarray.tables.format.chunk_file import CHUNK_FILE_BYTES, ChunkFile

MIB = 1 << 20


@given(st.lists(st.integers(1, 40 * MIB), max_size=40))
def test_blocks_lie_back_to_back_in_files_that_no_block_crosses(sizes):
    files, places = [ChunkFile()], []
    for size in sizes:
        if not files[-1].takes(size):
            files.append(ChunkFile())
        places.append((len(files) - 1, files[-1].add([b""], size), size))
    for number, file in enumerate(files):
        mine = [(offset, size) for item, offset, size in places if item == number]
        assert file.blocks == len(mine)
        end = 0
        for offset, size in mine:
            assert offset == end
            end += size
        assert file.size == end
        assert file.size <= CHUNK_FILE_BYTES or file.blocks == 1
    for number, file in enumerate(files[:-1]):
        next_size = next(size for item, _, size in places if item == number + 1)
        assert file.size + next_size > CHUNK_FILE_BYTES
