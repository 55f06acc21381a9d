"""The elastic order of an epoch: which row comes when, for any number of ranks, and what is left of it. Pure.

The rules, which `docs/FORMAT.md` does not hold because nothing of them is stored but a state of a hundred bytes:

1. Units (neighbouring rows of a source) are permuted, and their rows laid end to end: a row has a *place in the order*.
2. The places are cut into ``C`` *intervals*, interval ``i`` of ``ceil((rows - i) / C)`` places.
3. *Groups* of whole units are formed inside each interval, after the cut. Their edges are spread by ``(i + 1/2) / C``
   of a group, so that the groups of the intervals do not end in the same step. The rows of a group are permuted.
4. Row ``j`` of the world is place ``j // C`` of interval ``j % C``. Rank ``r`` of ``W`` takes the rows ``j % W == r``.
5. What remains, the tails of the intervals in their order, can be divided into other intervals; groups stay as they
   were.

No rank, world or worker is in rules 1 to 3, so where ``W`` divides ``C`` a step's rows are the same at every ``W``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hubarray.readers.order.permutation import permutation

MAX_CUTS = 256
MAX_INTERVALS = 1 << 16
_UNITS, _ROWS = 0, 1


def interval_start(rows: int, intervals: int, i: int) -> int:
    """Where interval ``i`` begins, of ``intervals`` whose lengths differ by at most one."""
    return i * (rows // intervals) + min(i, rows % intervals)


@dataclass(frozen=True)
class Order:
    """The places of an epoch, the groups they lie in, and the row at each place.

    Attributes
    ----------
    bounds : ndarray of int64
        The first row of each unit, and the number of all rows.
    seed, epoch : int
    intervals : int
        ``C`` of the rules.
    group_rows : int
        Rows of a group, about: groups are whole units, and one at least.
    shuffle_units, shuffle_rows : bool
    """

    bounds: np.ndarray
    seed: int
    epoch: int
    intervals: int
    group_rows: int
    shuffle_units: bool = True
    shuffle_rows: bool = True

    @property
    def rows(self) -> int:
        """How many rows an epoch has."""
        return int(self.bounds[-1])

    @cached_property
    def _units(self) -> np.ndarray:
        count = len(self.bounds) - 1
        return permutation(count, _UNITS, self.seed, self.epoch) if self.shuffle_units else np.arange(count)

    @cached_property
    def _edges(self) -> np.ndarray:
        """The first place of each unit in the order, and the number of all places."""
        edges = np.zeros(len(self.bounds), np.int64)
        np.cumsum(np.diff(self.bounds)[self._units], out=edges[1:])
        return edges

    @cached_property
    def _group_edges(self) -> list[np.ndarray | None]:
        return [None] * self.intervals

    def interval_of(self, place: int) -> int:
        """The interval that a place of the order lies in."""
        short, longer = divmod(self.rows, self.intervals)
        if place < longer * (short + 1):
            return place // (short + 1)
        return longer + (place - longer * (short + 1)) // short

    def group_edges(self, i: int) -> np.ndarray:
        """The first place of each group of an interval, and the end of the interval."""
        known = self._group_edges[i]
        if known is None:
            start = interval_start(self.rows, self.intervals, i)
            stop = interval_start(self.rows, self.intervals, i + 1)
            aimed = np.arange(start + (2 * i + 1) * self.group_rows // (2 * self.intervals), stop, self.group_rows)
            snapped = self._edges[np.searchsorted(self._edges, aimed, "right") - 1]
            inside = np.unique(snapped[snapped > start])
            known = self._group_edges[i] = np.concatenate([[start], inside, [stop]]).astype(np.int64)
        return known

    def group_source_rows(self, start: int, stop: int) -> np.ndarray:
        """The source's rows at the places of one group, in their order.

        Parameters
        ----------
        start, stop : int
            Two neighbours of :meth:`group_edges`.

        Returns
        -------
        ndarray of int64
        """
        rows = self.rows_before_shuffle(start, stop)
        if self.shuffle_rows:
            rows = rows[permutation(len(rows), _ROWS, self.seed, self.epoch, start)]
        return rows

    def rows_before_shuffle(self, start: int, stop: int) -> np.ndarray:
        """The source's rows at some places, unit after unit, each in the order of the source."""
        first = int(np.searchsorted(self._edges, start, "right")) - 1
        last = int(np.searchsorted(self._edges, stop, "left"))
        edges = np.clip(self._edges[first : last + 1], start, stop)
        shift = self.bounds[self._units[first:last]] - self._edges[first:last]
        return np.arange(start, stop, dtype=np.int64) + np.repeat(shift, np.diff(edges))


