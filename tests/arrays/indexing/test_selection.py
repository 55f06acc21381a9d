"""What NumPy refuses is refused; what it takes is tested on plans, in test_plan.py."""

import numpy as np
import pytest

from hubarray.arrays.indexing.selection import parse


@pytest.mark.parametrize(
    "key",
    [
        5,
        -6,
        (0, 0, 0),
        "field",
        ["a"],
        1.5,
        (slice(None), 1.0),
        [1.5],
        [[0], [9]],
        slice(1.5),
        {},
        np.array([True] * 4),
    ],
)
def test_what_numpy_refuses_is_refused_with_the_same_exception(key):
    array = np.zeros((5, 3))
    with pytest.raises((IndexError, TypeError)) as expected:
        array[key]
    with pytest.raises(expected.type):
        parse(key, array.shape)
