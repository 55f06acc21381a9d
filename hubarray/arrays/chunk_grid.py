"""Which chunks a selection touches, and what goes where: pure arithmetic, no I/O.

Works on the canonical form of :mod:`hubarray.arrays.selection`: positions in
the *canonical result*, whose first axis is the points (if any) and whose other
axes are the sliced axes of the array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.arrays.selection import AxisSlice, Selection

Index = tuple[Any, ...]

_EVERYTHING = slice(None)


@dataclass(frozen=True, slots=True)
class Projection:
    """One chunk's part in a selection.

    ``chunk[in_chunk]``, with its point axes moved to the front when there are
    points (see :func:`chunk_view`), corresponds to ``result[in_result]``.

    Attributes
    ----------
    coords : tuple of int
        The chunk's coordinates.
    in_chunk : tuple
        Index into the chunk; for points, into the chunk with its point axes first.
    in_result : tuple
        Index into the canonical result.
    whole : bool
        Whether every element of the chunk that lies within the array is selected, in whatever order.
    """

    coords: tuple[int, ...]
    in_chunk: Index
    in_result: Index
    whole: bool


def point_axes(selection: Selection) -> tuple[int, ...]:
    """The array's axes that the points select from."""
    return tuple(i for i, axis in enumerate(selection.axes) if axis is None)


def chunk_view(chunk: np.ndarray, selection: Selection) -> np.ndarray:
    """The chunk with its point axes first, as ``Projection.in_chunk`` indexes it."""
    if not selection.points:
        return chunk[np.newaxis] if selection.points is not None else chunk
    first = point_axes(selection)
    return np.moveaxis(chunk, first, range(len(first)))