@dataclass(frozen=True)
class EpochCut:
    """The rows that are dealt out: intervals, each one or several stretches of places of the order.

    Attributes
    ----------
    starts : sequence of ndarray
        Of each interval, where its stretches begin in the order.
    firsts : sequence of ndarray
        Of each interval, how many of its places come before each stretch; and all.
    """

    starts: Sequence[np.ndarray]
    firsts: Sequence[np.ndarray]

    @classmethod
    def of(cls, stretches: Sequence[tuple[int, int]], intervals: int) -> EpochCut:
        """Stretches, laid end to end and cut into intervals."""
        lengths = np.asarray([stop - start for start, stop in stretches], np.int64)
        begins = np.asarray([start for start, _ in stretches], np.int64)
        ends = np.cumsum(lengths)
        rows = int(ends[-1]) if len(ends) else 0
        starts, firsts = [], []
        for i in range(intervals):
            low, high = interval_start(rows, intervals, i), interval_start(rows, intervals, i + 1)
            a, b = int(np.searchsorted(ends, low, "right")), int(np.searchsorted(ends, high, "left")) + 1
            runs = slice(a, b if high > low else a)
            begin = np.maximum(ends[runs] - lengths[runs], low)
            end = np.minimum(ends[runs], high)
            starts.append(begins[runs] + begin - (ends[runs] - lengths[runs]))
            firsts.append(np.concatenate([[0], np.cumsum(end - begin)]).astype(np.int64))
        return cls(starts, firsts)

    @property
    def intervals(self) -> int:
        """How many intervals there are."""
        return len(self.starts)

    @cached_property
    def rows(self) -> int:
        """How many rows are dealt out."""
        return sum(int(cuts[-1]) for cuts in self.firsts)

    def places(self, i: int, first: int, stop: int) -> list[tuple[int, int]]:
        """Stretches of the order that hold the places from ``first`` to ``stop`` of an interval."""
        bounds, starts = self.firsts[i], self.starts[i]
        stop = min(stop, int(bounds[-1]))
        segments = []
        at = int(np.searchsorted(bounds, first, "right")) - 1
        while first < stop:
            end = min(stop, int(bounds[at + 1]))
            begin = int(starts[at]) + first - int(bounds[at])
            segments.append((begin, begin + end - first))
            first, at = end, at + 1
        return segments

    def tails(self, taken: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rest of each interval, in their order, after this number of its places."""
        return [place for i, numbers in enumerate(taken) for place in self.places(i, numbers, int(self.firsts[i][-1]))]


def taken_of(intervals: int, rows: int | Sequence[int]) -> list[int]:
    """How many places of each interval were taken after so many rows of the world, or of each rank's rows."""
    each = [rows] if isinstance(rows, int) else rows
    return [max(0, -(-(each[i % len(each)] - i) // intervals)) for i in range(intervals)]


@dataclass(frozen=True)
class Progress:
    """One entry of a state: a cut, and what was taken of it.

    Attributes
    ----------
    intervals : int
        ``C``: into how many intervals what remained was cut. Two neighbours with equal ``C`` are one cut.
    step_rows : int
        ``B``: rows of a step of the world.
    taken : int or tuple of int
        Rows of the cut that the world has taken; or, where rows decide how many each rank gets, where each rank is.
    """

    intervals: int
    step_rows: int
    taken: int | tuple[int, ...]


def every_cut(rows: int, history: Sequence[Progress]) -> Iterator[EpochCut]:
    """The cut that each of some entries is of."""
    cut = EpochCut.of([(0, rows)], history[0].intervals)
    yield cut
    for before, later in pairwise(history):
        if later.intervals != before.intervals or not isinstance(before.taken, int):
            cut = EpochCut.of(cut.tails(taken_of(before.intervals, before.taken)), later.intervals)
        yield cut


def current_cut(rows: int, history: Sequence[Progress]) -> EpochCut:
    """The cut that the last of some entries is of."""
    *_, last = every_cut(rows, history)
    return last


def resumed(
    history: Sequence[Progress], world_size: int, step_rows: int, *, whole_intervals: bool = False
) -> list[Progress]:
    """The entries with which a world of some size goes on; ``whole_intervals`` where each rank has to have one."""
    last = history[-1]
    fits = last.intervals == world_size if whole_intervals else last.intervals % world_size == 0
    if isinstance(last.taken, int):
        if fits:
            progress = Progress(last.intervals, step_rows, last.taken)
            return [*history[:-1], progress] if last.step_rows == step_rows else [*history, progress]
    elif len(last.taken) == world_size and (fits or not whole_intervals):
        return [*history[:-1], Progress(last.intervals, step_rows, last.taken)]
    return [*history, Progress(world_size, step_rows, 0)]
