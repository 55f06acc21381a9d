import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.history.search import newest_from


@given(st.integers(0, 1000), st.integers(0, 10**6))
def test_the_newest_is_found_within_the_promised_number_of_probes(known, behind):
    probes = []

    def exists(number):
        probes.append(number)
        return number <= known + behind

    assert newest_from(known, exists) == known + behind
    assert len(probes) <= (1 if behind == 0 else 2 * math.log2(behind) + 2)
    assert len(set(probes)) == len(probes)


@pytest.mark.parametrize("behind", range(70))
def test_small_distances(behind):
    assert newest_from(5, lambda number: number <= 5 + behind) == 5 + behind
