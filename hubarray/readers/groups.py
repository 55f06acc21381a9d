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


class RowReader:
    """Rows of several arrays, read into memory that is used again for as long as this lives.

    Copies of it, in other processes, read for themselves.

    Parameters
    ----------
    arrays : sequence of Array
    keep : bool
        Read the arrays once, when rows are first asked for, and keep them: of small arrays, rows in random order
        would be a request each, and a chunk of many rows would be decoded for every group.
    """

    def __init__(self, arrays: Sequence[Array], keep: bool) -> None:
        self._arrays = arrays
        self._keep = keep
        self._whole: list[np.ndarray] | None = None
        self._buffers = [Buffers(_PIECES) for _ in arrays]
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was read stays."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[RowReader], tuple[Sequence[Array], bool]]:
        return RowReader, (self._arrays, self._keep)

    def read(self, rows: np.ndarray) -> list[np.ndarray]:
        """The rows of each array."""
        parts = [
            buffers.take((len(rows), *array.shape[1:]), array.dtype)
            for array, buffers in zip(self._arrays, self._buffers, strict=True)
        ]
        if not self._keep:
            return [array.read_rows(rows, part) for array, part in zip(self._arrays, parts, strict=True)]
        with self._lock:
            if self._whole is None:
                self._whole = [
                    one.read_rows(np.arange(len(one)), np.empty(one.shape, one.dtype)) for one in self._arrays
                ]
        for whole, part in zip(self._whole, parts, strict=True):
            np.take(whole, rows, axis=0, out=part, mode="clip")
        return parts


class Group:
    """Rows that are read together; reading one group begins the one after it."""

    def __init__(self, reader: RowReader, rows: np.ndarray) -> None:
        self.rows = rows
        self.following: Group | None = None
        self._reader = reader
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
            self._reading = pools.ahead.submit(self._reader.read, self.rows)
        return self._reading


def in_groups(reader: RowReader, rows: Iterable[np.ndarray]) -> Iterator[Group]:
    """A group for each array of row numbers; nothing is read before its parts, or those before them, are asked for."""
    groups = (Group(reader, one) for one in rows)
    group = next(groups, None)
    while group is not None:
        group.following = next(groups, None)
        yield group
        group = group.following
