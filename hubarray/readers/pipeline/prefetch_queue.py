"""Runs that are loaded ahead of their use, in the order in which they are first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PrefetchQueue(Generic[T]):
    """Results of runs in order; some are begun before they are asked for, and none is kept longer than it is needed.

    Parameters
    ----------
    counts : sequence of int
        Rows of each run.
    begin : callable
        Begins to load a run, given its number.
    held : int
        How many are loaded, or being loaded, and not used up; more only where more are asked for at a time.
    opened : callable, optional
        Made of a result once, when it is first asked for, and given in its place.
    """

    def __init__(
        self,
        counts: Sequence[int],
        begin: Callable[[int], Future[Any]],
        held: int,
        opened: Callable[[Any], T] | None = None,
    ) -> None:
        self._left = list(counts)
        self._begin, self._held, self._opened = begin, held, opened
        self._begun: dict[int, Future[Any]] = {}
        self._open: dict[int, T] = {}
        self._next = 0
        self._process = os.getpid()

    def get(self, number: int) -> T:
        """The result of a run."""
        if self._process != os.getpid():
            self._begin_again()
        while self._next < len(self._left) and (self._next <= number or len(self._begun) < self._held):
            if self._left[self._next] > 0:
                self._begun[self._next] = self._begin(self._next)
            self._next += 1
        if number not in self._open:
            begun = self._begun[number].result()
            self._open[number] = begun if self._opened is None else self._opened(begun)
        return self._open[number]

    def _begin_again(self) -> None:
        """Start again, in a forked child, what threads of the parent were doing."""
        self._process = os.getpid()
        for number, future in self._begun.items():
            if not future.done():
                self._begun[number] = self._begin(number)

    def used(self, number: int, rows: int) -> None:
        """Some rows of a run were handed over; after the last one it is let go."""
        self._left[number] -= rows
        if self._left[number] <= 0:
            self._begun.pop(number, None)
            self._open.pop(number, None)

    def waiting(self) -> int:
        """Runs that are loaded and not yet used up."""
        return sum(future.done() for future in self._begun.values())

    def cancel(self) -> None:
        """Let go of what was not begun."""
        for future in self._begun.values():
            future.cancel()
        self._begun.clear()
        self._open.clear()
