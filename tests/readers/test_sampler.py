"""Who reads which row when: every row once an epoch, in an order that nothing but the plan decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.readers.sampler import Plan, dealt, plan

plans = st.builds(
    plan,
    rows=st.integers(0, 500),
    row_bytes=st.sampled_from([1, 1000, 300_000, 3_000_000]),
    chunk_rows=st.integers(1, 40),
    batch_rows=st.integers(1, 20),
    shuffle=st.booleans(),
    seed=st.integers(0, 5),
    buffer_bytes=st.sampled_from([1, 1 << 16, 64 << 20]),
)


def rows_of(made, epoch, workers=1):
    return [row for worker in range(workers) for group in made.groups(epoch, worker, workers) for row in group.tolist()]


@given(plans, st.integers(0, 3), st.integers(1, 5))
def test_every_row_is_read_once_an_epoch_however_many_workers(made, epoch, workers):
    assert sorted(rows_of(made, epoch, workers)) == list(range(made.rows))


@given(plans, st.integers(1, 6))
def test_ranks_read_equally_many_rows_and_none_twice(made, world_size):
    ranks = [plan_of_rank(made, rank, world_size) for rank in range(world_size)]
    read = [rows_of(one, 1) for one in ranks]
    assert {len(rows) for rows in read} == {ranks[0].rank_rows}
    everything = [row for rows in read for row in rows]
    assert len(set(everything)) == len(everything)
    assert made.rows - len(everything) < 2 * made.unit_rows * world_size or ranks[0].rank_rows == 0


def plan_of_rank(made, rank, world_size):
    return Plan(made.rows, made.unit_rows, made.group_rows, made.shuffle, made.seed, rank, world_size)


@given(plans, st.integers(1, 4))
def test_group_lengths_are_told_without_making_the_groups(made, workers):
    for worker in range(workers):
        assert list(made.group_lengths(worker, workers)) == [len(group) for group in made.groups(0, worker, workers)]


def test_epochs_differ_and_each_is_the_same_every_time():
    made = plan(1000, 1000, 3, shuffle=True, seed=1, buffer_bytes=1 << 16)
    assert rows_of(made, 0) == rows_of(made, 0)
    assert rows_of(made, 0) != rows_of(made, 1)
    assert rows_of(made, 0) != rows_of(plan(1000, 1000, 3, shuffle=True, seed=2, buffer_bytes=1 << 16), 0)


def test_a_shuffle_moves_rows_far():
    order = np.array(rows_of(plan(10_000, 10_000, 1, shuffle=True, buffer_bytes=4 << 20), 0))
    assert np.abs(order - np.arange(10_000)).mean() > 2000
    assert np.mean(np.diff(order) == 1) < 0.02


def test_groups_hold_whole_batches_and_fit_the_buffer():
    made = plan(100_000, 200_000, 1, batch_rows=32, buffer_bytes=64 << 20)
    assert made.group_rows % 32 == 0
    assert 200_000 * made.group_rows <= 64 << 20


def test_the_order_of_a_billion_rows_takes_little_memory():
    for row_bytes, chunk_rows, buffer_bytes in [(100, 1, 1 << 20), (100, 1 << 29, 1 << 20), (1, 1000, 2 << 30)]:
        made = plan(10**9, row_bytes, chunk_rows, buffer_bytes=buffer_bytes)
        assert made.units <= 1 << 22


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 50))
def test_turns_are_counted_as_a_loop_would(counts, taken):
    taken = min(taken, sum(counts))
    given_, turn = [0] * len(counts), 0
    for _ in range(taken):
        while given_[turn] == counts[turn]:
            turn = (turn + 1) % len(counts)
        given_[turn] += 1
        turn = (turn + 1) % len(counts)
    found, whose = dealt(counts, taken)
    assert found == given_
    if taken < sum(counts):
        while given_[turn] == counts[turn]:
            turn = (turn + 1) % len(counts)
        assert whose == turn


@pytest.mark.parametrize(("rows", "row_bytes", "chunk_rows"), [(1000, 8, 1000), (5000, 3000, 85), (100_000, 8, 1000)])
def test_what_fits_the_buffer_is_shuffled_row_by_row(rows, row_bytes, chunk_rows):
    order = np.array(rows_of(plan(rows, row_bytes, chunk_rows), 3))
    assert abs(np.corrcoef(order, np.arange(rows))[0, 1]) < 4 / np.sqrt(rows)


@pytest.mark.parametrize(("rows", "row_bytes", "chunk_rows"), [(1000, 784, 334), (1000, 8, 76), (9, 1 << 26, 4)])
def test_small_data_is_shared_by_ranks_to_the_last_rows(rows, row_bytes, chunk_rows):
    parts = [rows_of(plan(rows, row_bytes, chunk_rows, rank=rank, world_size=4), 0) for rank in range(4)]
    assert {len(part) for part in parts} == {rows // 4}
    with pytest.raises(ValueError, match="3 rows cannot be shared by 4 ranks"):
        plan(3, 8, 1, rank=0, world_size=4)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 3), (0, 0)])
def test_a_rank_outside_the_world_is_refused(rank, world_size):
    with pytest.raises(ValueError, match="ranks count from 0"):
        plan(10, 10, 1, rank=rank, world_size=world_size)
