"""Blocks that earlier tables have: what a partition need not store again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hubarray.blobs.ref import Refs
from hubarray.history.records.record import Record
from hubarray.tables.format import locations
from hubarray.tables.format.block import described
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.locations import Locations
from hubarray.tables.format.schema import PARTITION, Group, Schema
from hubarray.tables.snapshot.snapshot import TableSnapshot

# Of a run between blocks that are stored anew: a shorter one is stored again, or ten small frames would scatter.
MIN_SHARED_BYTES = 64 << 10


@dataclass(frozen=True)
class StoredBlock:
    """Where a block lies already.

    Attributes
    ----------
    file : int
        Position of its chunk file among those of :class:`KnownBlocks`.
    offset, length, check : int
        As in its location.
    """

    file: int
    offset: int
    length: int
    check: int


class StoredBlocks:
    """The blocks of a group by their digests: 36 bytes each, as a table of small rows has millions."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._sorted = np.zeros(0, _STORED)

    def add(self, digests: np.ndarray, files: np.ndarray, block_locations: Locations) -> None:
        """Add blocks: their digests, positions of their chunk files, and locations."""
        part = np.zeros(len(digests), _STORED)
        halves = np.ascontiguousarray(digests).view("<u8").reshape(-1, 2)
        part["first"], part["second"], part["file"] = halves[:, 0], halves[:, 1], files
        for name in ("offset", "length", "check"):
            part[name] = block_locations[name]
        self._parts.append(part)

    def get(self, digest: bytes) -> StoredBlock | None:
        """The block, as it was first added."""
        if self._parts:
            every = np.concatenate([self._sorted, *self._parts])
            self._parts = []
            self._sorted = every[np.argsort(every["first"], kind="stable")]
        if not len(self._sorted):
            return None
        first, second = (np.uint64(int.from_bytes(half, "little")) for half in (digest[:8], digest[8:]))
        at = int(np.searchsorted(self._sorted["first"], first))
        while at < len(self._sorted) and self._sorted["first"][at] == first:
            if self._sorted["second"][at] == second:
                return StoredBlock(*(int(self._sorted[name][at]) for name in ("file", "offset", "length", "check")))
            at += 1
        return None


_STORED = np.dtype(
    [("first", "u8"), ("second", "u8"), ("file", "u4"), ("offset", "u4"), ("length", "u4"), ("check", "u4")]
)


@dataclass
class KnownBlocks:
    """The blocks that a partition has in the referenced tables.

    Attributes
    ----------
    files : list of REF
        Chunk files, each once.
    groups : mapping of str to StoredBlocks
        Of each group of the new table.
    """

    files: list[Refs] = field(default_factory=list)
    groups: dict[str, StoredBlocks] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files)


class References:
    """Earlier tables whose blocks a new one may share, the first that has a block before the others.

    Parameters
    ----------
    tables : sequence of TableSnapshot
    """

    def __init__(self, tables: Sequence[TableSnapshot]) -> None:
        self._tables = tables
        self._partitions: list[dict[Key, tuple[int, int, int]]] = [_places(table) for table in tables]

    def are_of(self, records: Sequence[Record]) -> bool:
        """Whether these are the tables of some commits."""
        return [table.record.head for table in self._tables] == [record.head for record in records]

    def known(self, key: Key, schema: Schema) -> KnownBlocks:
        """The blocks of a partition that are there.

        Costs its pieces of the groups with equal fields: two requests a slab each.

        Raises
        ------
        CorruptDataError, StorageError
        """
        known_blocks = KnownBlocks(groups={name: StoredBlocks() for name in schema.groups})
        positions: dict[bytes, int] = {}
        for table, places in zip(self._tables, self._partitions, strict=True):
            place = places.get(key)
            if place is None or type(key) is not table.metadata.key_type:
                continue
            for old in table.metadata.schema.groups.values():
                alike = [name for name, group in schema.groups.items() if _are_alike(group, old)]
                if alike:
                    for blocks in _blocks(table, old, place, known_blocks.files, positions):
                        for name in alike:
                            known_blocks.groups[name].add(*blocks)
        return known_blocks


def _are_alike(first: Group, second: Group) -> bool:
    """Whether equal values of two groups are equal blocks."""
    return first.rows_per_block == second.rows_per_block and described(first) == described(second)


def _places(table: TableSnapshot) -> dict[Key, tuple[int, int, int]]:
    """Of each partition: its append, its first row within that, and its rows."""
    ranges: dict[Key, tuple[int, int, int]] = {}
    for i, append in enumerate(table.metadata.appends):
        listed = table.partitions(append)
        rows = zip(*(listed[name].to_pylist() for name in (PARTITION, "first_row", "rows")), strict=True)
        ranges |= {key: (i, first, count) for key, first, count in rows}
    return ranges


def _blocks(
    table: TableSnapshot, group: Group, place: tuple[int, int, int], files: list[Refs], positions: dict[bytes, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, Locations]]:
    """Digests, positions of chunk files, and locations of the blocks of each slab."""
    append, (first, rows) = table.metadata.appends[place[0]], place[1:]
    if not rows:
        return
    for slab in range(first // locations.SLAB_ROWS, -(-(first + rows) // locations.SLAB_ROWS)):
        begin = slab * locations.SLAB_ROWS
        where = table.locations(append, slab, group.name)
        begins = locations.begin_blocks(where)
        digests = table.digests(append, slab, group.name, int(begins.sum()))
        low, high = max(0, first - begin), min(len(where), first + rows - begin)
        mine = np.flatnonzero(begins[low:high]) + low
        own = digests[int(begins[:low].sum()) :][: len(mine)]
        is_stored = where[mine]["length"] > 0
        blocks = where[mine][is_stored]
        chunks, inverse = np.unique(blocks["chunk"], return_inverse=True)
        refs = table.chunk_files(append, chunks)
        at = []
        for ref in refs:
            name = ref.tobytes()
            if name not in positions:
                positions[name] = len(files)
                files.append(ref)
            at.append(positions[name])
        yield own[is_stored], np.array(at, np.uint32)[inverse], blocks
