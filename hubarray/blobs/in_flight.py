"""Fetches that are under way, so that threads that need the same blob wait for one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable

from hubarray import process
from hubarray.errors import UnavailableError
from hubarray.storage.base import Buffer

FETCH_PATIENCE_SECONDS = 5.0


class Fetch:
    """The fetch of one blob or node. It is small, because a read of many small chunks makes one for each."""

    __slots__ = ("data", "done", "error", "name", "over")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.over = False
        self.data: Buffer | None = None
        self.error: UnavailableError | None = None
        self.done: threading.Lock | None = None


class InFlight:
    """The blobs, or the nodes, of one root that this process is fetching, by name."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child, which fetches nothing."""
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Fetch] = {}

    def join(self, requests: Iterable[tuple[int, Hashable]], mine: dict[int, Fetch]) -> list[tuple[int, Fetch]]:
        """Put what the caller must fetch, and complete or fail, into ``mine``; returns what others are fetching.

        The caller fails what is in ``mine`` after Ctrl-C, too: whatever is listed is in it already.
        """
        theirs: list[tuple[int, Fetch]] = []
        with self._lock:
            for i, name in requests:
                fetch = self._under_way.get(name)
                if fetch is None:
                    mine[i] = fetch = Fetch(name)
                    self._under_way[name] = fetch
                else:
                    theirs.append((i, fetch))
        return theirs

    def complete(self, fetch: Fetch, data: Buffer) -> None:
        """Pass the bytes of a blob to the threads that wait for it. Later threads fetch it, or find it in a cache."""
        with self._lock:
            self._unlist(fetch)
            if not fetch.over:
                self._finish(fetch, data)

    def fail(self, fetches: Iterable[Fetch], error: BaseException) -> None:
        """After an error, let the threads that wait fetch the rest themselves, or fail as :meth:`wait` describes."""
        with self._lock:
            for fetch in fetches:
                self._unlist(fetch)
                if not fetch.over:
                    fetch.error = error if isinstance(error, UnavailableError) else None
                    self._finish(fetch, None)

    def wait(self, fetch: Fetch) -> Buffer | None:
        """Return the bytes of a blob that another thread fetches, or None if that thread has failed.

        Raises
        ------
        UnavailableError
            The store did not answer, and the caller has already waited too long to wait again for its own request.
        """
        began = time.monotonic()
        with self._lock:
            if not fetch.over and fetch.done is None:
                # Held until the fetch is over; see hubarray/threads.py.
                fetch.done = threading.Lock()
                fetch.done.acquire()
        if fetch.done is not None:
            with fetch.done:
                pass
        if fetch.error is not None and time.monotonic() - began >= FETCH_PATIENCE_SECONDS:
            raise UnavailableError(*fetch.error.args)
        return fetch.data

    @staticmethod
    def _finish(fetch: Fetch, data: Buffer | None) -> None:
        fetch.data, fetch.over = data, True
        if fetch.done is not None:
            fetch.done.release()

    def _unlist(self, fetch: Fetch) -> None:
        # Another call may already fetch the same name again.
        if self._under_way.get(fetch.name) is fetch:
            del self._under_way[fetch.name]
