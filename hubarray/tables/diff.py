"""Rows in which two tables differ, by partition and position: from digests, and from values where these differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.history.contents import refs_of
from hubarray.history.record import Record
from hubarray.history.version import Version
from hubarray.tables.block import described
from hubarray.tables.index_piece import Key
from hubarray.tables.metadata import metadata_of
from hubarray.tables.rows import Wanted, columns_into, read
from hubarray.tables.schema import Group
from hubarray.tables.state import TableState

Side = tuple[Version, Record]

_BATCH_ROWS = 4096
_UNKNOWN = np.zeros((), "V16")


@dataclass(frozen=True)
class TableDiff:
    """Rows in which two tables differ, paired by partition and by position in it.

    Attributes
    ----------
    added, removed, changed : dict
        Of each partition, how many rows the second table has in addition, has not, and has with other values.
    columns : dict of str to int
        Of each column of both tables in how many rows it differs.
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
        counts = [(sum(some.values()), what) for some, what in (
            (self.added, "added"), (self.removed, "removed"), (self.changed, "changed"))]  # fmt: skip
        lines = [", ".join(f"{count:,} rows {what}" for count, what in counts)]
        lines += [f"  {name}: {count:,} rows" for name, count in self.columns.items() if count]
        lines += [f"  {name}: new" for name in self.new_columns]
        return "\n".join([*lines, *(f"  {name}: dropped" for name in self.dropped_columns)])


def diff_tables(one: Side, two: Side) -> TableDiff:
    """Compare two records of tables; reads the pieces of partitions that both have, and blocks that are not equal."""
    old, new = (TableState.of(version, record) for version, record in (one, two))
    both = old.metadata.appends and new.metadata.appends
    if both and old.metadata.key_type is not new.metadata.key_type:
        raise ConfigError("the keys of the two tables' partitions are of two types; nothing to compare")
    before, after = (
        {key: (rows.start, len(rows)) for key, rows in one.rows_of_partitions().items()} for one in (old, new)
    )
    shared = [name for name in old.metadata.schema if name in new.metadata.schema]
    found = TableDiff(
        added={key: after[key][1] for key in after.keys() - before.keys() if after[key][1]},
        removed={key: before[key][1] for key in before.keys() - after.keys() if before[key][1]},
        columns=dict.fromkeys(shared, 0),
        new_columns=tuple(name for name in new.metadata.schema if name not in old.metadata.schema),
        dropped_columns=tuple(name for name in old.metadata.schema if name not in new.metadata.schema),
    )
    for key in sorted(before.keys() & after.keys()):
        _compare(old, new, key, before[key], after[key], shared, found)
    return found


def same_rows(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits with equal descriptions have the same blobs."""
    table = metadata_of(old)
    for append in table.appends:
        end = table.partitions_number(append) + 1
        for first in range(append.first, end, 1 << 16):
            numbers = np.arange(first, min(first + (1 << 16), end), dtype=np.uint64)
            one, two = (refs_of(version.fetcher, record, numbers) for record in (old, new))
            if one["hash"].tobytes() != two["hash"].tobytes():
                return False
    return True


def _compare(
    old: TableState, new: TableState, key: Key, before: tuple[int, int], after: tuple[int, int], shared: list[str],
    found: TableDiff,
) -> None:  # fmt: skip
    rows = min(before[1], after[1])
    if after[1] > rows:
        found.added[key] = after[1] - rows
    if before[1] > rows:
        found.removed[key] = before[1] - rows
    differs = np.zeros(rows, bool)
    for begin in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - begin)
        numbers = [np.arange(first + begin, first + begin + count) for first, _ in (before, after)]
        for name, other in _differing(old, new, shared, *numbers):
            found.columns[name] += int(other.sum())
            differs[begin : begin + count] |= other
    if differs.any():
        found.changed[key] = int(differs.sum())


def _differing(
    old: TableState, new: TableState, shared: Sequence[str], before: np.ndarray, after: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """In which of some rows each column differs: of groups with equal digests in none, of others by their values."""
    stored: dict[tuple[str, str], list[str]] = {}
    for name in shared:
        groups = [table.metadata.schema.groups_of(name) for table in (old, new)]
        if all(groups):
            stored.setdefault((groups[0][0], groups[1][0]), []).append(name)
            continue
        one, two = (_column(table, name, numbers) for table, numbers in ((old, before), (new, after)))
        yield name, _unequal(one, two)
    for (first, second), names in stored.items():
        unsure = np.flatnonzero(_may_differ(old, new, first, second, before, after))
        columns = [_values(table, group, names, numbers[unsure]) for table, group, numbers in (
            (old, first, before), (new, second, after))]  # fmt: skip
        for name in names:
            other = np.zeros(len(before), bool)
            other[unsure] = _unequal(columns[0][name], columns[1][name])
            yield name, other


def _may_differ(
    old: TableState, new: TableState, first: str, second: str, before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    one, two = old.metadata.schema.groups[first], new.metadata.schema.groups[second]
    if described(one) != described(two) or one.rows_per_block != two.rows_per_block:
        return np.ones(len(before), bool)
    known, other = digests_of(old, one, before), digests_of(new, two, after)
    # Zeros: nulls, and blocks that a published index took apart.
    return np.asarray(known != other) | (np.asarray(known == _UNKNOWN) if one.rows_per_block > 1 else False)


def _column(table: TableState, name: str, numbers: np.ndarray) -> list[Any]:
    groups = table.metadata.schema.groups_of(name)
    return _values(table, groups[0], [name], numbers)[name] if groups else table.index_values(numbers, name)


def _values(table: TableState, group: str, names: Sequence[str], numbers: np.ndarray) -> dict[str, list[Any]]:
    out: dict[str, Any] = {name: [None] * len(numbers) for name in names}
    filled = {name: np.zeros(len(numbers), bool) for name in names}
    take = columns_into(out, names, names, filled, None)
    read([Wanted(table, table.metadata.schema.groups[group], numbers, take)])
    return out


def _unequal(one: Sequence[Any], two: Sequence[Any]) -> np.ndarray:
    return np.array([not _same(a, b) for a, b in zip(one, two, strict=True)], bool)


def _same(one: Any, two: Any) -> bool:
    if one is None or two is None or type(one) in (str, bytes):
        return one is two or bool(one == two)
    a, b = np.asarray(one), np.asarray(two)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def digests_of(table: TableState, group: Group, numbers: np.ndarray) -> np.ndarray:
    """The digest of the block that each of some rows is in; a block that began in an earlier slab has that slab's."""
    found = np.zeros(len(numbers), "V16")
    for append, slab, first, inside in table.slabs_of(numbers):
        begins = table.locations(append, slab, group.name)["row"] == 0
        blocks = np.cumsum(begins) - 1
        digests = table.digests(append, slab, group.name, int(begins.sum()))
        which = blocks[numbers[inside] - first]
        if (which < 0).any():
            earlier = table.locations(append, slab - 1, group.name)["row"] == 0
            last = table.digests(append, slab - 1, group.name, int(earlier.sum()))[-1:]
            digests, which = np.concatenate([digests, last]), which % (len(digests) + 1)
        found[inside] = digests[which]
    return found
