"""Anything that is sliced along its first axis, as a source of rows; and a single value, which has none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from hubarray.interop.sources.base import check_sizes, readable
from hubarray.interop.sources.found import Found
from hubarray.values.foreign import block_of
from hubarray.values.objects import plain_list, refuse_objects


def rows_or_single(
    where: str, opened: Found, fingerprint: list[Any] | None = None, **sizes: Any
) -> SlicedSource | Single:
    """A source of rows, or the single value that has none."""
    if not len(opened.array.shape):
        return Single(where, opened)
    return SlicedSource(where, opened, fingerprint, **sizes)


class Single:
    """A single value, without rows."""

    shape: tuple[int, ...] = ()
    dims: tuple[str | None, ...] | None = ()
    fill: Any = None

    fingerprint: list[Any] | None = None

    def __init__(self, where: str, opened: Found) -> None:
        self.where, self.attrs = where, opened.attrs
        with readable(where):
            value = block_of(opened.array, ())
        if value.dtype.kind in "TO" and isinstance(value.item(), (str, bytes)):
            value = np.asarray(plain_list([value.item()])[0])
        if value.dtype.hasobject or value.shape:
            refuse_objects(where, value)
        self.value, self.dtype = value, value.dtype


class SlicedSource:
    """Anything that is sliced along its first axis."""

    def __init__(
        self, where: str, opened: Found, fingerprint: list[Any] | None = None, *, stored_bytes: int | None = None
    ) -> None:
        array = opened.array
        self.where = where
        self.rows: int | None = int(array.shape[0])
        self.row_shape = tuple(map(int, array.shape[1:]))
        self.shape = (int(array.shape[0]), *self.row_shape)
        self.dtype = np.dtype(array.dtype)
        if self.dtype.hasobject and self.dtype.kind != "T":
            refuse_objects(where, array)
        self.attrs = opened.attrs
        self.dims = opened.dims
        self.fill = opened.fill
        self.fingerprint = fingerprint
        self._array = array
        check_sizes(self, whole_rows=not self.row_shape, stored_bytes=stored_bytes)

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        for first in range(start, self.rows or 0, block_rows):
            with readable(self.where):
                yield block_of(self._array, slice(first, first + block_rows))

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        for key in boxes_of(self.row_shape, self.dtype.itemsize, max_bytes):
            with readable(self.where):
                yield key, block_of(self._array, (row, *key))


def boxes_of(shape: tuple[int, ...], itemsize: int, max_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Iterate over slices that divide a shape into boxes of about this number of bytes, along its leading axes.

    Examples
    --------
    >>> list(boxes_of((2, 5), 1, 3))
    [(slice(0, 1, None), slice(0, 3, None)), (slice(0, 1, None), slice(3, 5, None)), \
(slice(1, 2, None), slice(0, 3, None)), (slice(1, 2, None), slice(3, 5, None))]
    """
    steps = []
    below = itemsize
    for length in reversed(shape):
        step = max(1, min(length, max_bytes // below)) if length else 1
        steps.append(step)
        below *= length if step == length else step
    for begins in itertools.product(*(range(0, n, step) for n, step in zip(shape, reversed(steps), strict=True))):
        sizes = zip(begins, shape, reversed(steps), strict=True)
        yield tuple(slice(begin, min(begin + step, n)) for begin, n, step in sizes)
