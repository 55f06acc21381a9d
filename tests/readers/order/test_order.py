"""The elastic order: every row once, the same steps at every world, and what is left after any cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shuffling import quality_of
from hubarray.readers.order.order import EpochCut, Order, Progress, current_cut, interval_start, resumed, taken_of
from hubarray.readers.order.sampler import Share


@st.composite
def orders(draw):
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    return Order(
        np.concatenate([[0], np.cumsum(lengths)]), draw(st.integers(0, 9)), draw(st.integers(0, 4)),
        draw(st.integers(1, 12)), draw(st.integers(1, 20)), draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


def steps_of(order, cut, *, taken=0, step_rows, rank=0, world_size=1, mode="exact"):
    """The rows of each step of a rank, put together from its segments."""
    share = Share(order, cut, taken=taken, step_rows=step_rows, rank=rank, world_size=world_size, mode=mode)
    result = []
    for step in range(share.steps):
        rows = np.full(share.step_length(step), -1)
        for segment in share.segments(step):
            run = share.runs[segment.run]
            some = order.group_source_rows(*run.group)[segment.first : segment.first + segment.count]
            rows[segment.to : segment.to + (segment.count - 1) * segment.stride + 1 : segment.stride] = some
        assert (rows >= 0).all()
        result.append(rows.tolist())
    return result


def whole(order):
    return EpochCut.of([(0, order.rows)], order.intervals)


def flat(ranks):
    return [row for steps in ranks for step in steps for row in step]


def worlds(order):
    return [w for w in range(1, order.intervals + 1) if order.intervals % w == 0]


def naive_order(order):
    """Rules 1 to 4, one row at a time: the rows of the world in the order in which they are dealt."""
    units = order._units.tolist()
    laid = [row for unit in units for row in range(int(order.bounds[unit]), int(order.bounds[unit + 1]))]
    intervals = []
    for i in range(order.intervals):
        start, stop = interval_start(order.rows, order.intervals, i), interval_start(order.rows, order.intervals, i + 1)
        assert stop - start == -(-(order.rows - i) // order.intervals)
        edges = order.group_edges(i).tolist()
        rows = []
        for a, b in pairwise(edges):
            group = order.group_source_rows(a, b).tolist()
            assert sorted(group) == sorted(laid[a:b])
            rows += group
        intervals.append(rows)
    return [
        intervals[j % order.intervals][j // order.intervals]
        for j in range(order.rows)
    ]  # fmt: skip


@given(orders(), st.integers(1, 9), st.data())
def test_every_row_comes_once_and_as_the_rules_say(order, times, data):
    world = data.draw(st.sampled_from(worlds(order)))
    step_rows = world * times
    ranks = [steps_of(order, whole(order), step_rows=step_rows, rank=r, world_size=world) for r in range(world)]
    assert sorted(flat(ranks)) == list(range(order.rows))
    dealt = naive_order(order)
    for r, steps in enumerate(ranks):
        assert [row for step in steps for row in step] == dealt[r::world]


@given(orders(), st.data())
def test_a_step_of_the_world_is_the_same_rows_at_every_size_that_divides(order, data):
    sizes = worlds(order)
    step_rows = int(np.lcm.reduce(sizes)) * data.draw(st.integers(1, 3))
    told = []
    for world in sizes:
        ranks = [steps_of(order, whole(order), step_rows=step_rows, rank=r, world_size=world) for r in range(world)]
        longest = max(map(len, ranks))
        told.append([sorted(flat([steps[t : t + 1] for steps in ranks])) for t in range(longest)])
    assert all(item == told[0] for item in told)


@given(orders(), st.integers(1, 5), st.data())
def test_drop_and_pad_give_every_rank_equally_many(order, times, data):
    world = data.draw(st.sampled_from(worlds(order)))
    step_rows = world * times
    for mode, steps_count in (("drop", order.rows // step_rows), ("pad", -(-order.rows // step_rows))):
        ranks = [
            steps_of(order, whole(order), step_rows=step_rows, rank=r, world_size=world, mode=mode)
            for r in range(world)
        ]
        assert {tuple(map(len, steps)) for steps in ranks} == {(times,) * steps_count}
        rows = flat(ranks)
        if mode == "drop":
            assert len(set(rows)) == len(rows)
        else:
            assert set(rows) == set(range(order.rows))


@settings(max_examples=200)
@given(orders(), st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(0, 3)), max_size=6))
def test_cut_anywhere_and_resumed_on_any_world_every_row_comes_once(order, worlds_after):
    world, step_rows = order.intervals, order.intervals
    history = [Progress(order.intervals, step_rows, 0)]
    seen = []
    for next_world, times, steps in [*worlds_after, (1, 1, None)]:
        cut = current_cut(order.rows, history)
        taken = history[-1].taken
        for r in range(world):
            some = steps_of(order, cut, taken=taken, step_rows=step_rows, rank=r, world_size=world)
            seen += flat([some[:steps]])
        if steps is None:
            break
        done = min(cut.rows, taken + steps * step_rows)
        history[-1] = Progress(history[-1].intervals, step_rows, done)
        world, step_rows = next_world, next_world * times
        history = resumed(history, world, step_rows)
    else:
        raise AssertionError
    assert sorted(seen) == list(range(order.rows))


def test_eight_ranks_four_and_sixteen_see_the_same_steps():
    order = Order(np.arange(0, 5001, 10), 3, 0, 48, 50)
    cut = whole(order)
    expected = steps_of(order, cut, step_rows=96)
    seen, taken = [], 0
    for world, steps in [(8, 11), (4, 20), (16, None)]:
        ranks = [
            steps_of(order, cut, taken=taken, step_rows=96, rank=r, world_size=world)[:steps] for r in range(world)
        ]
        longest = max(map(len, ranks))
        seen += [sorted(flat([item[t : t + 1] for item in ranks])) for t in range(longest)]
        taken += longest * 96
    assert seen == [sorted(step) for step in expected]


@given(orders(), st.integers(1, 4), st.integers(1, 5), st.data())
def test_several_steps_at_once_are_the_steps_after_one_another(order, times, block, data):
    world = data.draw(st.sampled_from(worlds(order)))
    mode = data.draw(st.sampled_from(["exact", "drop", "pad"]))
    for rank in range(world):
        options = {"step_rows": world * times, "rank": rank, "world_size": world, "mode": mode}
        share = Share(order, whole(order), taken=0, **options)
        result = []
        for step in range(0, share.steps, block):
            steps = min(block, share.steps - step)
            rows = np.full(share.rows_before(step + steps) - share.rows_before(step), -1)
            for segment in share.segments(step, steps):
                run = share.runs[segment.run]
                some = order.group_source_rows(*run.group)[segment.first : segment.first + segment.count]
                rows[segment.to : segment.to + (segment.count - 1) * segment.stride + 1 : segment.stride] = some
            result += rows.tolist()
        assert result == [row for step in steps_of(order, whole(order), **options) for row in step]


@given(orders())
def test_groups_are_whole_units_but_at_the_edges_of_intervals(order):
    unit_edges = set(order._edges.tolist())
    for i in range(order.intervals):
        inside = order.group_edges(i)[1:-1]
        assert set(inside.tolist()) <= unit_edges


def test_groups_of_the_intervals_do_not_end_together():
    order = Order(np.arange(0, 8001), 0, 0, 8, 100)
    offsets = [int(order.group_edges(i)[1] - order.group_edges(i)[0]) for i in range(8)]
    assert offsets == sorted(offsets)
    assert offsets[-1] - offsets[0] > 80


def test_the_golden_order_stays():
    order = Order(np.array([0, 3, 4, 9, 12, 20]), 7, 2, 2, 6)
    assert naive_order(order) == GOLDEN
    assert naive_order(Order(order.bounds, 8, 2, 2, 6)) != GOLDEN
    assert naive_order(Order(order.bounds, 7, 3, 2, 6)) != GOLDEN


@pytest.mark.parametrize(("intervals", "taken"), [(3, 0), (3, 7), (4, 4), (5, 23)])
def test_what_was_taken_of_intervals_is_counted_as_dealing_would(intervals, taken):
    expected = [0] * intervals
    for j in range(taken):
        expected[j % intervals] += 1
    assert taken_of(intervals, taken) == expected


def test_a_million_units_are_planned_in_little_time_and_memory():
    order = Order(np.arange(0, 1_000_001) * 100, 1, 2, 8, 3000)
    share = Share(order, whole(order), taken=0, step_rows=256, rank=3, world_size=8, mode="exact")
    assert share.steps == -(-order.rows // 256)
    assert len(share.runs) < 5000
    assert sum(segment.count for segment in share.segments(share.steps // 2)) == 32


GOLDEN = [3, 8, 15, 5, 16, 6, 12, 7, 13, 9, 18, 10, 19, 11, 17, 0, 14, 1, 4, 2]


def test_the_share_that_is_shuffled_together_tells_how_many_classes_a_step_sees():
    # The expected number of classes of a step drawn from a pool that holds so many of them.
    result = [quality_of(megabytes << 20, rows=200_000) for megabytes in (64, 256, 1024)]
    classes = [item["classes a step"] for item in result]
    assert classes == sorted(classes)
    for item in result:
        pool = min(1000, 8 * item["open units a rank"] / 3)
        expected = pool * (1 - (1 - 1 / pool) ** 2048)
        # A unit may reach over two classes, and ranks pass from one group to the next within a step: so there are more.
        assert 0.7 * expected < item["classes a step"] < 3 * expected, item
