"""Write tables: partitions from this and from other machines become visible together."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import homes
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, HubError, NotFoundError
from hubarray.history.commits.commit import commit, create_version
from hubarray.history.log.probes import store_now
from hubarray.history.log.version import Version
from hubarray.history.records.head import Head
from hubarray.history.records.record import MAX_RECORD_BYTES, Record
from hubarray.process import uptime_seconds
from hubarray.progress import progress
from hubarray.storage.url import Root
from hubarray.tables.format.index_piece import Key, arrow_schema
from hubarray.tables.format.metadata import metadata_of
from hubarray.tables.format.part import TablePart, schema_digest
from hubarray.tables.format.schema import Schema
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.append import lay_out, part_files, refuse_other_rows, sorted_by_key
from hubarray.tables.write.operations import AddParts, whole
from hubarray.tables.write.staging import StagedParts
from hubarray.tables.write.worker import StagingOptions, TablePartition, TableWorker, checked_key

MAX_WAITING_PARTS = 1024
MAX_WAITING_SECONDS = 60.0
_CLOCK_SLACK = timedelta(minutes=10)
# The rest of a record is for attributes, and for what every append adds.
MAX_SCHEMA_BYTES = MAX_RECORD_BYTES - (256 << 10)
# Blocks and bytes of a group, as JSON.
_GROUP_BYTES = 64

log = logging.getLogger("hubarray.tables")


class TableWriter:
    """A table that is being written or extended; see :func:`hubarray.table_writer`.

    As a context manager, it publishes at the end of the block, in one record. After an error, nothing is visible.

    Parameters
    ----------
    root : Root
    version : Version
    schema : Schema
    base : Record or None
        The record of a growing table, or the deletion of an earlier table.
    attrs, message, growing, on_duplicate, resume, grace_seconds
        Same as in :func:`hubarray.table_writer`.
    references : sequence of (Version, Record)
    """

    def __init__(
        self,
        root: Root,
        version: Version,
        schema: Schema,
        *,
        base: Record | None,
        attrs: dict[str, Any],
        message: str | None,
        growing: bool,
        references: Sequence[tuple[Version, Record]],
        on_duplicate: str,
        resume: bool,
        grace_seconds: float | None,
        decodes_images: bool = False,
        source: str | None = None,
    ) -> None:
        self._root, self._version, self._base = root, version, base
        self._attrs, self._message, self._growing = attrs, message, growing
        self._grows_on = base is not None and base.head.kind == "table"
        self._grace_seconds = grace_seconds
        self._first = on_duplicate == "first"
        self._resume = resume
        names = [reference.name.at(record.head.number) for reference, record in references]
        self._grace = min(
            [self._own_grace(), *(record.head.grace_seconds for _, record in references)]
        )  # fmt: skip
        staging = StagingOptions(self._own_grace(), self._first) if resume else None
        self._worker = TableWorker(root, version.name, schema, names, staging, decodes_images=decodes_images)
        self._staged = StagedParts(version, schema, grace_seconds=self._own_grace(), shared=resume, source=source)
        self._parts: dict[Key, TablePart] = {}
        self._waiting: list[TablePart] = []
        self._waiting_since = 0.0
        self._writing: set[Key] = set()
        self._packs: list[PackWriter] = []
        self._lock = threading.Lock()
        self._keys_before: frozenset[Any] | None = None
        self._state = "open"
        self._tried = self._is_lost = False
        if resume:
            self._parts |= {part.key: part for part in self._staged.resumed()}

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self._worker.schema

    def partition(self, key: Key) -> TablePartition:
        """Start a partition, which a ``with`` block writes, and which is added at its end.

        Raises
        ------
        ConflictError
            This writer has already started the partition.
        """
        self._require_open()
        key = self._checked_type(checked_key(key))
        with self._lock:
            if key in self._writing or key in self._parts:
                raise ConflictError(
                    f"{self._version.name}: partition {key!r} was begun before; a partition is written once, whole"
                )
            self._writing.add(key)
        return TablePartition(self._worker, key, self._partition_ended)

    @property
    def resumable(self) -> bool:
        """Whether the data survives this writer, for the next one with ``resume=True``."""
        return self._resume

    def worker(self) -> TableWorker:
        """Return a small picklable object that writes partitions in other processes."""
        self._require_open()
        return self._worker

    def add(self, part: TablePart | bytes) -> bool:
        """Add a partition that another process wrote.

        Parameters
        ----------
        part : TablePart or its bytes

        Returns
        -------
        bool
            False if the same partition exists already.

        Raises
        ------
        ConflictError
            Another partition with this key exists, or this part is so old that its data may be collected.
        """
        self._require_open()
        new_part = part if isinstance(part, TablePart) else TablePart.from_bytes(part)
        if homes.name(int(new_part.file["home"])) != self._version.name.home:
            raise ConfigError(f"{self._version.name}: the part of {new_part.key!r} was written for another name")
        if new_part.schema is not None and new_part.schema != schema_digest(self.schema):
            raise ConfigError(
                f"{self._version.name}: the part of {new_part.key!r} was written with another schema than this "
                "writer's; write the partition with writer.worker() of this writer"
            )
        self._checked_type(new_part.key)
        if new_part.key in self._before():
            if not self._first:
                assert self._base is not None
                refuse_other_rows(TableSnapshot.of(self._version, self._base), new_part)
            return False
        self._refuse_old([new_part])
        with self._lock:
            staged = self._parts.get(new_part.key)
            if staged is None:
                self._parts[new_part.key] = new_part
                self._waiting.append(new_part)
                self._waiting_since = self._waiting_since or uptime_seconds()
        if staged is not None:
            self._refuse_other(staged, new_part)
            return False
        if len(self._waiting) >= MAX_WAITING_PARTS or uptime_seconds() - self._waiting_since > self._waiting_seconds():
            self._stage()
        return True

    def __contains__(self, key: object) -> bool:
        """Return whether a partition has been added, or is in the growing table. Skip those when you resume."""
        return key in self._parts or key in self._before()

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def keys(self) -> list[Key]:
        """Return the keys of the added partitions."""
        return sorted(self._parts)

    def __enter__(self) -> TableWriter:
        self._require_open()
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        if self._state != "open":
            return
        if kind is None:
            self.publish()
        else:
            self.abort()

    def publish(self) -> None:
        """Make the table visible, in one record. A ``with`` block does this at its end.

        Raises
        ------
        AlreadyExistsError
            Somebody else has made a table with this name in the meantime. Nothing was published.
        ConflictError
            A partition is too old, or exists already in the growing table.
        """
        self._require_open()
        if self._writing:
            raise HubError(f"{self._version.name}: partition {next(iter(self._writing))!r} is still being written")
        try:
            if self._resume and self._staged.is_begun():
                # Whoever shares the staging version may have added others.
                self._stage()
            self._refuse_old(self._waiting)
            (self._publish_append if self._grows_on else self._publish_new)(sorted_by_key(self._parts.values()))
        except (AlreadyExistsError, ConflictError):
            self.abort()
            raise
        except NotFoundError as error:
            # Whoever shares the staging version removes it once the table is there.
            self._is_lost = self._is_taken()
            self.abort()
            if self._is_lost:
                raise self._taken() from error
            raise
        except BaseException:
            if self._tried:
                # The record may be there, though its reply is not.
                self._packs.clear()
            self.abort()
            raise
        self._state = "published"
        self._staged.remove()

    def abort(self) -> None:
        """Give up, and remove the data. With ``resume``, it is kept for the next attempt."""
        if self._state != "open":
            return
        self._state = "aborted"
        if self._resume:
            if self._is_lost:
                return
            try:
                self._stage()
            except HubError as error:
                log.warning("%s: parts that were written are lost: %s", self._version.name, error)
            return
        for packs in self._packs:
            packs.abandon()
        self._staged.remove()

    def _publish_new(self, parts: Sequence[TablePart]) -> None:
        began = uptime_seconds()
        packs = PackWriter(self._version.store, self._version.name.home)
        try:
            key_type = type(parts[0].key) if parts else str
            laid = lay_out(self._files(parts), self.schema, key_type, packs)
            packs.finish()
            draft = whole(self._version, self.schema, key_type, laid, attrs=self._attrs, growing=self._growing)
            head = {} if self._grace_seconds is None else {"grace_seconds": self._grace_seconds}
        except BaseException:
            packs.abandon()
            raise
        self._tried = True
        _, ours = create_version(self._version, draft, base=self._base, message=self._message, began=began, **head)
        if not ours:
            packs.abandon()
            self._is_lost = True
            raise self._taken()

    def _is_taken(self) -> bool:
        newest = self._version.newest()
        return not self._grows_on and newest is not None and newest.head.kind != "deleted"

    def _taken(self) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"{self._version.name}: somebody else has created it in the meantime; choose another version"
        )

    def _publish_append(self, parts: Sequence[TablePart]) -> None:
        assert self._base is not None
        if parts:
            self._tried = True
            operation = AddParts(parts, first=self._first)
            commit(self._version, operation, base=self._version.refresh(), message=self._message)

    def _files(self, parts: Sequence[TablePart]) -> Iterator[Any]:
        with progress(len(parts), f"publishing {self._version.name}", unit=" partitions") as bar:
            for file in part_files(self._version.fetcher, parts, self.schema):
                yield file
                bar.update(1)

    def _partition_ended(self, key: Key, part: TablePart | None, packs: Sequence[PackWriter]) -> None:
        with self._lock:
            self._writing.discard(key)
            if part is not None:
                self._packs.extend(packs)
        if part is not None and self._state == "open" and not self.add(part):
            # It is there already, from elsewhere.
            for pack in packs:
                pack.abandon()

    def _stage(self) -> None:
        with self._lock:
            waiting, self._waiting, self._waiting_since = self._waiting, [], 0.0
        self._refuse_old(waiting)
        for part in self._staged.add(waiting, first=self._first):
            self._parts[part.key] = part
        # What a staging version has is the collector's to remove.
        self._packs.clear()

    def _refuse_other(self, staged: TablePart, part: TablePart) -> None:
        if staged.digest != part.digest and not self._first:
            raise ConflictError(
                f"{self._version.name}: partition {part.key!r} was written twice, with different rows; write it once, "
                "or use on_duplicate='first'"
            )

    def _refuse_old(self, parts: Iterable[TablePart]) -> None:
        parts = list(parts)
        if not parts:
            return
        now = store_now(self._version.store)
        for part in parts:
            if part.began - now > _CLOCK_SLACK:
                raise ConflictError(
                    f"{self._version.name}: partition {part.key!r} claims to have begun at {part.began}, and the "
                    f"store's clock is at {now}; write it again"
                )
            if now - part.began > timedelta(seconds=self._grace / 2):
                raise ConflictError(
                    f"{self._version.name}: partition {part.key!r} was begun {now - part.began} ago, more than half "
                    f"the grace period of {self._grace:,.0f} s, so it may be collected; write it again"
                )

    def _own_grace(self) -> float:
        if self._base is not None:
            return max(self._base.head.grace_seconds, self._grace_seconds or 0.0)
        return Head.grace_seconds if self._grace_seconds is None else self._grace_seconds

    def _waiting_seconds(self) -> float:
        return min(MAX_WAITING_SECONDS, self._grace / 8)

    def _checked_type(self, key: Key) -> Key:
        known = next(iter(self._parts), None)
        if known is None and self._grows_on:
            assert self._base is not None
            table = metadata_of(self._base)
            expected = table.key_type if table.appends else type(key)
        else:
            expected = type(key) if known is None else type(known)
        if type(key) is not expected:
            raise ConfigError(
                f"partition {key!r}: its key is of type {type(key).__name__}, and the others' are {expected.__name__}"
            )
        return key

    def _before(self) -> frozenset[Any]:
        """The partitions that a table which grows had when this writer was made."""
        if self._keys_before is None:
            known: frozenset[Any] = frozenset()
            if self._grows_on and self._base is not None:
                known = frozenset(TableSnapshot.of(self._version, self._base).rows_of_partitions())
            self._keys_before = known
        return self._keys_before

    def _require_open(self) -> None:
        if self._state != "open":
            raise HubError(f"{self._version.name}: this writer has {self._state}; make another one")


def checked_schema(schema: Schema) -> Schema:
    """Check that Parquet supports the index fields of a schema, and that the schema fits into a record.

    Raises
    ------
    ConfigError
    """
    arrow_schema(schema, str)
    described = len(json.dumps(schema.to_json()).encode()) + _GROUP_BYTES * len(schema.groups)
    if described > MAX_SCHEMA_BYTES:
        raise ConfigError(
            f"schema: describing its {len(schema)} fields and {len(schema.groups)} groups takes {described:,} bytes, "
            f"and a record has room for {MAX_SCHEMA_BYTES:,}; use shorter names, fewer groups, or two tables to merge"
        )
    return schema
