"""The index of a slab as a Parquet file: the fields that are indexed, and the partition of each row. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hubarray.errors import SourceError
from hubarray.parquet_limits import read_row_group
from hubarray.storage.base import Buffer
from hubarray.tables.format.schema import PARTITION, Field, Schema

# Of a slab: the columns are read whole, and a Parquet file may say that little stands for much.
MAX_PIECE_BYTES = 2 << 30
# NaT in 64 bits, of a field that is not nullable: Arrow would take it for a moment.
NAT = np.iinfo(np.int64).min

Key = str | int


def arrow_type(field: Field) -> pa.DataType:
    """The Arrow type of an index field's column."""
    if field.dtype is None:
        return pa.string() if field.kind == "string" else pa.binary()
    if field.dtype.kind in "mM":
        unit = np.datetime_data(field.dtype)[0]
        return pa.timestamp(unit) if field.dtype.kind == "M" else pa.duration(unit)
    return pa.from_numpy_dtype(field.dtype)


def arrow_schema(schema: Schema, key_type: type) -> pa.Schema:
    """The columns of an index piece, the partition's first."""
    keys = pa.dictionary(pa.int32(), pa.string() if key_type is str else pa.int64())
    return pa.schema([pa.field(PARTITION, keys, nullable=False), *index_schema(schema)])


def index_schema(schema: Schema) -> pa.Schema:
    """The columns of the fields that are indexed."""
    return pa.schema(
        [pa.field(name, arrow_type(schema[name]), nullable=schema[name].nullable) for name in schema.index]
    )


def column_of(field: Field, values: Sequence[Any]) -> pa.Array:
    """An index field's checked values as a column."""
    expected = arrow_type(field)
    if field.kind == "string":
        return pa.array([None if value is None else value.decode() for value in values], expected)
    if field.dtype is None:
        return pa.array(values, expected)
    if not any(value is None for value in values):
        plain = np.array(values, field.dtype).reshape(len(values))
        # As a number, where Arrow would make a null of NaT.
        return pa.array(plain.view("i8")).view(expected) if field.dtype.kind in "mM" else pa.array(plain, expected)
    missing = np.array([value is None for value in values])
    plain = np.array([np.zeros((), field.dtype) if value is None else value for value in values], field.dtype)
    return pa.array(plain, expected, mask=missing)


def values_of(field: Field, column: pa.Array, rows: np.ndarray) -> list[Any]:
    """The values of some rows of a column, as rows have them: NumPy scalars, text, bytes, or None."""
    taken = column.take(pa.array(rows))
    if field.dtype is None:
        return list(taken.to_pylist())
    missing = np.asarray(taken.is_null())
    if taken.null_count:
        zero = pa.scalar(False if field.dtype.kind == "b" else 0).cast(taken.type)
        taken = taken.fill_null(zero)
    plain = taken.to_numpy(zero_copy_only=False).astype(field.dtype)
    return [None if gone else value for gone, value in zip(missing, plain, strict=True)]


def encode(table: pa.Table) -> bytes:
    """A piece: one row group, the same bytes for the same rows and the same pyarrow."""
    out = io.BytesIO()
    pq.write_table(
        table, out, compression="zstd", row_group_size=max(1, len(table)), store_schema=False,
        data_page_version="1.0", use_dictionary=[PARTITION] if PARTITION in table.column_names else False,
    )  # fmt: skip
    return out.getvalue()


def partitions_schema(key_type: type) -> pa.Schema:
    """The columns of an append's list of partitions: key, first row within the append, rows."""
    keys = pa.string() if key_type is str else pa.int64()
    return pa.schema(
        [
            pa.field(name, kind, nullable=False)
            for name, kind in zip((PARTITION, "first_row", "rows"), (keys, pa.int64(), pa.int64()), strict=True)
        ]
    )


def decode(data: Buffer, expected: pa.Schema, *, rows: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a piece, or some of its columns.

    Raises
    ------
    ValueError
        The data is not a Parquet file with these columns and rows, or claims more than 2 GiB.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(bytes(data)))
        about = file.metadata
        sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
        if about.num_rows != rows or about.num_row_groups != 1 or sum(sizes) > MAX_PIECE_BYTES:
            raise ValueError(f"has {about.num_rows} rows in {sum(sizes):,} bytes, but {rows} are expected")
        if file.schema_arrow.names != expected.names:
            raise ValueError("has other columns than its schema declares")
        for expected_field, stored_field in zip(expected, file.schema_arrow, strict=True):
            if stored_field.type != _stored_type(expected_field.type):
                raise ValueError(
                    f"has {expected_field.name!r} as {stored_field.type}, but {_stored_type(expected_field.type)} is "
                    "expected"
                )
        names = expected.names if columns is None else list(columns)
        source = pa.BufferReader(bytes(data))
        decoded = read_row_group(source, about, 0, names, max_bytes=MAX_PIECE_BYTES, where="it").select(names)
        decoded = pa.table([_cast(decoded[name], expected.field(name).type) for name in names], names=names)
        decoded = decoded.cast(pa.schema([expected.field(name) for name in names]))
        decoded.validate(full=True)
    except (pa.ArrowException, OSError, OverflowError, SourceError) as error:
        raise ValueError(f"is not an index: {str(error)[:200]}") from None
    if len(decoded) != rows:
        raise ValueError(f"has {len(decoded)} rows, but {rows} are expected")
    return decoded


def nat_as_null(column: Any) -> Any:
    """A column of times, whose NaT is null as everywhere in Arrow."""
    if not pa.types.is_temporal(column.type) or pa.types.is_date(column.type) or not len(column):
        return column
    is_nat = pc.equal(column.cast(pa.int64()), NAT)
    return pc.if_else(is_nat, pa.scalar(None, column.type), column) if pc.any(is_nat).as_py() else column


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """The type that Parquet has of a column: dictionaries are plain there, and durations numbers."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int64() if pa.types.is_duration(kind) else kind


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in its own type, which Parquet stores in another one. A dictionary is made from the plain
    column."""
    if not pa.types.is_dictionary(kind):
        return (
            column.cast(column.type.value_type).cast(kind) if pa.types.is_dictionary(column.type) else column.cast(kind)
        )
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.cast(kind.value_type).dictionary_encode()
