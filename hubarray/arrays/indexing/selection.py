"""Meaning of an index: NumPy's indexing rules, reduced to a canonical form. Pure.

A key becomes, for each axis of the array, either a slice with positive step
or a position in the *points*: all advanced indices (and, beside them, integers)
broadcast together and flattened. What NumPy refuses is refused with the same
exception; basic keys are tried on an array of the same shape that takes no
memory, so that NumPy itself is the judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """``count`` indices of one axis: ``start, start + step, ...``, with ``step`` at least 1.

    ``reversed`` says that the caller asked for them from the last to the first.
    """

    start: int
    step: int
    count: int
    reversed: bool = False


@dataclass(frozen=True)
class Selection:
    """A selection in canonical form.

    The *canonical result* has the points (flattened, if there are any) as its
    first axis and then one axis for each sliced axis of the array; it is
    turned into NumPy's result by :meth:`from_canonical`.

    Attributes
    ----------
    axes : tuple
        For each axis of the array an :class:`AxisSlice`, or None where the points select.
    points : tuple of arrays or None
        For each None in ``axes``, flat non-negative indices, all of one length.
        None (not an empty tuple) when nothing is advanced.
    shape : tuple of int
        Shape of NumPy's result.
    """

    axes: tuple[AxisSlice | None, ...]
    points: tuple[Points, ...] | None
    shape: tuple[int, ...]
    is_scalar: bool
    _point_shape: tuple[int, ...] = ()
    _point_axis: int = 0

    @property
    def canonical_shape(self) -> tuple[int, ...]:
        """Shape of the canonical result."""
        slices = tuple(axis.count for axis in self.axes if axis is not None)
        return slices if self.points is None else (math.prod(self._point_shape), *slices)

    @property
    def size(self) -> int:
        """Number of elements selected."""
        return math.prod(self.shape)

    def from_canonical(self, result: np.ndarray) -> np.ndarray:
        """NumPy's result, as a view of the canonical one."""
        if self.points is None:
            return result.reshape(self.shape)
        return self._points_moved(result.reshape(self._point_shape + result.shape[1:])).reshape(self.shape)

    def to_canonical(self, value: np.ndarray) -> np.ndarray:
        """A value of NumPy's result shape, rearranged canonically (a view where strides allow it)."""
        if self.points is None:
            return value.reshape(self.canonical_shape)
        slices = tuple(axis.count for axis in self.axes if axis is not None)
        axis, ndim = self._point_axis, len(self._point_shape)
        value = value.reshape(slices[:axis] + self._point_shape + slices[axis:])
        value = np.moveaxis(value, range(axis, axis + ndim), range(ndim))
        return value.reshape(self.canonical_shape)

    def _points_moved(self, result: np.ndarray) -> np.ndarray:
        axis, ndim = self._point_axis, len(self._point_shape)
        return np.moveaxis(result, range(ndim), range(axis, axis + ndim))


def parse(key: Any, shape: tuple[int, ...]) -> Selection:
    """Read an index into an array of some shape.

    Parameters
    ----------
    key
        Anything NumPy takes: ints, slices, ``...``, ``np.newaxis``, integer
        and boolean arrays and lists, and tuples of them.
    shape : tuple of int

    Raises
    ------
    IndexError, ValueError, TypeError
        NumPy's own, for keys that it refuses.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_index(item) for item in items]
    _reject_fields(items)
    if any(isinstance(item, np.ndarray) for item in items):
        return _parse_advanced(items, shape)
    return _parse_basic(items, shape)


def dims_left(key: Any, dims: tuple[str | None, ...]) -> tuple[str | None, ...] | None:
    """Names of the axes that an index leaves; None where several arrays of points select, which mixes axes.

    Examples
    --------
    >>> dims_left((0, slice(2)), ("t", "y", "x")), dims_left([3, 1], ("t", "y"))
    (('y', 'x'), ('t', 'y'))
    """
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_index(item) for item in items]
    if any(item.dtype == bool and item.ndim != 1 for item in items if isinstance(item, np.ndarray)):
        return None
    taken = sum(item is not None and item is not Ellipsis for item in items)
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    if len(arrays) > 1 or any(item.ndim != 1 for item in arrays) or (arrays and any(type(i) is int for i in items)):
        return None
    left: list[str | None] = []
    at = 0
    for item in items:
        if item is None:
            left.append(None)
        elif item is Ellipsis:
            left += dims[at : at + len(dims) - taken]
            at += len(dims) - taken
        else:
            left += [dims[at]] if not isinstance(item, int) else []
            at += 1
    return tuple(left)


def _as_index(item: Any) -> Any:
    """Ints, slices, Ellipsis and None as they are; everything else as an array of ints or bools."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    return array


def _reject_fields(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, np.ndarray) and item.dtype.kind in "USO":
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
                "arrays are valid indices; names of fields stand alone: a['field'], or a[0:10]['field']"
            )


def _phantom(shape: tuple[int, ...]) -> np.ndarray:
    """An array of any shape that takes one byte."""
    return np.broadcast_to(np.zeros((), np.uint8), shape)


def _parse_basic(items: list[Any], shape: tuple[int, ...]) -> Selection:
    result = _phantom(shape)[tuple(items)]
    axes: list[AxisSlice] = []
    for item in _expanded(items, len(shape)):
        if item is None or item is Ellipsis:
            continue
        length = shape[len(axes)]
        if isinstance(item, slice):
            axes.append(_axis_slice(item, length))
        else:
            axes.append(AxisSlice(item + length if item < 0 else item, 1, 1))
    is_scalar = result.shape == () and Ellipsis not in items
    return Selection(tuple(axes), None, result.shape, is_scalar)


