"""Damaged blobs in a table's terms: of which partition, group and rows they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hubarray.blobs.ref import BlobName, Refs, blob_place
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.history.log.version import Version
from hubarray.history.records.contents import refs_of
from hubarray.history.records.record import Record
from hubarray.redaction import shown_text
from hubarray.storage.base import Buffer
from hubarray.tables.format import locations
from hubarray.tables.format.block import is_intact
from hubarray.tables.format.metadata import AppendEntry
from hubarray.tables.snapshot.snapshot import TableSnapshot

_NUMBERS = 1 << 16


def unreadable(version: Version, record: Record) -> Iterator[str]:
    """Pieces of a table that are not there, or are not what record and schema say: the first of each append.

    Reads the whole index and all locations.
    """
    table = TableSnapshot.of(version, record)
    try:
        table.require_pieces()
    except CorruptDataError as error:
        yield str(error)
        return
    for append in table.metadata.appends:
        try:
            table.partitions(append)
            if append.has_ranges:
                table.ranges(append)
            for slab in range(append.slabs):
                table.index(append, slab)
                for group in table.metadata.schema.groups:
                    block_locations = table.locations(append, slab, group)
                    table.digests(append, slab, group, int(locations.begin_blocks(block_locations).sum()))
                    chunks = np.unique(block_locations["chunk"][block_locations["length"] > 0])
                    table.chunk_files(append, chunks)
        except (CorruptDataError, ObjectMissingError) as error:
            yield str(error)


def affected(version: Version, record: Record, damaged: Refs) -> Iterator[str]:
    """Each run of rows, and each piece of the index, that damaged blobs are of.

    Reads the locations of the whole table and the damaged chunk files: of these each block is looked at, as a flipped
    bit harms one of them.

    Parameters
    ----------
    version : Version
    record : Record
    damaged : array of REF
    """
    table = TableSnapshot.of(version, record)
    names = {blob_place(ref).name for ref in damaged}
    for append in table.metadata.appends:
        numbers = _damaged_numbers(table, append, names)
        if numbers:
            yield from _pieces(table, append, numbers)
            yield from _rows(table, append, {number - append.first for number in numbers})


def _damaged_numbers(table: TableSnapshot, append: AppendEntry, names: set[BlobName]) -> set[int]:
    broken_rows = set()
    end = table.metadata.end_of(append)
    for first in range(append.first, end, _NUMBERS):
        numbers = np.arange(first, min(end, first + _NUMBERS), dtype=np.uint64)
        refs = refs_of(table.fetcher, table.record, numbers)
        broken_rows |= {
            int(number)
            for number, ref in zip(numbers, refs, strict=True)
            if ref["length"] and blob_place(ref).name in names
        }
    return broken_rows


def _pieces(table: TableSnapshot, append: AppendEntry, numbers: set[int]) -> Iterator[str]:
    metadata = table.metadata
    if metadata.partitions_number(append) in numbers:
        yield "the list of partitions"
    if append.has_ranges and metadata.ranges_number(append) in numbers:
        yield "the ranges of the index, which only filters need"
    for slab in range(append.slabs):
        first = append.first_row + slab * locations.SLAB_ROWS
        rows = f"of rows {first:,} to {first + append.slab_rows(slab) - 1:,}"
        if metadata.index_number(append, slab) in numbers:
            yield f"the index {rows}"
        for group in metadata.schema.groups:
            if metadata.locations_number(append, slab, group) in numbers:
                yield f"the locations in group {group!r} {rows}"
            if metadata.digests_number(append, slab, group) in numbers:
                yield f"the digests of group {group!r} {rows}, which only reference= and diff need"


def _rows(table: TableSnapshot, append: AppendEntry, chunks: set[int]) -> Iterator[str]:
    """The rows whose blocks in some chunk files are not whole."""
    chunk_numbers = np.array(sorted(chunks), np.int64)
    held: dict[tuple[int, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    for slab in range(append.slabs):
        for group in table.metadata.schema.groups:
            try:
                block_locations = table.locations(append, slab, group)
            except (CorruptDataError, ObjectMissingError):
                continue
            inside = np.flatnonzero((block_locations["length"] > 0) & np.isin(block_locations["chunk"], chunk_numbers))
            for chunk in np.unique(block_locations["chunk"][inside]).tolist():
                of_chunk = inside[block_locations["chunk"][inside] == chunk]
                rows = of_chunk + (append.first_row + slab * locations.SLAB_ROWS)
                held.setdefault((chunk, group), []).append((rows, block_locations[of_chunk]))
    lost: dict[str, list[np.ndarray]] = {}
    for (chunk, group), row_parts in sorted(held.items()):
        rows, block_locations = (np.concatenate(parts) for parts in zip(*row_parts, strict=True))
        lost.setdefault(group, []).append(rows[_broken(table, append, chunk, block_locations)])
    for group, groups_rows in lost.items():
        for key, of, harmed in table.by_partition(np.sort(np.concatenate(groups_rows))):
            for run in np.split(harmed - of.start, np.flatnonzero(np.diff(harmed) != 1) + 1):
                named = f"row {run[0]}" if len(run) == 1 else f"rows {run[0]} to {run[-1]}"
                yield f"partition {shown_text(str(key))!r}, group {group!r}, {named}"


def _broken(table: TableSnapshot, append: AppendEntry, chunk: int, block_locations: np.ndarray) -> np.ndarray:
    """Which blocks of a chunk file are not what their locations mean."""
    place = blob_place(table.chunk_files(append, np.array([chunk]))[0])
    try:
        data: Buffer = table.fetcher.store.get(place.key, place.offset, place.length)
    except ObjectMissingError:
        return np.ones(len(block_locations), bool)
    view = memoryview(data)
    distinct, inverse = np.unique(block_locations[list(block_locations.dtype.names or ())], return_inverse=True)
    broken = [
        not is_intact(
            view[location["offset"] : int(location["offset"]) + int(location["length"])], check=int(location["check"])
        )
        for location in distinct
    ]
    return np.array(broken, bool)[inverse]
