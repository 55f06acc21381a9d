"""Columns of Arrow as fields and as columns of NumPy values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.arrow_types import plain_type
from hubarray.errors import ConfigError

if TYPE_CHECKING:
    from hubarray.readers.fields.source import Column


def numpy_type(column: pa.Field) -> tuple[Any, tuple[int | None, ...]]:
    """The type and the shape of a column's values in NumPy.

    Raises
    ------
    TypeError
        NumPy has no such type.
    """
    return _type_of(plain_type(column))


def _type_of(kind: pa.DataType) -> tuple[Any, tuple[int | None, ...]]:
    if pa.types.is_dictionary(kind):
        return _type_of(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or _is_list(kind):
        inner, shape = _type_of(kind.value_type)
        if None in shape or inner is np.object_:
            # Lists within lists, which may be of any lengths.
            return np.object_, (None,)
        return inner, (kind.list_size if pa.types.is_fixed_size_list(kind) else None, *shape)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.str_, ()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return np.bytes_, ()
    if pa.types.is_decimal(kind):
        return Decimal, ()
    if pa.types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]"), ()
    if pa.types.is_duration(kind):
        return np.dtype(f"m8[{kind.unit}]"), ()
    if pa.types.is_date(kind):
        return np.dtype("M8[D]"), ()
    if pa.types.is_boolean(kind):
        return np.bool_, ()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()).type, ()
    raise TypeError(str(kind))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def column_of(array: pa.Array | pa.ChunkedArray) -> Column:
    """Values of an Arrow column: an array where none is null and all are of a size, else a list with None for nulls."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return column_of(array.dictionary_decode())
    if pa.types.is_fixed_size_list(kind) or _is_list(kind):
        return _lists(array)
    if pa.types.is_timestamp(kind):
        return _with_nulls(array, np.asarray(pc.cast(array.fill_null(0), pa.int64())).view(f"M8[{kind.unit}]"))
    if pa.types.is_duration(kind):
        return _with_nulls(array, np.asarray(pc.cast(array.fill_null(0), pa.int64())).view(f"m8[{kind.unit}]"))
    if pa.types.is_date(kind):
        return _with_nulls(array, array.fill_null(0).to_numpy(zero_copy_only=False).astype("M8[D]"))
    if pa.types.is_boolean(kind):
        return _with_nulls(array, array.fill_null(False).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _with_nulls(array, (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False))
    values: list[Any] = array.to_pylist()
    return values


def _with_nulls(array: pa.Array, values: np.ndarray) -> Column:
    if not array.null_count:
        return values
    is_valid = np.asarray(array.is_valid())
    return [value if has else None for value, has in zip(values, is_valid, strict=True)]


def _lists(array: pa.Array) -> Column:
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * size
    else:
        offsets = np.asarray(array.offsets, np.int64)
    values = column_of(array.values)
    lengths = np.diff(offsets)
    uniform = len(lengths) and (lengths == lengths[0]).all() and not array.null_count
    if isinstance(values, np.ndarray) and uniform:
        return values[offsets[0] : offsets[-1]].reshape(len(array), int(lengths[0]), *values.shape[1:])
    if not isinstance(values, np.ndarray):
        values = as_objects(values)
    rows = [values[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    if array.null_count:
        is_valid = np.asarray(array.is_valid())
        return [row if has else None for row, has in zip(rows, is_valid, strict=True)]
    return rows


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """A 1-d array of Python objects, whatever they are."""
    objects = np.empty(len(values), object)
    objects[:] = list(values) if len(values) else []
    if len(values) and objects.shape != (len(values),):
        raise ConfigError("values cannot be laid into one dimension")
    return objects
