"""Runs that are loaded ahead of their use, in the order in which they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Feed(Generic[T]):
    """Results of runs in order; some are begun before they are asked for, and none is kept longer than it is needed.

    Parameters
    ----------
    counts : sequence of int
        Rows of each run.
    begin : callable
        Begins to load a run, given its number.
    ahead : int
        How many are loaded, or being loaded, beyond the newest one that was asked for.
    """

    def __init__(self, counts: Sequence[int], begin: Callable[[int], Future[T]], ahead: int) -> None:
        self._left = list(counts)
        self._begin, self._ahead = begin, ahead
        self._begun: dict[int, Future[T]] = {}
        self._next = 0

    def get(self, number: int) -> T:
        """The result of a run."""
        while self._next <= min(number + self._ahead, len(self._left) - 1):
            if self._left[self._next] > 0:
                self._begun[self._next] = self._begin(self._next)
            self._next += 1
        return self._begun[number].result()

    def used(self, number: int, rows: int) -> None:
        """Some rows of a run were handed over; after the last one it is let go."""
        self._left[number] -= rows
        if self._left[number] <= 0:
            self._begun.pop(number, None)

    def skip(self, number: int, rows: int) -> None:
        """Some rows of a run are not needed; it may never be begun."""
        self.used(number, rows)

    def waiting(self) -> int:
        """Runs that are loaded and not yet used up."""
        return sum(one.done() for one in self._begun.values())

    def cancel(self) -> None:
        """Let go of what was not begun."""
        for one in self._begun.values():
            one.cancel()
        self._begun.clear()
