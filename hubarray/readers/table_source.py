"""Tables as a source: the rows of an index, and columns of the tables behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import blake3
import numpy as np

from hubarray.readers.fields.filters import FilterPredicate
from hubarray.readers.fields.predicates import AsFrames, PredicateBase, mask_of
from hubarray.readers.fields.source import Columns, SegmentedRows
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.readers.order.planning import EXPANSION
from hubarray.readers.pipeline.buffers import Buffers
from hubarray.readers.pipeline.groups import BUFFERS
from hubarray.tables.format.schema import PARTITION, Group
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.read.windows import EveryRow


class TableSource:
    """The rows of a loader, in the order of its index. See :class:`hubarray.readers.fields.source.Source`.

    Parameters
    ----------
    loader : RowLoader
    columns : sequence of str, optional
        Those that will be read, if not all: what tells how many bytes a row has.

    Attributes
    ----------
    buffers : int
        Of memory a column, that are used again and again.
    """

    unit_bounds: np.ndarray | None = None
    chunk_rows = 1

    def __init__(self, loader: RowLoaderHandle, columns: Sequence[str] | None = None) -> None:
        self.loader, self._columns = loader, columns
        self.rows = len(loader)
        tables = loader.tables()
        self.where = ", ".join(dict.fromkeys(str(table.version.name) for table in tables))
        fields = []
        for column in loader.every_column():
            field = tables[column.tables[0]].metadata.schema[column.field]
            kind = np.str_ if field.kind == "string" else np.bytes_ if field.kind == "bytes" else field.dtype
            missing = any(loader.selections[i].min() < 0 for i in column.tables) if self.rows else False
            fields.append(UnischemaField(column.name, kind, tuple(field.shape), None, field.nullable or missing))
        self.schema = Unischema("table", fields)
        # What filters and predicates may look at: the partition, too.
        self.filter_schema = self.schema
        if PARTITION not in self.schema.fields:
            keys = [table.metadata.key_type for table in tables]
            partition = UnischemaField(PARTITION, np.int64 if keys[0] is int else np.str_, (), None, False)
            self.filter_schema = Unischema("table", [*fields, partition])
        self._identity: str | None = None
        self.buffers = BUFFERS
        self._buffers: dict[str, Buffers] = {}
        read = [column for column in loader.every_column() if columns is None or column.name in columns]
        read_groups = {
            (i, name)
            for column in read
            for i in column.tables
            for name, group in tables[i].metadata.schema.groups.items()
            if column.field in dict(group.fields)
        }
        self.row_bytes = 64.0 + sum(
            _decoded_bytes(tables[i].group_row_bytes(name), tables[i].metadata.schema.groups[name])
            for i, name in read_groups
        )

    def identity(self) -> str:
        """The commits or files that it reads."""
        if self._identity is None:
            tables = [f"{table.version.name}@{table.record.head.number}" for table in self.loader.tables()]
            digest = blake3.blake3()
            for numbers in self.loader.selections:
                digest.update(numbers.tobytes() if isinstance(numbers, np.ndarray) else str(len(numbers)).encode())
            self._identity = " ".join([*tables, digest.hexdigest()[:16]])
        return self._identity

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Some columns of some rows, in the order that the rows are given in."""
        stored = [name for name in columns if name in self.schema.fields]
        columns_read = self.loader.read_columns(rows, stored, empty=self._memory) if stored else {}
        if len(stored) < len(columns):
            columns_read = {
                name: columns_read[name] if name in columns_read else self._partitions(rows) for name in columns
            }
        return columns_read

    def _partitions(self, rows: np.ndarray) -> list[str | int | None]:
        """The partition of each row: of a merged index that of the first table which has the row."""
        values: list[str | int | None] = [None] * len(rows)
        for _, here, keys, at, _ in self._placed(rows):
            for position, i in zip(here.tolist(), at.tolist(), strict=True):
                values[position] = keys[i]
        return values

    def _memory(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Memory that is used again once nobody sees it."""
        buffers = self._buffers.get(name)
        if buffers is None:
            buffers = self._buffers.setdefault(name, Buffers(self.buffers))
        return buffers.take(shape, dtype)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_buffers": {}}

    def narrowed(self, predicate: PredicateBase) -> tuple[TableSource, PredicateBase | None]:
        """The rows that a predicate includes, where the index alone tells which."""
        if isinstance(predicate, AsFrames):
            # Which rows make a batch only the reader knows.
            return self, predicate
        fields = sorted(predicate.get_fields())
        tables = self.loader.tables()
        columns = [self.loader.column(name) for name in fields if name in self.schema.fields]
        if not all(tables[i].metadata.schema[column.field].index for column in columns for i in column.tables):
            return self, predicate
        columns_read = self.read(np.arange(self.rows), fields)
        if isinstance(predicate, FilterPredicate):
            mask = predicate.mask(columns_read, self.rows)
        else:
            mask = mask_of(predicate, columns_read, self.rows, batched=False)
        return TableSource(self.loader.at(np.flatnonzero(mask)), self._columns), None

    def row_names(self) -> np.ndarray:
        """A number for each row that stays the same when partitions are added: of its partition's key and its place.

        Of a merged index, the first table that has the row says it.
        """
        row_numbers = np.zeros(self.rows, np.int64)
        for number, here, keys, at, places in self._placed(np.arange(self.rows)):
            row_numbers[here] = np.asarray([_key_number(number, key) for key in keys], np.int64)[at] + places
        return row_numbers

    def _placed(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, list[str | int], np.ndarray, np.ndarray]]:
        """Of each table, rows that it has and no table before it: which they are, the keys of its partitions, which of
        these each row is in, and its place there.
        """
        left = np.arange(len(rows))
        for number, (state, selection) in enumerate(zip(self.loader.tables(), self.loader.selections, strict=True)):
            numbers = np.asarray(selection, np.int64)[rows[left]]
            here, left = left[numbers >= 0], left[numbers < 0]
            numbers = numbers[numbers >= 0]
            if not len(here):
                continue
            partitions = sorted(
                (item for item in state.rows_of_partitions().items() if len(item[1])), key=lambda item: item[1].start
            )
            starts = np.asarray([numbered.start for _, numbered in partitions], np.int64)
            at = np.searchsorted(starts, numbers, "right") - 1
            yield number, here, [key for key, _ in partitions], at, numbers - starts[at]

    def repeats(self) -> bool:
        """Whether a row comes several times: of all tables, as one of a merge stands beside several of another."""
        if any(isinstance(selection, EveryRow) for selection in self.loader.selections):
            return False
        every = self.loader.numbers
        # Where a table has each of its rows once, no row comes twice, whatever stands beside it.
        if any((np.diff(positions) > 0).all() or len(np.unique(positions)) == self.rows for positions in every):
            return False
        return len(np.unique(np.stack(every), axis=1)[0]) < self.rows

    def stretches(self, across: bool) -> SegmentedRows:
        """The rows of each partition, in the order of the index; of a merged one, of the first table that has a row."""
        labels, known = np.zeros(self.rows, np.int64), 0
        for _, here, keys, at, _ in self._placed(np.arange(self.rows)):
            labels[here] = at + known
            known += len(keys)
        order = np.argsort(labels, kind="stable")
        changes = np.flatnonzero(np.diff(labels[order])) + 1
        bounds = np.concatenate([[0], changes, [self.rows]]).astype(np.int64)
        return SegmentedRows(bounds, None if bool((np.diff(labels) >= 0).all()) else order)


def _key_number(table: int, key: str | int) -> int:
    """A number for a partition: the first 7 bytes of BLAKE3 of which table it is of, the key's type and the key."""
    return int.from_bytes(blake3.blake3(f"{table} {type(key).__name__} {key}".encode()).digest()[:7], "little")


def _decoded_bytes(stored: float, group: Group) -> float:
    """About what a row of a group takes once it is decoded."""
    fixed = sum(field.row_bytes or 0 for _, field in group.fields)
    codecs = [field.codec["name"] for _, field in group.fields if field.row_bytes is None and field.codec is not None]
    factors = [EXPANSION.get(codec, EXPANSION["other"]) for codec in codecs]
    return max(fixed, stored * max(factors, default=1.0))
