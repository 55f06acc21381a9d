"""Tables as Parquet files, and back: what every other tool reads."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubarray import limits
from hubarray.errors import ConfigError, HubError, SourceError
from hubarray.history.records.json_fields import Fields, parse_json
from hubarray.parquet_limits import read_row_group
from hubarray.progress import progress
from hubarray.readers.fields.unischema import is_shape
from hubarray.tables.format.arrow_columns import arrow_column, arrow_type, is_time
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.schema import PARTITION, Field, Schema
from hubarray.tables.handle import TableHandle
from hubarray.tables.read.columns import matching

# In the file's own metadata: the schema of the table, so that hub.import_table makes the same one again.
SCHEMA_KEY = b"hubarray.schema"
SHAPES_KEY = b"hubarray.empty_shapes"
_GROUP_BYTES = 64 << 20
_GROUP_ROWS = 1 << 16
_MAX_SCHEMA_BYTES = 16 << 20


def write_parquet(table: TableHandle, path: str, columns: str | Sequence[str] | None = None) -> None:
    """Write the rows of a table into a Parquet file: a column for each field, and the partition's first.

    Arrays are lists within lists, of fixed size where the dimension is known; JPEG and PNG the bytes that are stored.
    A row group is of one partition and about 64 MiB. NaT is null. The shapes of arrays without elements, which lists
    cannot tell, are in the metadata of the file, so that :func:`hubarray.import_table` makes the same rows again.

    Raises
    ------
    ConfigError
        A field is of a dtype that Parquet has not.
    """
    loader = table.loader()
    names = matching(columns, loader.columns)
    fields = {name: table.schema[name] for name in names}
    types = {name: arrow_type(name, field) for name, field in fields.items()}
    partitions = table.partition_rows
    key = pa.string() if isinstance(next(iter(partitions), ""), str) else pa.int64()
    arrow = pa.schema(
        [
            pa.field(PARTITION, key, nullable=False),
            # NumPy's NaT is Arrow's null. Of a table that was published from a merge, a row may lack any group.
            *(pa.field(name, types[name], nullable=not field.index or field.nullable or is_time(field))
              for name, field in fields.items()),
        ]
    )  # fmt: skip
    lacking: set[str] = set()
    empty, written = EmptyShapes(), 0
    bar = progress(len(table), f"exporting {table.name}:{table.version}", unit=" rows")
    with bar as bar, pq.ParquetWriter(path, arrow, compression="zstd") as file:
        for partition, numbers in partitions.items():
            for row_group in _row_groups(loader.iter_rows(names, positions=numbers, encoded=True)):
                arrays = [pa.array([partition] * len(row_group), key)]
                try:
                    for name in names:
                        values = [row[name] for row in row_group]
                        lacking |= {name} if any(value is None for value in values) else set()
                        empty.note(name, written, values)
                        arrays.append(arrow_column(types[name], fields[name], values))
                    file.write_table(pa.Table.from_arrays(arrays, schema=arrow), row_group_size=_GROUP_ROWS)
                except (pa.ArrowException, OverflowError) as error:
                    raise ConfigError(
                        f"{table.name}:{table.version}: partition {partition!r} has a value that Parquet cannot hold: "
                        f"{str(error)[:200]}; leave its column out with columns="
                    ) from None
                bar.update(len(row_group))
                written += len(row_group)
        file_metadata = {SCHEMA_KEY: _described(table.schema, fields, lacking)}
        file.add_key_value_metadata(file_metadata | ({SHAPES_KEY: empty.to_json()} if empty else {}))


class EmptyShapes:
    """The shapes of arrays without elements, by field, with the runs of rows that have each."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[tuple[int, ...], list[list[int]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def note(self, name: str, first: int, values: Sequence[Any]) -> None:
        """Note those of some rows of a field from a row on."""
        for row, value in enumerate(values, first):
            shape = getattr(value, "shape", ())
            # Lists tell lengths down to the first that is zero.
            if 0 in shape and any(shape[shape.index(0) + 1 :]):
                runs = self._runs.setdefault(name, {}).setdefault(shape, [])
                if runs and sum(runs[-1]) == row:
                    runs[-1][1] += 1
                else:
                    runs.append([row, 1])

    def to_json(self) -> bytes:
        """As the metadata of a file has them."""
        shapes = {
            name: [[list(shape), runs] for shape, runs in runs_by_shape.items()]
            for name, runs_by_shape in self._runs.items()
        }
        return json.dumps(shapes).encode()

    @staticmethod
    def from_json(data: bytes, rows: int) -> dict[str, ShapesOfRows]:
        """By field the shapes of such rows.

        Raises
        ------
        ValueError
        """
        fields_by_name = {}
        for name, runs_by_shape in limits.parse_json(data).items():
            runs = []
            for shape, its in runs_by_shape:
                if not is_shape(shape) or 0 not in shape:
                    raise ValueError("has a shape that cannot be")
                for first, count in its:
                    if not (type(first) is int and type(count) is int and 0 <= first <= first + count <= rows):
                        raise ValueError("has rows that are not there")
                    runs.append((first, first + count, tuple(shape)))
            fields_by_name[name] = ShapesOfRows(sorted(runs))
        return fields_by_name


