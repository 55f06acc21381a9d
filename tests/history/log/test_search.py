import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.history.log.search import newest_from


@given(st.integers(0, 1000), st.integers(0, 10**6))
def test_the_newest_is_found_within_the_promised_number_of_probes(known, behind):
    probes = []

    def exists(number):
        probes.append(number)
        return number <= known + behind

    assert newest_from(known, exists, 10**16) == known + behind
    assert len(probes) <= (1 if behind == 0 else 2 * math.log2(behind) + 2)
    assert len(set(probes)) == len(probes)


@pytest.mark.parametrize("behind", range(70))
def test_small_distances(behind):
    assert newest_from(5, lambda number: number <= 5 + behind, 10**16) == 5 + behind


def test_a_store_that_says_every_number_exists_is_found_out_soon():
    probes = []
    with pytest.raises(ValueError, match="said to exist"):
        newest_from(3, lambda number: not probes.append(number), 10**16)
    assert len(probes) < 60
