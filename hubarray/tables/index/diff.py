"""Rows in which two tables differ, by partition and position: from digests, and from values where these differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.history.records.contents import refs_of
from hubarray.history.records.record import Record
from hubarray.tables.format.block import described
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.metadata import metadata_of
from hubarray.tables.index import index
from hubarray.tables.read.row_fetch import RowRequest, columns_into, read
from hubarray.tables.snapshot.digests import digests_of
from hubarray.tables.snapshot.snapshot import TableSnapshot

if TYPE_CHECKING:
    import pandas as pd

Side = tuple[Version, Record]

_BATCH_ROWS = 4096
# Stored; images decode to twenty times as much.
_BATCH_BYTES = 8 << 20
_NUMBER = "hubarray number"
_UNKNOWN = np.zeros((), "V16")


@dataclass(frozen=True)
class TableDiff:
    """Rows in which two tables differ, paired by partition and by position in it.

    Attributes
    ----------
    added, removed, changed : dict
        For each partition, the number of rows that the second table adds, lacks, and has with other values.
    columns : dict of str to int
        For each column of both tables, the number of rows in which it differs.
    new_columns, dropped_columns : tuple of str
    """

    added: dict[Key, int] = field(default_factory=dict)
    removed: dict[Key, int] = field(default_factory=dict)
    changed: dict[Key, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    new_columns: tuple[str, ...] = ()
    dropped_columns: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether no row and no column differs."""
        return not (self.added or self.removed or self.changed or self.new_columns or self.dropped_columns)

    def __bool__(self) -> bool:
        return not self.same

    def __str__(self) -> str:
        if self.same:
            return "no rows differ"
        counts = [(sum(amounts.values()), what) for amounts, what in (
            (self.added, "added"), (self.removed, "removed"), (self.changed, "changed"))]  # fmt: skip
        lines = [", ".join(f"{count:,} rows {what}" for count, what in counts)]
        lines += [f"  {name}: {count:,} rows" for name, count in self.columns.items() if count]
        lines += [f"  {name}: new" for name in self.new_columns]
        return "\n".join([*lines, *(f"  {name}: dropped" for name in self.dropped_columns)])


def diff_tables(left: Side, right: Side, on: Sequence[str] | None = None) -> TableDiff:
    """Compare two records of tables; reads the pieces of partitions that both have, and blocks that are not equal.

    Parameters
    ----------
    left, right : (Version, Record)
    on : sequence of str, optional
        Fields of both indexes, of which no two rows of a table have the same: rows are paired by them.

    Raises
    ------
    ConfigError
        The tables have keys of different types, or ``on`` is not a key.
    """
    old, new = (TableSnapshot.of(version, record) for version, record in (left, right))
    schemas = old.metadata.schema, new.metadata.schema
    shared = [name for name in schemas[0] if name in schemas[1]]
    difference = TableDiff(
        columns=dict.fromkeys(shared, 0),
        new_columns=tuple(name for name in schemas[1] if name not in schemas[0]),
        dropped_columns=tuple(name for name in schemas[0] if name not in schemas[1]),
    )
    for key, before, after in _paired_by(on, old, new, difference) if on else _paired(old, new, difference):
        differing = 0
        for first in range(0, len(before), _BATCH_ROWS):
            batch = slice(first, first + _BATCH_ROWS)
            differs = np.zeros(len(before[batch]), bool)
            for name, other in _differing(old, new, shared, before[batch], after[batch]):
                difference.columns[name] += int(other.sum())
                differs |= other
            differing += int(differs.sum())
        if differing:
            difference.changed[key] = differing
    return difference


def _paired(
    old: TableSnapshot, new: TableSnapshot, difference: TableDiff
) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """The rows of each partition that both tables have, by their position in it."""
    both = old.metadata.appends and new.metadata.appends
    if both and old.metadata.key_type is not new.metadata.key_type:
        raise ConfigError("the keys of the two tables' partitions are of two types; diff with on= pairs their rows")
    before, after = old.rows_of_partitions(), new.rows_of_partitions()
    for key in [*before, *(key for key in after if key not in before)]:
        left, right = before.get(key, range(0)), after.get(key, range(0))
        rows = min(len(left), len(right))
        if len(right) > rows:
            difference.added[key] = len(right) - rows
        if len(left) > rows:
            difference.removed[key] = len(left) - rows
        if rows:
            yield key, np.arange(left.start, left.start + rows), np.arange(right.start, right.start + rows)


