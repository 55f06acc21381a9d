"""From parts to one append of a table: its chunk files, its pieces, and what the description says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Refs, blob_place, homes
from hubarray.errors import ConfigError, ConflictError, CorruptDataError
from hubarray.history.log.version import Version
from hubarray.history.records.overlay import Numbers
from hubarray.history.records.referrers import write_referrer
from hubarray.tables.format import index_piece, locations, statistics
from hubarray.tables.format.metadata import MAX_PARTITIONS, TableMetadata
from hubarray.tables.format.part import MAX_PART_FILE_BYTES, PartFile, TablePart
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.format.slabs import Slab, slabs
from hubarray.tables.read.row_fetch import located
from hubarray.tables.snapshot.digests import digests_of
from hubarray.tables.snapshot.snapshot import TableSnapshot

_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class LaidOut:
    """Partitions as one append, wherever in the table it will begin.

    Attributes
    ----------
    chunk_files, pieces : array of REF
        In the order of their numbers.
    rows, partitions : int
    blocks, stored_bytes : dict of str to int
        Of each group.
    """

    chunk_files: Refs
    pieces: Refs
    rows: int
    partitions: int
    blocks: dict[str, int]
    stored_bytes: dict[str, int]
    has_ranges: bool

    def added_to(self, table: TableMetadata) -> tuple[TableMetadata, Numbers, Refs]:
        """The table with this append, and the numbers and refs that it adds."""
        grown = table.with_append(
            chunk_files=len(self.chunk_files), rows=self.rows, partitions=self.partitions, blocks=self.blocks,
            stored_bytes=self.stored_bytes, has_ranges=self.has_ranges,
        )  # fmt: skip
        return grown, np.arange(table.end, grown.end, dtype=np.uint64), np.concatenate([self.chunk_files, self.pieces])


def lay_out(files: Iterable[PartFile], schema: Schema, key_type: type, packs: PackWriter) -> LaidOut:
    """Upload the pieces of partitions, which come in the order of their keys; a slab is held at a time."""
    chunk_files: list[Refs] = [np.zeros(0, REF)]
    listed: list[tuple[index_piece.Key, int, int]] = []
    blocks, stored_bytes = dict.fromkeys(schema.groups, 0), dict.fromkeys(schema.groups, 0)

    def noted() -> Iterator[PartFile]:
        first = 0
        for file in files:
            chunk_files.append(file.chunk_files)
            listed.append((file.key, first, file.rows))
            first += file.rows
            for name in schema.groups:
                blocks[name] += len(file.digests[name])
                stored_bytes[name] += _block_bytes(file, name)
            yield file

    pieces: list[Any] = []
    ranges: list[list[statistics.Range]] = []
    for slab in slabs(noted(), schema, key_type):
        pieces += [packs.add(piece) for piece in _pieces_of(slab, schema)]
        ranges.append([statistics.range_of(slab.index[name]) for name in schema.index])
    if len(listed) > MAX_PARTITIONS:
        raise ConfigError(f"{len(listed):,} partitions, and {MAX_PARTITIONS:,} are added at once; make larger ones")
    columns = [list(column) for column in zip(*listed, strict=True)] or [[], [], []]
    partitions = pa.table(columns, schema=index_piece.partitions_schema(key_type))
    pieces.append(packs.add(index_piece.encode(partitions)))
    # Of one slab they would cost as much as the slab.
    has_ranges = len(ranges) > 1 and bool(schema.index)
    if has_ranges:
        pieces.append(packs.add(index_piece.encode(statistics.ranges_table(ranges, schema))))
    rows = sum(count for _, _, count in listed)
    refs = np.concatenate(chunk_files)
    return LaidOut(refs, np.array(pieces, REF), rows, len(listed), blocks, stored_bytes, has_ranges)


def part_files(fetcher: Fetcher, parts: Sequence[TablePart], schema: Schema) -> Iterator[PartFile]:
    """The part files of parts, in their order; some are read ahead, in parallel."""
    begin = 0
    while begin < len(parts):
        end, held = begin, 0
        while end < len(parts) and (end == begin or held + int(parts[end].file["length"]) <= _AHEAD_BYTES):
            held += int(parts[end].file["length"])
            end += 1
        batch = parts[begin:end]
        refs = np.array([part.file for part in batch], REF)
        for part, data in zip(batch, fetcher.blobs(refs, max_bytes=MAX_PART_FILE_BYTES), strict=True):
            where = fetcher.store.where(blob_place(part.file).key)
            file = PartFile.decode(data, part.key, schema, where)
            if file.rows != part.rows or file.digest(schema) != part.digest:
                # Another key, or fields of another order, would otherwise give the rows other names.
                raise CorruptDataError(
                    f"{where}: the part of {part.key!r} is not of this file, or was written with another schema; write "
                    "the partition again"
                )
            yield file
        begin = end


def refuse_other_rows(table: TableSnapshot, part: TablePart) -> None:
    """Refuse a part whose key a table has with other rows; equal ones are a write that was made again.

    Reads the locations, digests and index fields of the partition's rows.

    Raises
    ------
    ConflictError
    """
    schema = table.metadata.schema
    rows = table.rows_of_partitions()[part.key]
    if len(rows) == part.rows:
        numbers = np.arange(rows.start, rows.stop)
        digests = {}
        for name, group in schema.groups.items():
            begins = locations.begin_blocks(located(table, group, numbers)[0])
            digests[name] = digests_of(table, group, numbers)[begins]
        columns = [index_piece.column_of(schema[name], stored_values(schema[name], table.index_values(numbers, name)))
                   for name in schema.index]  # fmt: skip
        index = pa.table(columns, schema=index_piece.index_schema(schema))
        renewed = PartFile(part.key, len(rows), np.zeros(0, REF), index, {}, digests)
        if renewed.digest(schema) == part.digest:
            return
    raise ConflictError(
        f"{table.version.name}: partition {part.key!r} is there already, with other rows; a table grows by new "
        "partitions. Nothing was committed"
    )


def stored_values(field: Field, values: list[Any]) -> list[Any]:
    """Values of rows in their form before storage: text as UTF-8, and NaT instead of null."""
    if field.kind == "string":
        return [None if value is None else value.encode() for value in values]
    if field.dtype is not None and field.dtype.kind in "mM" and not field.nullable:
        return [np.array("NaT", field.dtype)[()] if value is None else value for value in values]
    return values


def protect(version: Version, refs: Refs, known: set[str]) -> None:
    """Leave a referrer under each foreign home that refs point into, before a record does."""
    for home in sorted(homes.names(refs) - {version.name.home} - known):
        write_referrer(version.store, home, version.name.home)
        known.add(home)


def sorted_by_key(parts: Iterable[TablePart]) -> list[TablePart]:
    """Parts in the order in which a table has them."""
    key: Callable[[TablePart], index_piece.Key] = lambda part: part.key  # noqa: E731
    return sorted(parts, key=key)


def _pieces_of(slab: Slab, schema: Schema) -> list[bytes]:
    if slab.index.nbytes > index_piece.MAX_PIECE_BYTES:
        raise ConfigError(
            f"the index fields of {slab.rows:,} rows take {slab.index.nbytes:,} bytes, and a slab of the index has at "
            f"most {index_piece.MAX_PIECE_BYTES:,}; long text belongs into a field without index=True"
        )
    pieces = [index_piece.encode(slab.index)]
    pieces += [locations.encode(slab.locations[name]) for name in schema.groups]
    return [*pieces, *(slab.digests[name].tobytes() for name in schema.groups)]


def _block_bytes(file: PartFile, group: str) -> int:
    block_locations = file.locations[group]
    return int(block_locations["length"][locations.begin_blocks(block_locations)].astype(np.uint64).sum())
