"""Views and blocks against NumPy's own indexing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.interop import blocks

lengths = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(tuple)


@st.composite
def keys(draw, shape):
    parts = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        slices = st.slices(n)
        parts.append(draw(st.one_of(slices, st.integers(-n, n - 1)) if n else slices))
    if draw(st.booleans()):
        parts.append(...)
    return tuple(parts)


@given(st.data(), lengths)
def test_indexing_a_view_twice_is_indexing_numpy_twice(data, shape):
    values = np.arange(math.prod(shape)).reshape(shape)
    axes = tuple(range(n) for n in shape)
    for _ in range(2):
        key = data.draw(keys(blocks.shape_of(axes)))
        axes = blocks.index(axes, key)
        values = values[key]
    assert blocks.shape_of(axes) == values.shape
    whole = np.arange(math.prod(shape)).reshape(shape)
    assert np.array_equal(whole[tuple(blocks.as_slice(a) if isinstance(a, range) else a for a in axes)], values)


@given(st.slices(200), st.integers(1, 50))
def test_pieces_are_the_positions_in_order_and_each_within_one_block(cut, block):
    positions = range(200)[cut]
    pieces = list(blocks.pieces(positions, block))
    assert [item for piece in pieces for item in piece] == list(positions)
    assert all(len({item // block for item in piece}) == 1 for piece in pieces)
    assert len(pieces) == len({item // block for item in positions})


@given(lengths, st.integers(1, 5), st.integers(1, 8), st.integers(1, 4096))
def test_blocks_are_whole_chunks_and_about_as_large_as_asked(shape, chunk, itemsize, target):
    chunks = (chunk,) * len(shape)
    block = blocks.block_shape(shape, chunks, itemsize, target)
    for item, size, length in zip(block, chunks, shape, strict=True):
        assert item % size == 0 or item == length
    chunk_bytes = chunk ** len(shape) * itemsize
    assert math.prod(block) * itemsize <= max(target, chunk_bytes)


@pytest.mark.parametrize("key", [(0, 0, 0), (..., ...), 1.5, [0], True, None, 10])
def test_what_is_no_basic_index_is_an_index_error(key):
    with pytest.raises(IndexError):
        blocks.index((range(10), range(3)), key)
