"""Shards with unequally many rows, over several epochs: their states are taken in one moment, in two epochs."""

import collections
import contextlib
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError

ROWS = 103


@pytest.fixture
def name(root):
    array = hub.array((ROWS,), "u/b:v1", "i8", chunks=10, root=root)
    array[:] = np.arange(ROWS)
    return "u/b:v1"


def readers(name, root, world, **options):
    given = {"seed": 0, "reader_pool_type": "dummy", "root": root, "shard_count": world} | options
    return [hub.make_reader(name, cur_shard=rank, **given) for rank in range(world)]


def taken(ranks, steps):
    return [int(next(item).value) for _ in range(steps) for item in ranks]


def rest(ranks):
    return [int(row.value) for item in ranks for row in item]


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize("epochs", [2, 3])
def test_states_of_one_moment_go_on_with_the_rest_wherever_it_is(root, name, world, epochs):
    for steps in range(0, (ROWS // world) * epochs, 7):
        ranks = readers(name, root, world, num_epochs=epochs)
        before = taken(ranks, steps)
        states = [item.state_dict() for item in ranks]
        again = readers(name, root, world, num_epochs=epochs)
        for item in again:
            item.load_state_dict(states)
        assert collections.Counter(before + rest(again)) == dict.fromkeys(range(ROWS), epochs), steps


@pytest.mark.parametrize("steps", [ROWS // 2 + 1, ROWS // 2 + 20])
def test_one_state_of_shards_that_have_drifted_apart_is_refused(root, name, steps):
    ranks = readers(name, root, 2, num_epochs=3)
    taken(ranks, steps)
    states = [item.state_dict() for item in ranks]
    assert any("rank" in state for state in states)
    for state in states:
        if "rank" in state:
            with pytest.raises(ConfigError, match="states of all 2 ranks"):
                readers(name, root, 2, num_epochs=3)[0].load_state_dict(state)


def test_states_of_two_epochs_go_on_with_as_many_shards_and_no_others(root, name):
    ranks = readers(name, root, 2, num_epochs=2)
    taken(ranks, ROWS // 2 + 1)
    states = [item.state_dict() for item in ranks]
    assert {state["epoch"] for state in states} == {0, 1}
    with pytest.raises(ConfigError, match="different epochs, and of 2 ranks"):
        readers(name, root, 3, num_epochs=2)[0].load_state_dict(states)


@pytest.mark.parametrize("cuts", [[[3, 2, [0, 0]]], [[1, 3, [0, 0, 0]]], [[4, 2, [0, 0, 0]]]])
def test_cursors_of_ranks_that_do_not_share_the_intervals_are_refused(root, name, cuts):
    item = readers(name, root, 2)[0]
    with pytest.raises(ConfigError, match="not a state"):
        item.load_state_dict(item.state_dict() | {"cuts": cuts})


def test_a_state_of_many_cuts_is_loaded_or_refused_in_no_time(root, name):
    item = readers(name, root, 1)[0]
    began = time.monotonic()
    for count in (64, 256):
        with contextlib.suppress(ConfigError):
            item.load_state_dict(item.state_dict() | {"cuts": [[1023 + i % 2, 1, 0] for i in range(count)]})
    item.load_state_dict(item.state_dict() | {"cuts": [[3 + i % 2, 1, 0] for i in range(250)]})
    assert len(rest([item])) == ROWS
    assert time.monotonic() - began < 20


def test_shards_that_share_a_rest_unevenly_say_so_where_all_rows_divide(root):
    array = hub.array((12,), "u/twelve:v1", "i8", chunks=5, root=root)
    array[:] = np.arange(12)
    item = readers("u/twelve:v1", root, 1, num_epochs=2)
    before = taken(item, 10)
    four = readers("u/twelve:v1", root, 4, num_epochs=2)
    for reader in four:
        reader.load_state_dict(item[0].state_dict())
    before += taken(four, 2)
    states = [reader.state_dict() for reader in four]
    assert all("rank" in state for state in states)
    again = readers("u/twelve:v1", root, 4, num_epochs=2)
    for reader in again:
        reader.load_state_dict(states)
    assert collections.Counter(before + rest(again)) == dict.fromkeys(range(12), 2)
