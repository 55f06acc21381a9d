"""Frames as sources of tables: pandas, Arrow, and what speaks Arrow's C stream."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.arrow_types import is_file, plain_table
from hubarray.errors import ConfigError
from hubarray.interop.table_sources.base import ALL, Rows, TableImport, taken
from hubarray.interop.table_sources.guessing import class_attrs, guessed_field, guessed_schema, values_type
from hubarray.interop.table_sources.stored_images import StoredImages, stored_images, with_fields, with_images
from hubarray.redaction import shown_text
from hubarray.tables.format.casts import arrow_batches
from hubarray.tables.format.schema import PARTITION, Field, Schema


def opened(source: Any, schema: Schema | None, key: str | None) -> TableImport:
    """A frame, cut by the column that is the key.

    Raises
    ------
    ConfigError
    """
    if hasattr(source, "iloc"):
        if not hasattr(source, "columns"):
            raise ConfigError("a Series is one column: give a frame, series.to_frame(name)")
        named = [name for name in source.index.names if name is not None]
        if not named and source.index.dtype.kind not in "iu":
            warnings.warn(
                "the frame's index has no name, and is left out: name it with rename_axis(...) to keep it", stacklevel=4
            )
        both = next((name for name in named if name in source.columns), None)
        if both is not None:
            raise ConfigError(f"the frame has a column and an index {shown_text(str(both))[:80]!r}; rename one")
        source = source.reset_index() if named else source
        if not source.columns.is_unique:
            twice = source.columns[source.columns.duplicated()][0]
            raise ConfigError(f"the frame has two columns {shown_text(str(twice))[:80]!r}; rename one")
        return _pandas(source, schema, key)
    batches = arrow_batches(source).read_all()
    twice = [name for name, count in Counter(batches.column_names).items() if count > 1]
    if twice:
        raise ConfigError(f"the frame has two columns {shown_text(twice[0])[:80]!r}; rename one")
    table = plain_table(batches, "the frame")
    _require_key(key, table.column_names)
    columns = table.select(taken(table.column_names, schema, "the table", key=key))
    filled = _as_filled(table)
    images = _images(batches.schema, table, filled, schema)
    guessed = schema or with_fields(guessed_schema(filled), images)
    attrs = class_attrs("the frame", batches.schema.metadata, guessed)

    def rows(read: Callable[[], Rows]) -> Callable[[], Rows]:
        return with_images(read, images, "the frame")

    if key is None:
        return TableImport(guessed, {ALL: rows(lambda: [columns])}, schema is None, attrs)
    keys = [plain_key(value) for value in table[key].unique().to_pylist()]
    return TableImport(
        guessed, {value: rows(_rows_of(columns, table[key], value)) for value in keys}, schema is None, attrs
    )


def _images(declared: pa.Schema, table: pa.Table, filled: pa.Schema, schema: Schema | None) -> dict[str, StoredImages]:
    """How the columns of images are stored."""
    guessed = {}
    for name in (field.name for field in declared if is_file(field.type)):
        field = None if schema is None or name not in schema else schema[name]
        if schema is not None and (field is None or not field.is_image):
            continue
        values = table.column(name).to_pylist()
        stored = stored_images("the frame", name, [values], field, nullable=filled.field(name).nullable)
        if stored is not None:
            guessed[name] = stored
    return guessed


def _as_filled(table: pa.Table) -> pa.Schema:
    """The columns of a frame, of which those without a null cannot be null: Arrow calls all of pandas' so."""
    return pa.schema([field.with_nullable(_has_null(table[i])) for i, field in enumerate(table.schema)])


def _has_null(column: pa.ChunkedArray) -> bool:
    """Whether a value is null, also where a dictionary has the null."""
    if column.null_count or not pa.types.is_dictionary(column.type):
        return bool(column.null_count)
    return any(chunk.dictionary.null_count and chunk.dictionary_decode().null_count for chunk in column.chunks)


def plain_key(value: Any) -> str | int:
    """A cell as a partition's key.

    Raises
    ------
    ConfigError
    """
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ConfigError(f"key: {value!r} is neither text nor a whole number, and keys of partitions are")
    return value


def _require_key(key: str | None, columns: list[Any]) -> None:
    if key is not None and key not in columns:
        raise ConfigError(f"key={key!r}: there is no such column; there are {', '.join(map(str, columns))}"[:300])


def _rows_of(table: pa.Table, keys: pa.ChunkedArray, key: str | int) -> Callable[[], Rows]:
    return lambda: [table.filter(pc.equal(keys, pa.scalar(key).cast(values_type(keys.type))))]


def _pandas(frame: Any, schema: Schema | None, key: str | None) -> TableImport:
    _require_key(key, list(frame.columns))
    guessed = schema or Schema({name: _guessed(frame, name) for name in frame.columns})
    columns = frame[taken(list(frame.columns), schema, "the frame", key=key)]
    if key is None:
        return TableImport(guessed, {ALL: lambda: [columns]}, schema is None)
    keys = {plain_key(key_value): key_value for key_value in frame[key].unique()}

    def rows(value: Hashable) -> Callable[[], Rows]:
        return lambda: [columns[(frame[key] == value).to_numpy(dtype=bool, na_value=False)]]

    return TableImport(guessed, {key_value: rows(value) for key_value, value in keys.items()}, schema is None)


def _guessed(frame: Any, name: Any) -> Field:
    if name == PARTITION:
        raise ConfigError(f"a column {PARTITION!r} is the index's own; rename it, and give key= its new name")
    column = frame[name]
    if column.dtype == object:
        present = [value for value in column if isinstance(value, np.ndarray)]
        if present and all(
            element.ndim == present[0].ndim and element.dtype == present[0].dtype for element in present
        ):
            gone = len(present) < len(column)
            return Field(present[0].dtype, (None,) * present[0].ndim, nullable=gone)
    try:
        return guessed_field(_as_filled(pa.Table.from_pandas(frame[[name]], preserve_index=False)).field(0))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"column {name!r}: Arrow cannot hold it: {error}"[:400]) from None
