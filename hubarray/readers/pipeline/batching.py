"""The one loop from runs of rows to steps: what each framework makes of them is given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from hubarray.readers.fields.source import Column
from hubarray.readers.order.sampler import Segment, Share

L = TypeVar("L", covariant=True)
P = TypeVar("P")
B = TypeVar("B")


class Runs(Protocol[L]):
    """Loaded runs of a share, by number; :class:`hubarray.readers.pipeline.prefetch_queue.PrefetchQueue` is one."""

    def get(self, number: int) -> L:
        """A run, as it was loaded."""

    def used(self, number: int, rows: int) -> None:
        """Some rows of a run were handed over."""


def steps(
    share: Share,
    runs: Runs[L],
    part: Callable[[L, int, int], P],
    join: Callable[[int, Sequence[tuple[P, Segment]]], B],
    *,
    first: int = 0,
    stop: int | None = None,
    at_once: int = 1,
) -> Iterator[tuple[int, B]]:
    """Steps of a share, made of parts of its runs.

    Parameters
    ----------
    share : Share
    runs : Runs
    part : callable
        Of what a run was loaded as, and some of its rows: ``part(loaded, first, count)``.
    join : callable
        Of the number of rows of a step, and its parts with the segments that say where they go.
    first, stop : int, optional
        Which steps; all by default.
    at_once : int
        Steps that are joined as one.

    Yields
    ------
    (int, object)
        The first step of what was joined, and what ``join`` gave.
    """
    end = share.steps if stop is None else stop
    for step in range(first, end, at_once):
        count = min(at_once, end - step)
        parts = []
        for segment in share.segments(step, count):
            begin = segment.first - share.runs[segment.run].first
            parts.append((part(runs.get(segment.run), begin, segment.count), segment))
            runs.used(segment.run, segment.count)
        yield step, join(share.rows_before(step + count) - share.rows_before(step), parts)


def run_counts(share: Share, first: int, stop: int) -> list[int]:
    """Rows of each run that some steps take."""
    if (first, stop) == (0, share.steps):
        return [run.count for run in share.runs]
    counts = [0] * len(share.runs)
    for segment in share.segments(first, stop - first) if stop > first else ():
        counts[segment.run] += segment.count
    return counts


def column_part(column: Column, first: int, count: int) -> Column:
    """Neighbouring rows of a column; of an array a view."""
    return column[first : first + count]


def join_column(length: int, parts: Sequence[tuple[Any, Segment]], empty: Callable[[Any, int], Any]) -> Any:
    """A column of a step: a single part as it is, or a new one that parts are written into.

    Parameters
    ----------
    length : int
    parts : sequence
        Arrays, tensors or lists, and where they go.
    empty : callable
        Allocate memory for this number of rows like those of an array.
    """
    if len(parts) == 1 and parts[0][1].count == length:
        return parts[0][0]
    lead = parts[0][0]
    shapes = {None if isinstance(part, list) else (part.dtype, tuple(part.shape[1:])) for part, _ in parts}
    out = [None] * length if len(shapes) > 1 or isinstance(lead, list) else empty(lead, length)
    for part, segment in parts:
        values = list(part) if isinstance(out, list) else part
        out[segment.to : segment.to + (segment.count - 1) * segment.stride + 1 : segment.stride] = values
    return out


def empty_array(like: np.ndarray, length: int) -> np.ndarray:
    """Memory for rows like those of an array."""
    return np.empty((length, *like.shape[1:]), like.dtype)
