"""Groups of rows that are read whole, each while the one before it is used."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np

from hubarray import process
from hubarray.arrays.array import Array
from hubarray.blobs.pools import pools
from hubarray.readers.buffers import Buffers

# One that is used, one that comes next, one that is begun with it, and one that a slow user still holds.
_PIECES = 4


class Small:
    """Arrays that are read once, when rows of them are first asked for, and kept.

    Rows in random order would otherwise be a request each, and a chunk of many rows decoded for every group.
    Copies of this, in other processes, read for themselves.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays
        self._whole: list[np.ndarray] | None = None
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was read stays."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Small], tuple[Sequence[Array]]]:
        return Small, (self._arrays,)

    def rows(self, rows: np.ndarray, parts: Sequence[np.ndarray]) -> None:
        """Fill a part for each array with rows of it."""
        with self._lock:
            if self._whole is None:
                self._whole = [one._rows(np.arange(len(one)), np.empty(one.shape, one.dtype)) for one in self._arrays]
        for whole, part in zip(self._whole, parts, strict=True):
            np.take(whole, rows, axis=0, out=part, mode="clip")


class Group:
    """Rows of several arrays; reading one group begins the one after it."""

    def __init__(self, arrays: Sequence[Array], rows: np.ndarray, buffers: Sequence[Buffers], small: Small | None):
        self.rows = rows
        self.following: Group | None = None
        self._arrays = arrays
        self._buffers = buffers
        self._small = small
        self._reading: Future[list[np.ndarray]] | None = None
        self._process = os.getpid()

    def parts(self) -> list[np.ndarray]:
        """The rows of each array."""
        reading = self._begin()
        if self.following is not None:
            self.following._begin()
        return reading.result()

    def _begin(self) -> Future[list[np.ndarray]]:
        # What was under way in another thread when this process was forked is not under way here.
        if self._reading is None or (self._process != os.getpid() and not self._reading.done()):
            self._process = os.getpid()
            self._reading = pools.ahead.submit(self._read)
        return self._reading

    def _read(self) -> list[np.ndarray]:
        parts = [
            buffers.take((len(self.rows), *array.shape[1:]), array.dtype)
            for array, buffers in zip(self._arrays, self._buffers, strict=True)
        ]
        if self._small is not None:
            self._small.rows(self.rows, parts)
            return parts
        return [array._rows(self.rows, part) for array, part in zip(self._arrays, parts, strict=True)]


def in_groups(arrays: Sequence[Array], rows: Iterable[np.ndarray], small: Small | None = None) -> Iterator[Group]:
    """A group for each array of row numbers; nothing is read before its parts, or those before them, are asked for.

    Parameters
    ----------
    arrays : sequence of Array
    rows : iterable of ndarray
    small : Small, optional
        Of the same arrays, if they are to be read whole and kept.
    """
    buffers = [Buffers(_PIECES) for _ in arrays]
    groups = (Group(arrays, one, buffers, small) for one in rows)
    group = next(groups, None)
    while group is not None:
        group.following = next(groups, None)
        yield group
        group = group.following
