"""Chunk numbers: pure arithmetic between a chunk's coordinates and its number.

Chunks are numbered in C order of a *numbering grid*, the chunk counts of axes
1 and up that the record keeps. Axis 0 has no bound, so growing along it
changes no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]


def chunk_counts(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """How many chunks each axis has.

    Examples
    --------
    >>> chunk_counts((10, 7), (4, 7))
    (3, 1)
    """
    return tuple(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))


def numbering_grid(counts: Sequence[int]) -> tuple[int, ...]:
    """The numbering grid of a new array: its chunk counts from axis 1 on, each at least 1."""
    return tuple(max(1, count) for count in counts[1:])


def fits(grid: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether chunk counts are within a numbering grid."""
    return all(count <= bound for count, bound in zip(counts[1:], grid, strict=True))


def enlarged(grid: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """A grid that holds ``counts``, with twofold slack on the axes that outgrew it.

    Examples
    --------
    >>> enlarged((4, 4), (100, 3, 5))
    (4, 10)
    """
    return tuple(bound if count <= bound else 2 * count for count, bound in zip(counts[1:], grid, strict=True))


def strides(grid: Sequence[int]) -> tuple[int, ...]:
    """The numbers between neighbours along each axis (one more than the grid has axes)."""
    return tuple(math.prod(grid[i:]) for i in range(len(grid) + 1))


def number_of(coords: Sequence[int], grid: Sequence[int]) -> int:
    """A chunk's number. A 0-d array has one chunk, number 0.

    Examples
    --------
    >>> number_of((2, 1), (10,))
    21
    """
    if not coords:
        return 0
    number = coords[0]
    for coord, bound in zip(coords[1:], grid, strict=True):
        number = number * bound + coord
    return number


def number_limit(counts: Sequence[int], grid: Sequence[int]) -> int:
    """The number that every chunk's is below.

    Examples
    --------
    >>> number_limit((3, 2), (10,)), number_limit((), ())
    (30, 1)
    """
    return counts[0] * math.prod(grid) if counts else 1


def coords_array(numbers: Numbers, grid: Sequence[int], ndim: int) -> npt.NDArray[np.uint64]:
    """Coordinates of many numbers, shape ``(len(numbers), ndim)``."""
    out = np.zeros((len(numbers), ndim), np.uint64)
    rest = numbers.astype(np.uint64)
    for axis, stride in enumerate(strides(grid)[:ndim]):
        out[:, axis], rest = np.divmod(rest, np.uint64(stride))
    return out


def renumber(numbers: Numbers, old: Sequence[int], new: Sequence[int], ndim: int) -> Numbers:
    """The same chunks' numbers in another grid. Order is kept: both are C orders."""
    if ndim == 0 or tuple(old) == tuple(new):
        return numbers
    coords = coords_array(numbers, old, ndim)
    return (coords * np.array(strides(new), np.uint64)).sum(axis=1, dtype=np.uint64)


def within(numbers: Numbers, grid: Sequence[int], counts: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which numbers are of chunks inside ``counts``."""
    if not counts:
        return np.ones(len(numbers), bool)
    return np.asarray((coords_array(numbers, grid, len(counts)) < np.array(counts, np.uint64)).all(axis=1))
