"""Intervals of streams that other numbers of ranks go on with: the same global batches, epoch after epoch."""

import json

import numpy as np
import pytest

import hubarray as hub

ROWS = 300


@pytest.fixture(scope="module")
def array(make_root):
    array = hub.array(ROWS, "t/numbers:v0", "i8", chunks=4, root=make_root("local"))
    array[...] = np.arange(ROWS)
    return array


def ranks_of(array, world, state=None, **options):
    options = {"intervals": 12, "global_batch_size": 24} | options
    given = {"seed": 2, "shard_balance": "exact", "buffer_bytes": 1 << 10} | options
    ranks = [array.to_pytorch(iterable=True, rank=r, world_size=world, **given).loader() for r in range(world)]
    for rank in ranks:
        if state is not None:
            rank.load_state_dict(state)
    return ranks


def passed(ranks, steps=None):
    """The rows of each step of all ranks, and the state after them, which every rank tells."""
    result = []
    for rank in ranks:
        batches = []
        for batch in rank:
            batches.append(batch.tolist())
            if len(batches) == steps:
                break
        result.append(batches)
    (state,) = {json.dumps(rank.state_dict()) for rank in ranks}
    length = max(map(len, result))
    return [sorted(row for rank in result for batch in rank[t : t + 1] for row in batch) for t in range(length)], state


def whole_epochs(array, count):
    ranks = ranks_of(array, 1)
    return [passed(ranks)[0] for _ in range(count)]


@pytest.mark.parametrize("worlds", [(4, 2, 1), (1, 6, 3), (2, 12, 4)])
def test_epochs_are_the_same_global_batches_though_the_number_of_ranks_changes_within_them(array, worlds):
    state, result = None, []
    for steps, world in zip((3, 5, None), worlds, strict=True):
        some, state = passed(ranks_of(array, world, state and json.loads(state)), steps)
        result += some
    again, _ = passed(ranks_of(array, 4, json.loads(state)))
    assert [result, again] == whole_epochs(array, 2)


def test_the_epoch_after_one_that_was_cut_anew_and_ended_on_a_fitting_number_of_ranks_has_the_first_intervals(array):
    _, state = passed(ranks_of(array, 4), 2)
    _, state = passed(ranks_of(array, 5, json.loads(state), intervals=None, global_batch_size=25), 3)
    ranks = ranks_of(array, 4, json.loads(state))
    passed(ranks)
    assert passed(ranks)[0] == whole_epochs(array, 2)[1]


def test_the_epoch_after_one_that_ended_on_another_number_of_ranks_goes_back_to_the_first_intervals(array):
    _, state = passed(ranks_of(array, 4), 2)
    _, state = passed(ranks_of(array, 5, json.loads(state), intervals=None, global_batch_size=25))
    assert passed(ranks_of(array, 4, json.loads(state)))[0] == whole_epochs(array, 2)[1]


def test_the_epoch_after_a_whole_one_on_another_number_of_ranks_goes_back_to_the_first_intervals(array):
    first = ranks_of(array, 4)
    passed(first)
    between = ranks_of(array, 5, first[0].state_dict(), intervals=None, global_batch_size=25)
    passed(between)
    ranks = ranks_of(array, 4, between[0].state_dict())
    assert ranks[0].state_dict()["epoch"] == 2
    assert passed(ranks)[0] == whole_epochs(array, 3)[2]
