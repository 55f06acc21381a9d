"""Writing tables: partitions, here and on other machines, become visible together."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import homes
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, HubError, ReadOnlyError
from hubarray.history.clock import store_now
from hubarray.history.commit import commit, create_version
from hubarray.history.fields import Fields
from hubarray.history.record import Head, Record
from hubarray.history.version import Version, version_of
from hubarray.names import Name
from hubarray.process import uptime_seconds
from hubarray.progress import progress
from hubarray.shown import shown_text
from hubarray.storage.url import Root
from hubarray.tables import frames
from hubarray.tables.appending import lay_out, part_files, sorted_by_key
from hubarray.tables.index_piece import Key, arrow_schema
from hubarray.tables.metadata import metadata_of
from hubarray.tables.operations import AddParts, whole
from hubarray.tables.part import MAX_PART_FILE_BYTES, TablePart, is_key
from hubarray.tables.partition import PartitionWriter
from hubarray.tables.references import References
from hubarray.tables.schema import Schema
from hubarray.tables.staged import StagedParts
from hubarray.tables.state import TableState

MAX_WAITING_PARTS = 1024
MAX_WAITING_SECONDS = 60.0

log = logging.getLogger("hubarray.tables")

_BLOCK = "use a partition within 'with ...partition(key) as p'; p.part is there after the block"


class TablePartition:
    """One partition that is being written: made by ``partition(key)`` of a writer or a worker, in a ``with`` block.

    Holds about 128 MiB, what is on its way up, and twice the largest row.
    """

    def __init__(self, worker: TableWorker, key: Key, writer: TableWriter | None) -> None:
        self._worker, self._key, self._owner = worker, key, writer
        self._part: TablePart | None = None
        self._rows: PartitionWriter | None = None
        self._process = 0

    @property
    def key(self) -> Key:
        """The partition's key."""
        return self._key

    @property
    def rows(self) -> int:
        """How many rows it has so far."""
        return self._rows.rows if self._rows is not None else 0

    @property
    def part(self) -> TablePart:
        """The part that ``TableWriter.add`` takes; there once the block has ended without an error."""
        if self._part is None:
            raise HubError(_BLOCK)
        return self._part

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; one that is refused changes nothing.

        Parameters
        ----------
        row : mapping of str to value
            Arrays of exactly the field's dtype, Python's numbers where they fit, text, bytes, or None where the field
            is nullable. A JPEG or PNG may come as the bytes of its file.

        Raises
        ------
        ConfigError
            A field is missing, unknown or of a wrong type; partition, row and field are named.
        """
        self._open().append(row)

    def extend(self, rows: Any) -> None:
        """Add rows of a DataFrame, an Arrow table (or what speaks its C stream), or an iterable of mappings.

        Columns are cast where every value survives.

        Raises
        ------
        ConfigError
            As :meth:`append`; rows before the refused one are there.
        """
        writer = self._open()
        if not frames.is_frame(rows):
            for row in rows:
                writer.append(row)
            return
        try:
            for row in frames.rows_of(rows, self._worker.schema):
                writer.append(row)
        except ConfigError as error:
            text = str(error)
            named = text if text.startswith("partition ") else f"{self._where()}: {text}"
            raise ConfigError(named) from None

    def __enter__(self) -> TablePartition:
        self._began = store_now(self._worker.version.store)
        known = self._worker.references().known(self._key, self._worker.schema)
        self._packs = PackWriter(self._worker.version.store, self._worker.version.name.home)
        self._rows = PartitionWriter(self._worker.schema, self._key, self._packs, known)
        self._process = os.getpid()
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        writer = self._open()
        try:
            if kind is None:
                self._part = self._finished(writer)
        except BaseException:
            self._packs.abandon()
            raise
        finally:
            self._rows = None
            if self._owner is not None:
                self._owner._partition_ended(self._key, self._part, self._packs)
        if kind is not None:
            self._packs.abandon()

    def _finished(self, writer: PartitionWriter) -> TablePart:
        file, schema, home = writer.close(), self._worker.schema, self._worker.version.name.home
        data = file.encode(schema, home)
        if len(data) > MAX_PART_FILE_BYTES:
            raise ConfigError(
                f"{self._where()}: what says where its rows are takes {len(data):,} bytes, and a partition has at most "
                f"{MAX_PART_FILE_BYTES:,}; write smaller partitions"
            )
        ref = self._packs.add(data)
        self._packs.finish()
        return TablePart(self._key, file.rows, file.digest(schema), self._began, ref)

    def _open(self) -> PartitionWriter:
        if self._rows is None:
            raise HubError(_BLOCK)
        if os.getpid() != self._process:
            raise ReadOnlyError("a partition belongs to the process that began it; begin one in this process")
        return self._rows

    def _where(self) -> str:
        return f"partition {shown_text(str(self._key))[:80]!r}, row {self.rows}"


class TableWorker:
    """A writer of partitions for another process or machine: made by ``TableWriter.worker()``. Picklable.

    ::

        def extract(worker, drive):
            with worker.partition(drive) as p:
                p.extend(rows_of(drive))
            return p.part

    Nothing of what it writes is visible until the driver has added the part and published.
    """

    def __init__(self, root: Root, name: Name, schema: Schema, references: Sequence[Name]) -> None:
        self._root, self._name, self._references = root, name, tuple(references)
        self.schema = schema

    @property
    def version(self) -> Version:
        """The version that is written to."""
        return version_of(self._root, self._name)

    def partition(self, key: Key) -> TablePartition:
        """Begin a partition.

        Parameters
        ----------
        key : str or int
        """
        return TablePartition(self, checked_key(key), None)

    def references(self) -> References:
        """The tables whose blocks are shared, each at the commit that the driver saw, if it may still be built on."""
        states = []
        for name in self._references:
            version = version_of(self._root, name)
            assert name.commit is not None
            states.append(TableState.of(version, version.to_build_on(name.commit)))
        return References(states)

    def __reduce__(self) -> tuple[Any, ...]:
        return _worker, (self._root, self._name, self.schema.to_json(), self._references)

    def __repr__(self) -> str:
        return f"TableWorker({str(self._name)!r})"


def _worker(root: Root, name: Name, schema: dict[str, Any], references: Sequence[Name]) -> TableWorker:
    return TableWorker(root, name, Schema.from_json(Fields(schema, "a worker", "schema")), references)


class TableWriter:
    """A table that is being written, or one that grows: made by :func:`hubarray.table_writer`.

    As a context manager it publishes at the end of the block, in one record; after an error nothing is visible.

    Parameters
    ----------
    root : Root
    version : Version
    schema : Schema
    base : Record or None
        Of a table that grows; else its deletion, if it existed before.
    attrs, message, growing, on_duplicate, resume, grace_seconds
        As of :func:`hubarray.table_writer`.
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
    ) -> None:
        self._root, self._version, self._base = root, version, base
        self._attrs, self._message, self._growing = attrs, message, growing
        self._grows_on = base is not None and base.head.kind == "table"
        self._grace_seconds = grace_seconds
        self._first = on_duplicate == "first"
        self._resume = resume
        names = [one.name.at(record.head.number) for one, record in references]
        self._grace = min(
            [self._own_grace(), *(record.head.grace_seconds for _, record in references)]
        )  # fmt: skip
        self._worker = TableWorker(root, version.name, schema, names)
        self._staged = StagedParts(version, schema, grace_seconds=self._own_grace(), shared=resume)
        self._parts: dict[Key, TablePart] = {}
        self._waiting: list[TablePart] = []
        self._waiting_since = 0.0
        self._writing: set[Key] = set()
        self._packs: list[PackWriter] = []
        self._lock = threading.Lock()
        self._state = "open"
        self._tried = False
        if resume:
            self._parts |= {part.key: part for part in self._staged.resumed()}

    @property
    def schema(self) -> Schema:
        """The table's schema."""
        return self._worker.schema

    def partition(self, key: Key) -> TablePartition:
        """Begin a partition, to be written in a ``with`` block, and added at its end.

        Raises
        ------
        ConflictError
            It was begun here before.
        """
        self._require_open()
        key = self._checked_type(checked_key(key))
        with self._lock:
            if key in self._writing or key in self._parts:
                raise ConflictError(
                    f"{self._version.name}: partition {key!r} was begun before; a partition is written once, whole"
                )
            self._writing.add(key)
        return TablePartition(self._worker, key, self)

    def worker(self) -> TableWorker:
        """A small picklable object that writes partitions elsewhere."""
        self._require_open()
        return self._worker

    def add(self, part: TablePart | bytes) -> bool:
        """Add a partition that was written elsewhere.

        Parameters
        ----------
        part : TablePart or its bytes

        Returns
        -------
        bool
            False if the same partition is there already.

        Raises
        ------
        ConflictError
            Another partition of this key is there, or this one was written so long ago that it may be collected.
        """
        self._require_open()
        one = part if isinstance(part, TablePart) else TablePart.from_bytes(part)
        if homes.name(int(one.file["home"])) != self._version.name.home:
            raise ConfigError(f"{self._version.name}: the part of {one.key!r} was written for another name")
        self._checked_type(one.key)
        self._refuse_old([one])
        with self._lock:
            there = self._parts.get(one.key)
            if there is None:
                self._parts[one.key] = one
                self._waiting.append(one)
                self._waiting_since = self._waiting_since or uptime_seconds()
        if there is not None:
            self._refuse_other(there, one)
            return False
        if len(self._waiting) >= MAX_WAITING_PARTS or uptime_seconds() - self._waiting_since > self._waiting_seconds():
            self._stage()
        return True

    def __contains__(self, key: object) -> bool:
        """Whether a partition has been added; what is resumed skips those."""
        return key in self._parts

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def keys(self) -> list[Key]:
        """The keys of the partitions that have been added."""
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
        """Make the table visible, in one record. Called at the end of a ``with`` block.

        Raises
        ------
        AlreadyExistsError
            Somebody else made a table of this name meanwhile. Nothing was published.
        ConflictError
            A partition was written too long ago, or is there already in a table that grows.
        """
        self._require_open()
        if self._writing:
            raise HubError(f"{self._version.name}: partition {next(iter(self._writing))!r} is still being written")
        try:
            if self._resume and self._staged.exists:
                # Whoever shares the staging version may have added others.
                self._stage()
            self._refuse_old(self._waiting)
            (self._publish_append if self._grows_on else self._publish_new)(sorted_by_key(self._parts.values()))
        except (AlreadyExistsError, ConflictError):
            self.abort()
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
        """Give up: remove what was written. With ``resume`` it is kept for the next attempt."""
        if self._state != "open":
            return
        self._state = "aborted"
        if self._resume:
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
            raise AlreadyExistsError(
                f"{self._version.name}: somebody else created it meanwhile; choose another version"
            )

    def _publish_append(self, parts: Sequence[TablePart]) -> None:
        assert self._base is not None
        if parts:
            self._tried = True
            commit(self._version, AddParts(parts), base=self._version.refresh(), message=self._message)

    def _files(self, parts: Sequence[TablePart]) -> Iterator[Any]:
        with progress(len(parts), f"publishing {self._version.name}", unit=" partitions") as bar:
            for file in part_files(self._version.fetcher, parts, self.schema):
                yield file
                bar.update(1)

    def _partition_ended(self, key: Key, part: TablePart | None, packs: PackWriter) -> None:
        with self._lock:
            self._writing.discard(key)
            if part is not None:
                self._packs.append(packs)
        if part is not None and self._state == "open":
            self.add(part)

    def _stage(self) -> None:
        with self._lock:
            waiting, self._waiting, self._waiting_since = self._waiting, [], 0.0
        self._refuse_old(waiting)
        for part in self._staged.add(waiting, first=self._first):
            self._parts[part.key] = part
        # What a staging version has is the collector's to remove.
        self._packs.clear()

    def _refuse_other(self, there: TablePart, one: TablePart) -> None:
        if there.digest != one.digest and not self._first:
            raise ConflictError(
                f"{self._version.name}: partition {one.key!r} was written twice, with different rows; write it once, "
                "or use on_duplicate='first'"
            )

    def _refuse_old(self, parts: Iterable[TablePart]) -> None:
        parts = list(parts)
        if not parts:
            return
        now = store_now(self._version.store)
        for part in parts:
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
            wanted = table.key_type if table.appends else type(key)
        else:
            wanted = type(key) if known is None else type(known)
        if type(key) is not wanted:
            raise ConfigError(
                f"partition {key!r}: is a {type(key).__name__}, and the others' keys are {wanted.__name__}"
            )
        return key

    def _require_open(self) -> None:
        if self._state != "open":
            raise HubError(f"{self._version.name}: this writer has {self._state}; make another one")


def checked_key(key: Any) -> Key:
    """A partition's key.

    Raises
    ------
    ConfigError
        It is neither text of 1 to 1,024 letters nor an int64.
    """
    plain = int(key) if isinstance(key, np.integer) else str(key) if isinstance(key, str) else key
    if not is_key(plain):
        raise ConfigError(f"partition {shown_text(str(key))[:80]!r}: give text of 1 to 1,024 letters, or an int64")
    return plain


def checked_schema(schema: Schema) -> Schema:
    """A schema whose index fields a Parquet file can have.

    Raises
    ------
    ConfigError
    """
    arrow_schema(schema, str)
    return schema
