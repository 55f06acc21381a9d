"""Parts that wait in a staging version: a long extraction's, which so survive the collector and the driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, blob_place
from hubarray.errors import ConflictError, CorruptDataError, HubError
from hubarray.history.commits.commit import commit, create_version
from hubarray.history.commits.draft import ChunkChanges, Draft
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance import staging_versions
from hubarray.history.records.contents import refs_of
from hubarray.history.records.record import Record
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.metadata import Staged, metadata_of
from hubarray.tables.format.part import MAX_PART_BYTES, TablePart
from hubarray.tables.format.schema import Schema
from hubarray.tables.write.append import part_files, protect
from hubarray.tables.write.operations import creation

# Numbers of a staging version: of part i its own bytes and its part file, then the chunk files of all parts.
_FILES = 1 << 40
_CHUNK_FILES = 1 << 41


class StagedParts:
    """The staging version of one writer; made when there is something to put into it.

    Parameters
    ----------
    version : Version
        The table's.
    schema : Schema
    grace_seconds : float
    shared : bool
        Whether a later attempt may continue it.
    source : str, optional
        The fingerprint of the source of the parts.
    """

    def __init__(
        self, version: Version, schema: Schema, *, grace_seconds: float, shared: bool, source: str | None = None
    ) -> None:
        name = staging_versions.staging_name(version.name, "writing", own=not shared)
        self._version = version_of(version.fetcher.root, name)
        self._target, self._schema, self._grace_seconds = version, schema, grace_seconds
        self._source = source
        self._record: Record | None = None
        self._parts: dict[Key, TablePart] = {}
        self._seen = 0

    def is_begun(self) -> bool:
        """Whether there is a staging version, of this attempt or of its workers."""
        if self._record is None:
            self._record = staging_versions.left_over(self._version)
        return self._record is not None

    def resumed(self) -> list[TablePart]:
        """The parts that an earlier attempt left.

        Raises
        ------
        ConflictError
            It was of another schema or source, or its table was made, and deleted since.
        """
        self._record = staging_versions.left_over(self._version)
        if self._record is None:
            return []
        if metadata_of(self._record).schema != self._schema:
            raise ConflictError(
                f"{self._version.name}: an earlier attempt was of another schema; delete it, or write with its schema"
            )
        self._refuse_another(self._record.attrs[staging_versions.NOTE])
        self._take_note(self._record)
        if len({type(key) for key in self._parts}) > 1:
            raise ConflictError(
                f"{self._version.name}: its partitions' keys are text and numbers; delete it, and write again"
            )
        return list(self._parts.values())

    def _refuse_another(self, note: Any) -> None:
        """Refuse parts that others than this attempt would want; before 0.2 the note was text, which says nothing."""
        if not isinstance(note, Mapping):
            return
        name = self._version.name
        if note.get("source") != self._source:
            raise ConflictError(
                f"{name}: an earlier import was of another source; delete it, hub.delete('{name}'), and import again"
            )
        if note.get("before") is not None and self._before() not in (None, note["before"]):
            raise ConflictError(
                f"{name}: an earlier attempt ended in a table that has been deleted since, or began before one was; "
                f"delete it, hub.delete('{name}'), and write again"
            )

    def _before(self) -> int | None:
        """The number of the commit that a new table comes after; None where a table is there."""
        newest = self._target.newest()
        if newest is None:
            return 0
        return newest.head.number if newest.head.kind == "deleted" else None

    def add(self, parts: Sequence[TablePart], *, first: bool) -> list[TablePart]:
        """Commit parts, and return all that are there now, other drivers' too.

        Parameters
        ----------
        parts : sequence of TablePart
        first : bool
            Whether of two parts of one key, with different rows, the earlier counts.

        Raises
        ------
        ConflictError
        """
        record = self._record or self._created()
        packs = PackWriter(self._version.store, self._version.name.home)
        self._record = commit(self._version, _Stage(self, parts, first=first), base=record, packs=packs)
        self._take_note(self._record)
        return list(self._parts.values())

    def remove(self) -> None:
        """Delete the staging version, if it is there: what it holds is the collector's then."""
        if self._record is not None:
            with contextlib.suppress(HubError):
                staging_versions.remove(self._version)

    def unknown(self, record: Record) -> Iterator[TablePart]:
        """The parts of a record that have not been taken note of."""
        staged = metadata_of(record).staged or Staged()
        numbers = np.arange(self._seen, staged.parts, dtype=np.uint64)
        refs = refs_of(self._version.fetcher, record, numbers)
        if not refs["length"].all():
            raise CorruptDataError(
                f"{record.name}: has not all of the {staged.parts} parts that it speaks of; delete it, and write again"
            )
        for data in self._version.fetcher.blobs(refs, max_bytes=MAX_PART_BYTES):
            yield TablePart.from_bytes(data)

    def _take_note(self, record: Record) -> None:
        for part in self.unknown(record):
            self._parts.setdefault(part.key, part)
        self._seen = (metadata_of(record).staged or Staged()).parts

    def _created(self) -> Record:
        left = staging_versions.left_over(self._version)
        if left is not None:
            return left
        note = {"parts_of": str(self._target.name), "before": self._before(), "source": self._source}
        attrs = {staging_versions.NOTE: note}
        draft = creation(self._schema, str, attrs=attrs, message="begin")
        record, _ = create_version(
            self._version, draft, base=self._version.newest(), message=None, grace_seconds=self._grace_seconds
        )
        return record


