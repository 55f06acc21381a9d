"""Boxes of chunks: as few as it takes, and none twice."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hubarray.arrays.indexing.chunk_grid import merged_boxes


@given(st.sets(st.tuples(*[st.integers(0, 4)] * 3)))
def test_boxes_cover_exactly_the_coordinates_once(coords):
    covered = [
        point
        for start, stop in merged_boxes(sorted(coords))
        for point in itertools.product(*(range(a, b) for a, b in zip(start, stop, strict=True)))
    ]
    assert sorted(covered) == sorted(coords)
