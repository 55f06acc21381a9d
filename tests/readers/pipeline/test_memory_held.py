"""Groups that a rank holds: one of each of its intervals and two more, as sizes are planned for; none for longer."""

import weakref
from concurrent.futures import wait

import numpy as np
import pytest

from hubarray.readers.order.order import EpochCut, Order
from hubarray.readers.order.sampler import Share
from hubarray.readers.pipeline import groups
from hubarray.readers.pipeline import prefetch_queue as feeds
from hubarray.readers.pipeline.batching import steps
from tests.readers.pipeline.test_memory_and_workers import broken


class Rows:
    """What was read of a run."""


def max_held(intervals, world):
    """The most runs that there are at a step, of an epoch of about a hundred groups."""
    order = Order(np.arange(0, 20_001, 10), 0, 0, intervals, 200)
    cut = EpochCut.of([(0, order.rows)], intervals)
    share = Share(order, cut, taken=0, step_rows=48, rank=0, world_size=world, mode="exact")
    held, most = weakref.WeakSet(), []

    def read(rows):
        result = Rows()
        held.add(result)
        return result

    feed = groups.fed(order, share, read, lambda found: found)
    for _ in steps(share, feed, lambda run, first, count: None, lambda length, parts: None):
        wait(list(feed._begun.values()))
        most.append(len(held))
    assert len(most) == share.steps
    return max(most)


@pytest.mark.parametrize(("intervals", "world"), [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (48, 8), (48, 48)])
def test_a_rank_holds_a_group_of_each_of_its_intervals_and_two_more(intervals, world):
    assert intervals // world < max_held(intervals, world) <= intervals // world + 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if self._left[number] <= 0:", "if False:"),
        ("self._begun.pop(number, None)", "pass"),
        ("self._open.pop(number, None)", "pass"),
        ("len(self._begun) < self._held", "len(self._begun) < 4 * self._held"),
    ],
)
def test_groups_that_are_held_for_longer_are_seen(monkeypatch, old, new):
    monkeypatch.setattr(groups, "PrefetchQueue", broken(feeds, old, new).PrefetchQueue)
    assert max_held(1, 1) > 3


def test_a_feed_that_reads_nothing_ahead_is_seen(monkeypatch):
    monkeypatch.setattr(groups, "PrefetchQueue", broken(feeds, "len(self._begun) < self._held", "False").PrefetchQueue)
    assert max_held(1, 1) == 1
