"""A table at one commit: its pieces, and from the number of a row to its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import BlobPlace, Refs, blob_place
from hubarray.errors import CorruptDataError
from hubarray.history.contents import refs_of
from hubarray.history.record import Record
from hubarray.history.version import Version
from hubarray.storage.base import Buffer
from hubarray.tables import index_piece, locations
from hubarray.tables.block import Block, is_intact
from hubarray.tables.locations import Locations
from hubarray.tables.metadata import Append, TableMetadata, metadata_of
from hubarray.tables.schema import Group

_REMEMBERED_REFS = 16384


@dataclass(frozen=True, eq=False)
class TableState:
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
    _known: dict[int, Refs] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(version: Version, record: Record) -> TableState:
        """The state that a record has.

        Raises
        ------
        FormatVersionError, CorruptDataError
        """
        return TableState(version, record, metadata_of(record))

    @property
    def fetcher(self) -> Fetcher:
        """The engine that reads its blobs."""
        return self.version.fetcher

    def index(self, append: Append, slab: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The index of a slab, or some columns of it.

        Raises
        ------
        CorruptDataError, StorageError
        """
        place, data = self._piece(self.metadata.index_number(append, slab))
        wanted = index_piece.arrow_schema(self.metadata.schema, self.metadata.key_type)
        try:
            return index_piece.decode(data, wanted, rows=append.slab_rows(slab), columns=columns)
        except ValueError as error:
            self._refuse(place, f"the index of slab {slab} {error}")

    def partitions(self, append: Append) -> pa.Table:
        """The partitions of an append: key, first row within it, rows.

        Raises
        ------
        CorruptDataError, StorageError
        """
        place, data = self._piece(self.metadata.partitions_number(append))
        wanted = index_piece.partitions_schema(self.metadata.key_type)
        try:
            found = index_piece.decode(data, wanted, rows=append.partitions)
        except ValueError as error:
            self._refuse(place, f"the list of partitions {error}")
        rows, first = (found[name].to_numpy() for name in ("rows", "first_row"))
        ends = np.cumsum(rows)
        if (rows < 0).any() or (first != ends - rows).any() or int(rows.sum()) != append.rows:
            self._refuse(place, "the list of partitions has other rows than the table")
        return found

    def locations(self, append: Append, slab: int, group: str) -> Locations:
        """Where the rows of a slab are in a group; kept in the memory cache.

        Raises
        ------
        CorruptDataError, StorageError
        """
        number = self.metadata.locations_number(append, slab, group)
        # By the blob itself: after an undo another append may have the same numbers.
        key = ("locations", self.fetcher.identity, blob_place(self._ref(number)[0]).name)
        found: Locations | None = self.fetcher.memory.get(key)
        if found is None:
            place, data = self._piece(number)
            with_rows = self.metadata.schema.groups[group].rows_per_block > 1
            rows = append.slab_rows(slab)
            try:
                found = locations.decode(data, rows=rows, chunk_files=append.chunk_files, with_rows=with_rows)
            except ValueError as error:
                self._refuse(place, f"the locations of {group!r} in slab {slab}: {error}")
            self.fetcher.memory.put(key, found, found.nbytes)
        return found

    def row(self, row: int, groups: Sequence[str]) -> dict[str, Any]:
        """The stored fields of one row in some groups: one request a group, and one more at a slab's first touch.

        Raises
        ------
        CorruptDataError, StorageError
        """
        append = self.metadata.append_of(row)
        slab, within = divmod(row - append.first_row, locations.SLAB_ROWS)
        values: dict[str, Any] = {}
        for name in groups:
            group = self.metadata.schema.groups[name]
            location = self.locations(append, slab, name)[within]
            names = [one for one, _ in group.fields if one not in values]
            if not location["length"]:
                values |= dict.fromkeys(names)
                continue
            values |= self._block(append, group, location).row(int(location["row"]), names)
        return values

    def _block(self, append: Append, group: Group, location: np.void) -> Block:
        number = append.first + int(location["chunk"])
        chunk_file = self._ref(number)
        ref = chunk_file.copy()
        if int(location["offset"]) + int(location["length"]) > int(ref["length"][0]):
            self._refuse(blob_place(ref[0]), f"a location of {group.name!r} reaches beyond its chunk file")
        ref["offset"] += location["offset"]
        ref["length"] = location["length"]
        check = int(location["check"])

        def proves(i: int, pieces: Sequence[Buffer]) -> bool:
            return is_intact(b"".join(pieces) if len(pieces) > 1 else pieces[0], check)

        (data,) = self.fetcher.blobs(ref, keep=True, check=proves)
        place = blob_place(ref[0])
        return Block(group, data, f"{self.fetcher.store.where(place.key)}: bytes {place.offset} on")

    def _piece(self, number: int) -> tuple[BlobPlace, bytes]:
        ref = self._ref(number)
        (data,) = self.fetcher.blobs(ref, keep=True)
        return blob_place(ref[0]), data

    def _ref(self, number: int) -> Refs:
        """The ref of one blob, as an array of length 1; remembered for the next time."""
        ref = self._known.get(number)
        if ref is None:
            ref = refs_of(self.fetcher, self.record, np.array([number], np.uint64))
            if not ref["length"][0]:
                raise CorruptDataError(
                    f"{self.record.name}: the table has no blob number {number}, though its record speaks of it; "
                    "restore an older commit"
                )
            if len(self._known) >= _REMEMBERED_REFS:
                self._known.clear()
            self._known[number] = ref
        return ref

    def _refuse(self, place: BlobPlace, what: str) -> NoReturn:
        raise CorruptDataError(f"{self.fetcher.store.where(place.key)}: {what}; restore it from a copy")
