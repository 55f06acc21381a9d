"""Write partitions, on this and on other machines. Each becomes a part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.errors import ConfigError, HubError, ReadOnlyError
from hubarray.history.log.probes import store_now
from hubarray.history.log.version import Version, version_of
from hubarray.history.records.json_fields import Fields
from hubarray.names import Name
from hubarray.redaction import named_type, shown_text
from hubarray.storage.url import Root
from hubarray.tables.format import casts
from hubarray.tables.format.index_piece import Key
from hubarray.tables.format.part import MAX_PART_FILE_BYTES, TablePart, is_key, schema_digest
from hubarray.tables.format.schema import Schema
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.dedup import References
from hubarray.tables.write.partition import UPLOADING_BYTES, PartitionWriter
from hubarray.tables.write.staging import StagedParts

_BLOCK = "use a partition within 'with ...partition(key) as p'; p.part is there after the block"

# What a partition's owner is told at its end: its key, its part if it has one, its packs.
Ended = Callable[[Key, "TablePart | None", Sequence[PackWriter]], None]


class TablePartition:
    """A partition that is being written, from ``partition(key)`` of a writer or worker, in a ``with`` block.

    It holds about 128 MiB, including uploads, and twice the largest row.
    """

    def __init__(self, worker: TableWorker, key: Key, ended: Ended | None) -> None:
        self._worker, self._key, self._ended = worker, key, ended
        self._part: TablePart | None = None
        self._rows: PartitionWriter | None = None
        self._process = 0

    @property
    def key(self) -> Key:
        """The key of the partition."""
        return self._key

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._rows.rows if self._rows is not None else 0

    @property
    def part(self) -> TablePart:
        """The part for ``TableWriter.add``, after the block has ended without an error."""
        if self._part is None:
            raise HubError(_BLOCK)
        return self._part

    def append(self, row: Any) -> None:
        """Add a row. A refused row changes nothing.

        Parameters
        ----------
        row : mapping of str to value
            Arrays, numbers and times that the dtype of the field represents exactly, text, bytes, or None if the field
            is nullable. Python floats are rounded to the precision of the field. A JPEG or PNG can be the bytes of its
            file. If the table has one field, pass the value alone.

        Raises
        ------
        ConfigError
            A field is missing, unknown or has the wrong type. The message names the partition, the row and the field.
        """
        self._open().append(self._named(row))

    def extend(self, rows: Any) -> None:
        """Add the rows of a DataFrame, an Arrow table or stream, or an iterable of mappings.

        You can also pass a mapping of columns, such as arrays with a row per first index. Columns are cast if no value
        changes. Columns of numbers of fixed size are stored without iterating over rows.

        Raises
        ------
        ConfigError
            Same as in :meth:`append`. Rows before the refused one are added.
        """
        writer = self._open()
        if not casts.is_frame(rows) and not isinstance(rows, Mapping):
            if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
                raise ConfigError(f"{self._where()}: give a frame, or a mapping per row, not {named_type(rows)}")
            for row in rows:
                writer.append(self._named(row))
            return
        try:
            for columns, count in casts.batches_of(rows, self._worker.schema):
                writer.extend(columns, count)
        except ConfigError as error:
            text = str(error)
            where = self._where(getattr(error, "row", 0))
            named = text if text.startswith("partition ") else f"{where}: {text}"
            raise ConfigError(named) from None

    def __enter__(self) -> TablePartition:
        self._began = store_now(self._worker.version.store)
        known = self._worker.references().known(self._key, self._worker.schema)
        store, home = self._worker.version.store, self._worker.version.name.home
        self._packs = PackWriter(store, home, max_bytes=UPLOADING_BYTES)
        # Nobody needs the part file once the table is there, and the chunk files stay.
        self._part_packs = PackWriter(store, home)
        self._rows = PartitionWriter(
            self._worker.schema, self._key, self._packs, known, decodes_images=self._worker.decodes_images
        )
        self._process = os.getpid()
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        writer = self._open()
        try:
            if kind is None:
                self._part = self._finished(writer)
        finally:
            self._rows = None
            if self._part is None:
                for packs in self._all_packs():
                    packs.abandon()
            if self._ended is not None:
                self._ended(self._key, self._part, self._all_packs())

    def _all_packs(self) -> list[PackWriter]:
        return [self._packs, self._part_packs]

    def _finished(self, writer: PartitionWriter) -> TablePart:
        file, schema, home = writer.close(), self._worker.schema, self._worker.version.name.home
        data = file.encode(schema, home)
        if len(data) > MAX_PART_FILE_BYTES:
            raise ConfigError(
                f"{self._where()}: the locations of its rows take {len(data):,} bytes, and a partition has at most "
                f"{MAX_PART_FILE_BYTES:,}; write smaller partitions"
            )
        ref = self._part_packs.add(data)
        for packs in self._all_packs():
            packs.finish()
        return TablePart(self._key, file.rows, file.digest(schema), self._began, ref, schema_digest(schema))

    def _open(self) -> PartitionWriter:
        if self._rows is None:
            raise HubError(_BLOCK)
        if os.getpid() != self._process:
            raise ReadOnlyError("a partition belongs to the process that began it; begin one in this process")
        return self._rows

    def _named(self, row: Any) -> Any:
        """A row; the value of a table of one field with its name."""
        schema = self._worker.schema
        return {next(iter(schema)): row} if len(schema) == 1 and not isinstance(row, Mapping) else row

    def _where(self, further: int = 0) -> str:
        return f"partition {shown_text(str(self._key))[:80]!r}, row {self.rows + further}"


@dataclass(frozen=True)
class StagingOptions:
    """How a worker commits parts to the staging version: its grace period, and whether first parts win."""

    grace_seconds: float
    first: bool


class TableWorker:
    """A writer of partitions for another process or machine, from ``TableWriter.worker()``. Picklable.

    ::

        def extract(worker, drive):
            with worker.partition(drive) as p:
                p.extend(rows_of(drive))
            return p.part

    Its data is not visible until the driver has added the part and published the table.
    """

    def __init__(
        self,
        root: Root,
        name: Name,
        schema: Schema,
        references: Sequence[Name],
        staging: StagingOptions | None = None,
        *,
        decodes_images: bool = False,
    ) -> None:
        self.decodes_images = decodes_images
        self._root, self._name, self._references, self._staging = root, name, tuple(references), staging
        self.schema = schema
        self._opened: References | None = None

    @property
    def version(self) -> Version:
        """The version to write to."""
        return version_of(self._root, self._name)

    def partition(self, key: Key) -> TablePartition:
        """Start a partition.

        Parameters
        ----------
        key : str or int
        """
        return TablePartition(self, checked_key(key), None)

    def stage(self, parts: Sequence[TablePart]) -> None:
        """Commit parts to the staging version, so that they survive the death of the driver.

        This needs a writer with ``resume=True``, which publishes the parts without :meth:`TableWriter.add`. It is one
        commit. Existing parts do not change.

        Raises
        ------
        ConflictError
            A partition exists with other rows, and ``on_duplicate`` is not "first".
        """
        if self._staging is None:
            raise ConfigError(f"{self._name}: give table_writer resume=True, so that workers can leave parts")
        staged = StagedParts(self.version, self.schema, grace_seconds=self._staging.grace_seconds, shared=True)
        staged.resumed()
        staged.add(parts, first=self._staging.first)

    def references(self) -> References:
        """Return the tables whose blocks are shared, at the commits that the driver saw, if they have not expired."""
        committed = []
        for name in self._references:
            version = version_of(self._root, name)
            assert name.commit is not None
            committed.append((version, version.base_record(name.commit)))
        # Their lists of partitions are read for the first partition, and serve the others.
        opened = self._opened
        if opened is None or not opened.are_of([record for _, record in committed]):
            opened = self._opened = References([TableSnapshot.of(version, record) for version, record in committed])
        return opened

    def __reduce__(self) -> tuple[Any, ...]:
        return _worker, (
            self._root,
            self._name,
            self.schema.to_json(),
            self._references,
            self._staging,
            self.decodes_images,
        )

    def __repr__(self) -> str:
        return f"TableWorker({str(self._name)!r})"


def _worker(
    root: Root,
    name: Name,
    schema: dict[str, Any],
    references: Sequence[Name],
    staging: StagingOptions | None,
    decodes_images: bool = False,
) -> TableWorker:
    known = Schema.from_json(Fields(schema, "a worker", "schema"))
    return TableWorker(root, name, known, references, staging, decodes_images=decodes_images)


def checked_key(key: Any) -> Key:
    """Check the key of a partition.

    Raises
    ------
    ConfigError
        The key is neither text of 1 to 1,024 characters nor an int64.
    """
    plain = int(key) if isinstance(key, np.integer) else str(key) if isinstance(key, str) else key
    if not is_key(plain):
        raise ConfigError(f"partition {shown_text(str(key))[:80]!r}: give text of 1 to 1,024 letters, or an int64")
    return plain
