"""Tiles are the elements that a naive look at the whole array finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.viewer import cuts
from hubarray.viewer.cuts import TILE_PIXELS, Axes, box, checked_axes, guessed_axes, looks, tile, top_level


@given(data=st.data())
def test_tiles_of_every_level_are_the_picture_with_every_so_many_elements(data):
    height, width = data.draw(st.integers(1, 1200)), data.draw(st.integers(1, 1200))
    array = np.arange(2 * height * width, dtype="u4").reshape(2, height, width)
    level = data.draw(st.integers(0, top_level(height, width) + 1))
    chunks = (1, data.draw(st.integers(1, 1200)), data.draw(st.integers(1, 1200)))
    turned = data.draw(st.booleans())
    axes = Axes(2, 1) if turned else Axes(1, 2)
    expected = (array[1].T if turned else array[1])[:: 1 << level, :: 1 << level]
    rows, columns = (-(-n // TILE_PIXELS) for n in expected.shape)
    result = np.zeros_like(expected)
    for row in range(rows):
        for column in range(columns):
            cut = tile(
                array.shape, chunks, axes, (1, 0, 0), level=level, row=row, column=column, itemsize=4, coarse=False
            )
            part = result[row * TILE_PIXELS :, column * TILE_PIXELS :][:TILE_PIXELS, :TILE_PIXELS]
            assert cut.shape == part.shape
            read = array[cut.keys[0]].transpose(cut.order)
            part[...] = read.repeat(cut.step, 0)[: part.shape[0]].repeat(cut.step, 1)[:, : part.shape[1]]
            # What touches few chunks is read in full.
            if -(-height // chunks[1]) * -(-width // chunks[2]) <= cuts.MAX_CHUNKS:
                np.testing.assert_array_equal(
                    part, expected[row * TILE_PIXELS :, column * TILE_PIXELS :][:TILE_PIXELS, :TILE_PIXELS]
                )
    assert result.shape == expected.shape


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("level", [0, 10, 40])
def test_a_tile_touches_a_bounded_number_of_chunks_however_large_the_array(level, coarse):
    shape, chunks = (1 << 50, 1 << 50), (64, 64)
    cut = tile(shape, chunks, Axes(0, 1), (0, 0), level=level, row=0, column=0, itemsize=8, coarse=coarse)
    counts = [min(len(range(*key.indices(1 << 50))), -(-key.stop // 64)) for key in cut.keys[0]]
    assert counts[0] * counts[1] <= (cuts.COARSE_CHUNKS if coarse else cuts.MAX_CHUNKS)


def test_a_tile_that_is_not_there_is_refused():
    for row, column in ((1, 0), (0, 9)):
        with pytest.raises(ValueError, match="there is no tile"):
            tile((100, 100), (10, 10), Axes(0, 1), (0, 0), level=0, row=row, column=column, itemsize=1, coarse=False)
    with pytest.raises(ValueError, match="there is no 5"):
        tile((5, 100), (1, 10), Axes(None, 1), (5, 0), level=0, row=0, column=0, itemsize=1, coarse=False)


@pytest.mark.parametrize(("y", "x", "c"), [(0, 0, -1), (0, 5, -1), (0, 1, 2), (0, -1, -1)])
def test_axes_are_different_ones_that_are_there(y, x, c):
    with pytest.raises(ValueError, match=r"axes|axis|rows"):
        checked_axes(y, x, c, (10, 10, 10))


@given(shape=st.lists(st.integers(0, 20), max_size=5), is_byte=st.booleans())
def test_a_guess_is_always_a_view_that_can_be_asked_for(shape, is_byte):
    axes = guessed_axes(shape, [None] * len(shape), is_byte=is_byte)
    checked_axes(*(-1 if item is None else item for item in (axes.y, axes.x, axes.c)), shape)
    assert (axes.x is None) == (not shape)


@given(height=st.integers(1, 1 << 40), width=st.integers(1, 1 << 40))
def test_what_tells_the_brightness_is_there(height, width):
    for look in looks((height, width), Axes(0, 1)):
        cut = box((height, width), (100, 100), Axes(0, 1), (0, 0), look, itemsize=1, coarse=True)
        assert all(
            len(range(*key.indices(length))) > 0 for key, length in zip(cut.keys[0], (height, width), strict=True)
        )


@given(within=st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)), min_size=2, max_size=2))
def test_whatever_is_said_to_be_in_sight_a_part_of_the_picture_is_looked_at(within):
    for look in looks((1000, 70), Axes(0, 1), within):
        for (first, end), length in zip(look.spans, (1000, 70), strict=True):
            assert 0 <= first < end <= length
