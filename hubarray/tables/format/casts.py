"""Rows from frames: columns of a DataFrame or an Arrow table, cast to fields where every value survives. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.arrow_types import plain_column
from hubarray.errors import ConfigError
from hubarray.redaction import shown_text
from hubarray.tables.format.field_values import refuse_losses, refuse_nul
from hubarray.tables.format.schema import Field, Schema
from hubarray.values.casting import cast_with_losses, may_be_kept
from hubarray.values.foreign import is_tensor, plain_array, tensor_array

_BATCH_ROWS = 4096
_BATCH_BYTES = 16 << 20

# Values of a field, one a row.
Column = Sequence[Any] | np.ndarray


class RefusedColumn(ConfigError):
    """A value of a column that its field does not take, and which row of some it is in."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def is_frame(source: Any) -> bool:
    """Whether something is a table of columns: pandas, Arrow, polars, or what speaks Arrow's C stream."""
    return isinstance(source, (pa.Table, pa.RecordBatch)) or hasattr(source, "__arrow_c_stream__") or _is_pandas(source)


def batches_of(source: Any, schema: Schema) -> Iterator[tuple[dict[str, Column], int]]:
    """Columns of a frame, or of a mapping of columns, with values as the schema has them; some thousand rows at a time.

    Raises
    ------
    ConfigError
        A column is unknown, or a value of it would not survive; the column is named.
    """
    if isinstance(source, Mapping):
        yield from _mapped_batches(source, schema)
        return
    if _is_pandas(source):
        yield from _pandas_batches(source, schema)
        return
    reader = arrow_batches(source)
    _refuse_unknown(reader.schema.names, schema)
    for batch in reader:
        rows = _batch_rows(batch.nbytes, batch.num_rows)
        for begin in range(0, batch.num_rows, rows):
            part = batch.slice(begin, rows)
            named = zip(part.schema.names, part.columns, strict=True)
            yield {name: _arrow_values(schema[name], column, name) for name, column in named}, part.num_rows


def _batch_rows(size_bytes: int, rows: int) -> int:
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size_bytes)))


def _mapped_batches(source: Mapping[str, Any], schema: Schema) -> Iterator[tuple[dict[str, Column], int]]:
    _refuse_unknown(list(source), schema)
    # What PyTorch holds is looked at in place, and some of it cannot be sliced.
    source = {name: tensor_array(column) if is_tensor(column) else column for name, column in source.items()}
    lengths: dict[str, int] = {}
    for name, column in source.items():
        length = None if isinstance(column, (str, bytes)) else _length(column)
        if length is None:
            raise ConfigError(
                f"{name!r}: a mapping has a column of each field, a list or an array, and this is a "
                f"{type(column).__name__}; one row is added by append"
            )
        lengths[name] = length
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"has columns of different lengths: {lengths}"[:300])
    rows = next(iter(lengths.values()), 0)
    size = sum(int(getattr(column, "nbytes", 0)) for column in source.values())
    count = _batch_rows(size, rows)
    for begin in range(0, rows, count):
        part = {name: column[begin : begin + count] for name, column in source.items()}
        yield (
            {name: _numpy_values(schema[name], column, name) for name, column in part.items()},
            min(count, rows - begin),
        )


def _length(column: Any) -> int | None:
    """How many rows a column of a mapping has; None where it is none."""
    shape = getattr(column, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(column) if hasattr(column, "__len__") else None


def _numpy_values(field: Field, column: Any, name: str) -> Column:
    if _is_pandas(column):
        return _pandas_values(field, column, name)
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return _arrow_values(field, whole, name)
    if not isinstance(column, (np.ndarray, list, tuple, range)):
        plain = plain_array(column)
        column = column if plain is None else plain
    if not isinstance(column, np.ndarray) or field.dtype is None:
        return list(column)
    return _cast(field, column, np.zeros(len(column), bool), name)


def arrow_batches(source: Any) -> pa.RecordBatchReader:
    """Whatever speaks Arrow as a stream of batches."""
    if isinstance(source, pa.RecordBatchReader):
        return source
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return source.to_reader(max_chunksize=_BATCH_ROWS)
    try:
        return pa.RecordBatchReader.from_stream(_of_polars(source))
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"has a column that Arrow cannot hold: {error}"[:300]) from None


