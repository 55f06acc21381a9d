"""Operations on a table: parts become rows of it, by one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Refs
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commit import Draft
from hubarray.history.record import Record
from hubarray.history.version import Version
from hubarray.tables import index_piece, locations
from hubarray.tables.metadata import MAX_APPENDS, TableMetadata, metadata_of
from hubarray.tables.partition import Part
from hubarray.tables.schema import PARTITION, Schema
from hubarray.tables.slabs import Slab, in_order, slabs
from hubarray.tables.state import TableState


def creation(schema: Schema, key_type: type, *, attrs: dict[str, Any], message: str) -> Draft:
    """The draft of a table's first record: without rows, and not frozen."""
    description = TableMetadata.empty(schema, key_type).to_json()
    return Draft(kind="table", description=description, attrs=attrs, message=message)


class AddParts:
    """Partitions, written before, become the last rows of a table: one append.

    What is uploaded counts from the append's first number and row, so that whatever was committed meanwhile, nothing
    is uploaded twice.

    Parameters
    ----------
    parts : sequence of Part
        Of different keys; their chunk files are durable once the pack writer has finished.
    """

    on_frozen = False

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = in_order(parts)
        self._pieces: list[Refs] | None = None

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commit.Operation`."""
        table = metadata_of(base)
        if not self._parts:
            return None
        if len(table.appends) >= MAX_APPENDS:
            raise ConfigError(
                f"{version.name}: has {MAX_APPENDS} appends, and no table has more; write fewer and larger ones"
            )
        self._refuse_known(TableState.of(version, base))
        if self._pieces is None:
            self._pieces = self._uploaded(table.schema, table.key_type, packs)
        chunk_files = [ref for part in self._parts for ref in part.chunk_files]
        rows = sum(part.rows for part in self._parts)
        grown = table.with_append(
            chunk_files=len(chunk_files), rows=rows, partitions=len(self._parts), blocks=self._blocks(table.schema),
            stored_bytes=self._stored_bytes(table.schema),
        )  # fmt: skip
        refs = np.array([*chunk_files, *self._pieces], REF)
        numbers = np.arange(table.end, grown.end, dtype=np.uint64)
        message = f"add {len(self._parts)} partitions of {rows} rows"
        return Draft(description=grown.to_json(), numbers=numbers, refs=refs, message=message)

    def _refuse_known(self, table: TableState) -> None:
        for one, two in zip(self._parts[:-1], self._parts[1:], strict=True):
            if one.key == two.key:
                raise ConflictError(
                    f"{table.version.name}: partition {one.key!r} was written twice; nothing was committed"
                )
        added = {part.key for part in self._parts}
        for append in table.metadata.appends:
            known = added.intersection(table.partitions(append)[PARTITION].to_pylist())
            if known:
                raise ConflictError(
                    f"{table.version.name}: partition {min(known)!r} is there already; nothing was committed"
                )

    def _uploaded(self, schema: Schema, key_type: type, packs: PackWriter) -> list[Refs]:
        """The pieces of every slab and the list of partitions, in the order of their numbers."""
        refs = []
        for slab in slabs(self._parts, schema, key_type):
            refs += [packs.add(piece) for piece in _pieces_of(slab, schema)]
        first, columns = 0, []
        for part in self._parts:
            columns.append((part.key, first, part.rows))
            first += part.rows
        listed = pa.table(
            [list(one) for one in zip(*columns, strict=True)], schema=index_piece.partitions_schema(key_type)
        )
        return [*refs, packs.add(index_piece.encode(listed))]

    def _blocks(self, schema: Schema) -> dict[str, int]:
        return {name: sum(len(part.digests[name]) for part in self._parts) for name in schema.groups}

    def _stored_bytes(self, schema: Schema) -> dict[str, int]:
        return {name: sum(_block_bytes(part, name) for part in self._parts) for name in schema.groups}


def _pieces_of(slab: Slab, schema: Schema) -> list[bytes]:
    pieces = [index_piece.encode(slab.index)]
    for name, group in schema.groups.items():
        pieces.append(locations.encode(slab.locations[name], with_rows=group.rows_per_block > 1))
    return [*pieces, *(slab.digests[name].tobytes() for name in schema.groups)]


def _block_bytes(part: Part, group: str) -> int:
    found = part.locations[group]
    return int(found["length"][found["row"] == 0].astype(np.uint64).sum())
