"""Politeness between writers, as arithmetic over made-up clocks."""

import itertools

from hubarray.history import turns
from hubarray.history.turns import Turns, retry_seconds


def _loop(one, seconds, commit_seconds=0.005):
    """Commit in a tight loop; returns the share of the time spent pausing."""
    now, paused = 100.0, 0.0
    while now < 100 + seconds:
        pause = one.pause_seconds(now)
        paused += pause
        now += pause + commit_seconds
        one.won(now, commit_seconds)
    return paused / seconds


def test_a_lone_writer_in_a_loop_loses_little_time():
    assert 0 < _loop(Turns(), 10) < 0.08


def test_a_lone_writer_leaves_a_gap_a_few_times_a_second():
    one, now, gaps = Turns(), 100.0, []
    for _ in range(1000):
        pause = one.pause_seconds(now)
        if pause:
            gaps.append(now)
        now += pause + 0.005
        one.won(now, 0.005)
    assert max(b - a for a, b in itertools.pairwise(gaps)) < 2 * turns.RUN_SECONDS


def test_a_writer_that_met_others_leaves_a_gap_after_each_commit_until_they_are_gone():
    one = Turns()
    one.won(100.0, 0.005)
    one.lost(100.0)
    assert one.pause_seconds(100.01) > 0
    one.won(102.5, 0.005)
    one.won(102.51, 0.005)
    assert one.pause_seconds(102.51) == 0


def test_a_writer_that_writes_now_and_then_never_waits():
    one, now = Turns(), 100.0
    for _ in range(100):
        now += 0.2
        assert one.pause_seconds(now) == 0
        one.won(now, 0.005)


def test_who_lost_more_often_waits_less():
    assert max(retry_seconds(10) for _ in range(100)) < turns.RETRY_SECONDS / 10 + 1e-9
    assert max(one.pause_seconds(100.0) for one in [Turns()]) == 0
