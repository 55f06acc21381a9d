import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hubarray.arrays.indexing import numbering

COUNTS = st.lists(st.integers(1, 5), min_size=0, max_size=4).map(tuple)


@given(COUNTS)
def test_numbers_are_those_of_c_order(counts):
    grid = numbering.numbering_grid(counts)
    everything = list(itertools.product(*map(range, counts)))
    numbers = [numbering.number_of(coords, grid) for coords in everything]
    assert numbers == list(range(len(everything)))
    array = numbering.coords_array(np.array(numbers, np.uint64), grid, len(counts))
    assert [tuple(row) for row in array.tolist()] == everything


@given(COUNTS, st.integers(1, 100))
def test_growing_along_axis_0_changes_no_number(counts, more):
    grown = (counts[0] + more, *counts[1:]) if counts else counts
    assert numbering.fits(numbering.numbering_grid(counts), grown)


@given(COUNTS.filter(len), st.data())
def test_renumbering_keeps_coordinates_and_order(counts, data):
    bigger = tuple(count + data.draw(st.integers(0, 4)) for count in counts)
    old = numbering.numbering_grid(counts)
    new = numbering.enlarged(old, bigger)
    assert numbering.fits(new, bigger)
    coords = list(itertools.product(*map(range, counts)))
    numbers = np.array([numbering.number_of(c, old) for c in coords], np.uint64)
    moved = numbering.renumber(numbers, old, new, len(counts))
    assert moved.tolist() == [numbering.number_of(c, new) for c in coords]
    assert moved.tolist() == sorted(moved.tolist())


def test_numbers_beyond_32_bits_are_exact():
    grid = numbering.numbering_grid((10**10, 1, 1, 1))
    assert numbering.number_of((9_999_999_999, 0, 0, 0), grid) == 9_999_999_999
