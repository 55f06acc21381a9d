"""Appending along an axis that is not the first."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.write.operations import Append
from hubarray.errors import ConfigError, ConflictError

NAME = "t/x:v0"


def made(root, shape=(3, 4), chunks=(2, 3), **options):
    array = hub.array(shape, NAME, "i8", chunks=chunks, root=root, **options)
    array[...] = np.arange(np.prod(shape)).reshape(shape)
    return array


@given(data=st.data())
def test_appends_along_any_axis_are_what_numpy_concatenates(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    root = hub.Root("memory://append-axis")
    array = hub.array(shape, NAME, "i8", chunks=chunks, root=root, overwrite=True, fill_value=-1)
    expected = np.full(shape, -1)
    for value in range(data.draw(st.integers(1, 4))):
        axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        rows = np.full([data.draw(st.integers(0, 5)) if i == axis % len(shape) else n
                        for i, n in enumerate(expected.shape)], value)  # fmt: skip
        start = expected.shape[axis]
        way = data.draw(st.sampled_from(["append", "transaction", "two of a transaction"]))
        if way == "append":
            assert array.append(rows, axis=axis) == slice(start, start + rows.shape[axis])
        else:
            with array.transaction() as t:
                parts = np.array_split(rows, 2, axis) if way == "two of a transaction" else [rows]
                for part in parts:
                    t.append(part, axis=axis)
        expected = np.concatenate([expected, rows], axis)
    assert array.shape == expected.shape
    assert np.array_equal(array[...], expected)


def test_two_that_append_along_one_axis_both_succeed(root):
    array = made(root)
    other = hub.load(NAME, root=root)
    with array.transaction() as t:
        t.append(np.full((3, 2), 7), axis=1)
        t[0, 0] = 70
        assert other.append(np.full((3, 5), 8), axis=1) == slice(4, 9)
        other[2, 1] = 80
    expected = np.arange(12).reshape(3, 4)
    expected[0, 0], expected[2, 1] = 70, 80
    assert np.array_equal(array[...], np.concatenate([expected, np.full((3, 5), 8), np.full((3, 2), 7)], 1))


def test_a_lost_race_puts_the_rows_behind_those_of_the_winner(root, monkeypatch):
    # The winner writes in this very thread, while the loser has the turn.
    monkeypatch.setattr("hubarray.history.log.commit_queue.STALLED_SECONDS", 0.05)
    array, other = made(root), hub.load(NAME, root=root)
    plain, first = Append.apply, iter([True])

    def late(self, base, version, packs):
        draft = plain(self, base, version, packs)
        if next(first, False):
            other.append(np.full((3, 1), 5), axis=1)
        return draft

    monkeypatch.setattr(Append, "apply", late)
    assert array.append(np.full((3, 2), 6), axis=1) == slice(5, 7)
    assert array[0].tolist() == [0, 1, 2, 3, 5, 6, 6]


def test_rows_of_another_length_and_other_axes_are_refused(root):
    array = made(root)
    for axis, rows in itertools.product((0, 1), (np.ones((2, 2)), np.ones(3), np.ones((3, 4, 1)))):
        with pytest.raises(ValueError, match=r"rows have shape \((n, 4|3, n)\)"):
            array.append(rows, axis=axis)
    for axis in (2, -3, 1.0, True, None, "x"):
        with pytest.raises(ConfigError, match="not one of the 2 axes"):
            array.append(np.ones((3, 1)), axis=axis)
    assert array.commit == 2


def test_a_resize_of_another_axis_meanwhile_is_a_conflict(root):
    array, other = made(root), hub.load(NAME, root=root)

    def append():
        with array.transaction() as t:
            t.append(np.ones((3, 1)), axis=1)
            other.append(np.ones((1, 4)))

    with pytest.raises(ConflictError, match="was resized"):
        append()
    assert array.shape == (4, 4)


def test_a_transaction_appends_along_one_axis(root):
    array = made(root)
    with array.transaction() as t:
        t.append(np.ones((3, 1)), axis=1)
        with pytest.raises(ConfigError, match="along axis 1"):
            t.append(np.ones((1, 5)))
        t.append_fill(2, axis=-1)
    assert (array.shape, array[0].tolist()) == ((3, 7), [0, 1, 2, 3, 1, 0, 0])


def test_appends_beyond_what_chunks_are_numbered_for_move_no_data(root):
    array = made(root, (4, 2), (1, 1))
    for i in range(40):
        array.append(np.full((4, 1), i), axis=1)
    assert array[3].tolist() == [6, 7, *range(40)]
    assert hub.load(NAME, root=root)[0].tolist() == [0, 1, *range(40)]
    assert hub.verify(NAME, root=root).problems == []
