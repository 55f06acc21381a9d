"""Politeness between machines, as arithmetic over made-up clocks."""

import itertools

import pytest

from hubarray.history.log import backoff
from hubarray.history.log.backoff import ContentionStats, retry_seconds


def _loop(one, seconds, commit_seconds=0.005):
    """Commit in a tight loop; returns the share of the time spent pausing."""
    now, paused = 100.0, 0.0
    while now < 100 + seconds:
        pause = one.pause_seconds(now)
        paused += pause
        now += pause + commit_seconds
        one.add_win(now, commit_seconds)
    return paused / seconds


def test_a_lone_writer_in_a_loop_loses_little_time():
    assert 0 < _loop(ContentionStats(), 10) < 0.08


def test_a_lone_writer_leaves_a_gap_a_few_times_a_second():
    item, now, gaps = ContentionStats(), 100.0, []
    for _ in range(1000):
        pause = item.pause_seconds(now)
        if pause:
            gaps.append(now)
        now += pause + 0.005
        item.add_win(now, 0.005)
    assert max(b - a for a, b in itertools.pairwise(gaps)) < 2 * backoff.RUN_SECONDS


def test_a_machine_that_met_others_leaves_a_gap_after_a_few_commits_until_they_are_gone():
    item, now, run, runs = ContentionStats(), 100.0, 0, []
    for _ in range(200):
        item.add_loss(now)
        pause = item.pause_seconds(now)
        if pause:
            runs.append(run)
            run = 0
        run += 1
        now += pause + 0.005
        item.add_win(now, 0.005)
    assert 2 <= max(runs[5:]) <= backoff.RUN_COMMITS + 2
    item.add_win(now + 2.5, 0.005)
    item.add_win(now + 2.51, 0.005)
    assert item.pause_seconds(now + 2.51) == 0


def test_a_writer_that_writes_now_and_then_never_waits():
    item, now = ContentionStats(), 100.0
    for _ in range(100):
        now += 0.2
        assert item.pause_seconds(now) == 0
        item.add_win(now, 0.005)


@pytest.mark.parametrize("data", [b"", b"\xff" * backoff.STATE_BYTES, b"\0" * (backoff.STATE_BYTES - 1)])
def test_a_state_that_cannot_be_is_as_new(data):
    assert ContentionStats.decoded(data) == ContentionStats()


def test_whatever_a_state_says_the_pause_is_bounded():
    for values in itertools.product((float("inf"), -float("inf"), 1e300, -1e300, 0.0, 99.99), repeat=4):
        assert 0 <= ContentionStats(*values).pause_seconds(100.0) <= backoff.MAX_PAUSE_SECONDS


def test_a_run_begins_with_its_first_commit_however_long_that_took():
    item, now = ContentionStats(), 100.0
    item.add_loss(now)
    while not item.pause_seconds(now):
        now += 0.005
        item.add_win(now, 0.005)
    now += 0.2
    item.add_win(now, 0.005)
    assert item.pause_seconds(now + 0.005) == 0


def test_who_lost_more_often_waits_less_and_nobody_for_long():
    assert max(retry_seconds(1, 0.002) for _ in range(100)) <= backoff.RETRY_COMMITS * 0.002
    assert max(retry_seconds(10, 0.002) for _ in range(100)) <= backoff.RETRY_COMMITS * 0.0002
    for strange in (-1.0, 1e300, float("inf")):
        assert 0 <= retry_seconds(1, strange) <= backoff.MAX_PAUSE_SECONDS
    assert ContentionStats().pause_seconds(100.0) == 0
