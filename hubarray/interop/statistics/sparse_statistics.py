"""Statistics of views in which nearly all chunks were never written: of those that are there, and of the fill value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.interop.blocks import Axis, as_slice, within_chunk

SPARSE_STATISTICS = ("sum", "mean", "min", "max", "var", "std", "any", "all")
MIN_SPARSE_BYTES = 256 << 20
MAX_CHUNKS = 1 << 16
_STORED_SHARE = 4
_BATCH_BYTES = 64 << 20


@dataclass
class _Moments:
    """How many elements, their sum, least, greatest, mean, squared distances from it, and how many are true."""

    count: int
    total: Any
    least: Any
    greatest: Any
    mean: Any
    squares: float
    true: int

    def joined(self, other: _Moments) -> _Moments:
        """Of both together (Chan, Golub and LeVeque, 1979)."""
        if not self.count or not other.count:
            return other if not self.count else self
        count = self.count + other.count
        apart = other.mean - self.mean
        return _Moments(
            count,
            self.total + other.total,
            np.minimum(self.least, other.least),
            np.maximum(self.greatest, other.greatest),
            self.mean + apart * (other.count / count),
            self.squares + other.squares + abs(apart) ** 2 * (self.count * (other.count / count)),
            self.true + other.true,
        )


def statistic(name: str, array: ArrayHandle, axes: tuple[Axis, ...], *, ddof: int = 0) -> Any | None:
    """A statistic over all elements of a view, from the chunks that are stored; None if those are many of it.

    Costs the manifest and the stored chunks in view, and nothing for the others.
    """
    size = math.prod(len(axis) for axis in axes if isinstance(axis, range))
    if size * array.dtype.itemsize < MIN_SPARSE_BYTES:
        return None
    most = min(MAX_CHUNKS, int(size / (_STORED_SHARE * math.prod(array.chunks))))
    stored = list(itertools.islice(_stored_parts(array, axes), most + 1))
    if len(stored) > most:
        return None
    moments: _Moments | None = None
    for key in stored:
        part = _moments(np.asarray(array[key]))
        moments = part if moments is None else moments.joined(part)
    seen = 0 if moments is None else moments.count
    if seen < size:
        absent = _of_fill(array, size - seen)
        moments = absent if moments is None else moments.joined(absent)
    assert moments is not None
    if name in ("any", "all"):
        return np.bool_(moments.true > 0 if name == "any" else moments.true == size)
    empty = np.zeros(1, array.dtype)
    if name in ("min", "max"):
        return array.dtype.type(moments.least if name == "min" else moments.greatest)
    if name == "sum":
        kind = empty.sum().dtype
        if kind.kind in "iu":
            # As NumPy, whose sums of integers go round.
            return np.array([int(moments.total) % (1 << 64)], np.uint64).view(kind)[0]
        return kind.type(moments.total)
    if name == "mean":
        return empty.mean().dtype.type(moments.mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.float64(moments.squares) / max(0, size - ddof)
    return empty.var().dtype.type(spread if name == "var" else np.sqrt(spread))


def _stored_parts(array: ArrayHandle, axes: tuple[Axis, ...]) -> Iterator[tuple[Any, ...]]:
    """The part to read of each stored chunk that the view touches."""
    state = snapshot_of(array)
    for present_coords, _ in state.present(batch_bytes=_BATCH_BYTES):
        for coords in present_coords.tolist():
            chunks = state.metadata.chunks
            inside = [within_chunk(axis, c, n) for axis, c, n in zip(axes, coords, chunks, strict=True)]
            if all(part is not None for part in inside):
                yield tuple(as_slice(part) if isinstance(part, range) else part for part in inside)


def _moments(values: np.ndarray) -> _Moments:
    wide = values.astype(np.float64, copy=False) if values.dtype.kind != "c" else values
    mean = wide.mean()
    squares = float((np.abs(wide - mean) ** 2).sum())
    true = int(np.count_nonzero(values))
    return _Moments(values.size, _total(values), values.min(), values.max(), mean, squares, true)


def _total(values: np.ndarray) -> Any:
    if values.dtype.kind in "iub":
        return int(values.sum())
    return values.sum(dtype=np.complex128 if values.dtype.kind == "c" else np.float64)


def _of_fill(array: ArrayHandle, count: int) -> _Moments:
    fill = array.fill_value
    if array.dtype.kind in "iub":
        total: Any = int(fill) * count
        mean: Any = np.float64(fill)
    else:
        mean = np.complex128(fill) if array.dtype.kind == "c" else np.float64(fill)
        total = mean * count
    return _Moments(count, total, fill, fill, mean, 0.0 * float(np.abs(mean)), count if fill else 0)