def _of_polars(source: Any) -> Any:
    """A frame of Polars whose columns Arrow has: categories are text, and Python objects would be addresses."""
    if type(source).__module__.partition(".")[0] != "polars" or not hasattr(source, "schema"):
        return source
    polars = sys.modules["polars"]
    objects = [name for name, kind in source.schema.items() if kind == polars.Object]
    if objects:
        raise ConfigError(f"column {shown_text(objects[0])[:80]!r} is of Python objects, which are never stored")
    categories = [name for name, kind in source.schema.items() if kind in (polars.Categorical, polars.Enum)]
    return source.with_columns(polars.col(categories).cast(polars.String)) if categories else source


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "iloc")


def _refuse_unknown(names: Sequence[Any], schema: Schema) -> None:
    for name in names:
        if name not in schema:
            raise ConfigError(f"has a column {shown_text(str(name))[:80]!r}, which the schema does not know")


def _pandas_batches(frame: Any, schema: Schema) -> Iterator[tuple[dict[str, Column], int]]:
    if not hasattr(frame, "columns"):
        raise ConfigError("is a Series, but a frame is expected: series.to_frame(name)")
    _refuse_unknown(list(frame.columns), schema)
    if len(set(frame.columns)) != len(frame.columns):
        raise ConfigError("has two columns of one name")
    for begin in range(0, len(frame), _BATCH_ROWS):
        part = frame.iloc[begin : begin + _BATCH_ROWS]
        yield {name: _pandas_values(schema[name], part[name], name) for name in part.columns}, len(part)


def _pandas_values(field: Field, column: Any, name: str) -> Column:
    missing = column.isna().to_numpy()
    if field.dtype is None or field.shape or column.dtype == object:
        values = column.to_list()
        return [None if gone and _is_missing(field, value) else _cast_cell(field, value, row, name)
                for row, (value, gone) in enumerate(zip(values, missing, strict=True))]  # fmt: skip
    if getattr(column.dtype, "tz", None) is not None:
        # As Arrow has it: the moment, without the zone.
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if hasattr(column.array, "__arrow_array__") and missing.any():
        return _arrow_values(field, pa.array(column), name)
    values = column.to_numpy()
    gone = missing if field.dtype.kind not in "fcmM" or field.nullable else np.zeros(len(values), bool)
    return _cast(field, values, gone, name)


def _cast_cell(field: Field, value: Any, row: int, name: str) -> Any:
    if not isinstance(value, np.ndarray) or field.dtype is None or isinstance(value, np.ma.MaskedArray):
        return value
    try:
        return _cast_array(field, value)
    except ConfigError as error:
        raise RefusedColumn(f"column {name!r}: {error.args[0]}", row) from None


def _is_missing(field: Field, value: Any) -> bool:
    # An array within an object column is a value, whatever isna says of it; and NaN is one where there is no null.
    if isinstance(value, float) and field.dtype is not None and field.dtype.kind in "fc":
        return field.nullable
    return not isinstance(value, (np.ndarray, list, tuple))


def _arrow_values(field: Field, column: pa.Array, name: str) -> Column:
    column = plain_column(column, pa.field(name, column.type), "the frame")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return [None] * len(column)
    missing = np.asarray(column.is_null())
    if field.dtype is None:
        return list(column.to_pylist())
    if field.shape or field.is_image:
        try:
            return _nested(field, column)
        except ConfigError as error:
            raise RefusedColumn(f"column {name!r}: {error.args[0]}", getattr(error, "row", 0)) from None
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_binary(column.type):
        return list(column.to_pylist())
    if field.dtype.kind in "mM" and not field.nullable:
        return _cast(field, column.to_numpy(zero_copy_only=False), np.zeros(len(column), bool), name)
    plain = column.fill_null(_zero(column.type)) if missing.any() else column
    return _cast(field, plain.to_numpy(zero_copy_only=False), missing, name)


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_date32(kind):
        return pa.scalar(0, pa.int32()).cast(kind)
    return pa.scalar(False if pa.types.is_boolean(kind) else 0).cast(kind)


