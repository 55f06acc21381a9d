"""Locations: they come back as they were, small where blocks lie side by side, and what cannot be is refused."""

import lz4.frame
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.tables.format.locations import begin_blocks, decode, empty, encode, rows_in_blocks


def locations(some, rows_per_block=64):
    made = empty(len(some), rows_per_block=rows_per_block)
    for i, name in enumerate(made.dtype.names):
        made[name] = [item[i] for item in some]
    return made


ANY = st.tuples(
    st.integers(0, 9),
    st.integers(0, (1 << 32) - (1 << 30)),
    st.integers(0, 1 << 30),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 15) - 1),
)


@given(st.lists(ANY, min_size=1, max_size=30), st.sampled_from([1, 64]))
def test_locations_come_back_as_they_were(some, rows_per_block):
    made = locations(some, rows_per_block)
    result = decode(encode(made), rows=len(made), chunk_files=10, rows_per_block=rows_per_block)
    assert result.tobytes() == made.tobytes()
    rows = [item[4] if rows_per_block > 1 else 0 for item in some]
    assert rows_in_blocks(result).tolist() == rows
    assert begin_blocks(result).tolist() == [row == 0 for row in rows]


def test_a_row_takes_16_bytes_in_memory_and_18_where_blocks_hold_several():
    assert empty(1000, rows_per_block=1).nbytes == 16_000
    assert empty(1000, rows_per_block=2).nbytes == 18_000


def test_blocks_side_by_side_take_little_more_than_their_checks():
    rng = np.random.default_rng(0)
    made = empty(100_000, rows_per_block=1)
    made["length"] = 1000
    made["offset"] = np.arange(100_000, dtype="u4") * 1000
    made["check"] = rng.integers(0, 1 << 32, 100_000)
    assert len(encode(made)) < 4.2 * 100_000


@given(st.lists(ANY, min_size=1, max_size=5), st.data())
def test_whatever_is_made_of_the_bytes_is_locations_that_can_be_or_a_value_error(some, data):
    made = bytearray(encode(locations(some)))
    for _ in range(data.draw(st.integers(1, 3))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    try:
        result = decode(made, rows=len(some), chunk_files=10, rows_per_block=64)
    except ValueError:
        return
    present = result[result["length"] > 0]
    assert (present["chunk"] < 10).all()
    assert (present["offset"].astype(object) + present["length"] <= 1 << 32).all()


@pytest.mark.parametrize(
    ("one", "why"),
    [
        ((10, 0, 1, 0, 0), "there are 10"),
        ((0, 0, (1 << 30) + 1, 0, 0), "longer"),
        ((0, 0, 1, 0, 1 << 15), "no block has"),
        ((0, (1 << 32) - 5, 10, 0, 0), "4 GiB"),
    ],
)
def test_a_location_that_cannot_be_is_refused(one, why):
    with pytest.raises(ValueError, match=why):
        decode(encode(locations([one])), rows=1, chunk_files=10, rows_per_block=64)


def test_more_or_fewer_than_the_slab_has_and_bombs_are_refused():
    made = encode(locations([(0, 0, 1, 0, 0)], 1))
    for rows in (0, 2, 100_000):
        with pytest.raises(ValueError, match="bytes"):
            decode(made, rows=rows, chunk_files=1, rows_per_block=1)
    with pytest.raises(ValueError, match="bytes"):
        decode(lz4.frame.compress(bytes(1 << 28)), rows=1, chunk_files=1, rows_per_block=1)
    with pytest.raises(ValueError, match="bytes"):
        decode(made + b"more", rows=1, chunk_files=1, rows_per_block=1)
