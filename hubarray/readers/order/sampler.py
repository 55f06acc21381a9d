"""Shares of an epoch, of one rank each: runs of rows, and the segments of them that make a step. Pure.

The order itself is :mod:`hubarray.readers.order.order`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hubarray.readers.order.order import EpochCut, Order


@dataclass(frozen=True)
class Run:
    """Neighbouring places of one group that a rank reads: rows ``first`` to ``first + count`` of the group.

    Attributes
    ----------
    group : (int, int)
        Its first place and its end.
    first, count : int
    interval, place : int
        Where in the cut they lie.
    """

    group: tuple[int, int]
    first: int
    count: int
    interval: int
    place: int


@dataclass(frozen=True)
class Segment:
    """Rows of a run, and where they come in a step: ``rows first + range(count)`` go to ``[to::stride]``."""

    run: int
    first: int
    count: int
    to: int
    stride: int


class Share:
    """The part of a cut that one rank reads, step by step.

    Parameters
    ----------
    order : Order
    cut : EpochCut
    taken : int
        Rows of the cut that are done.
    step_rows : int
        Of the world; a multiple of ``world_size``.
    rank, world_size : int
    mode : "exact", "drop" or "pad"
        Every row once; only whole steps; or whole steps, for which rows of the step before are repeated.

    Attributes
    ----------
    taken : int
    steps : int
        Those in which this rank has a row.
    runs : list of Run
        In the order of their first need; for padding, single rows at the end.
    """

    def __init__(
        self,
        order: Order,
        cut: EpochCut,
        *,
        taken: int,
        step_rows: int,
        rank: int,
        world_size: int,
        mode: str,
    ) -> None:
        self._cut, self.taken, self._step_rows = cut, taken, step_rows
        self._rank, self._world_size = rank, world_size
        self._order = order
        remaining = max(0, cut.rows - taken)
        over = remaining % step_rows
        self._stop = taken + remaining
        if mode == "drop":
            self._stop -= over
        elif mode == "pad" and over:
            self._stop += step_rows - over
        self.steps = -(-(self._stop - taken) // step_rows)
        if self.steps and self._count(taken + (self.steps - 1) * step_rows, self._stop) == 0:
            self.steps -= 1
        self._end = min(cut.rows, self._stop)
        self.runs = self._runs(self._end)
        self._by_interval: dict[int, list[int]] = {}
        for number, run in enumerate(self.runs):
            self._by_interval.setdefault(run.interval, []).append(number)
        self._places = {
            i: np.asarray([self.runs[n].place for n in run_numbers]) for i, run_numbers in self._by_interval.items()
        }
        self._padding: list[Segment] = []
        if self._stop > self._end:
            self._pad(self._end, self._stop)

    def _count(self, low: int, high: int) -> int:
        """How many rows of the rank there are from row ``low`` to row ``high`` of the world."""
        return self._upto(high) - self._upto(low)

    def _upto(self, j: int) -> int:
        return max(0, -(-(j - self._rank) // self._world_size))

    def rows_before(self, step: int) -> int:
        """Rows of this rank in the steps before one."""
        return self._count(self.taken, min(self._stop, self.taken + step * self._step_rows))

    @property
    def open_runs(self) -> int:
        """Runs that a step needs at a time: one of each interval of this rank."""
        return max(1, self._cut.intervals // self._world_size)

    def source_rows(self, order: Order, number: int) -> np.ndarray:
        """The source's rows of a run, in their order."""
        run = self.runs[number]
        return order.group_source_rows(*run.group)[run.first : run.first + run.count]

    def parts_of(self, number: int) -> list[tuple[int, int]]:
        """The parts of a run that single steps take: the first row of each within the run, and how many."""
        run = self.runs[number]
        if run.count == 1:
            return [(0, 1)]
        rows = (run.place + np.arange(run.count)) * self._cut.intervals + run.interval
        changes = np.flatnonzero(np.diff((rows - self.taken) // self._step_rows)) + 1
        bounds = [0, *changes.tolist(), run.count]
        return [(first, stop - first) for first, stop in pairwise(bounds)]

    def _runs(self, end: int) -> list[Run]:
        segments = []
        intervals = self._cut.intervals
        for i in range(self._rank, intervals, self._world_size):
            place = max(0, -(-(self.taken - i) // intervals))
            stop = max(0, -(-(end - i) // intervals))
            for begin, after in self._cut.places(i, place, stop):
                for run in self._in_groups(begin, after, i, place):
                    segments.append(run)
                    place += run.count
        segments.sort(key=lambda run: run.place * intervals + run.interval)
        return segments

    def _in_groups(self, begin: int, after: int, interval: int, place: int) -> Iterator[Run]:
        while begin < after:
            # A stretch of a cut that was made anew may go on into the next interval of the first.
            edges = self._order.group_edges(self._order.interval_of(begin))
            at = int(np.searchsorted(edges, begin, "right")) - 1
            while begin < after and at + 1 < len(edges):
                start, stop = int(edges[at]), int(edges[at + 1])
                count = min(stop, after) - begin
                yield Run((start, stop), begin - start, count, interval, place)
                begin, place, at = begin + count, place + count, at + 1

    def _pad(self, end: int, stop: int) -> None:
        """Rows of the step before, for those that are missing in the last one."""
        to = self._count(self.taken + (self.steps - 1) * self._step_rows, end)
        intervals = self._cut.intervals
        for j in range(end, stop):
            if j % self._world_size != self._rank:
                continue
            source = j
            while source >= self._cut.rows:
                source -= self._step_rows
            i, place = source % self._cut.rows % intervals, source % self._cut.rows // intervals
            ((begin, after),) = self._cut.places(i, place, place + 1)
            (run,) = self._in_groups(begin, after, i, place)
            self.runs.append(run)
            self._padding.append(Segment(len(self.runs) - 1, run.first, 1, to, 1))
            to += 1

    def step_length(self, step: int) -> int:
        """Rows of this rank in a step."""
        return self.rows_before(step + 1) - self.rows_before(step)

    def segments(self, step: int, steps: int = 1) -> list[Segment]:
        """Which rows of which runs make some steps of this rank; runs are named by their position in ``runs``."""
        low = self.taken + step * self._step_rows
        high = min(low + steps * self._step_rows, self._end)
        intervals, world = self._cut.intervals, self._world_size
        before = self._upto(low)
        share = []
        for i, numbers in self._by_interval.items():
            place, stop = max(0, -(-(low - i) // intervals)), max(0, -(-(high - i) // intervals))
            at = int(np.searchsorted(self._places[i], place, "right")) - 1
            while place < stop:
                run = self.runs[numbers[at]]
                offset = place - run.place
                count = min(run.count - offset, stop - place)
                to = (place * intervals + i - self._rank) // world - before
                share.append(Segment(numbers[at], run.first + offset, count, to, intervals // world))
                place, at = place + count, at + 1
        if self._padding and step + steps >= self.steps:
            skipped = self.rows_before(self.steps - 1) - self.rows_before(step)
            share += [
                Segment(segment.run, segment.first, segment.count, segment.to + skipped, segment.stride)
                for segment in self._padding
            ]
        return share
