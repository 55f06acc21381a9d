"""Publishing an index as a table: its blocks stay where they are, or are copied as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Blobs, Refs, blob_names
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.history.commits.commit import create_version
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.process import uptime_seconds
from hubarray.progress import announce, progress
from hubarray.storage.base import Buffer
from hubarray.tables.format.block import described, is_intact
from hubarray.tables.format.chunk_file import ChunkFile
from hubarray.tables.format.index_piece import Key, arrow_type, column_of
from hubarray.tables.format.locations import Locations, begin_blocks, empty
from hubarray.tables.format.part import PartFile
from hubarray.tables.format.schema import Field, Group, Schema
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.read.row_fetch import Numbers, located
from hubarray.tables.snapshot.digests import digests_of
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.append import lay_out, stored_values
from hubarray.tables.write.operations import whole
from hubarray.tables.write.worker import checked_key

_BATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class _Source:
    """A group of the new table: which table's it is, under which name there."""

    table: int
    group: Group


@dataclass(frozen=True)
class _Plan:
    """The new table's schema, and where each of its groups and index columns comes from.

    A group comes from several tables where their rows were put below each other.
    """

    schema: Schema
    groups: dict[str, list[_Source]]
    index: dict[str, tuple[tuple[int, ...], str]]


def write_index(
    loader: RowLoaderHandle, partitions: Sequence[Any], version: Version, *, attrs: dict[str, Any], message: str | None,
    move: bool, base: Record | None, columns: Sequence[str] | None = None, grace_seconds: float | None = None,
) -> Record:  # fmt: skip
    """Publish the rows of a loader as a table.

    Parameters
    ----------
    loader : RowLoader
    partitions : sequence of str or int
        The key of each row.
    version : Version
        Of the new table, with its deletion if it existed before.
    move : bool
        Whether blocks are copied, next to each other, instead of shared.
    columns : sequence of str, optional
        The fields of the new table; by default all.
    grace_seconds : float, optional

    Raises
    ------
    AlreadyExistsError, ConfigError
    """
    began = uptime_seconds()
    tables = loader.tables()
    for table in tables:
        table.version.base_record(table.record.head.number)
    numbers = loader.numbers
    plan = _planned(loader, tables, numbers)
    if columns is not None:
        plan = _narrowed(plan, columns)
    foreign = [table for table in tables if table.fetcher.root != version.fetcher.root]
    if foreign:
        count = _bytes_to_copy(tables, plan, numbers)
        announce(f"{version.name}: copying {count:,} bytes, as {foreign[0].version.name} is under another root")
    packs = PackWriter(version.store, version.name.home)
    keys, order = _partitions(partitions)
    try:
        with progress(len(keys), f"writing {version.name}", unit=" partitions") as bar:

            def files() -> Iterator[PartFile]:
                for key, rows in zip(keys, order, strict=True):
                    yield _part(key, [column[rows] for column in numbers], tables, plan, packs, move or bool(foreign))
                    bar.update(1)

            key_type = type(keys[0]) if keys else str
            laid = lay_out(files(), plan.schema, key_type, packs)
        packs.finish()
        draft = whole(version, plan.schema, key_type, laid, attrs=attrs, growing=False)
    except BaseException:
        packs.abandon()
        raise
    head = {} if grace_seconds is None else {"grace_seconds": grace_seconds}
    record, ours = create_version(version, draft, base=base, message=message, began=began, **head)
    if not ours:
        packs.abandon()
        raise AlreadyExistsError(f"{version.name}: somebody else has created it in the meantime; choose another name")
    return record


def _partitions(partitions: Sequence[Any]) -> tuple[list[Key], list[np.ndarray]]:
    """The keys, in order, and the positions of each one's rows."""
    runs: dict[Key, list[int]] = {}
    for position, key in enumerate(partitions):
        runs.setdefault(checked_key(key), []).append(position)
    if len({type(key) for key in runs}) > 1:
        raise ConfigError("the partition's keys are text and numbers; give all of one type")
    keys = sorted(runs)
    return keys, [np.array(runs[key], np.intp) for key in keys]


