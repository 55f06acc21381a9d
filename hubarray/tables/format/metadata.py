"""The description of a table: its schema, its appends, and which number each piece of them has. Pure."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import Any

from hubarray.errors import ConfigError
from hubarray.history.records.descriptions import Descriptions
from hubarray.history.records.json_fields import Fields
from hubarray.history.records.record import Record, record_key
from hubarray.tables.format.locations import SLAB_ROWS
from hubarray.tables.format.schema import Schema

MAX_APPENDS = 1000
MAX_ROWS = 1 << 40
# Of an append.
MAX_PARTITIONS = 1 << 24
MAX_CHUNK_FILES = (1 << 32) - 1
_KEYS: dict[str, type] = {"string": str, "int64": int}


@dataclass(frozen=True)
class AppendEntry:
    """Partitions that became part of a table in one commit.

    Attributes
    ----------
    first : int
        The number of its first chunk file.
    first_row : int
        The table's number of its first row.
    chunk_files, rows, partitions : int
    has_ranges : bool
        Whether its last piece says the ranges of the index fields in each slab.
    """

    first: int
    first_row: int
    chunk_files: int
    rows: int
    partitions: int
    has_ranges: bool = False

    @property
    def slabs(self) -> int:
        """How many slabs its rows are cut into."""
        return -(-self.rows // SLAB_ROWS)

    def slab_rows(self, slab: int) -> int:
        """How many rows a slab has."""
        return min(SLAB_ROWS, self.rows - slab * SLAB_ROWS)


@dataclass(frozen=True)
class Staged:
    """The contents of a staging version: parts that wait to become rows, and their chunk files."""

    parts: int = 0
    chunk_files: int = 0


@dataclass(frozen=True)
class TableMetadata:
    """A table as a record describes it.

    Attributes
    ----------
    schema : Schema
    key_type : type
        Of the partitions' keys: ``str`` or ``int``.
    appends : tuple of Append
    blocks, stored_bytes : mapping of str to int
        Of each group: how many blocks, and their bytes.
    staged : Staged or None
        Of a staging version alone.
    """

    schema: Schema
    key_type: type
    appends: tuple[AppendEntry, ...]
    blocks: dict[str, int]
    stored_bytes: dict[str, int]
    staged: Staged | None = None

    @property
    def rows(self) -> int:
        """Rows of all appends."""
        return sum(append.rows for append in self.appends)

    @property
    def end(self) -> int:
        """The number after the last one that is used."""
        return self.end_of(self.appends[-1]) if self.appends else 0

    def with_append(
        self,
        *,
        chunk_files: int,
        rows: int,
        partitions: int,
        blocks: dict[str, int],
        stored_bytes: dict[str, int],
        has_ranges: bool = False,
    ) -> TableMetadata:
        """The table with one append more."""
        entry = AppendEntry(self.end, self.rows, chunk_files, rows, partitions, has_ranges)
        return replace(
            self,
            appends=(*self.appends, entry),
            blocks={name: count + blocks[name] for name, count in self.blocks.items()},
            stored_bytes={name: count + stored_bytes[name] for name, count in self.stored_bytes.items()},
        )

    def with_staged(self, staged: Staged) -> TableMetadata:
        """The staging version with what it holds now."""
        return replace(self, staged=staged)

    @staticmethod
    def empty(schema: Schema, key_type: type) -> TableMetadata:
        """A table without rows."""
        return TableMetadata(schema, key_type, (), dict.fromkeys(schema.groups, 0), dict.fromkeys(schema.groups, 0))

    def append_of(self, row: int) -> AppendEntry:
        """The append that a row is in."""
        return self.appends[bisect.bisect_right(self.appends, row, key=lambda append: append.first_row) - 1]

    def index_number(self, append: AppendEntry, slab: int) -> int:
        """The number of a slab's index piece."""
        return append.first + append.chunk_files + slab * self._pieces

    def locations_number(self, append: AppendEntry, slab: int, group: str) -> int:
        """The number of a slab's locations of a group."""
        return self.index_number(append, slab) + 1 + self._position(group)

    def digests_number(self, append: AppendEntry, slab: int, group: str) -> int:
        """The number of a slab's digests of a group."""
        return self.index_number(append, slab) + 1 + len(self.schema.groups) + self._position(group)

    def partitions_number(self, append: AppendEntry) -> int:
        """The number of an append's list of partitions."""
        return self.end_of(append) - 1 - append.has_ranges

    def ranges_number(self, append: AppendEntry) -> int:
        """The number of an append's ranges, which it has."""
        return self.end_of(append) - 1

    @property
    def _pieces(self) -> int:
        """How many pieces a slab has: the index, and the locations and digests of each group."""
        return 1 + 2 * len(self.schema.groups)

    def _position(self, group: str) -> int:
        return list(self.schema.groups).index(group)

    def end_of(self, append: AppendEntry) -> int:
        """The number after an append's last one."""
        return append.first + append.chunk_files + append.slabs * self._pieces + 1 + append.has_ranges

    def to_json(self) -> dict[str, Any]:
        """The table in a record; :meth:`from_json` reads it."""
        staged = self.staged and {"parts": self.staged.parts, "chunk_files": self.staged.chunk_files}
        return {
            "schema": self.schema.to_json(),
            "key": next(name for name, kind in _KEYS.items() if kind is self.key_type),
            "appends": [
                {
                    "first": append.first,
                    "chunk_files": append.chunk_files,
                    "rows": append.rows,
                    "partitions": append.partitions,
                }
                | ({"ranges": True} if append.has_ranges else {})
                for append in self.appends
            ],
            "groups": {
                name: {"blocks": self.blocks[name], "bytes": self.stored_bytes[name]} for name in self.schema.groups
            },
            **({"staged": staged} if staged else {}),
        }

    @staticmethod
    def from_json(fields: Fields) -> TableMetadata:
        """A table that a bucket describes.

        Raises
        ------
        CorruptDataError, FormatVersionError
        """
        fields.only(frozenset({"schema", "key", "appends", "groups", "staged"}))
        schema = Schema.from_json(Fields(fields.take("schema", dict), fields.where, "schema"))
        key = fields.text("key")
        if key not in _KEYS:
            fields.refuse("key", "is neither 'string' nor 'int64'")
        table = TableMetadata.empty(schema, _KEYS[key])
        for i, append in enumerate(fields.items("appends", MAX_APPENDS)):
            inner = Fields(append, fields.where, f"appends.{i}")
            inner.only(frozenset({"first", "chunk_files", "rows", "partitions", "ranges"}))
            if append.get("ranges", True) is not True:
                inner.refuse("ranges", "is not true, where it is there")
            rows = inner.integer("rows", 0, MAX_ROWS - table.rows)
            if inner.integer("first", 0, 1 << 62) != table.end:
                inner.refuse("first", f"is not {table.end}, where the append before it ends")
            appended = AppendEntry(
                table.end, table.rows, inner.integer("chunk_files", 0, MAX_CHUNK_FILES), rows,
                inner.integer("partitions", 0, MAX_PARTITIONS), "ranges" in append,
            )  # fmt: skip
            table = replace(table, appends=(*table.appends, appended))
        groups = Fields(fields.take("groups", dict), fields.where, "groups")
        groups.only(frozenset(schema.groups))
        for name in schema.groups:
            inner = Fields(groups.take(name, dict), fields.where, f"groups.{name}")
            inner.only(frozenset({"blocks", "bytes"}))
            table.blocks[name] = inner.integer("blocks", 0, table.rows)
            table.stored_bytes[name] = inner.integer("bytes", 0, 1 << 62)
        if "staged" in fields.raw:
            inner = Fields(fields.take("staged", dict), fields.where, "staged")
            inner.only(frozenset({"parts", "chunk_files"}))
            most = (1 << 40) - 1
            table = table.with_staged(Staged(inner.integer("parts", 0, most), inner.integer("chunk_files", 0, most)))
        return table


def metadata_of(record: Record) -> TableMetadata:
    """The description that a record of a table has.

    Raises
    ------
    ConfigError
        It is of another kind.
    FormatVersionError
        It describes what this version cannot handle; the record's key is named.
    CorruptDataError
        It describes no table.
    """
    return _described.of(record)


def _read(record: Record) -> TableMetadata:
    where = record_key(record.name, record.head.number)
    if record.head.kind != "table":
        kind = "an array" if record.head.kind == "array" else record.head.kind
        raise ConfigError(f"{record.name.at(None)}: is {kind}, but a table is expected")
    return TableMetadata.from_json(Fields(record.description, where, ""))


_described = Descriptions(_read)
