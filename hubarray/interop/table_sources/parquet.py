"""Parquet files as sources of tables: a partition a file, folders ``name=value`` as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.errors import SourceError
from hubarray.interop.export.parquet import ShapesOfRows, empty_shapes, exported_schema, row_groups_of
from hubarray.interop.sources.base import readable
from hubarray.interop.table_sources.base import Rows, TableImport, taken
from hubarray.interop.table_sources.guessing import class_attrs, guessed_schema
from hubarray.interop.table_sources.stored_images import StoredImages, stored_images, with_fields, with_images
from hubarray.parquet_limits import arrow_schema, files_of, read_row_group
from hubarray.redaction import shown_text
from hubarray.tables.format.casts import batches_of
from hubarray.tables.format.schema import PARTITION, Schema

_BATCH_ROWS = 4096


def opened(files: Mapping[str, Path], folder: Path, given_schema: Schema | None, max_decoded_bytes: int) -> TableImport:
    """Files of equal columns, by the keys of their partitions; one that was exported from a table has that table's.

    Raises
    ------
    ConfigError, SourceError
    """
    first = next(iter(files))
    if len(files) == 1:
        exported = _exported(files[first], given_schema, max_decoded_bytes)
        if exported is not None:
            return exported
    schema: pa.Schema | None = None
    for path in files.values():
        with readable(shown_text(str(path))):
            own = _with_hive(arrow_schema(pq.read_metadata(path)), _hive(path, folder))
        if schema is not None and own != schema:
            raise SourceError(
                f"{shown_text(str(path))}: has other columns than {shown_text(first)}; give it a table of its own"
            )
        schema = own
    assert schema is not None
    if given_schema is None:
        schema = _with_finer_times(schema, files[first], max_decoded_bytes)
    names = None if given_schema is None else taken(schema.names, given_schema, shown_text(str(folder)))
    images = _images(files[first], schema, given_schema, max_decoded_bytes)
    rows: dict[str | int, Callable[[], Rows]] = {}
    for name, path in files.items():
        read = _batches(path, _hive(path, folder), names, max_decoded_bytes)
        rows[name] = with_images(read, images, shown_text(str(path)))
    guessed = given_schema or with_fields(guessed_schema(schema), images)
    where = shown_text(str(files[first]))
    with readable(where):
        metadata = pq.read_metadata(files[first]).metadata
    return TableImport(guessed, rows, given_schema is None, class_attrs(where, metadata, guessed))


def _images(
    path: Path, schema: pa.Schema, given_schema: Schema | None, max_decoded_bytes: int
) -> dict[str, StoredImages]:
    """How the columns of images are stored, by those in the first row group of a file."""
    where = shown_text(str(path))
    images_by_name: dict[str, StoredImages] = {}
    with readable(where), pa.OSFile(str(path)) as file:
        metadata = pq.read_metadata(file)
        for name in files_of(metadata):
            field = None if given_schema is None or name not in given_schema else given_schema[name]
            if given_schema is not None and (field is None or not field.is_image):
                continue
            groups = (
                read_row_group(file, metadata, group, [name], max_bytes=max_decoded_bytes, where=where)
                .column(0)
                .to_pylist()
                for group in range(metadata.num_row_groups)
            )
            stored = stored_images(where, name, groups, field, nullable=schema.field(name).nullable)
            if stored is not None:
                images_by_name[name] = stored
    return images_by_name


def _with_finer_times(schema: pa.Schema, path: Path, max_decoded_bytes: int) -> pa.Schema:
    """A schema in which times of INT96 have nanoseconds if the first row group of a file has some."""
    where = shown_text(str(path))
    with readable(where), pa.OSFile(str(path)) as file:
        metadata = pq.read_metadata(file)
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        names = [leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path in schema.names]
        if not names or not metadata.num_row_groups:
            return schema
        stored = read_row_group(file, metadata, 0, names, max_bytes=max_decoded_bytes, where=where).schema
    for name in names:
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_type(stored.field(name).type))
    return schema


def _exported(path: Path, given_schema: Schema | None, max_decoded_bytes: int) -> TableImport | None:
    """A table that was exported to a Parquet file: its own schema, and its own partitions."""
    where = shown_text(str(path))
    with readable(where), pa.OSFile(str(path)) as file:
        metadata = pq.read_metadata(file)
        schema = exported_schema(metadata.metadata, where)
        if schema is None or PARTITION not in arrow_schema(metadata).names:
            return None
        groups = row_groups_of(file, where, max_decoded_bytes)
        empty = empty_shapes(metadata, where)
    names = taken([name for name in schema if name != PARTITION], given_schema, where)
    rows: dict[str | int, Callable[[], Rows]] = {
        key: _with_empty_shapes(
            _batches(path, {}, names, max_decoded_bytes, numbers), given_schema or schema, empty, metadata, numbers
        )
        for key, numbers in groups.items()
    }
    return TableImport(given_schema or schema, rows, False)


def _with_empty_shapes(
    read: Callable[[], Rows],
    schema: Schema,
    empty: Mapping[str, ShapesOfRows],
    metadata: pq.FileMetaData,
    groups: Sequence[int],
) -> Callable[[], Rows]:
    """Rows of some row groups, in which arrays without elements have the shapes that they were exported with."""
    if not empty:
        return read
    counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    numbers = [sum(counts[:group]) + i for group in groups for i in range(counts[group])]

    def mended() -> Iterator[Any]:
        at = 0
        for table in read():
            rows = numbers[at : at + len(table)]
            at += len(table)
            if not any(stored_empty.of(row) for stored_empty in empty.values() for row in rows):
                yield table
                continue
            for columns, _ in batches_of(table, schema):
                lists = {name: list(column) for name, column in columns.items()}
                here, rows = rows[: len(next(iter(lists.values())))], rows[len(next(iter(lists.values()))) :]
                for name, shapes in empty.items():
                    for i, row in enumerate(here if name in lists else ()):
                        value, shape = lists[name][i], shapes.of(row)
                        if shape and isinstance(value, np.ndarray) and not value.size and value.ndim == len(shape):
                            lists[name][i] = value.reshape(shape)
                yield lists

    return mended


def _hive(path: Path, folder: Path) -> dict[str, str]:
    """The columns that the names of folders say."""
    parts = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
    return {unquote(name): unquote(value) for name, _, value in (part.partition("=") for part in parts) if value}


def _with_hive(schema: pa.Schema, columns: Mapping[str, str]) -> pa.Schema:
    for name in columns:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string(), nullable=False))
    return schema


def _batches(
    path: Path,
    columns: Mapping[str, str],
    names: Sequence[str] | None,
    max_decoded_bytes: int,
    groups: Sequence[int] | None = None,
) -> Callable[[], Rows]:
    def read() -> Iterator[pa.Table]:
        where = shown_text(str(path))
        with readable(where):
            metadata = pq.read_metadata(path)
            stored = arrow_schema(metadata).names
        # The schema of an exported table names columns that its file has; of others, what folders say is beside.
        asked = set(stored if names is None else names)
        chosen = [name for name in stored if name in asked]
        for group in range(metadata.num_row_groups) if groups is None else groups:
            with readable(where), pa.OSFile(str(path)) as file:
                table = read_row_group(
                    file, metadata, group, chosen, max_bytes=max_decoded_bytes, where=f"{where}, row group {group}"
                )  # fmt: skip
                # Text that is not UTF-8, as only damage makes it.
                table.validate(full=True)
            for name, value in columns.items():
                if name not in table.column_names and (names is None or name in names):
                    table = table.append_column(name, pa.array([value] * len(table), pa.string()))
            for first in range(0, len(table), _BATCH_ROWS):
                yield table.slice(first, _BATCH_ROWS)

    return read
