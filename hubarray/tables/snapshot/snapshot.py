"""A table at one commit: its pieces, each checked, and the refs that its locations mean."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, BlobPlace, Refs, blob_place
from hubarray.bounded_dict import BoundedDict
from hubarray.errors import CorruptDataError
from hubarray.history.log.version import Version
from hubarray.history.records.contents import refs_of
from hubarray.history.records.record import Record
from hubarray.storage.base import Buffer
from hubarray.tables.format import index_piece, locations
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.locations import Locations
from hubarray.tables.format.metadata import AppendEntry, TableMetadata, metadata_of
from hubarray.tables.format.schema import PARTITION, Group
from hubarray.tables.format.statistics import ranges_schema
from hubarray.tables.snapshot.block_spans import BlockTable, block_table

_REMEMBERED_REFS = 16384
_remembered = partial(BoundedDict[int, Any], _REMEMBERED_REFS)
_CHECKED_SLABS = 4096


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """The beginning of every read of a table.

    Attributes
    ----------
    version : Version
    record : Record
        Of a table.
    metadata : TableMetadata
    """

    version: Version
    record: Record
    metadata: TableMetadata
    _known: dict[int, Refs] = field(default_factory=_remembered, repr=False)
    _chunk_places: dict[int, BlobPlace] = field(default_factory=_remembered, repr=False)
    _location_keys: dict[int, Hashable] = field(default_factory=_remembered, repr=False)
    _partition_ends: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    _checked: set[str] = field(default_factory=set, repr=False)

    @staticmethod
    def of(version: Version, record: Record) -> TableSnapshot:
        """The state that a record has.

        Raises
        ------
        FormatVersionError, CorruptDataError
        """
        return TableSnapshot(version, record, metadata_of(record))

    @property
    def fetcher(self) -> Fetcher:
        """The engine that reads its blobs."""
        return self.version.fetcher

    def require_pieces(self) -> None:
        """Refuse a record that speaks of slabs which are not there, before memory is spent on their rows.

        Raises
        ------
        CorruptDataError, StorageError
        """
        if "pieces" in self._checked:
            return
        for append in self.metadata.appends:
            self._ref(self.metadata.partitions_number(append))
            for first in range(0, append.slabs, _CHECKED_SLABS):
                slabs = range(first, min(append.slabs, first + _CHECKED_SLABS))
                self._refs(np.array([self.metadata.index_number(append, slab) for slab in slabs], np.uint64))
        self._checked.add("pieces")

    def index(self, append: AppendEntry, slab: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The index of a slab, or some columns of it.

        Raises
        ------
        CorruptDataError, StorageError
        """
        place, data = self._piece(self.metadata.index_number(append, slab))
        expected = index_piece.arrow_schema(self.metadata.schema, self.metadata.key_type)
        try:
            return index_piece.decode(data, expected, rows=append.slab_rows(slab), columns=columns)
        except ValueError as error:
            self._refuse(place, f"the index of slab {slab} {error}")

    def partitions(self, append: AppendEntry) -> pa.Table:
        """The partitions of an append: key, first row within it, rows.

        Raises
        ------
        CorruptDataError, StorageError
        """
        place, data = self._piece(self.metadata.partitions_number(append))
        expected = index_piece.partitions_schema(self.metadata.key_type)
        try:
            piece = index_piece.decode(data, expected, rows=append.partitions)
        except ValueError as error:
            self._refuse(place, f"the list of partitions {error}")
        rows, first = (piece[name].to_numpy() for name in ("rows", "first_row"))
        # As floats first: whoever wrote them may have meant the sum to overflow.
        if (rows < 0).any() or (rows > append.rows).any() or float(rows.sum(dtype=np.float64)) > 2.0 * append.rows:
            self._refuse(place, "the list of partitions has other rows than the table")
        ends = np.cumsum(rows)
        if (rows < 0).any() or (first != ends - rows).any() or int(rows.sum()) != append.rows:
            self._refuse(place, "the list of partitions has other rows than the table")
        return piece

    def ranges(self, append: AppendEntry) -> pa.Table:
        """The ranges of the index fields in each slab of an append that has them.

        Raises
        ------
        CorruptDataError, StorageError
        """
        place, data = self._piece(self.metadata.ranges_number(append))
        try:
            return index_piece.decode(data, ranges_schema(self.metadata.schema), rows=append.slabs)
        except ValueError as error:
            self._refuse(place, f"the ranges of the index {error}")

    def locations(self, append: AppendEntry, slab: int, group: str) -> Locations:
        """Where the rows of a slab are in a group; kept in the memory cache.

        Raises
        ------
        CorruptDataError, StorageError
        """
        number = self.metadata.locations_number(append, slab, group)
        rows_per_block = self.metadata.schema.groups[group].rows_per_block
        rows = append.slab_rows(slab)
        key = self._location_keys.get(number)
        if key is None:
            # By the blob itself, as after an undo another append may have the same numbers; and by what it was checked
            # for.
            name = blob_place(self._ref(number)[0]).name
            key = ("locations", self.fetcher.identity, name, rows, append.chunk_files, rows_per_block > 1)
            self._location_keys[number] = key
        block_locations: Locations | None = self.fetcher.memory.get(key)
        if block_locations is None:
            place, data = self._piece(number)
            try:
                block_locations = locations.decode(
                    data, rows=rows, chunk_files=append.chunk_files, rows_per_block=rows_per_block
                )
            except ValueError as error:
                self._refuse(place, f"the locations of {group!r} in slab {slab}: {error}")
            block_locations.flags.writeable = False
            self.fetcher.memory.put(key, block_locations, block_locations.nbytes)
        return block_locations

    def block_table(self, append: AppendEntry, slab: int, group: str) -> BlockTable | None:
        """The blocks of a slab's rows in a group, where they lie in their order; kept in the memory cache.

        Raises
        ------
        CorruptDataError, StorageError
        """
        number = self.metadata.locations_number(append, slab, group)
        block_locations = self.locations(append, slab, group)
        key = ("blocks", self._location_keys[number])
        known: tuple[BlockTable | None] | None = self.fetcher.memory.get(key)
        if known is None:
            known = (block_table(block_locations),)
            self.fetcher.memory.put(key, known, 64 if known[0] is None else known[0].nbytes)
        return known[0]

    def digests(self, append: AppendEntry, slab: int, group: str, blocks: int) -> np.ndarray:
        """Return the digests of the blocks that start in a slab.

        Raises
        ------
        CorruptDataError, StorageError
        """
        if not blocks:
            # An empty blob is none.
            return np.zeros(0, "V16")
        place, data = self._piece(self.metadata.digests_number(append, slab, group))
        if len(data) != 16 * blocks:
            self._refuse(place, f"the digests of {group!r} in slab {slab} are not those of its {blocks} blocks")
        return np.frombuffer(data, "V16")

    def chunk_files(self, append: AppendEntry, chunks: np.ndarray) -> Refs:
        """The refs of chunk files, by their numbers within an append.

        Raises
        ------
        CorruptDataError
        """
        return self._refs(chunks.astype(np.uint64) + np.uint64(append.first))

    def index_values(self, numbers: np.ndarray, name: str) -> list[Any]:
        """The stored values of an index field of rows: NumPy scalars, text, bytes, or None."""
        result: list[Any] = [None] * len(numbers)
        for append, slab, first, inside in self.slabs_of(numbers):
            values = index_piece.values_of(
                self.metadata.schema[name], self.index_column(append, slab, name), numbers[inside] - first
            )
            for position, value in zip(inside.tolist(), values, strict=True):
                result[position] = value
        return result

    def rows_of_partitions(self) -> dict[Key, range]:
        """The row numbers of each partition."""
        ranges: dict[Key, range] = {}
        for append in self.metadata.appends:
            listed = self.partitions(append)
            rows = zip(*(listed[name].to_pylist() for name in (PARTITION, "first_row", "rows")), strict=True)
            ranges |= {key: range(append.first_row + at, append.first_row + at + count) for key, at, count in rows}
        return ranges

    def group_row_bytes(self, group: str) -> float:
        """Stored bytes of a row in a group, on average."""
        return self.metadata.stored_bytes[group] / max(1, self.metadata.rows)

    def by_partition(self, numbers: np.ndarray) -> Iterator[tuple[Key, range, np.ndarray]]:
        """Some rows, in order of their numbers, by partition: its key, all its rows, and those of some in it."""
        partitions = [(key, rows) for key, rows in self.rows_of_partitions().items() if len(rows)]
        partitions.sort(key=lambda partition: partition[1].start)
        where = np.searchsorted([rows.start for _, rows in partitions], numbers, side="right") - 1
        for part in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(where)) + 1):
            if len(part):
                key, rows = partitions[int(where[part[0]])]
                yield key, rows, numbers[part]

    def partition_of(self, row: int) -> tuple[int, int]:
        """The first row of the partition that a row is in, and the one after its last; the list is read once."""
        append = self.metadata.append_of(row)
        ends = self._partition_ends.get(append.first)
        if ends is None:
            ends = append.first_row + np.cumsum(self.partitions(append)["rows"].to_numpy())
            self._partition_ends[append.first] = ends
        i = int(np.searchsorted(ends, row, side="right"))
        return int(ends[i - 1]) if i else append.first_row, int(ends[i])

    def slabs_between(self, first: int, end: int) -> Iterator[tuple[AppendEntry, int, int]]:
        """The slabs that have the rows from ``first`` to before ``end``: append, slab, number of its first row."""
        while first < end:
            append = self.metadata.append_of(first)
            slab = (first - append.first_row) // locations.SLAB_ROWS
            slab_first = append.first_row + slab * locations.SLAB_ROWS
            yield append, slab, slab_first
            first = slab_first + append.slab_rows(slab)

    def slabs_of(self, numbers: np.ndarray) -> Iterator[tuple[AppendEntry, int, int, np.ndarray]]:
        """The slabs that rows are in: append, slab, number of its first row, and positions in ``numbers``."""
        appends = np.array([append.first_row for append in self.metadata.appends], np.int64)
        which = np.searchsorted(appends, numbers, side="right") - 1
        slabs = (numbers - appends[which]) // locations.SLAB_ROWS
        both = (which << 40) | slabs
        for number in np.unique(both).tolist():
            append, slab = self.metadata.appends[number >> 40], number & ((1 << 40) - 1)
            yield append, slab, append.first_row + slab * locations.SLAB_ROWS, np.flatnonzero(both == number)

    def block_refs(self, group: Group, chunks: np.ndarray, block_locations: Locations) -> Refs:
        """The refs of blocks: what a ref of their chunk file is, with offset and length of the location.

        Raises
        ------
        CorruptDataError
            A location reaches beyond its chunk file.
        """
        if len(chunks) == 1:
            refs = self._ref(int(chunks[0])).copy()
        else:
            distinct, inverse = np.unique(chunks, return_inverse=True)
            refs = self._many(distinct)[inverse]
        beyond = block_locations["offset"].astype(np.uint64) + block_locations["length"] > refs["length"]
        if beyond.any():
            self._refuse(blob_place(refs[beyond][0]), _beyond(group))
        refs["offset"] += block_locations["offset"]
        refs["length"] = block_locations["length"]
        return refs

    def chunk_place(self, number: int, group: Group, end: int) -> BlobPlace:
        """Where a chunk file is, by its number in the table.

        Raises
        ------
        CorruptDataError
            A location reaches to ``end``, beyond the chunk file.
        """
        place = self._chunk_places.get(number)
        if place is None:
            place = blob_place(self._ref(number)[0])
            self._chunk_places[number] = place
        if end > place.length:
            self._refuse(place, _beyond(group))
        return place

    def chunk_refs(self, numbers: np.ndarray) -> Refs:
        """The refs of chunk files by their numbers in the table, which are distinct.

        Raises
        ------
        CorruptDataError
        """
        return self._many(numbers)

    def _many(self, numbers: np.ndarray) -> Refs:
        """The refs of blobs, those that are remembered and the others by one look into the manifest."""
        known = [self._known.get(number) for number in numbers.tolist()]
        missing = np.array([i for i, ref in enumerate(known) if ref is None], np.intp)
        fetched = self._refs(numbers[missing]) if len(missing) else np.zeros(0, REF)
        for i, ref in zip(missing.tolist(), fetched, strict=True):
            known[i] = self._known[int(numbers[i])] = np.array([ref], REF)
        return np.concatenate([ref for ref in known if ref is not None])

    def index_column(self, append: AppendEntry, slab: int, name: str) -> pa.Array:
        """A column of a slab's index; kept in the memory cache."""
        return self.index_columns(append, slab, [name])[0]

    def index_columns(self, append: AppendEntry, slab: int, names: Sequence[str]) -> list[pa.Array]:
        """As :meth:`index_column` of several, by one request."""
        place = blob_place(self._ref(self.metadata.index_number(append, slab))[0])
        about = (self.fetcher.identity, place.name, append.slab_rows(slab))
        keys = {name: ("index", *about, name, str(self.metadata.schema[name].dtype)) for name in names}
        columns: dict[str, pa.Array] = {name: self.fetcher.memory.get(key) for name, key in keys.items()}
        missing = [name for name, column in columns.items() if column is None]
        if missing:
            read = self.index(append, slab, missing)
            for name in missing:
                columns[name] = read[name].combine_chunks()
                self.fetcher.memory.put(keys[name], columns[name], columns[name].nbytes)
        return [columns[name] for name in names]

    def _piece(self, number: int) -> tuple[BlobPlace, Buffer]:
        ref = self._ref(number)
        (data,) = self.fetcher.blobs(ref, keep=True)
        return blob_place(ref[0]), data

    def _refs(self, numbers: np.ndarray) -> Refs:
        """The refs of blobs that the record speaks of."""
        refs = refs_of(self.fetcher, self.record, numbers)
        if not refs["length"].all():
            missing = int(numbers[refs["length"] == 0][0])
            raise CorruptDataError(
                f"{self.record.name}: the table has no blob number {missing}, though its record speaks of it; "
                "restore an older commit"
            )
        return refs

    def _ref(self, number: int) -> Refs:
        """The ref of one blob, as an array of length 1; remembered for the next time."""
        ref = self._known.get(number)
        if ref is None:
            ref = self._refs(np.array([number], np.uint64))
            self._known[number] = ref
        return ref

    def _refuse(self, place: BlobPlace, what: str) -> NoReturn:
        raise CorruptDataError(f"{self.fetcher.store.where(place.key)}: {what}; restore it from a copy")


def _beyond(group: Group) -> str:
    return f"a location of {group.name!r} reaches beyond its chunk file"
