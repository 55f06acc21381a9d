"""Views of an array as ranges of its axes, and how a view is cut into blocks. Pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

Axis = range | int


def index(axes: tuple[Axis, ...], key: Any) -> tuple[Axis, ...]:
    """Narrow a view by basic indexing: integers, slices and an ellipsis, counted over the axes that are left.

    Parameters
    ----------
    axes : tuple of range or int
        For each axis of the array the positions in view, or the one that it is fixed at.

    Raises
    ------
    IndexError

    Examples
    --------
    >>> index((range(100), range(8)), (slice(10, 50, 2), -1))
    (range(10, 50, 2), 7)
    >>> index((range(10, 50, 2), 7), 3)
    (16, 7)
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    free = [i for i, axis in enumerate(axes) if isinstance(axis, range)]
    ellipses = [i for i, item in enumerate(keys) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    key_count = len(keys) - len(ellipses)
    if key_count > len(free):
        raise IndexError(f"too many indices: the array has {len(free)} in this view, but {key_count} were given")
    place = ellipses[0] if ellipses else len(keys)
    full = keys[:place] + [slice(None)] * (len(free) - key_count) + keys[place + 1 :]
    result = list(axes)
    for position, (axis, part) in enumerate(zip(free, full, strict=True)):
        result[axis] = _narrowed(axes[axis], part, position)
    return tuple(result)


def _narrowed(axis: Any, key: Any, position: int) -> Axis:
    if isinstance(key, slice):
        narrowed: range = axis[key]
        return narrowed
    try:
        number = operator.index(key)
    except TypeError:
        raise IndexError(
            f"a lazy view takes integers, slices and '...', not {type(key).__name__}; read with a[...] for the rest"
        ) from None
    if isinstance(key, bool):
        raise IndexError("a lazy view takes integers, slices and '...', not bool")
    try:
        return int(axis[number])
    except IndexError:
        raise IndexError(f"index {number} is out of bounds for axis {position} with size {len(axis)}") from None


def shape_of(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """The shape of what a view selects."""
    return tuple(len(axis) for axis in axes if isinstance(axis, range))


def as_slice(positions: range) -> slice:
    """The slice that selects these positions.

    Examples
    --------
    >>> as_slice(range(4, -1, -2))
    slice(4, None, -2)
    """
    stop = positions.stop if positions.stop >= 0 else None
    return slice(positions.start, stop, positions.step) if len(positions) else slice(0, 0)


def block_shape(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int, target_bytes: int) -> tuple[int, ...]:
    """Return a shape of whole chunks with about this number of bytes. The least multiplied axis is doubled first.

    Examples
    --------
    >>> block_shape((1000, 64, 64), (1, 64, 64), 1, 64 * 4096)
    (64, 64, 64)
    >>> block_shape((512, 512, 512), (64, 64, 64), 4, 8 << 20)
    (128, 128, 128)
    """
    times = [1] * len(shape)
    counts = [max(1, -(-n // c)) for n, c in zip(shape, chunks, strict=True)]

    def size() -> int:
        return math.prod(t * c for t, c in zip(times, chunks, strict=True)) * itemsize

    while 2 * size() <= target_bytes:
        growing = [axis for axis in range(len(shape)) if times[axis] < counts[axis]]
        if not growing:
            break
        times[min(growing, key=lambda axis: (times[axis], axis))] *= 2
    return tuple(min(t * c, n) if n else c for t, c, n in zip(times, chunks, shape, strict=True))


def column_shape(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int, target_bytes: int) -> tuple[int, ...]:
    """Return whole chunks like :func:`block_shape`, or a part of one with at most this number of bytes.

    Examples
    --------
    >>> column_shape((1000, 64), (500, 64), 100, 64 * 100)
    (7, 8)
    """
    lengths = list(block_shape(shape, chunks, itemsize, target_bytes))
    while math.prod(lengths) * itemsize > target_bytes and max(lengths) > 1:
        longest = lengths.index(max(lengths))
        lengths[longest] = lengths[longest] // 2
    return tuple(lengths)


def piece_count(axis: Axis, block: int) -> int:
    """How many :func:`pieces` there are.

    Examples
    --------
    >>> piece_count(range(3, 12, 2), 5), piece_count(range(0, 10**12, 7), 10), piece_count(4, 5)
    (3, 100000000000, 1)
    """
    if not isinstance(axis, range) or not axis:
        return 1
    return min(len(axis), abs(axis[-1] // block - axis[0] // block) + 1)


def within_chunk(axis: Axis, coord: int, chunk: int) -> Axis | None:
    """The part of an axis in view that lies in one chunk; None if nothing does.

    Examples
    --------
    >>> within_chunk(range(3, 30, 4), 1, 10), within_chunk(range(29, -1, -5), 0, 10), within_chunk(7, 1, 5)
    (range(11, 23, 4), range(9, -1, -5), 7)
    >>> within_chunk(range(0, 100, 50), 1, 10) is None, within_chunk(7, 0, 5) is None
    (True, True)
    """
    begin, end = coord * chunk, (coord + 1) * chunk
    if not isinstance(axis, range):
        return axis if begin <= axis < end else None
    rising = axis if axis.step > 0 else axis[::-1]
    first = max(0, -(-(begin - rising.start) // rising.step))
    part = rising[first : max(first, -(-(end - rising.start) // rising.step))]
    if not part:
        return None
    return part if axis.step > 0 else part[::-1]


def pieces(positions: range, block: int) -> Iterator[range]:
    """Cut positions where they pass from one block of the axis into another.

    Examples
    --------
    >>> list(pieces(range(3, 12, 2), 5))
    [range(3, 5, 2), range(5, 11, 2), range(11, 13, 2)]
    """
    first = 0
    while first < len(positions):
        here = positions[first] // block
        edge = (here + 1) * block - positions[first] if positions.step > 0 else positions[first] - here * block + 1
        count = min(len(positions) - first, -(-edge // abs(positions.step)))
        yield positions[first : first + count]
        first += count