def project(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> Iterator[Projection]:
    """The chunks that a selection touches, each once, in C order of their coordinates.

    Parameters
    ----------
    selection : Selection
    shape, chunks : sequence of int
        Of the array, now; they decide which chunks are covered whole.

    Yields
    ------
    Projection
    """
    if 0 in selection.canonical_shape:
        return
    per_axis = _per_axis(selection, shape, chunks)
    if selection.points is None:
        yield from map(_projection, itertools.product(*per_axis))
        return
    yield from _project_points(selection, chunks, per_axis)


def chunk_count(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> int:
    """How many chunks a selection touches along its sliced axes; exact for one without points."""
    return math.prod(len(axis) for axis in _per_axis(selection, shape, chunks))


def _per_axis(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> list[_AxisParts]:
    axes = zip(selection.axes, shape, chunks, strict=True)
    return [_AxisParts(axis, length, chunk) for axis, length, chunk in axes if axis is not None]


def _projection(parts: Sequence[_Part]) -> Projection:
    return Projection(
        tuple(part.coord for part in parts),
        tuple(part.in_chunk for part in parts),
        tuple(part.in_result for part in parts),
        all(part.whole for part in parts),
    )


class Box(Sequence[Projection]):
    """The projections of a selection without points, made one at a time when they are asked for.

    What :func:`project` yields, in the same order, for arrays of millions of chunks.

    Parameters
    ----------
    selection : Selection
        Without points.
    shape, chunks : sequence of int
    """

    def __init__(self, selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> None:
        self._parts = _per_axis(selection, shape, chunks)
        self._count = math.prod(len(axis) for axis in self._parts)
        # Most arrays of samples have many chunks along the first axis and one along the others.
        alike = self._count > 0 and len(self._parts) > 0 and all(len(axis) == 1 for axis in self._parts[1:])
        self._rest = _projection([axis[0] for axis in self._parts[1:]]) if alike else None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        """One projection, by its place in C order."""
        if self._rest is not None:
            part, rest = self._parts[0][index], self._rest
            return Projection(
                (part.coord, *rest.coords),
                (part.in_chunk, *rest.in_chunk),
                (part.in_result, *rest.in_result),
                part.whole and rest.whole,
            )
        parts = []
        for axis in reversed(self._parts):
            index, here = divmod(index, len(axis))
            parts.append(axis[here])
        parts.reverse()
        return _projection(parts)

    def chunk_after_chunk(self, out: np.ndarray, chunks: Sequence[int]) -> np.ndarray | None:
        """The result as whole chunks one after the other, a view; None unless it is made of just these.

        Parameters
        ----------
        out : ndarray
            Of the canonical shape, C-contiguous.
        chunks : sequence of int
        """
        if self._rest is None or not all(axis.whole_chunks for axis in self._parts):
            return None
        return out.reshape(self._count, *chunks)

    def numbers(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """The chunk numbers of all projections, given the numbers between neighbours along each axis."""
        total = np.zeros((1,) * len(self._parts), np.uint64)
        for axis, (parts, stride) in enumerate(zip(self._parts, strides, strict=False)):
            coords = parts.coords() * np.uint64(stride)
            total = total + coords.reshape((-1,) + (1,) * (len(self._parts) - axis - 1))
        return np.ascontiguousarray(total).reshape(-1)


def single_rows(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> np.ndarray | None:
    """The rows that a selection picks, where each is one chunk, no row is picked twice and nothing else is narrowed.

    Batches of samples, in whatever order, are of this kind; None for every other selection.
    """
    points = selection.points
    if points is None or len(points) != 1 or selection.axes[0] is not None or chunks[0] != 1:
        return None
    if selection.canonical_shape != (len(points[0]), *chunks[1:]):
        return None
    for axis, length in zip(selection.axes[1:], shape[1:], strict=True):
        if axis is None or (axis.start, axis.step, axis.count, axis.reversed) != (0, 1, length, False):
            return None
    rows = points[0]
    return rows if len(np.unique(rows)) == len(rows) else None


def within_one_chunk(
    key: Any, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int | slice, ...]] | None:
    """The chunk that a key of plain ints and slices lies within, and the index into it; None for any other key.

    Examples
    --------
    >>> within_one_chunk((5, slice(0, 3)), (10, 8), (2, 4))
    ((2, 0), (1, slice(0, 3, None)))
    >>> within_one_chunk((5, slice(0, 5)), (10, 8), (2, 4)) is None
    True
    """
    items = key if type(key) is tuple else (key,)
    given = len(items)
    if given > len(shape) or not given:
        return None
    coords: list[int] = []
    index: list[int | slice] = []
    for axis, length in enumerate(shape):
        chunk = chunks[axis]
        item = items[axis] if axis < given else _EVERYTHING
        if type(item) is int:
            if item < 0:
                item += length
            if not 0 <= item < length:
                return None
            coord = item // chunk
            index.append(item - coord * chunk)
        elif type(item) is slice and item.step is None:
            start, stop = (0, length) if item is _EVERYTHING else item.indices(length)[:2]
            if stop <= start:
                return None
            coord = start // chunk
            first = coord * chunk
            if stop > first + chunk:
                return None
            index.append(slice(start - first, stop - first))
        else:
            return None
        coords.append(coord)
    return tuple(coords), tuple(index)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one axis's slice takes from one chunk along that axis."""

    coord: int
    in_chunk: slice
    in_result: slice
    whole: bool


class _AxisParts(Sequence[_Part]):
    """What one axis's slice takes from each chunk along that axis, worked out when it is asked for.

    Parameters
    ----------
    axis : AxisSlice
    length, chunk : int
        Of the array and of a chunk, along the axis.
    """

    def __init__(self, axis: AxisSlice, length: int, chunk: int) -> None:
        self._axis, self._length, self._chunk = axis, length, chunk
        # Steps within a chunk's length miss no chunk on the way; longer ones find another chunk each.
        self._dense = axis.step <= chunk
        self._first = axis.start // chunk
        last = (axis.start + (axis.count - 1) * axis.step) // chunk
        self._count = last - self._first + 1 if self._dense and axis.count else axis.count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        """The part in one chunk."""
        if not 0 <= index < self._count:
            raise IndexError(index)
        axis, chunk = self._axis, self._chunk
        start, step, count = axis.start, axis.step, axis.count
        if self._dense:
            coord = self._first + index
            taken = max(0, -((start - coord * chunk) // step))
        else:
            coord, taken = (start + index * step) // chunk, index
        first = start + taken * step
        here = min(count - taken, -(-((coord + 1) * chunk - first) // step))
        offset = first - coord * chunk
        in_chunk = slice(offset, offset + (here - 1) * step + 1, step)
        if axis.reversed:
            last = count - taken - here
            # A slice that ends before index 0 has to be written with None.
            in_result = slice(count - taken - 1, last - 1 if last else None, -1)
        else:
            in_result = slice(taken, taken + here)
        whole = step == 1 and offset == 0 and here == min(chunk, self._length - coord * chunk)
        return _Part(coord, in_chunk, in_result, whole)

    def coords(self) -> npt.NDArray[np.uint64]:
        """The coordinates of all these chunks."""
        if self._dense:
            return np.arange(self._first, self._first + self._count, dtype=np.uint64)
        elements = np.arange(self._count, dtype=np.uint64) * np.uint64(self._axis.step)
        return (elements + np.uint64(self._axis.start)) // np.uint64(self._chunk)

    @property
    def whole_chunks(self) -> bool:
        """Whether all of every chunk is taken, in order, and no chunk is cut off by the array's end."""
        axis = self._axis
        return axis.step == 1 and not (axis.reversed or axis.start % self._chunk or axis.count % self._chunk)


def _project_points(
    selection: Selection, chunks: Sequence[int], per_axis: Sequence[Sequence[_Part]]
) -> Iterator[Projection]:
    points = selection.points or ()
    axes = point_axes(selection)
    groups = _grouped(points, [chunks[axis] for axis in axes], selection.canonical_shape[0])
    projections = []
    for point_coords, members, offsets in groups:
        for parts in itertools.product(*per_axis):
            coords = [part.coord for part in parts]
            for axis, coord in zip(axes, point_coords, strict=True):
                coords.insert(axis, coord)
            in_chunk = (*(offsets or (slice(None),)), *(part.in_chunk for part in parts))
            in_result = (members, *(part.in_result for part in parts))
            projections.append(Projection(tuple(coords), in_chunk, in_result, False))
    projections.sort(key=lambda projection: projection.coords)
    yield from projections


def _grouped(
    points: Sequence[np.ndarray], chunk_lengths: Sequence[int], count: int
) -> Iterator[tuple[tuple[int, ...], Any, tuple[np.ndarray, ...]]]:
    """Points by the chunk they fall in: its coordinates, their positions, their offsets in it.

    Positions within a group stay in order, so that of two writes to one
    element the later wins, as in NumPy.
    """
    if not points:
        yield (), slice(0, count), ()
        return
    coords = [index // length for index, length in zip(points, chunk_lengths, strict=True)]
    order = np.lexsort(coords[::-1])
    changes = np.zeros(len(order), bool)
    for coord in coords:
        changes[1:] |= np.diff(coord[order]) != 0
    for members in np.split(order, np.flatnonzero(changes)):
        here = tuple(int(coord[members[0]]) for coord in coords)
        offsets = tuple(
            index[members] - coord * length for index, coord, length in zip(points, here, chunk_lengths, strict=True)
        )
        yield here, members, offsets


def clipped(coords: Sequence[int], shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """The shape of the part of a chunk that lies within the array.

    Examples
    --------
    >>> clipped((2, 0), (10, 3), (4, 4))
    (2, 3)
    """
    return tuple(min(chunk, length - coord * chunk) for coord, length, chunk in zip(coords, shape, chunks, strict=True))


def region_of(coords: Sequence[int], shape: Sequence[int], chunks: Sequence[int]) -> tuple[slice, ...]:
    """The slices of the array that a chunk covers.

    Examples
    --------
    >>> region_of((2, 0), (10, 3), (4, 4))
    (slice(8, 10, None), slice(0, 3, None))
    """
    return tuple(
        slice(coord * chunk, min((coord + 1) * chunk, length))
        for coord, length, chunk in zip(coords, shape, chunks, strict=True)
    )


def merged_boxes(coords: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Distinct chunk coordinates as few boxes ``(start, stop)``, merged axis by axis from the last.

    Examples
    --------
    >>> merged_boxes([(0, 0), (0, 1), (1, 0), (1, 1), (3, 0)])
    [((0, 0), (2, 2)), ((3, 0), (4, 1))]
    """
    boxes = sorted((tuple(c), tuple(i + 1 for i in c)) for c in coords)
    ndim = len(boxes[0][0]) if boxes else 0
    for axis in reversed(range(ndim)):
        boxes.sort(key=lambda box: (_without(box[0], axis), _without(box[1], axis), box[0][axis]))
        merged: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for start, stop in boxes:
            if merged:
                before, after = merged[-1]
                same = _without(before, axis) == _without(start, axis) and _without(after, axis) == _without(stop, axis)
                if same and after[axis] == start[axis]:
                    merged[-1] = (before, stop)
                    continue
            merged.append((start, stop))
        boxes = merged
    return sorted(boxes)


def _without(values: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return values[:axis] + values[axis + 1 :]
