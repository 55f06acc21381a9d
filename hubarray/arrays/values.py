"""Values on their way into an array: converted and broadcast as NumPy's assignment does. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.selection import Selection


def assignable(value: Any, key: Any, chosen: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """What is assigned to a selection, as a read-only view of the selection's shape.

    Raises
    ------
    ValueError, TypeError, OverflowError
        NumPy's own, for values that it would not assign.
    """
    values = converted(value, dtype)
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


def converted(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A value as an array.

    Python's own numbers and lists become the array's dtype at once, range
    checked; arrays keep theirs and are cast when they are placed.
    """
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return np.asarray(value)
    return np.asarray(value, dtype)


def _of_scalar(value: np.generic, chosen: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """A scalar of NumPy's, which NumPy converts as a Python number where it casts an array without axes.

    So nan is no integer, but for selections by points, where it is cast.
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


def rows_that_fit(rows: Any, metadata: ArrayMetadata) -> np.ndarray:
    """Rows to append, of the array's dtype.

    Raises
    ------
    ValueError
        Their shape is not ``(n, *metadata.shape[1:])``.
    """
    values = converted(rows, metadata.dtype)
    if not metadata.shape:
        raise ValueError("a 0-d array has no axis to append along")
    if values.ndim != len(metadata.shape) or values.shape[1:] != metadata.shape[1:]:
        expected = ", ".join(["n", *map(str, metadata.shape[1:])])
        raise ValueError(
            f"cannot append an array of shape {values.shape} to one of shape {metadata.shape}: "
            f"rows have shape ({expected})"
        )
    return values.astype(metadata.dtype, copy=False)


def _shown(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