def _nested(field: Field, column: pa.Array) -> Column:
    """Values of a column of lists, of lists within lists or of tensors as arrays; others as they are."""
    if isinstance(column.type, pa.FixedShapeTensorType):
        return _tensors(field, column)
    if not _is_list(column.type):
        return list(column.to_pylist())
    if not field.ragged and not column.null_count:
        whole = _dense(field, column)
        if whole.shape[1:] == field.shape:
            return _cast_array(field, whole)
    converted: list[Any] = []
    for row, cell in enumerate(column):
        try:
            converted.append(_cast_array(field, _dense(field, cell.values)) if cell.is_valid else None)
        except ConfigError as error:
            raise RefusedColumn(str(error.args[0]), row) from None
    return converted


def _tensors(field: Field, column: pa.Array) -> Column:
    is_valid = np.asarray(column.is_valid())
    try:
        values = _cast_array(field, column.drop_null().to_numpy_ndarray())
    except RefusedColumn as error:
        raise RefusedColumn(str(error.args[0]), int(np.flatnonzero(is_valid)[error.row])) from None
    if not column.null_count:
        return values
    left = iter(values)
    return [next(left) if is_there else None for is_there in is_valid]


def _dense(field: Field, values: pa.Array) -> np.ndarray:
    """Lists within lists as one array, if those of one depth are equally long."""
    shape = [len(values)]
    while _is_list(values.type):
        lengths = pc.unique(pc.list_value_length(values))
        if values.null_count or len(lengths) > 1:
            raise ConfigError("has nested lists of different lengths, or nulls")
        # Nothing tells how long the lists within an empty one would be, but the field may.
        known = field.shape[len(shape)] if len(shape) < len(field.shape) else None
        shape.append(lengths[0].as_py() if len(lengths) else known or 0)
        values = values.flatten()
    # Arrow's null of a time is NumPy's NaT.
    if values.null_count and not pa.types.is_temporal(values.type):
        raise ConfigError("has a null within a list")
    plain = np.asarray(values.to_numpy(zero_copy_only=False))
    if field.dtype is not None and field.dtype.kind in "SU" and plain.dtype == object:
        refuse_nul(plain, field.dtype)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    is_binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return (plain.astype(str) if is_text else plain.astype(bytes) if is_binary else plain).reshape(shape)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _cast(field: Field, values: np.ndarray, missing: np.ndarray, name: str) -> Column:
    """Numbers of one column in the field's dtype, if each is the same there."""
    try:
        cast = _cast_array(field, np.where(missing, np.zeros((), values.dtype), values) if missing.any() else values)
    except ConfigError as error:
        raise RefusedColumn(f"column {name!r}: {error}", getattr(error, "row", 0)) from None
    if not missing.any():
        return cast
    return [None if gone else value for value, gone in zip(cast, missing, strict=True)]


def _cast_array(field: Field, values: np.ndarray) -> np.ndarray:
    dtype = field.dtype
    assert dtype is not None
    if values.dtype == dtype:
        return values
    if values.dtype.kind == dtype.kind and dtype.kind in "US":
        cast = values.astype(dtype)
        lost = cast.astype(values.dtype) != values
    elif may_be_kept(values.dtype, dtype):
        cast, lost = cast_with_losses(values, dtype)
    else:
        return values
    try:
        refuse_losses(values, lost, dtype)
    except ConfigError as error:
        row = int(np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))[0])
        raise RefusedColumn(str(error.args[0]), row) from None
    return cast
