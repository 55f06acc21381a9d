"""The plan of a read or a write: which chunks a selection touches, and what goes where. Pure arithmetic, no I/O.

Works on the canonical form of :mod:`hubarray.arrays.indexing.selection`: positions in
the *canonical result*, whose first axis is the points (if any) and whose other
axes are the sliced axes of the array.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.arrays.indexing.selection import AxisSlice, Selection
from hubarray.bounded_dict import BoundedDict
from hubarray.process import cached_property

Index = tuple[Any, ...]

_EVERYTHING = slice(None)
_REMEMBERED_PARTS = 1024


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


def plan(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> Plan:
    """The chunks that a selection touches, each once, in C order of their coordinates.

    Parameters
    ----------
    selection : Selection
    shape, chunks : sequence of int
        Of the array, now; they decide which chunks are covered whole.
    """
    if selection.points is None:
        return _Box(selection, shape, chunks)
    rows = _single_rows(selection, shape, chunks)
    return _Points(selection, shape, chunks) if rows is None else _WholeChunkRows(rows, selection, shape, chunks)


class Plan(ABC):
    """Projections in C order, each made when it is asked for: the result of :func:`plan`.

    Attributes
    ----------
    count : int
        How many chunks; it may be more than ``len`` can say.
    """

    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Projection]:
        return (self[index] for index in range(self.count))

    @abstractmethod
    def __getitem__(self, index: int) -> Projection:
        """One projection, by its position in C order."""

    @abstractmethod
    def numbers(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """The chunk numbers of all projections, given the numbers between neighbours along each axis."""

    @abstractmethod
    def targets(self, out: np.ndarray) -> tuple[np.ndarray, Sequence[int]] | None:
        """The result as whole chunks one after the other; None unless it is made of just these.

        Parameters
        ----------
        out : ndarray
            Of the canonical shape, C-contiguous.

        Returns
        -------
        (targets, order)
            A view of shape ``(count, *chunks)``, and for each projection which of these is its chunk.
        """

    def batches(self, size: int) -> Iterator[list[Projection]]:
        """The projections in lists of up to ``size``."""
        for first in range(0, self.count, size):
            yield [self[index] for index in range(first, min(first + size, self.count))]


class _Box(Plan):
    """A selection without points."""

    def __init__(self, selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> None:
        self._parts, self._chunks = _per_axis(selection, shape, chunks), chunks
        self.count = math.prod(len(axis) for axis in self._parts)
        # Most arrays of samples have many chunks along the first axis and one along the others.
        alike = self.count > 0 and len(self._parts) > 0 and all(len(axis) == 1 for axis in self._parts[1:])
        self._rest = _projection([axis[0] for axis in self._parts[1:]]) if alike else None

    def __getitem__(self, index: int) -> Projection:
        """See :class:`Plan`."""
        if self._rest is None:
            return _projection(_nth(self._parts, index))
        part, rest = self._parts[0][index], self._rest
        return Projection(
            (part.coord, *rest.coords),
            (part.in_chunk, *rest.in_chunk),
            (part.in_result, *rest.in_result),
            part.whole and rest.whole,
        )

    def targets(self, out: np.ndarray) -> tuple[np.ndarray, Sequence[int]] | None:
        """See :class:`Plan`."""
        if self._rest is None or not all(axis.whole_chunks for axis in self._parts):
            return None
        return out.reshape(self.count, *self._chunks), range(self.count)

    def numbers(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """See :class:`Plan`."""
        return _numbers([axis.coords() for axis in self._parts], strides)


class _WholeChunkRows(Plan):
    """Rows that are one chunk each, none of them twice: a batch of samples, in whatever order.

    Parameters
    ----------
    rows : array of int
    selection : Selection
        Of just these rows, with nothing else narrowed.
    shape, chunks : sequence of int
    """

    def __init__(self, rows: np.ndarray, selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._chunks, self.count = rows[self._order], chunks, len(rows)
        self._rest = _projection([axis[0] for axis in _per_axis(selection, shape, chunks)]) if len(rows) else None

    def __getitem__(self, index: int) -> Projection:
        """See :class:`Plan`."""
        rest, position = self._rest, int(self._order[index])
        if rest is None:
            raise IndexError(index)
        return Projection(
            (int(self._rows[index]), *rest.coords),
            (slice(0, 1), *rest.in_chunk),
            (slice(position, position + 1), *rest.in_result),
            False,
        )

    def targets(self, out: np.ndarray) -> tuple[np.ndarray, Sequence[int]] | None:
        """See :class:`Plan`."""
        return out.reshape(self.count, *self._chunks), self._order.tolist()

    def numbers(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """See :class:`Plan`."""
        return self._rows.astype(np.uint64) * np.uint64(strides[0])


class _Points(Plan):
    """A selection with points, wherever they are: those that fall into one chunk are a group."""

    def __init__(self, selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> None:
        self._axes = point_axes(selection)
        self._counts = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
        self._parts = _per_axis(selection, shape, chunks)
        lengths = [chunks[axis] for axis in self._axes]
        self._groups = _grouped(selection.points or (), lengths, selection.canonical_shape[0])
        self._in_group = math.prod(len(axis) for axis in self._parts)
        self._inner: dict[int, list[_ChunkPart]] = BoundedDict(_REMEMBERED_PARTS)
        self.count = len(self._groups) * self._in_group if selection.canonical_shape[0] else 0

    def __getitem__(self, index: int) -> Projection:
        """See :class:`Plan`."""
        if self._order is not None:
            index = int(self._order[index])
        group, rest = divmod(index, self._in_group)
        point_coords, members, offsets = self._groups[group]
        parts = self._inner.get(rest)
        if parts is None:
            parts = self._inner[rest] = _nth(self._parts, rest)
        coords = [part.coord for part in parts]
        for axis, coord in zip(self._axes, point_coords, strict=True):
            coords.insert(axis, coord)
        in_chunk = (*(offsets or (_EVERYTHING,)), *(part.in_chunk for part in parts))
        return Projection(tuple(coords), in_chunk, (members, *(part.in_result for part in parts)), False)

    @cached_property
    def _order(self) -> npt.NDArray[np.intp] | None:
        """C order, where groups do not follow it: where the points' axes are not the first ones."""
        if self._axes == tuple(range(len(self._axes))):
            return None
        return np.argsort(self._by_group([math.prod(self._counts[axis + 1 :]) for axis in range(len(self._counts))]))

    def targets(self, out: np.ndarray) -> tuple[np.ndarray, Sequence[int]] | None:
        """See :class:`Plan`."""
        return None

    def numbers(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """See :class:`Plan`."""
        numbers = self._by_group(strides)
        return numbers if self._order is None else numbers[self._order]

    def _by_group(self, strides: Sequence[int]) -> npt.NDArray[np.uint64]:
        """The numbers of one group's chunks after the other's."""
        if not self.count:
            return np.zeros(0, np.uint64)
        of_points = np.array([strides[axis] for axis in self._axes], np.uint64)
        of_slices = [stride for axis, stride in enumerate(strides) if axis not in self._axes]
        inner = _numbers([axis.coords() for axis in self._parts], of_slices)
        return ((self._point_coords @ of_points)[:, np.newaxis] + inner).reshape(-1)

    @cached_property
    def _point_coords(self) -> npt.NDArray[np.uint64]:
        """The coordinates of each group along the points' axes."""
        return np.array([coords for coords, _, _ in self._groups], np.uint64).reshape(len(self._groups), -1)


def _per_axis(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> list[_AxisParts]:
    axes = zip(selection.axes, shape, chunks, strict=True)
    return [_AxisParts(axis, length, chunk) for axis, length, chunk in axes if axis is not None]


def _nth(per_axis: Sequence[_AxisParts], index: int) -> list[_ChunkPart]:
    """One part of each axis: the combination with that position in C order."""
    parts = []
    for axis in reversed(per_axis):
        index, here = divmod(index, len(axis))
        parts.append(axis[here])
    parts.reverse()
    return parts


def _projection(parts: Sequence[_ChunkPart]) -> Projection:
    return Projection(
        tuple(part.coord for part in parts),
        tuple(part.in_chunk for part in parts),
        tuple(part.in_result for part in parts),
        all(part.whole for part in parts),
    )


def _numbers(per_axis: Sequence[npt.NDArray[np.uint64]], strides: Sequence[int]) -> npt.NDArray[np.uint64]:
    total = np.zeros((1,) * len(per_axis), np.uint64)
    for axis, (coords, stride) in enumerate(zip(per_axis, strides, strict=False)):
        total = total + (coords * np.uint64(stride)).reshape((-1,) + (1,) * (len(per_axis) - axis - 1))
    return np.ascontiguousarray(total).reshape(-1)


def _single_rows(selection: Selection, shape: Sequence[int], chunks: Sequence[int]) -> np.ndarray | None:
    """The rows that a selection picks, where each is one chunk, no row is picked twice and nothing else is narrowed."""
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


@dataclass(frozen=True, slots=True)
class _ChunkPart:
    """The part of one axis's slice that lies in one chunk."""

    coord: int
    in_chunk: slice
    in_result: slice
    whole: bool


class _AxisParts(Sequence[_ChunkPart]):
    """The parts of one axis's slice, chunk by chunk along that axis, each worked out when it is asked for.

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
        return _ChunkPart(coord, in_chunk, in_result, whole)

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


def _grouped(
    points: Sequence[np.ndarray], chunk_lengths: Sequence[int], count: int
) -> list[tuple[tuple[int, ...], Any, tuple[np.ndarray, ...]]]:
    """Points by the chunk they fall in: its coordinates, their positions, their offsets in it.

    Positions within a group stay in order, so that of two writes to one
    element the later wins, as in NumPy.
    """
    if not points:
        return [((), slice(0, count), ())]
    coords = [index // length for index, length in zip(points, chunk_lengths, strict=True)]
    order = np.lexsort(coords[::-1])
    changes = np.zeros(len(order), bool)
    for coord in coords:
        changes[1:] |= np.diff(coord[order]) != 0
    groups = []
    for members in np.split(order, np.flatnonzero(changes)):
        here = tuple(int(coord[members[0]]) for coord in coords) if len(members) else (0,) * len(points)
        offsets = tuple(
            index[members] - coord * length for index, coord, length in zip(points, here, chunk_lengths, strict=True)
        )
        groups.append((here, members, offsets))
    return groups


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
    item_count = len(items)
    if item_count > len(shape) or not item_count:
        return None
    coords: list[int] = []
    index: list[int | slice] = []
    for axis, length in enumerate(shape):
        chunk = chunks[axis]
        item = items[axis] if axis < item_count else _EVERYTHING
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
