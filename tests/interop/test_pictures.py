"""Which values are pictures, and of what: pure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hubarray.interop.pictures import recognition

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(hnp.arrays("f4", st.tuples(st.integers(32, 60), st.integers(3, 5)), elements=FLOATS), st.integers(16, 40))
def test_points_of_any_numbers_are_seen_from_above_once_a_pixel(values, side):
    points = recognition.cloud(values, 1000)
    picture = recognition.from_above(points, side)
    assert (picture.shape, picture.dtype) == ((side, side, 3), np.uint8)
    assert int((picture > 0).any(axis=2).sum()) <= len(points)


def test_a_far_point_does_not_make_a_dot_of_the_rest():
    points = np.zeros((1000, 4), "f4")
    points[:, :2] = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    points[0, 0] = 1e9
    seen = (recognition.from_above(points, 32) > 0).any(axis=2)
    assert seen.any(axis=0).sum() > 24
    assert seen.any(axis=1).sum() > 24


def test_points_lie_as_on_a_map_with_y_upwards():
    points = np.zeros((100, 4), "f4")
    points[:50, 1] = 10
    points[:50, 3] = 1
    picture = recognition.from_above(points, 16).astype(int).sum(axis=2)
    assert picture[0].max() > picture[15].max() > 0


@pytest.mark.parametrize(
    ("shape", "kind"), [((None, None), "u"), ((None, None, 3), "u"), ((8, 8, 1), "f"), ((20, 400), "b"), ((7, 9), "u")]
)
def test_a_field_may_be_of_images_where_a_value_of_its_shape_is_one(shape, kind):
    value = np.zeros([64 if item is None else item for item in shape], {"u": "u1", "f": "f4", "b": "?"}[kind])
    assert recognition.may_be_image(shape, kind) is recognition.is_image(value)
