"""Permutations that stay the same for ever."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hubarray.readers.order.permutation import fractions, hashes, key_of, mix, permutation

MASK = (1 << 64) - 1


def splitmix64(state):
    """The published algorithm, one number at a time: (new state, output)."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def test_the_published_vectors_come_out():
    # From the reference implementation, seeded with 1234567.
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    state, result = 1234567, []
    for _ in expected:
        state, item = splitmix64(state)
        result.append(item)
    assert result == expected
    states = (1234567 + np.arange(1, 6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    assert mix(states).tolist() == expected


@given(st.integers(0, 300), st.lists(st.integers(0, MASK), min_size=1, max_size=4))
def test_every_number_is_there_once(count, key):
    assert sorted(permutation(count, *key).tolist()) == list(range(count))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, MASK))
def test_an_output_does_not_depend_on_how_many_are_asked_for(first, count, key):
    assert hashes(first + count, key)[first:].tolist() == hashes(count, key, first=first).tolist()


def test_golden_permutations_stay():
    assert permutation(12, 0, 0, 0).tolist() == GOLDEN[0]
    assert permutation(12, 1, 7, 3).tolist() == GOLDEN[1]
    assert [int(key_of(0, 7, 3)), int(key_of(1))] == GOLDEN[2]


def test_fractions_are_even():
    result = fractions(hashes(100_000, 5))
    assert 0 <= result.min() < result.max() < 1
    assert np.abs(np.histogram(result, 10, (0, 1))[0] - 10_000).max() < 500


GOLDEN = [
    [3, 2, 6, 9, 11, 5, 8, 7, 1, 0, 4, 10],
    [0, 10, 7, 2, 6, 4, 9, 5, 8, 3, 1, 11],
    [10441542808136809722, 6791897765849424158],
]
