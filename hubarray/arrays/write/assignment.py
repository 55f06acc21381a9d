"""Values on their way into an array: converted and broadcast as NumPy's assignment does. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.arrays.indexing.selection import Selection, dims_left
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.errors import ConfigError
from hubarray.values.elements import Target, as_elements


def assignable(
    value: Any, key: Any, chosen: Selection, metadata: ArrayMetadata, attrs: Mapping[str, Any]
) -> np.ndarray:
    """The values assigned to a selection, as a read-only view of the selection's shape.

    Raises
    ------
    ConfigError, ValueError, TypeError, OverflowError
        As :func:`hubarray.values.elements.as_elements`; and NumPy's own.
    """
    dtype = metadata.dtype
    dims = dims_left(key, metadata.dims) if metadata.dims is not None and hasattr(value, "dims") else None
    values = as_elements(value, Target(dtype, dims, attrs))
    if isinstance(value, np.generic):
        values = _of_scalar(value, chosen, dtype)
    if chosen.is_scalar and values.ndim:
        # One element takes no array; NumPy says so itself.
        np.empty((), dtype)[()] = value
    if isinstance(key, tuple) and len(key) == 1:
        (key,) = key
    if isinstance(key, np.ndarray) and key.dtype == np.bool_ and key.ndim == len(chosen.axes) > 0 and values.ndim > 1:
        raise TypeError(
            "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, "
            f"input has {values.ndim} dimensions"
        )
    return broadcast(values, chosen.shape)


def _of_scalar(value: np.generic, chosen: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """A scalar of NumPy's, which NumPy converts as a Python number where it casts an array without axes.

    So NaN is refused in integers, except for selections by points, which cast it.
    """
    if chosen.points is not None:
        return np.asarray(value, dtype)
    out = np.empty((), dtype)
    out[()] = value
    return out


def broadcast(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A value as a read-only view of the shape it is assigned to; it may have more leading axes of length 1.

    Raises
    ------
    ValueError
        As NumPy words it.
    """
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(
            f"could not broadcast input array from shape {_shown(value.shape)} into shape {_shown(shape)}"
        ) from None


def rows_that_fit(rows: Any, metadata: ArrayMetadata, attrs: Mapping[str, Any], axis: int = 0) -> np.ndarray:
    """Rows to append along an axis, of the array's dtype.

    Raises
    ------
    ConfigError, ValueError, TypeError, OverflowError
        Their shape is not the array's, but for the axis; or as :func:`hubarray.values.elements.as_elements`.
    """
    if not metadata.shape:
        raise ValueError("a 0-d array has no axis to append along")
    values = as_elements(rows, Target(metadata.dtype, metadata.dims, attrs))
    if values.ndim != len(metadata.shape) or along(values.shape, axis, 0) != along(metadata.shape, axis, 0):
        expected = ", ".join("n" if i == axis else str(length) for i, length in enumerate(metadata.shape))
        raise ValueError(
            f"cannot append an array of shape {values.shape} to one of shape {metadata.shape}: "
            f"rows have shape ({expected})"
        )
    return values.astype(metadata.dtype, copy=False)


def along(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    """A shape with another length of an axis.

    Examples
    --------
    >>> along((2, 3, 4), 1, 9)
    (2, 9, 4)
    """
    return (*shape[:axis], length, *shape[axis + 1 :])


def checked_axis(axis: Any, ndim: int) -> int:
    """An axis to append along, counted from the front.

    Raises
    ------
    ConfigError
        It is no axis of an array of so many.
    """
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool) or not -ndim <= axis < max(1, ndim):
        raise ConfigError(f"axis={axis!r} is not one of the {ndim} axes of the array"[:200])
    return int(axis) % max(1, ndim)


def _shown(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def changed_elements(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Mask of elements whose bytes differ."""
    if old.dtype.kind == "T":
        return np.asarray(old != new)
    width = old.dtype.itemsize
    bytes_view = np.ascontiguousarray(old).reshape(-1).view("u1").reshape(-1, width)
    second = np.ascontiguousarray(new).reshape(-1).view("u1").reshape(-1, width)
    return (bytes_view != second).any(axis=1).reshape(old.shape)
