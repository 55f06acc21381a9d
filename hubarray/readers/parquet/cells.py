"""Cells of Parquet files as values, and values put to their places."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.errors import SourceError
from hubarray.limits import Budget
from hubarray.readers.fields.arrow_fields import column_of
from hubarray.readers.fields.source import Column
from hubarray.readers.fields.unischema import UnischemaField


def decoded(field: UnischemaField, column: pa.ChunkedArray, budget: Budget) -> Column:
    """The values of a Petastorm field, counted while they are decoded.

    Raises
    ------
    SourceError
    """
    if field.codec is None or not hasattr(field.codec, "decode"):
        return _as_declared(field, column_of(column))
    kind = type(field.codec).__name__
    if kind == "ScalarCodec" and pa.types.is_temporal(column.type) and _is_of_times(field):
        return _times(field, column_of(column))
    if kind == "ScalarCodec" and not column.null_count:
        plain = column_of(column)
        if isinstance(plain, np.ndarray) and np.dtype(field.numpy_dtype).kind in "biuf":
            return _as_declared(field, plain)
    seen = _npy_cells(field, column) if kind == "NdarrayCodec" and len(column) else None
    if seen is not None:
        return seen
    decode = field.codec.decode
    values: list[Any] = []
    for cell in column.to_pylist():
        value = None if cell is None else decode(field, cell)
        budget.take(int(getattr(value, "nbytes", 0)))
        values.append(value)
    if None in field.shape or column.null_count or not values or not isinstance(values[0], np.ndarray):
        return values
    return np.stack([np.asarray(value) for value in values])


def _as_declared(field: UnischemaField, column: Column) -> Column:
    """Numbers in the dtype that the schema says, if each is the same there.

    Raises
    ------
    SourceError
    """
    if field.numpy_dtype is Decimal or not isinstance(column, np.ndarray) or column.dtype.kind not in "biuf":
        return column
    dtype = np.dtype(field.numpy_dtype)
    if column.dtype == dtype or dtype.kind == "O":
        return column
    if dtype.kind not in "biuf":
        raise SourceError(f"field {field.name!r}: holds {column.dtype}, but the schema declares {dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        cast = column.astype(dtype)
    if (column.dtype.kind in "iub" or dtype.kind in "iub") and not (cast == column).all():
        raise SourceError(f"field {field.name!r}: holds a number that {dtype} cannot hold")
    return cast


def _is_of_times(field: UnischemaField) -> bool:
    return field.numpy_dtype is not Decimal and np.dtype(field.numpy_dtype).kind in "mM"


def _times(field: UnischemaField, column: Column) -> Column:
    """Times in the unit that the schema says, if each is the same there; where it says none, in that of the file.

    Raises
    ------
    SourceError
    """
    dtype = np.dtype(field.numpy_dtype)
    if np.datetime_data(dtype)[0] == "generic":
        return column
    if not isinstance(column, np.ndarray):
        return [None if value is None else _times(field, np.asarray([value]))[0] for value in column]
    cast = column.astype(dtype)
    if column.dtype.kind != dtype.kind or not (np.isnat(column) | (cast.astype(column.dtype) == column)).all():
        raise SourceError(f"field {field.name!r}: holds {column.dtype} with values that {dtype} cannot hold")
    return cast


def placed(out: Column, column: Column, places: np.ndarray, count: int) -> Column:
    """Values at their positions: in an array as long as all have the same dtype and shape, and otherwise in a list."""
    if isinstance(column, np.ndarray):
        if not len(out):
            out = np.empty((count, *column.shape[1:]), column.dtype)
        if isinstance(out, np.ndarray) and (out.dtype, out.shape[1:]) == (column.dtype, column.shape[1:]):
            out[places] = column
            return out
    # What is not there yet is overwritten by the units that follow.
    held: list[Any] = (out if isinstance(out, list) else list(out)) or [None] * count
    for place, value in zip(places.tolist(), column, strict=True):
        held[place] = value
    return held


def _npy_cells(field: UnischemaField, column: pa.ChunkedArray) -> np.ndarray | None:
    """Cells that are `.npy` files of one dtype and shape, as one array that sees their bytes; None of others."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if column.null_count or None in field.shape or len(chunks) != 1 or not pa.types.is_binary(column.type):
        return None
    (cells,) = chunks
    offsets = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + len(cells) + 1]
    lengths = np.diff(offsets)
    length = int(lengths[0])
    if (lengths != length).any() or field.codec is None:
        return None
    first = field.codec.decode(field, cells[0].as_py())
    if not isinstance(first, np.ndarray) or first.nbytes >= length or not first.nbytes:
        return None
    data = np.frombuffer(cells.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(len(cells), length)
    header = length - first.nbytes
    if (data[:, :header] != data[0, :header]).any() or b"'fortran_order': False" not in data[0, :header].tobytes():
        return None
    return data[:, header:].view(first.dtype).reshape(len(cells), *first.shape)
