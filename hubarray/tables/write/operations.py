"""Operations on a table: parts become rows of it, by one commit; and parts that wait in a staging version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commits.draft import ChunkChanges, Contents, Draft
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.redaction import counted
from hubarray.tables.format.metadata import MAX_APPENDS, TableMetadata, metadata_of
from hubarray.tables.format.part import TablePart
from hubarray.tables.format.schema import PARTITION, Schema
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.append import LaidOut, lay_out, part_files, protect, refuse_other_rows, sorted_by_key


def creation(schema: Schema, key_type: type, *, attrs: dict[str, Any], message: str) -> Draft:
    """The draft of a table's first record: without rows, and not frozen."""
    description = TableMetadata.empty(schema, key_type).to_json()
    return Draft(kind="table", description=description, attrs=attrs, tags={}, message=message)


def whole(
    version: Version, schema: Schema, key_type: type, laid: LaidOut, *, attrs: dict[str, Any], growing: bool
) -> Draft:
    """The draft of a table's first and only record, or of the first of one that grows."""
    table, numbers, refs = TableMetadata.empty(schema, key_type), np.zeros(0, np.uint64), np.zeros(0, REF)
    if laid.partitions:
        table, numbers, refs = laid.added_to(table)
    protect(version, refs, set())
    return Draft(
        kind="table", description=table.to_json(), attrs=attrs, tags={}, chunks=Contents.made(version, numbers, refs),
        frozen=not growing, message=f"write {counted(laid.rows, 'row')} in {counted(laid.partitions, 'partition')}",
    )  # fmt: skip


class AddParts:
    """Partitions, written before, become the last rows of a table: one append.

    Uploads count from the first number and row of the append, so nothing is uploaded twice, even if others commit in
    the meantime.

    Parameters
    ----------
    parts : sequence of TablePart
        Of different keys.
    first : bool
        Whether a partition that is there already is left as it is, which is a conflict otherwise.
    """

    allowed_when_frozen = False
    is_small = False

    def __init__(self, parts: Sequence[TablePart], *, first: bool = False) -> None:
        self._parts = sorted_by_key(parts)
        self._first = first
        self._laid: LaidOut | None = None
        self._protected: set[str] = set()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        table = metadata_of(base)
        if not self._parts:
            return None
        if len(table.appends) >= MAX_APPENDS:
            raise ConfigError(
                f"{version.name}: has {MAX_APPENDS} appends, which is the maximum; publish it as one with "
                "hub.write_index, and append to the result"
            )
        self._refuse_known(TableSnapshot.of(version, base))
        if not self._parts:
            return None
        key_type = type(self._parts[0].key)
        if not table.appends:
            # A table without rows takes keys of either type.
            table = replace(table, key_type=key_type)
        elif key_type is not table.key_type:
            raise ConflictError(
                f"{version.name}: keys of partitions are {table.key_type.__name__}, and {self._parts[0].key!r} is not; "
                "nothing was committed"
            )
        if self._laid is None:
            files = part_files(version.fetcher, self._parts, table.schema)
            self._laid = lay_out(files, table.schema, table.key_type, packs)
        grown, numbers, refs = self._laid.added_to(table)
        protect(version, refs, self._protected)
        message = f"add {len(self._parts)} partitions of {self._laid.rows} rows"
        return Draft(description=grown.to_json(), chunks=ChunkChanges(numbers=numbers, refs=refs), message=message)

    def _refuse_known(self, table: TableSnapshot) -> None:
        for first, second in zip(self._parts[:-1], self._parts[1:], strict=True):
            if first.key == second.key:
                raise ConflictError(
                    f"{table.version.name}: partition {first.key!r} was written twice; nothing was committed"
                )
        added = {part.key for part in self._parts}
        for append in table.metadata.appends:
            known = added.intersection(table.partitions(append)[PARTITION].to_pylist())
            if not known:
                continue
            for part in self._parts if not self._first else ():
                if part.key in known:
                    refuse_other_rows(table, part)
            self._parts = [part for part in self._parts if part.key not in known]
            # What was laid out is of others, too.
            self._laid = None