class _Stage:
    """Put parts beside those that are there."""

    allowed_when_frozen = False
    is_small = False

    def __init__(self, staged: StagedParts, parts: Sequence[TablePart], *, first: bool) -> None:
        self._staged, self._parts, self._first = staged, parts, first
        self._refs: dict[Key, tuple[Any, Any]] = {}
        self._protected: set[str] = set()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        table = metadata_of(base)
        parts = dict(self._staged._parts) | {part.key: part for part in self._staged.unknown(base)}
        new = list(self._new(parts, version))
        if not new:
            return None
        staged = table.staged or Staged()
        for part, file in zip(new, part_files(version.fetcher, new, table.schema), strict=True):
            if part.key not in self._refs:
                self._refs[part.key] = (packs.add(bytes(part)), file.chunk_files)
        own = np.array([self._refs[part.key][0] for part in new], REF)
        chunk_files = np.concatenate([np.zeros(0, REF), *(self._refs[part.key][1] for part in new)])
        protect(version, chunk_files, self._protected)
        first = np.arange(staged.parts, staged.parts + len(new), dtype=np.uint64)
        chunks = np.arange(staged.chunk_files, staged.chunk_files + len(chunk_files), dtype=np.uint64)
        numbers = np.concatenate([first, first + np.uint64(_FILES), chunks + np.uint64(_CHUNK_FILES)])
        refs = np.concatenate([own, np.array([part.file for part in new], REF), chunk_files])
        grown = table.with_staged(Staged(staged.parts + len(new), staged.chunk_files + len(chunk_files)))
        return Draft(
            description=grown.to_json(),
            chunks=ChunkChanges(numbers=numbers, refs=refs),
            message=f"hold {len(new)} parts",
        )

    def _new(self, parts: dict[Key, TablePart], version: Version) -> Iterable[TablePart]:
        kinds = {type(key) for key in parts} | {type(part.key) for part in self._parts}
        if len(kinds) > 1:
            raise ConflictError(
                f"{version.name}: has partitions whose keys are text and others whose keys are numbers; delete it, and "
                "write with keys of one type"
            )
        for part in self._parts:
            known = parts.get(part.key)
            if known is None:
                yield part
            elif known.digest != part.digest and not self._first:
                where = blob_place(known.file).key
                raise ConflictError(
                    f"{version.name}: partition {part.key!r} is there already with other rows ({where}); write it "
                    "once, or use on_duplicate='first'"
                )
