"""Blobs that are under way, so that threads that want the same one wait for one request of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable

from hubarray import process
from hubarray.errors import UnavailableError
from hubarray.storage.base import Buffer

FLIGHT_PATIENCE_SECONDS = 5.0


class Flight:
    """One blob or node under way. Light, because a read of many small chunks makes one for each."""

    __slots__ = ("data", "error", "landed", "name", "over")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.over = False
        self.data: Buffer | None = None
        self.error: UnavailableError | None = None
        self.landed: threading.Event | None = None


class Flights:
    """The blobs, or the nodes, of one root that this process is fetching, by name."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child: nothing is under way there."""
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Flight] = {}

    def board(self, wanted: Iterable[tuple[int, Hashable]]) -> tuple[dict[int, Flight], list[tuple[int, Flight]]]:
        """Split positions into those the caller is to fetch and land, and those that others are fetching."""
        mine: dict[int, Flight] = {}
        theirs: list[tuple[int, Flight]] = []
        with self._lock:
            for i, name in wanted:
                flight = self._under_way.get(name)
                if flight is None:
                    mine[i] = self._under_way[name] = Flight(name)
                else:
                    theirs.append((i, flight))
        return mine, theirs

    def land(self, flight: Flight, data: Buffer) -> None:
        """Hand a blob's bytes to those who wait for it; who wants it from now on fetches it, or has it from a cache."""
        with self._lock:
            self._unlist(flight)
            if not flight.over:
                self._finish(flight, data)

    def give_up(self, flights: Iterable[Flight], error: BaseException) -> None:
        """After a failure: let the waiters of what has not landed fetch it themselves, or fail as :meth:`wait` says."""
        with self._lock:
            for flight in flights:
                self._unlist(flight)
                if not flight.over:
                    flight.error = error if isinstance(error, UnavailableError) else None
                    self._finish(flight, None)

    def wait(self, flight: Flight) -> Buffer | None:
        """The bytes of a blob that another thread fetches; None if it gave up.

        Raises
        ------
        UnavailableError
            The storage did not answer it, and the caller has waited for that so long that to ask by itself, and wait as
            long again, would be too long.
        """
        began = time.monotonic()
        with self._lock:
            if not flight.over and flight.landed is None:
                flight.landed = threading.Event()
        if flight.landed is not None:
            flight.landed.wait()
        if flight.error is not None and time.monotonic() - began >= FLIGHT_PATIENCE_SECONDS:
            raise UnavailableError(*flight.error.args)
        return flight.data

    @staticmethod
    def _finish(flight: Flight, data: Buffer | None) -> None:
        flight.data, flight.over = data, True
        if flight.landed is not None:
            flight.landed.set()

    def _unlist(self, flight: Flight) -> None:
        # What has landed may be under way again, by another call, whose flight stays.
        if self._under_way.get(flight.name) is flight:
            del self._under_way[flight.name]
