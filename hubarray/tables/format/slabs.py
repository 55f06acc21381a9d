"""From parts to slabs: the rows of all partitions, one after the other in the order of their keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hubarray.tables.format import locations as location_pieces
from hubarray.tables.format.index_piece import Key, arrow_schema
from hubarray.tables.format.locations import Locations, begin_blocks
from hubarray.tables.format.part import PartFile
from hubarray.tables.format.schema import Schema


@dataclass(frozen=True)
class Slab:
    """Consecutive rows of an append.

    Attributes
    ----------
    index : pyarrow.Table
        Partition and index fields of each row.
    locations : mapping of str to array
        Of each group, of each row; ``chunk`` counts from the append's first chunk file.
    digests : mapping of str to array
        Of each group: of the blocks whose first row is in this slab, in order.
    """

    index: pa.Table
    locations: Mapping[str, Locations]
    digests: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.index)


def slabs(parts: Iterable[PartFile], schema: Schema, key_type: type) -> Iterator[Slab]:
    """The slabs of parts, which are in order; each is given as soon as its rows are there.

    Memory: one slab, and the part that its rows are from.
    """
    columns, first = arrow_schema(schema, key_type), 0
    waiting: list[Slab] = []
    for part in parts:
        rest: Slab | None = _as_slab(part, columns, first)
        first += len(part.chunk_files)
        while rest is not None and rest.rows:
            free = location_pieces.SLAB_ROWS - sum(slab.rows for slab in waiting)
            begun, rest = (rest, None) if rest.rows <= free else _cut(rest, free)
            waiting.append(begun)
            if begun.rows == free:
                yield _joined(waiting, columns)
                waiting = []
    if waiting:
        yield _joined(waiting, columns)


def _as_slab(part: PartFile, columns: pa.Schema, first: int) -> Slab:
    moved = {}
    for name, locations in part.locations.items():
        if first:
            locations = locations.copy()
            locations["chunk"][locations["length"] > 0] += first
        moved[name] = locations
    index = pa.table([_keys(part.key, part.rows, columns), *part.index.columns], schema=columns)
    return Slab(index, moved, part.digests)


def _keys(key: Key, rows: int, columns: pa.Schema) -> pa.DictionaryArray:
    kind = columns.field(0).type
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, "i4")), pa.array([key], kind.value_type))


def _cut(slab: Slab, rows: int) -> tuple[Slab, Slab]:
    """A slab's first rows, and the others; a block's digest goes with its first row."""
    before, after = {}, {}
    for name, locations in slab.locations.items():
        count = _blocks_begun(locations[:rows])
        before[name], after[name] = slab.digests[name][:count], slab.digests[name][count:]
    return (
        Slab(slab.index.slice(0, rows), {name: locations[:rows] for name, locations in slab.locations.items()}, before),
        Slab(slab.index.slice(rows), {name: locations[rows:] for name, locations in slab.locations.items()}, after),
    )


def _blocks_begun(locations: Locations) -> int:
    """How many blocks begin in some rows of one partition: those whose row is the block's first."""
    return int(begin_blocks(locations).sum())


def _joined(parts: list[Slab], columns: pa.Schema) -> Slab:
    if len(parts) == 1:
        return parts[0]
    index = pa.concat_tables([part.index for part in parts]).unify_dictionaries().combine_chunks()
    names = parts[0].locations
    return Slab(
        index.cast(columns),
        {name: np.concatenate([part.locations[name] for part in parts]) for name in names},
        {name: np.concatenate([part.digests[name] for part in parts]) for name in names},
    )
