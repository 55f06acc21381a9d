"""How the columns of a loader are read: which groups, which rows of each table, and into what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.tables.format.schema import Group
from hubarray.tables.read.choosing import cheapest
from hubarray.tables.read.loader_columns import Column
from hubarray.tables.read.row_fetch import Numbers
from hubarray.tables.snapshot.snapshot import TableSnapshot

# What a request costs, in the bytes that could have been read meanwhile: python -m benchmarks table_costs tells it.
REQUEST_BYTES = {True: 512 << 10, False: 48 << 10}


@dataclass(frozen=True)
class GroupRead:
    """Fields of one table that are read together: of a group, or of the index where that is None.

    ``is_shared`` says that another table has one of the columns too.
    """

    table: int
    group: Group | None
    fields: tuple[str, ...]
    names: tuple[str, ...]
    is_shared: bool


@dataclass(frozen=True)
class MaskedRead:
    """Columns that are read for the same rows: all rows, or those of a mask."""

    fields: tuple[str, ...]
    names: tuple[str, ...]
    mask: np.ndarray | None


def plan_group_reads(i: int, table: TableSnapshot, columns: Sequence[Column]) -> list[GroupRead]:
    """How some columns of a table are read: in the cheapest groups, the rest in the index."""
    schema = table.metadata.schema
    wanted = {column.field: column.name for column in columns}
    stored = [field for field in wanted if schema.groups_of(field) and not schema[field].index]
    groups = {name: [field for field, _ in group.fields] for name, group in schema.groups.items()}
    request = REQUEST_BYTES[table.fetcher.store.remote]
    costs = {name: request + _block_bytes(table, name) for name in groups}
    shared = {column.name for column in columns if len(column.tables) > 1}
    left = dict(wanted)
    picks = []
    for name in cheapest(stored, groups, costs):
        fields = [field for field in groups[name] if field in left]
        names = tuple(left.pop(field) for field in fields)
        picks.append(GroupRead(i, schema.groups[name], tuple(fields), names, not shared.isdisjoint(names)))
    if left:
        picks.append(GroupRead(i, None, tuple(left), tuple(left.values()), not shared.isdisjoint(left.values())))
    return picks


def _block_bytes(table: TableSnapshot, group: str) -> float:
    return table.metadata.stored_bytes[group] / max(1, table.metadata.blocks[group])


def parts_of(pick: GroupRead, columns: Mapping[str, Column], found: Sequence[Numbers]) -> list[MaskedRead]:
    """The columns of a pick by the rows that they are read for.

    Those are the rows that its table has, and of columns that several tables have, that no table before it has.
    """
    by_tables: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for field, name in zip(pick.fields, pick.names, strict=True):
        before = tuple(one for one in columns[name].tables if one < pick.table)
        by_tables.setdefault(before, []).append((field, name))
    parts = []
    for before, some in by_tables.items():
        mask = np.asarray(found[pick.table] >= 0)
        for one in before:
            mask = mask & (found[one] < 0)
        fields, names = zip(*some, strict=True)
        parts.append(MaskedRead(fields, names, None if mask.all() else mask))
    return parts


def fill_from_index(
    part: MaskedRead,
    numbers: Numbers,
    table: TableSnapshot,
    out: dict[str, Any] | None,
    rows_out: list[dict[str, Any]] | None,
    filled: Mapping[str, np.ndarray],
) -> None:
    """Set the columns of a part that are in the index."""
    places = range(len(numbers)) if part.mask is None else np.flatnonzero(part.mask).tolist()
    mine = numbers if part.mask is None else numbers[part.mask]
    for field, name in zip(part.fields, part.names, strict=True):
        for position, value in zip(places, table.index_values(mine, field), strict=True):
            if rows_out is not None:
                rows_out[position][name] = value
            elif out is not None and value is not None:
                out[name][position] = value
                filled[name][position] = True


def split(takes: Sequence[tuple[Any, np.ndarray | None]], places: np.ndarray | None, block: Any,
           positions: np.ndarray, within: np.ndarray, run: Any) -> None:  # fmt: skip
    """Hand a block to each part of the columns, for the rows that the part is read for."""
    at = positions if places is None else places[positions]
    for take, mask in takes:
        if mask is None:
            take(block, at, within, run if places is None else None)
        elif mask[at].any():
            take(block, at[mask[at]], within[mask[at]], None)
