"""How the columns of a loader are read: which groups, which rows of each table, and into what."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.tables.format.schema import Group
from hubarray.tables.read.loader_columns import Column
from hubarray.tables.read.row_fetch import Numbers
from hubarray.tables.snapshot.snapshot import TableSnapshot

# What a request costs, in the bytes that could have been read meanwhile: python -m benchmarks table_costs tells it.
REQUEST_BYTES = {True: 512 << 10, False: 48 << 10}
EXACT_CANDIDATES = 12


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
    names_by_field = {column.field: column.name for column in columns}
    stored = [field for field in names_by_field if schema.groups_of(field) and not schema[field].index]
    groups = {name: [field for field, _ in group.fields] for name, group in schema.groups.items()}
    request = REQUEST_BYTES[table.fetcher.remote]
    costs = {name: request + _block_bytes(table, name) for name in groups}
    shared = {column.name for column in columns if len(column.tables) > 1}
    left = dict(names_by_field)
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


def parts_of(pick: GroupRead, columns: Mapping[str, Column], row_numbers: Sequence[Numbers]) -> list[MaskedRead]:
    """The columns of a pick by the rows that they are read for.

    Those are the rows that its table has, and of columns that several tables have, that no table before it has.
    """
    by_tables: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for field, name in zip(pick.fields, pick.names, strict=True):
        before = tuple(number for number in columns[name].tables if number < pick.table)
        by_tables.setdefault(before, []).append((field, name))
    parts = []
    for before, group in by_tables.items():
        mask = np.asarray(row_numbers[pick.table] >= 0)
        for number in before:
            mask = mask & (row_numbers[number] < 0)
        fields, names = zip(*group, strict=True)
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


def cheapest(fields: Collection[str], groups: Mapping[str, Collection[str]], costs: Mapping[str, float]) -> list[str]:
    """The set of groups of least cost that together have the fields.

    Parameters
    ----------
    fields : collection of str
        Each in one group at least.
    groups : mapping of str to collection of str
        The fields of each group.
    costs : mapping of str to float
        Of reading a row of each group, in whatever unit: a request and its bytes.

    Returns
    -------
    list of str
        In the order of ``groups``. Exact for up to 12 candidates; above, greedy: the group with the least cost for each
        field that is still missing, again and again, and what turns out to be unneeded is left out.

    Examples
    --------
    >>> cheapest({"x", "y"}, {"a": {"x"}, "b": {"y"}, "c": {"x", "y", "z"}}, {"a": 2, "b": 2, "c": 3})
    ['c']
    """
    field_set = frozenset(fields)
    useful = {name: field_set & frozenset(has) for name, has in groups.items()}
    candidates = [name for name, has in useful.items() if has]
    # What only one group has decides for it.
    sure = {name for field in field_set for name in _only(field, useful)}
    missing = field_set.difference(*(useful[name] for name in sure)) if sure else field_set
    rest = [name for name in candidates if name not in sure and useful[name] & missing]
    choose = _exact if len(rest) <= EXACT_CANDIDATES else _greedy
    chosen = sure | choose(missing, {name: useful[name] & missing for name in rest}, costs)
    return [name for name in groups if name in chosen]


def _only(field: str, groups: Mapping[str, frozenset[str]]) -> Sequence[str]:
    having = [name for name, has in groups.items() if field in has]
    return having if len(having) == 1 else ()


def _exact(missing: frozenset[str], groups: Mapping[str, frozenset[str]], costs: Mapping[str, float]) -> set[str]:
    best: set[str] = set()
    least = float("inf") if missing else 0.0
    for count in range(1, len(groups) + 1):
        for combination in itertools.combinations(groups, count):
            cost = sum(costs[name] for name in combination)
            if cost < least and missing <= frozenset[str]().union(*(groups[name] for name in combination)):
                best, least = set(combination), cost
    return best


def _greedy(missing: frozenset[str], groups: Mapping[str, frozenset[str]], costs: Mapping[str, float]) -> set[str]:
    chosen: list[str] = []
    left = set(missing)
    while left:
        best = min(
            (name for name in groups if groups[name] & left), key=lambda name: costs[name] / len(groups[name] & left)
        )
        chosen.append(best)
        left -= groups[best]
    for name in list(chosen):
        others = frozenset[str]().union(*(groups[field] for field in chosen if field != name))
        if missing <= others:
            chosen.remove(name)
    return set(chosen)