def _planned(loader: RowLoaderHandle, tables: Sequence[TableSnapshot], numbers: Sequence[Numbers]) -> _Plan:
    fields: dict[str, Field] = {}
    rows_per_block: dict[str, int] = {}
    groups: dict[str, list[_Source]] = {}
    index: dict[str, tuple[tuple[int, ...], str]] = {}
    named = {name: loader.column(name) for name in loader.columns}
    own_names = dict.fromkeys(loader.columns)
    own = {(i, column.field): name for name, column in named.items() for i in column.tables}
    for i, table in enumerate(tables):
        taken: dict[str, str] = {}
        for group, its_group in table.metadata.schema.groups.items():
            source = _Source(i, its_group)
            below = next((name for name, rows in groups.items() if _are_alike(loader, tables, rows[0], source)), None)
            if below is not None:
                groups[below].append(source)
                continue
            taken[group] = _unused(group, groups)
            groups[taken[group]] = [source]
            rows_per_block[taken[group]] = its_group.rows_per_block
        for field in table.metadata.schema:
            called = own.get((i, field))
            if called is None:
                raise ConfigError(f"{field!r}: is in two tables; merge them with hub.join(..., suffixes=...)")
            its = table.metadata.schema[field]
            stored_in = [taken[group] for group in table.metadata.schema.groups_of(field) if group in taken]
            others = named[called].tables
            if others[0] != i and loader.are_exclusive(others):
                _require_alike(called, tables[others[0]], table, field, is_stored=bool(stored_in))
                continue
            lacks = bool(np.logical_and.reduce([numbers[number] < 0 for number in named[called].tables]).any())
            is_first = named[called].tables[0] == i
            if not is_first and not stored_in:
                continue
            # What the tables were merged on is in this one's blocks, too, whose fields stay as they are.
            name = called if is_first else _unused(f"{field}{loader.suffix(i)}", {**fields, **own_names})
            if its.index and is_first:
                index[name] = (named[called].tables, field)
                if lacks and stored_in and not its.nullable:
                    raise ConfigError(
                        f"{name!r}: is missing in some rows, and its blocks cannot hold null; filter these rows out"
                    )
            fields[name] = Field(
                its.kind if its.dtype is None else its.dtype, its.shape, codec=its.codec, group=stored_in or None,
                index=its.index and is_first,
                nullable=its.nullable or (its.index and is_first and (lacks or any(
                    tables[number].metadata.schema[field].nullable for number in named[called].tables))),
            )  # fmt: skip
    return _Plan(Schema(fields, rows_per_block=rows_per_block), groups, index)


def _narrowed(plan: _Plan, columns: Sequence[str]) -> _Plan:
    """The plan of a table that has only some fields.

    Raises
    ------
    ConfigError
        A group has others too, whose blocks are shared whole.
    """
    chosen = set(columns)
    groups = {}
    for name, group in plan.schema.groups.items():
        inside = [field for field, _ in group.fields]
        both = [field for field in inside if field in chosen]
        if not both:
            continue
        others = [field for field in inside if field not in chosen]
        if others:
            raise ConfigError(
                f"columns: {', '.join(map(repr, others))[:200]} lie in one block with "
                f"{', '.join(map(repr, both))[:200]} (group {name!r}), and blocks are "
                "published as they are; name them too, or write the rows again"
            )
        groups[name] = plan.groups[name]
    fields = {name: plan.schema[name] for name in plan.schema if name in chosen}
    rows = {name: plan.schema.groups[name].rows_per_block for name in groups}
    index = {name: where for name, where in plan.index.items() if name in chosen}
    return _Plan(Schema(fields, rows_per_block=rows), groups, index)


def _are_alike(loader: RowLoaderHandle, tables: Sequence[TableSnapshot], first: _Source, second: _Source) -> bool:
    """Whether two tables' blocks can be one group's: no row is of both, and they have the same fields, stored alike."""
    if first.table == second.table or first.group.rows_per_block != second.group.rows_per_block:
        return False
    names = [name for name, _ in first.group.fields]
    if names != [name for name, _ in second.group.fields] or described(first.group) != described(second.group):
        return False
    shared = all(
        any(
            column.field == name and {first.table, second.table} <= set(column.tables)
            for column in loader.every_column()
        )
        for name in names
    )
    return shared and loader.are_exclusive([first.table, second.table])


def _require_alike(name: str, left: TableSnapshot, right: TableSnapshot, field: str, *, is_stored: bool) -> None:
    """Refuse to put rows below each other whose values are stored in two ways."""
    first, second = left.metadata.schema[field], right.metadata.schema[field]
    if is_stored or (first.kind, first.dtype, first.index) != (second.kind, second.dtype, second.index):
        raise ConfigError(
            f"{name!r}: {left.version.name} and {right.version.name} store it in two ways (type, codec or group), so "
            "one table cannot hold their rows as they are; publish one at a time, or write with one schema"
        )


def _unused(group: str, taken: Mapping[str, object]) -> str:
    name, i = group, 2
    while name in taken:
        name, i = f"{group}-{i}", i + 1
    return name