class ShapesOfRows:
    """The shapes of some rows, by runs of rows."""

    def __init__(self, runs: Sequence[tuple[int, int, tuple[int, ...]]]) -> None:
        self._runs = runs
        self._firsts = [first for first, _, _ in runs]

    def of(self, row: int) -> tuple[int, ...] | None:
        """The shape of a row; None where none is said."""
        i = bisect.bisect_right(self._firsts, row) - 1
        return self._runs[i][2] if i >= 0 and row < self._runs[i][1] else None


def _described(schema: Schema, fields: Mapping[str, Field], lacking: set[str]) -> bytes:
    """The schema of the rows that were written: the table's, but what is null in some rows may be null."""
    if list(fields) != list(schema) or any(not fields[name].nullable for name in lacking):
        nullable = {name: Fields(fields[name].to_json() | {"nullable": True}, "", name) for name in lacking}
        schema = Schema({name: Field.from_json(nullable[name]) if name in nullable else field
                         for name, field in fields.items()})  # fmt: skip
    return json.dumps(schema.to_json()).encode()


def _row_groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(_bytes_of(value) for value in row.values())
        if size >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _bytes_of(value: Any) -> int:
    return int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)


def exported_schema(metadata: Mapping[bytes, bytes] | None, where: str) -> Schema | None:
    """The schema of a table that was exported to a Parquet file; None of any other file.

    Raises
    ------
    SourceError
    """
    data = (metadata or {}).get(SCHEMA_KEY)
    if data is None:
        return None
    try:
        if len(data) > _MAX_SCHEMA_BYTES:
            raise ValueError("too long")
        return Schema.from_json(Fields(parse_json(data, where), where, "schema"))
    except (ValueError, HubError) as error:
        raise SourceError(
            f"{where}: its metadata {SCHEMA_KEY.decode()!r} is not a schema ({error}); give schema="
        ) from None


def empty_shapes(metadata: pq.FileMetaData, where: str) -> dict[str, ShapesOfRows]:
    """The shapes of arrays without elements that an exported file says, by field and row.

    Raises
    ------
    SourceError
    """
    data = (metadata.metadata or {}).get(SHAPES_KEY)
    if data is None:
        return {}
    try:
        return EmptyShapes.from_json(data, metadata.num_rows)
    except (ValueError, TypeError, AttributeError) as error:
        raise SourceError(f"{where}: its metadata {SHAPES_KEY.decode()!r} {str(error)[:200]}") from None


def row_groups_of(opened: pa.NativeFile, where: str, max_decoded_bytes: int) -> dict[Key, list[int]]:
    """The row groups of each partition of an exported table, in order."""
    row_numbers: dict[Key, list[int]] = {}
    metadata = pq.read_metadata(opened)
    for i in range(metadata.num_row_groups):
        named = f"{where}, row group {i}"
        keys = read_row_group(opened, metadata, i, [PARTITION], max_bytes=max_decoded_bytes, where=named)
        keys = keys.column(0).unique()
        if len(keys) != 1 or not keys[0].is_valid:
            raise SourceError(f"row group {i} has rows of {len(keys)} partitions, and an exported table's are of one")
        row_numbers.setdefault(keys[0].as_py(), []).append(i)
    return row_numbers
