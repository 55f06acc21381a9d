"""Rows of several arrays, read into memory that is used again, and runs of rows that are read ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

from hubarray import process
from hubarray.arrays.handle import ArrayHandle
from hubarray.blobs.pools import pools
from hubarray.readers.order.order import Order
from hubarray.readers.order.sampler import Share
from hubarray.readers.pipeline.buffers import Buffers
from hubarray.readers.pipeline.prefetch_queue import PrefetchQueue

T = TypeVar("T")

# One that is used, one that comes next, one that is begun with it, and one that a slow user still holds; and one for
# each further interval of a rank.
BUFFERS = 4


class RowReader:
    """Rows of several arrays, read into memory that is used again for as long as this lives.

    Copies of it, in other processes, read for themselves.

    Parameters
    ----------
    arrays : sequence of Array
    buffers : int
        Pieces of memory an array that are remembered.
    keep : bool
        Read the arrays once, when rows are first asked for, and keep them: of small arrays, rows in random order
        would be a request each, and a chunk of many rows would be decoded for every group.
    """

    def __init__(self, arrays: Sequence[ArrayHandle], keep: bool, buffers: int = BUFFERS) -> None:
        self._arrays = arrays
        self._keep, self._most = keep, buffers
        self._whole: list[np.ndarray] | None = None
        self._buffers = [Buffers(buffers) for _ in arrays]
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was read stays."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[RowReader], tuple[Sequence[ArrayHandle], bool, int]]:
        return RowReader, (self._arrays, self._keep, self._most)

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
                    array.read_rows(np.arange(len(array)), np.empty(array.shape, array.dtype)) for array in self._arrays
                ]
        for whole, part in zip(self._whole, parts, strict=True):
            np.take(whole, rows, axis=0, out=part, mode="clip")
        return parts


def fed(order: Order, share: Share, read: Callable[[np.ndarray], Any], opened: Callable[[Any], T], *,
        counts: Sequence[int] | None = None, held: int | None = None) -> PrefetchQueue[T]:  # fmt: skip
    """The runs of a share, read by threads while those before them are used.

    Parameters
    ----------
    order : Order
    share : Share
    read : callable
        Given rows of the source.
    opened : callable
        Made once from what was read, by the first user.
    counts : sequence of int, optional
        Rows of each run that are used; all by default.
    held : int, optional
        Runs that are loaded at a time; those that a step needs and two more by default.
    """

    def begin(number: int) -> Future[Any]:
        return pools.ahead.submit(lambda: read(share.source_rows(order, number)))

    counts_wanted = [run.count for run in share.runs] if counts is None else counts
    return PrefetchQueue(counts_wanted, begin, share.open_runs + 2 if held is None else held, opened)