def _paired_by(
    on: Sequence[str], old: TableSnapshot, new: TableSnapshot, difference: TableDiff
) -> Iterator[tuple[Key, np.ndarray, np.ndarray]]:
    """The rows that have the same keys, by the partition that they are in now."""
    left, right = (_keys(table, on) for table in (old, new))
    merged = left.merge(right, on=list(on), how="outer", suffixes=("_old", "_new"))
    before, after = merged[f"{_NUMBER}_old"], merged[f"{_NUMBER}_new"]
    for table, counts, numbers in (
        (new, difference.added, after[before.isna()]),
        (old, difference.removed, before[after.isna()]),
    ):
        for key, _, rows in table.by_partition(np.sort(numbers.to_numpy(np.int64))):
            counts[key] = len(rows)
    both = merged[before.notna() & after.notna()].sort_values(f"{_NUMBER}_new")
    numbers = both[f"{_NUMBER}_old"].to_numpy(np.int64)
    done = 0
    for key, _, rows in new.by_partition(both[f"{_NUMBER}_new"].to_numpy(np.int64)):
        yield key, numbers[done : done + len(rows)], rows
        done += len(rows)


def _keys(table: TableSnapshot, on: Sequence[str]) -> pd.DataFrame:
    """The fields that rows are paired by, and the number of each row."""
    for name in on:
        if name not in table.metadata.schema.index:
            raise ConfigError(f"on={name!r}: {table.version.name} has no index field of this name")
    read = index.read(table, list(on))
    frame = index.to_pandas(read.rename_columns([*read.column_names[:-1], _NUMBER]))
    twice = frame.duplicated(list(on))
    if twice.any():
        values = frame.loc[twice.idxmax(), list(on)].tolist()
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        which = ", ".join(f"{name}={value!r}" for name, value in zip(on, plain, strict=True))
        raise ConfigError(
            f"on={list(on)}: two rows of {table.version.name} have {which}; add a field that distinguishes them"
        )
    return frame


def same_rows(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits with equal descriptions have the same blobs."""
    table = metadata_of(old)
    for append in table.appends:
        end = table.end_of(append)
        for first in range(append.first, end, 1 << 16):
            numbers = np.arange(first, min(first + (1 << 16), end), dtype=np.uint64)
            left, right = (refs_of(version.fetcher, record, numbers) for record in (old, new))
            if left["hash"].tobytes() != right["hash"].tobytes():
                return False
    return True


def _differing(
    old: TableSnapshot, new: TableSnapshot, shared: Sequence[str], before: np.ndarray, after: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """In which of some rows each column differs: of groups with equal digests in none, of others by their values."""
    stored: dict[tuple[str, str], list[str]] = {}
    for name in shared:
        groups = [table.metadata.schema.groups_of(name) for table in (old, new)]
        if all(groups):
            stored.setdefault((groups[0][0], groups[1][0]), []).append(name)
            continue
        left, right = (_column(table, name, numbers) for table, numbers in ((old, before), (new, after)))
        yield name, _unequal(left, right)
    for (first, second), names in stored.items():
        unsure = np.flatnonzero(_may_differ(old, new, first, second, before, after))
        other = {name: np.zeros(len(before), bool) for name in names}
        row_bytes = max(table.group_row_bytes(group) for table, group in ((old, first), (new, second)))
        count = max(1, int(_BATCH_BYTES / max(1.0, row_bytes)))
        for begin in range(0, len(unsure), count):
            batch = unsure[begin : begin + count]
            columns = [_values(table, group, names, numbers[batch]) for table, group, numbers in (
                (old, first, before), (new, second, after))]  # fmt: skip
            for name in names:
                other[name][batch] = _unequal(columns[0][name], columns[1][name])
        yield from other.items()


def _may_differ(
    old: TableSnapshot, new: TableSnapshot, first: str, second: str, before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    left, right = old.metadata.schema.groups[first], new.metadata.schema.groups[second]
    names = [[name for name, _ in group.fields] for group in (left, right)]
    # Digests cover values and types, not the names of fields.
    if names[0] != names[1] or described(left) != described(right) or left.rows_per_block != right.rows_per_block:
        return np.ones(len(before), bool)
    known, other = digests_of(old, left, before), digests_of(new, right, after)
    # Zeros: nulls, and blocks that a published index took apart.
    return np.asarray(known != other) | (np.asarray(known == _UNKNOWN) if left.rows_per_block > 1 else False)


def _column(table: TableSnapshot, name: str, numbers: np.ndarray) -> list[Any]:
    groups = table.metadata.schema.groups_of(name)
    return _values(table, groups[0], [name], numbers)[name] if groups else table.index_values(numbers, name)


def _values(table: TableSnapshot, group: str, names: Sequence[str], numbers: np.ndarray) -> dict[str, list[Any]]:
    out: dict[str, Any] = {name: [None] * len(numbers) for name in names}
    filled = {name: np.zeros(len(numbers), bool) for name in names}
    take = columns_into(out, names, names, filled)
    read([RowRequest(table, table.metadata.schema.groups[group], numbers, take)])
    return out


def _unequal(left: Sequence[Any], right: Sequence[Any]) -> np.ndarray:
    return np.array([not _same(a, b) for a, b in zip(left, right, strict=True)], bool)


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if type(left) in (str, bytes):
        return bool(left == right)
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
