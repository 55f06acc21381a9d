"""Extents: every number that was written has one of the manifest's, its own, and few extents are needed for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import ConfigError
from hubarray.history.records.extents import LEAST, MAX_EXTENTS, Extents, are_apart, check_triples

WRITES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 40) | st.integers(0, 100)), max_size=40)


def array(*numbers):
    return np.array(numbers, np.uint64)


@given(WRITES)
def test_numbers_of_several_parts_keep_places_of_their_own(writes):
    parts, following, places = [Extents()] * 3, 0, {}
    for part, number in writes:
        parts[part], following = parts[part].with_room(array(number), following)
        (place,), (there,) = parts[part].in_manifest(array(number))
        assert there
        assert places.setdefault((part, number), int(place)) == place
    assert len(set(places.values())) == len(places)
    assert are_apart(parts, following)
    for (part, number), place in places.items():
        assert parts[part].in_manifest(array(number))[0].tolist() == [place]
        for other in range(3):
            (back,), (mine,) = parts[other].in_member(array(place))
            assert mine == (other == part)
            assert back == number or not mine
    for part in parts:
        check_triples(part.to_json())
    assert Extents.from_json([part.to_json() for part in parts]) == parts


def test_a_part_that_grows_takes_few_extents_and_at_most_twice_its_numbers():
    extents, following = Extents(), 0
    for first in range(0, 1 << 16, 64):
        extents, following = extents.with_room(np.arange(first, first + 64, dtype=np.uint64), following)
    assert len(extents) <= 16
    assert following <= 2 << 16


def test_many_small_parts_share_a_leaf():
    following = 0
    for _ in range(128):
        _, following = Extents().with_room(array(0, 1, 2), following)
    assert following == 128 * LEAST == 1024


def test_what_is_written_here_and_there_over_ten_to_the_tenth_takes_few_extents():
    rng, extents, following = np.random.default_rng(0), Extents(), 0
    for number in rng.integers(0, 10**10, 3000):
        extents, following = extents.with_room(array(number), following)
    assert len(extents) <= 600
    assert following < 1 << 40


@given(WRITES, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_stretch_that_is_left_out_is_left_out_of_the_manifest(writes, one, two):
    numbers = np.unique(array(*(number for _, number in writes)))
    extents, following = Extents().with_room(numbers, 0)
    first, end = min(one, two), max(one, two)
    rest, stretches = extents.without(first, end)
    places, _ = extents.in_manifest(numbers)
    dropped = [any(low <= place < high for low, high in stretches) for place in places.tolist()]
    assert dropped == [first <= number < end for number in numbers.tolist()]
    kept = numbers[(numbers < first) | (numbers >= end)]
    assert (rest.in_manifest(kept)[0] == extents.in_manifest(kept)[0]).all()
    assert extents.includes(rest)
    again, after = rest.with_room(numbers, following)
    assert are_apart([again], after)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([[0, 0, 4]], "power of two"),
        ([[0, 0, 24]], "power of two"),
        ([[8, 0, 16]], "aligned"),
        ([[0, 8, 16]], "aligned"),
        ([[0, 0, 16], [8, 32, 8]], "overlap"),
        ([[0, 1 << 63, 8]], "beyond"),
        ([[(1 << 64) - 8, 0, 16]], "aligned"),
        ([[1 << 64, 0, 8]], "beyond"),
        ([[-8, 0, 8]], "triples"),
        ([[0, 0]], "triples"),
        ([[0, 0.0, 8]], "triples"),
        ([[0, False, 8]], "triples"),
        ([{"0": 0}], "triples"),
        ([[8 * i, 8 * i, 8] for i in range(MAX_EXTENTS + 1)], "more than"),
    ],
)
def test_what_is_no_extents_is_refused(found, why):
    with pytest.raises(ValueError, match=why):
        check_triples(found)


def test_two_parts_that_share_a_number_are_not_apart():
    first, _ = Extents().with_room(array(0), 0)
    second, _ = Extents().with_room(array(5), 0)
    assert are_apart([first], 8)
    assert not are_apart([first, second], 16)
    assert not are_apart([first], 7)


def test_a_manifest_without_room_is_an_error():
    with pytest.raises(ConfigError, match="more chunks than"):
        Extents().with_room(array(0), (1 << 63) - 4)
