"""Memory that is used again once nobody has a view of it.

The kernel zeroes every page of fresh memory, which takes as long as decoding into it does.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np

from hubarray import process


def _references(held: list[np.ndarray], index: int) -> int:
    return sys.getrefcount(held[index])


# What the count is where only the list has it; interpreters differ in whether the call itself counts.
_UNSHARED = _references([np.empty(0, "u1")], 0)


class Buffers:
    """Arrays of about the same size, one after the other, in few pieces of memory.

    Whatever can still see an array (a view, a tensor that shares its memory) holds a reference to that memory, so
    counting references tells when it is free; an array that is kept just costs another piece.

    Parameters
    ----------
    most : int
        Pieces that are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[np.ndarray] = []
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was held there stays as it is."""
        self._lock = threading.Lock()

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """A C-contiguous array of anything, which is the caller's alone."""
        if dtype.hasobject:
            # Text of any length, whose letters lie elsewhere.
            return np.empty(shape, dtype)
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            for i in range(len(self._held)):
                if size <= self._held[i].nbytes and _references(self._held, i) == _UNSHARED:
                    return self._held[i][:size].view(dtype).reshape(shape)
            # Pages that are never touched cost nothing, and the next array may be a little larger.
            fresh = np.empty(size + size // 2, "u1")
            self._held = [*self._held[-(self._most - 1) :], fresh]
            return fresh[:size].view(dtype).reshape(shape)
