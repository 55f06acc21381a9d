"""Reading ahead: fetch what the caller will probably need next, while it works on what it has."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import numpy as np

from hubarray.blobs.pools import pools

MAX_READ_BYTES = 16 << 20
READS_AHEAD = 3
_RUN_TO_NOTICE = 3
_CACHE_SHARE = 16
_WINDOWS_AHEAD = 2
_FIRST_READ_BYTES = 2 << 20


def rows_ahead(read: Callable[[int, int], np.ndarray], length: int, row_bytes: int, step: int) -> Iterator[np.ndarray]:
    """Rows of an array one by one, read in blocks of 2 MiB and then up to 16 MiB, three of them ahead of the caller.

    Parameters
    ----------
    read : callable
        Given the first row and the one after the last, the rows between.
    length, row_bytes : int
        Of the array, and of one row.
    step : int
        Rows in a chunk; blocks are whole chunks.
    """
    blocks = _blocks(length, row_bytes * step, step)
    ahead: deque[tuple[tuple[int, int], Future[np.ndarray]]] = deque()
    owner = os.getpid()
    first = next(blocks, None)
    block = read(*first) if first is not None else None
    while block is not None:
        while len(ahead) < READS_AHEAD and (bounds := next(blocks, None)) is not None:
            ahead.append((bounds, pools.ahead.submit(read, *bounds)))
        yield from block
        if os.getpid() != owner:
            # Forked meanwhile: the threads that were reading are not here.
            owner = os.getpid()
            ahead = deque((bounds, pools.ahead.submit(read, *bounds)) for bounds, _ in ahead)
        block = ahead.popleft()[1].result() if ahead else None


def _blocks(length: int, chunk_bytes: int, step: int) -> Iterator[tuple[int, int]]:
    """First rows and those after the last; small at first, because nothing else is under way then."""
    start, size = 0, min(_FIRST_READ_BYTES, MAX_READ_BYTES)
    while start < length:
        stop = min(length, start + max(1, size // max(1, chunk_bytes)) * step)
        yield start, stop
        start, size = stop, min(MAX_READ_BYTES, 2 * size)


class Pace:
    """Notices that chunks are read one after the other, and says what to fetch ahead.

    Windows grow from 2 MiB to 16 MiB, so that a short run costs little, and about three are under way. Threads that
    read through one handle may hide each other's runs, which costs speed and nothing else.
    """

    def __init__(self, cache_bytes: int) -> None:
        # What is fetched ahead has to stay in the memory cache until it is asked for, beside what is used often.
        self._share_bytes = cache_bytes // _CACHE_SHARE
        self._max_bytes = min(MAX_READ_BYTES, self._share_bytes)
        self._last = -2
        self._run = 0
        self._ahead_to = 0
        self._window_bytes = min(_FIRST_READ_BYTES, self._max_bytes)

    def goes_on(self, coord: int) -> bool:
        """Note the place along the first axis of a chunk that is read; whether it is the next in a run of a few."""
        if coord == self._last:
            return False
        follows = coord == self._last + 1
        self._last = coord
        if not follows:
            self._run, self._ahead_to, self._window_bytes = 0, 0, min(_FIRST_READ_BYTES, self._max_bytes)
            return False
        self._run += 1
        return self._run >= _RUN_TO_NOTICE

    def window(self, count: int, chunk_bytes: int) -> range:
        """Return the chunks along the first axis to fetch for a continuing run, often none.

        Parameters
        ----------
        count : int
            How many there are.
        chunk_bytes : int
            Of all chunks at one place along it. Nothing is fetched ahead where that is more than a 16th of the cache:
            other threads' reads could push it out before it is asked for, and it would be fetched twice.

        Examples
        --------
        >>> pace = Pace(512 << 20)
        >>> [list(pace.window(100, 1 << 20)) for coord in range(6) if pace.goes_on(coord)]
        [[4, 5], [6, 7, 8, 9], [10, 11, 12, 13, 14, 15, 16, 17]]
        """
        if chunk_bytes > self._share_bytes:
            return range(0)
        chunks = max(1, self._window_bytes // max(1, chunk_bytes))
        if self._ahead_to - self._last > _WINDOWS_AHEAD * chunks:
            return range(0)
        first = max(self._ahead_to, self._last + 1)
        self._ahead_to = min(count, first + chunks)
        self._window_bytes = min(self._max_bytes, 2 * self._window_bytes)
        return range(first, self._ahead_to)
