"""Values on their way into an array: converted and broadcast as NumPy's assignment does. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubarray.arrays.dtypes import TEXT
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.selection import Selection
from hubarray.errors import ConfigError

_SHOWN_LETTERS = 60
_ONLY_TEXT = np.dtypes.StringDType(coerce=False)


def assignable(value: Any, key: Any, chosen: Selection, dtype: np.dtype[Any]) -> np.ndarray:
    """The values assigned to a selection, as a read-only view of the selection's shape.

    Raises
    ------
    ValueError, TypeError, OverflowError
        NumPy's own, for values that it would not assign; and for text longer than the dtype holds.
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
    if dtype.kind == "T":
        return _texts(value)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        values = np.asarray(value)
        _refuse_cut_text(values, dtype)
        return values
    # First as NumPy does it, for its own errors.
    try:
        values = np.asarray(value, dtype)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            f"{error}; rows of different shapes belong into a table: hub.table_writer, whose fields may be ragged"
        ) from None
    wide = _wide(dtype)
    if wide is not None:
        _refuse_cut_text(np.asarray(value, wide), dtype)
    return values


def _texts(value: Any) -> np.ndarray:
    """Text of any length, and nothing else: NumPy would write None as "None", and bytes as their ASCII."""
    values = np.asarray(value) if hasattr(value, "__array__") else value
    if isinstance(values, np.ndarray) and values.dtype.kind not in "TUO":
        raise TypeError(f"text is wanted, and not {values.dtype}: convert it, such as with .astype(str)")
    if isinstance(values, np.ndarray) and hasattr(values.dtype, "na_object"):
        # NumPy would write what stands for a missing one as text.
        values = values.astype(object)
    try:
        return np.asarray(values, _ONLY_TEXT).astype(TEXT)
    except UnicodeEncodeError:
        raise ValueError("text with half a surrogate pair is no Unicode, and is not stored") from None
    except ValueError:
        raise TypeError("text is wanted, and there is something else: fill what is missing, and convert it") from None


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """A dtype that takes text of any length where another cuts it; None where that has no text."""
    if dtype.names is not None:
        wide = [(name, _wide(dtype[name]) or dtype[name]) for name in dtype.names]
        return np.dtype(wide) if np.dtype(wide) != dtype else None
    return np.dtype(object) if dtype.kind in "SU" else None


def _refuse_cut_text(values: np.ndarray, dtype: np.dtype[Any], field: str = "") -> None:
    """Refuse text that is longer than what holds it; NumPy would cut it without a word."""
    if dtype.names is not None and values.dtype.names is not None:
        for name, theirs in zip(dtype.names, values.dtype.names, strict=False):
            _refuse_cut_text(values[theirs], dtype[name], f" in the field {name!r}")
        return
    if dtype.kind not in "SU" or not values.size:
        return
    held = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if values.dtype.kind == dtype.kind and values.dtype.itemsize <= dtype.itemsize:
        return
    if values.dtype.kind in "SUT":
        lengths = np.strings.str_len(values)
    elif values.dtype.hasobject:
        # Numbers are written as NumPy writes them; only what is text already is cut otherwise.
        sizes = (len(one) if isinstance(one, (str, bytes)) else 0 for one in values.flat)
        lengths = np.fromiter(sizes, np.intp, values.size)
    else:
        return
    widest = int(lengths.max())
    if widest > held:
        what = str(values.flat[int(lengths.argmax())])
        shown = what if len(what) <= _SHOWN_LETTERS else f"{what[:_SHOWN_LETTERS]}..."
        raise ValueError(
            f"text of {widest} characters{field} does not fit {dtype.str[1:]}, which holds {held}, and is not cut: "
            f"{shown!r}; to widen it, write a new version: hub.store(a[...].astype('{dtype.kind}{widest}'), ...)"
        )


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


def rows_that_fit(rows: Any, metadata: ArrayMetadata, axis: int = 0) -> np.ndarray:
    """Rows to append along an axis, of the array's dtype.

    Raises
    ------
    ValueError
        Their shape is not the array's, but for the axis.
    """
    if not metadata.shape:
        raise ValueError("a 0-d array has no axis to append along")
    values = converted(_in_order(rows, metadata.dims), metadata.dtype)
    if values.ndim != len(metadata.shape) or along(values.shape, axis, 0) != along(metadata.shape, axis, 0):
        expected = ", ".join("n" if i == axis else str(length) for i, length in enumerate(metadata.shape))
        raise ValueError(
            f"cannot append an array of shape {values.shape} to one of shape {metadata.shape}: "
            f"rows have shape ({expected})"
        )
    _refuse_dates_as_numbers(values, metadata.dtype)
    return values.astype(metadata.dtype, copy=False)


def _refuse_dates_as_numbers(values: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Refuse dates and durations where numbers are stored, which an assignment casts to counts of whatever unit."""
    if values.dtype.kind in "mM" and dtype.kind in "biufc":
        raise TypeError(
            f"{values.dtype} is not stored as {dtype} by itself: which unit is counted, and from when, the array does "
            "not know. Convert it, such as with .astype('datetime64[D]').astype(int), or as the array's attributes "
            "units and calendar say; xarray's to_zarr(append_dim=...) does that"
        )


def _in_order(rows: Any, dims: tuple[str | None, ...] | None) -> Any:
    """Rows whose axes have names, as of xarray, with these in the array's order; others as they are."""
    theirs = getattr(rows, "dims", None)
    if not isinstance(theirs, tuple) or dims is None or theirs == dims or not hasattr(rows, "transpose"):
        return rows
    return rows.transpose(*dims) if len(theirs) == len(dims) and set(theirs) == set(dims) else rows


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
        raise ConfigError(f"axis={axis!r} is none of the {ndim} axes that the array has"[:200])
    return int(axis) % max(1, ndim)


def _shown(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def changed_elements(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Mask of elements whose bytes differ."""
    if old.dtype.kind == "T":
        return np.asarray(old != new)
    width = old.dtype.itemsize
    one = np.ascontiguousarray(old).reshape(-1).view("u1").reshape(-1, width)
    two = np.ascontiguousarray(new).reshape(-1).view("u1").reshape(-1, width)
    return (one != two).any(axis=1).reshape(old.shape)