def _parse_advanced(items: list[Any], shape: tuple[int, ...]) -> Selection:
    flat: list[Any] = []
    for item in _expanded(items, len(shape)):
        if isinstance(item, np.ndarray) and item.dtype == np.bool_ and item.ndim != 1:
            _check_mask(item, shape, _consumed(flat))
            flat.extend(item.nonzero() if item.ndim else [_ZeroDimMask(bool(item))])
        elif isinstance(item, np.ndarray) and item.dtype == np.bool_:
            _check_mask(item, shape, _consumed(flat))
            flat.append(item.nonzero()[0])
        else:
            flat.append(item)
    point_shape = _validated(flat, shape)
    count = math.prod(point_shape)
    axes: list[AxisSlice | None] = []
    points: list[Points] = []
    axis = 0
    for item in flat:
        if not _uses_axis(item):
            continue
        if isinstance(item, slice):
            axes.append(_axis_slice(item, shape[axis]))
        else:
            axes.append(None)
            index = np.broadcast_to(np.asarray(item, np.int64), point_shape).reshape(count)
            points.append(np.where(index < 0, index + shape[axis], index))
        axis += 1
    axis, result_shape = _axis_and_shape(flat, point_shape, axes)
    return Selection(tuple(axes), tuple(points), result_shape, False, point_shape, axis)


@dataclass(frozen=True)
class _ZeroDimMask:
    """``True`` or ``False`` as an index: an axis of length 1 or 0 that uses none of the array's."""

    value: bool


def _is_point(item: Any) -> bool:
    return isinstance(item, (int, np.ndarray, _ZeroDimMask))


def _point_array(item: Any) -> np.ndarray:
    if isinstance(item, _ZeroDimMask):
        return np.zeros(int(item.value), np.int64)
    return np.asarray(item)


def _consumed(flat: list[Any]) -> int:
    return sum(map(_uses_axis, flat))


def _check_mask(mask: np.ndarray, shape: tuple[int, ...], first_axis: int) -> None:
    for i, length in enumerate(mask.shape):
        axis = first_axis + i
        if length and axis < len(shape) and shape[axis] != length:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {shape[axis]} "
                f"but size of corresponding boolean axis is {length}"
            )


def _expanded(items: list[Any], ndim: int) -> list[Any]:
    """Items with the Ellipsis (or the missing end) written out as full slices."""
    used = sum(
        item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1
        for item in items
        if item is not None and item is not Ellipsis
    )
    full = [slice(None)] * (ndim - used)
    out: list[Any] = []
    seen = False
    for item in items:
        if item is Ellipsis:
            # One that stands for no axis stays: NumPy lets it separate advanced indices all the same.
            out.extend(full or [Ellipsis])
            seen = True
        else:
            out.append(item)
    return out if seen else out + full


def _axis_slice(item: slice, length: int) -> AxisSlice:
    start, stop, step = item.indices(length)
    count = len(range(start, stop, step))
    if step > 0 or count == 0:
        return AxisSlice(start, max(step, 1), count)
    return AxisSlice(start + (count - 1) * step, -step, count, reversed=True)


def _validated(flat: list[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape the points broadcast to, once they are known to be within the array."""
    items = _array_items(flat)
    if len(items) > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {len(items)} were indexed"
        )
    indexes = [(axis, item) for axis, item in enumerate(items) if not isinstance(item, slice)]
    if any(isinstance(item, np.ndarray) and item.dtype.kind not in "iu" for _, item in indexes):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    try:
        point_shape = np.broadcast_shapes(*(_point_array(item).shape for item in flat if _is_point(item)))
    except ValueError:
        shapes = " ".join(str(_point_array(item).shape) for item in flat if isinstance(item, np.ndarray))
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None
    for axis, item in indexes:
        # NumPy does not look into the arrays of a selection of nothing.
        if 0 in point_shape and isinstance(item, np.ndarray):
            continue
        index = np.asarray(item)
        low, high = int(index.min()), int(index.max())
        if low < -shape[axis] or high >= shape[axis]:
            wrong = low if low < -shape[axis] else high
            raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {shape[axis]}")
    return point_shape


def _array_items(flat: list[Any]) -> list[Any]:
    return [item for item in flat if _uses_axis(item)]


def _uses_axis(item: Any) -> bool:
    """Whether an item takes up an axis of the array."""
    return item is not None and item is not Ellipsis and not isinstance(item, _ZeroDimMask)


def _axis_and_shape(
    flat: list[Any], point_shape: tuple[int, ...], axes: list[AxisSlice | None]
) -> tuple[int, tuple[int, ...]]:
    """Where NumPy puts the points' axes: where they are if they stand together in the key, else first.

    Returns
    -------
    (axis, shape)
        The number of sliced axes before the points, and the shape of the result.
    """
    positions = [i for i, item in enumerate(flat) if _is_point(item)]
    together = positions == list(range(positions[0], positions[-1] + 1))
    slices = iter([axis for axis in axes if axis is not None])
    dims: list[int] = []
    axis = before = 0
    for i, item in enumerate(flat):
        if together and i == positions[0]:
            axis = before
            dims.extend(point_shape)
        if item is None:
            dims.append(1)
        elif isinstance(item, slice):
            dims.append(next(slices).count)
            before += 1
    if not together:
        dims = [*point_shape, *dims]
    return axis, tuple(dims)


def row_selection(start: int, count: int, shape: tuple[int, ...], axis: int = 0) -> Selection:
    """So many whole rows along an axis, from one on, as a selection.

    Examples
    --------
    >>> row_selection(4, 2, (3, 9), axis=1).shape
    (3, 2)
    """
    axes = [AxisSlice(0, 1, length) for length in shape]
    axes[axis] = AxisSlice(start, 1, count)
    return Selection(tuple(axes), None, tuple(selected.count for selected in axes), False)
