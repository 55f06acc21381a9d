"""Groups of rows that are read whole, each while the one before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np

from hubarray.arrays.array import Array
from hubarray.blobs.pools import pools
from hubarray.readers.buffers import Buffers

# One that is used, one that comes next, one that is begun with it, and one that a slow user still holds.
_PIECES = 4


class Group:
    """Rows of several arrays; reading one group begins the one after it."""

    def __init__(self, arrays: Sequence[Array], rows: np.ndarray, buffers: Sequence[Buffers]) -> None:
        self.rows = rows
        self.following: Group | None = None
        self._arrays = arrays
        self._buffers = buffers
        self._reading: Future[list[np.ndarray]] | None = None

    def parts(self) -> list[np.ndarray]:
        """The rows of each array."""
        reading = self._begin()
        if self.following is not None:
            self.following._begin()
        return reading.result()

    def _begin(self) -> Future[list[np.ndarray]]:
        if self._reading is None:
            self._reading = pools.ahead.submit(self._read)
        return self._reading

    def _read(self) -> list[np.ndarray]:
        parts = []
        for array, buffers in zip(self._arrays, self._buffers, strict=True):
            out = buffers.take((len(self.rows), *array.shape[1:]), array.dtype)
            parts.append(array._rows(self.rows, out))
        return parts


def in_groups(arrays: Sequence[Array], rows: Iterable[np.ndarray]) -> Iterator[Group]:
    """A group for each array of row numbers; nothing is read before its parts, or those before them, are asked for."""
    buffers = [Buffers(_PIECES) for _ in arrays]
    groups = (Group(arrays, one, buffers) for one in rows)
    group = next(groups, None)
    while group is not None:
        group.following = next(groups, None)
        yield group
        group = group.following
