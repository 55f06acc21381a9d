"""Values of fields as columns of Arrow. Pure.

Arrays are lists within lists, of fixed size where a dimension is known. JPEG and PNG are the bytes of their files. NaT
is null.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.errors import ConfigError
from hubarray.tables.format.schema import Field


def arrow_type(name: str, field: Field) -> pa.DataType:
    """Return the type of a field's column.

    Raises
    ------
    ConfigError
        Arrow has no such dtype.
    """
    if field.is_image or field.kind == "bytes":
        return pa.binary()
    if field.dtype is None or field.dtype.kind == "U":
        kind = pa.string()
    else:
        try:
            kind = pa.binary() if field.dtype.kind == "S" else pa.from_numpy_dtype(_stored_dtype(field.dtype))
        except (pa.ArrowNotImplementedError, TypeError, ValueError):
            raise ConfigError(f"{name!r}: Arrow and Parquet lack {field.dtype}; leave it out with columns=") from None
    for length in reversed(field.shape):
        kind = pa.list_(kind, length) if length else pa.list_(kind)
    return kind


def is_time(field: Field) -> bool:
    """Whether a field is of times or durations."""
    return field.dtype is not None and field.dtype.kind in "mM"


def arrow_column(kind: pa.DataType, field: Field, values: Sequence[Any] | np.ndarray) -> pa.Array:
    """Return the values of a field, one per row, as a column. It shares the memory of an array of numbers.

    Raises
    ------
    pyarrow.ArrowException, OverflowError
        Arrow cannot hold a value.
    """
    if not field.shape or field.is_image:
        return _flat(kind, field, values)
    inner = kind
    for _ in field.shape:
        inner = inner.value_type
    if isinstance(values, np.ndarray):
        column = _flat(inner, field, values.reshape(-1))
        for length in reversed(values.shape[1:]):
            column = pa.FixedSizeListArray.from_arrays(column, length)
        return column
    if not values:
        return pa.array([], kind)
    zeros = np.zeros([n or 0 for n in field.shape], field.dtype)
    filled = [zeros if value is None else value for value in values]
    column = _flat(inner, field, np.concatenate([value.reshape(-1) for value in filled]))
    missing = pa.array([value is None for value in values])
    for axis in reversed(range(len(field.shape))):
        mask = missing if axis == 0 else None
        if field.shape[axis]:
            column = pa.FixedSizeListArray.from_arrays(column, field.shape[axis], mask=mask)
            continue
        counts = [math.prod(value.shape[:axis]) for value in filled]
        ends = np.cumsum(np.repeat([value.shape[axis] for value in filled], counts))
        # More of them than 32 bits count overflow here.
        offsets = pa.array(np.concatenate([[0], ends])).cast(pa.int32())
        column = pa.ListArray.from_arrays(offsets, column, mask=mask)
    return column


def _flat(kind: pa.DataType, field: Field, values: Sequence[Any] | np.ndarray) -> pa.Array:
    if is_time(field):
        return _times(kind, field, values)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "US":
        return pa.array(values, kind)
    if isinstance(values, np.ndarray):
        # Python's own, as Arrow would end each at its first NUL.
        return pa.array(values.tolist(), kind)
    if kind in (pa.binary(), pa.string()):
        plainly = bytes if kind == pa.binary() else str
        return pa.array([None if value is None else plainly(value) for value in values], kind)
    missing = np.array([value is None for value in values], bool)
    plain = np.array([np.zeros((), field.dtype) if value is None else value for value in values], field.dtype)
    return pa.array(plain, kind, mask=missing)


def _stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Times in a unit that Parquet has: days, or milliseconds for what is coarser than these."""
    if dtype.kind not in "mM":
        return dtype
    unit, count = np.datetime_data(dtype)
    if unit in ("Y", "M", "W") or (unit == "D" and dtype.kind == "M"):
        return np.dtype("M8[D]") if dtype.kind == "M" else dtype
    return np.dtype(f"{dtype.kind}8[ms]") if unit in ("D", "h", "m", "s") or count != 1 else dtype


def _times(kind: pa.DataType, field: Field, values: Sequence[Any] | np.ndarray) -> pa.Array:
    """Times and durations; NaT, which is NumPy's null, and None are null.

    Raises
    ------
    OverflowError
        One is beyond what 64 bits of the unit hold.
    """
    dtype = field.dtype
    assert dtype is not None
    nat = np.array("NaT", dtype)
    numbers = values if isinstance(values, np.ndarray) else [nat if value is None else value for value in values]
    plain = np.asarray(numbers, dtype).reshape(len(values))
    cast = plain.astype(_stored_dtype(dtype))
    missing = np.isnat(plain)
    if not ((cast.astype(dtype) == plain) | missing).all():
        raise OverflowError(f"a time of {dtype} is beyond {kind}")
    counts = np.where(missing, 0, cast.view("i8"))
    whole = pa.array(counts.astype("i4") if kind.bit_width == 32 else counts, mask=missing)
    return whole.cast(kind) if kind.bit_width == 32 else whole.view(kind)