def _part(
    key: Key, numbers: Sequence[Numbers], tables: Sequence[TableSnapshot], plan: _Plan, packs: PackWriter, copied: bool
) -> PartFile:
    rows = len(numbers[0])
    files: list[Refs] = []
    places, digests = {}, {}
    for name in plan.schema.groups:
        block_locations = empty(rows, rows_per_block=plan.schema.groups[name].rows_per_block)
        known = np.zeros(rows, "V16")
        for source in plan.groups[name]:
            table, row_numbers = tables[source.table], numbers[source.table]
            present = np.flatnonzero(row_numbers >= 0)
            if not len(present):
                continue
            located_there, chunks = located(table, source.group, row_numbers[present])
            own = located_there.copy()
            stored = np.flatnonzero(own["length"])
            if len(stored):
                lay = _copied if copied else _shared
                own[stored] = lay(table, source.group, own[stored], chunks[stored], packs, files)
            block_locations[present] = own
            if source.group.rows_per_block == 1:
                known[present] = digests_of(table, source.group, row_numbers[present])
        places[name] = block_locations
        # Of rows that are the first of their block; zeros where a block's rows no longer follow each other.
        digests[name] = known[begin_blocks(block_locations)]
    return PartFile(
        key, rows, np.array(files, REF) if files else np.zeros(0, REF), _index(numbers, tables, plan), places, digests
    )


def _shared(
    table: TableSnapshot,
    group: Group,
    block_locations: Locations,
    chunks: np.ndarray,
    packs: PackWriter,
    files: list[Refs],
) -> Locations:
    """The locations of blocks where they lie; their chunk files are named in the order of their first use."""
    distinct, first, inverse = np.unique(chunks, return_index=True, return_inverse=True)
    table.block_refs(group, chunks, block_locations)
    refs = table.chunk_refs(distinct)
    order = np.argsort(first, kind="stable")
    position = np.empty(len(distinct), np.int64)
    position[order] = np.arange(len(order)) + len(files)
    files += [refs[i] for i in order.tolist()]
    moved = block_locations.copy()
    moved["chunk"] = position[inverse]
    return moved


def _copied(
    table: TableSnapshot,
    group: Group,
    block_locations: Locations,
    chunks: np.ndarray,
    packs: PackWriter,
    files: list[Refs],
) -> Locations:
    """Blocks copied, byte for byte, into new chunk files, in the order of their first use."""
    key = (chunks << np.uint64(32)) | block_locations["offset"].astype(np.uint64)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    blocks = block_locations[first[order]]
    refs = table.block_refs(group, chunks[first[order]], blocks)
    where = block_locations[first[order]]
    file, begin = ChunkFile(), 0
    position = len(files)
    while begin < len(refs):
        upto = np.cumsum(refs["length"][begin:].astype(np.int64))
        end = begin + max(1, int(np.searchsorted(upto, _BATCH_BYTES)))
        checks = blocks["check"][begin:end].tolist()

        def proves(i: int, pieces: Sequence[Buffer], checks: list[int] = checks) -> bool:
            return is_intact(b"".join(pieces), check=checks[i])

        for i, data in enumerate(table.fetcher.blobs(Blobs(blob_names(refs[begin:end]), proves)), begin):
            if not file.takes(len(data)):
                files.append(packs.add(file.pieces))
                file, position = ChunkFile(), len(files)
            where["chunk"][i], where["offset"][i] = position, file.add([data], len(data))
        begin = end
    files.append(packs.add(file.pieces))
    again = np.empty(len(order), np.intp)
    again[order] = np.arange(len(order))
    moved = where[again[inverse]]
    if group.rows_per_block > 1:
        moved["row"] = block_locations["row"]
    return moved


def _index(numbers: Sequence[Numbers], tables: Sequence[TableSnapshot], plan: _Plan) -> pa.Table:
    names, columns = [], []
    for name in plan.schema.index:
        of, field = plan.index[name]
        values: list[Any] = [None] * len(numbers[0])
        for i in reversed(of):
            present = np.flatnonzero(numbers[i] >= 0)
            for position, value in zip(
                present.tolist(), tables[i].index_values(numbers[i][present], field), strict=True
            ):
                values[position] = value
        names.append(pa.field(name, arrow_type(plan.schema[name]), nullable=plan.schema[name].nullable))
        columns.append(column_of(plan.schema[name], stored_values(plan.schema[name], values)))
    return pa.table(columns, schema=pa.schema(names))


def _bytes_to_copy(tables: Sequence[TableSnapshot], plan: _Plan, numbers: Sequence[Numbers]) -> int:
    total = 0
    for source in itertools.chain.from_iterable(plan.groups.values()):
        row_numbers = numbers[source.table]
        block_locations, chunks = located(tables[source.table], source.group, row_numbers[row_numbers >= 0])
        key = (chunks << np.uint64(32)) | block_locations["offset"].astype(np.uint64)
        _, first = np.unique(key, return_index=True)
        total += int(block_locations["length"][first].astype(np.int64).sum())
    return total
