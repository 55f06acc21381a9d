"""Transactions: many assignments in one commit, all or nothing.

A transaction reads the commit that was the newest at its start, with its own writes on top. At the end, it becomes one
commit if others have not changed what it read or wrote. Chunks in which both changed different elements are merged. The
check compares elements and values, so every committed transaction could have run entirely at the time of its commit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.arrays.codecs import dtypes
from hubarray.arrays.indexing import chunking, selection
from hubarray.arrays.indexing.selection import Selection, row_selection
from hubarray.arrays.metadata.attributes import Attributes
from hubarray.arrays.metadata.metadata import ArrayMetadata, checked_dims
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import along, assignable, checked_axis, rows_that_fit
from hubarray.arrays.write.context_guard import BlockLife
from hubarray.arrays.write.operations import draft_of
from hubarray.arrays.write.rebase import Work, rebased, region_text
from hubarray.arrays.write.staging import Staging
from hubarray.arrays.write.struct_fields import names_fields, read_fields, write_fields
from hubarray.arrays.write.worker import ArrayPart, ArrayWorker, View, chunk_hashes
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, homes, new_id
from hubarray.errors import ConfigError, ConflictError, ReadOnlyError
from hubarray.history.commits.commit import check_message, check_writable
from hubarray.history.commits.draft import Draft
from hubarray.history.commits.handle import commit_operation, newest_record
from hubarray.history.commits.operations import AttributeChanges
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.process import uptime_seconds
from hubarray.redaction import counted

if TYPE_CHECKING:
    from hubarray.arrays.handle import ArrayHandle

Coords = tuple[int, ...]


class Transaction:
    """An array to read and write, committed at the end: the ``t`` in ``with a.transaction("message") as t``.

    It supports NumPy's indexing, like the array. Complete chunks are uploaded as soon as they are full. A transaction
    holds at most about 128 MiB of partial chunks, 64 MiB of chunks that an assignment changes, 16 MiB per core of
    chunks that are being encoded (32 to 256 MiB in all) and the same for their encoded bytes, and 32 MiB per core of
    uploads (64 to 512 MiB in all). It belongs to the process that started it. Threads of the process can share it.

    Raises
    ------
    ConflictError
        Raised at the end of the block if others have changed an element that it read or wrote, or the shape if it read
        that. Nothing of the transaction is visible. :func:`hubarray.retry` runs it again.
    """

    # So that a name that is mistyped is an error when it is assigned to.
    __slots__ = (
        "_added", "_appended", "_array", "_attribute_changes", "_axis", "_base", "_began", "_id", "_keys", "_life",
        "_lock", "_message", "_packs", "_reads", "_renames_axes", "_shape_seen", "_staging", "_version", "_view",
    )  # fmt: skip

    def __init__(self, array: ArrayHandle, message: str | None, *, view: View | None = None) -> None:
        self._array = array
        # How a worker finds the array in the record of its version; None if the record is that of the array.
        self._view = view
        self._message = message
        self._life = BlockLife("array.transaction()")

    def __enter__(self) -> Transaction:
        self._life.require_new()
        check_message(self._message)
        began = uptime_seconds()
        base = ArraySnapshot.of(*newest_record(self._array))
        check_writable(base.record, self)
        return self.begin(base, PackWriter(base.version.store, base.version.name.home), began)

    def begin(
        self,
        base: ArraySnapshot,
        packs: PackWriter,
        began: float,
        *,
        id: str | None = None,
        lock: threading.RLock | None = None,
    ) -> Transaction:
        """Start on a state. A ``with`` block does this by itself.

        Transactions that share a pack writer also share a lock, because only one thread can use it at a time.
        """
        self._began, self._base, self._packs = began, base, packs
        self._version = base.version
        self._staging = Staging(base, base.metadata, self._packs)
        self._keys: list[tuple[Any, Selection]] = []
        self._reads: list[Selection] = []
        self._shape_seen = False
        self._appended, self._axis = 0, 0
        self._id = new_id() if id is None else id
        self._added: dict[Coords, list[tuple[bytes | None, bytes]]] = {}
        self._attribute_changes = AttributeChanges()
        self._renames_axes = False
        self._lock = threading.RLock() if lock is None else lock
        self._life.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._life.is_open:
            return
        self._life.end()
        if kind is not None or not self.has_changes:
            self._packs.abandon()
            return
        commit_operation(self._array, self, self._base.record, self._message, packs=self._packs, began=self._began)

    def end(self) -> None:
        """End the transaction that :meth:`begin` started, without its own commit."""
        self._life.end()

    def is_of(self, array: ArrayHandle) -> bool:
        """Return whether this is a transaction of the given array, through any handle."""
        mine = self._array
        return (mine.root, mine.name, mine.version, mine.key) == (array.root, array.name, array.version, array.key)

    @property
    def has_changes(self) -> bool:
        """Return whether anything was written."""
        return bool(self._staging.touched or self._appended or self._attribute_changes or self._renames_axes)

    @property
    def attrs(self) -> Attributes:
        """The attributes within the transaction. Setting and deleting them is part of the transaction.

        Attributes that others set in the meantime stay, and do not conflict.
        """
        self._life.require_open()
        return Attributes(self._plain_attrs, self._change_attrs)

    def _plain_attrs(self) -> dict[str, Any]:
        return self._attribute_changes.on(self._base.record.attrs)

    def _change_attrs(self, updates: dict[str, Any], removals: tuple[str, ...]) -> None:
        self._life.require_open()
        with self._lock:
            self._attribute_changes.change(updates, removals)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape within the transaction. After reading it, a resize by others is a conflict."""
        self._life.require_open()
        self._shape_seen = True
        return self._staging.metadata.shape

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The name of each axis within the transaction, or None. Setting the names is part of the transaction."""
        self._life.require_open()
        return self.staged.dims or (None,) * len(self.staged.shape)

    @dims.setter
    def dims(self, names: Sequence[str | None] | None) -> None:
        self._life.require_open()
        with self._lock:
            self._staging.metadata = replace(self.staged, dims=checked_dims(names, len(self.staged.shape)))
            self._renames_axes = True

    @property
    def staged(self) -> ArrayMetadata:
        """The description of the array within the transaction. Reading it does not conflict with a resize."""
        return self._staging.metadata

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        return self._staging.metadata.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Read elements of the commit at the start of the transaction, with its own writes on top."""
        self._life.require_open()
        if names_fields(key, self.dtype):
            return read_fields(self.shape, self.dtype, key, self.__getitem__)
        with self._lock:
            chosen = self._parsed(key)
            self._reads.append(chosen)
            result = chosen.from_canonical(self._staging.read(chosen))
        return result[()] if chosen.is_scalar else result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign elements, which become visible with the transaction.

        If an assignment fails partway, for example during an upload, the transaction is not committed, even if you
        catch the error within the block. If it fails before it has changed anything, for example because NumPy refuses
        the key or the shape, the transaction continues.
        """
        self._life.require_open()
        if names_fields(key, self.dtype):
            write_fields(self._staging.metadata, key, value, self.__getitem__, self.__setitem__)
            return
        with self._lock:
            chosen = self._parsed(key)
            values = assignable(value, key, chosen, self._staging.metadata, self._plain_attrs())
            if chosen.size:
                self._staging.write(chosen, chosen.to_canonical(values))

    def append(self, rows: Any, *, axis: int = 0) -> None:
        """Add rows after the last one. Rows that others append in the meantime stay before them.

        Parameters
        ----------
        rows : array_like
            Same as in :meth:`hubarray.Array.append`.
        axis : int
            The axis to extend, which must be the same in the whole transaction.
        """
        self._life.require_open()
        with self._lock:
            metadata = self._staging.metadata
            axis = checked_axis(axis, len(metadata.shape))
            values = rows_that_fit(rows, metadata, self._plain_attrs(), axis)
            count = values.shape[axis]
            if not count:
                return
            self._staging.metadata = self._longer(count, axis)
            try:
                self._staging.write(row_selection(metadata.shape[axis], count, metadata.shape, axis), values)
            except BaseException:
                self._staging.metadata = metadata
                raise
            self._appended, self._axis = self._appended + count, axis

    def append_fill(self, count: int, *, axis: int = 0) -> None:
        """Add ``count`` rows of fill value, like :meth:`append`. They take no space until they are written.

        Parameters
        ----------
        count : int
        axis : int
        """
        self._life.require_open()
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ConfigError(f"append_fill takes a number of rows from 0 on, not {count!r}"[:200])
        with self._lock:
            axis = checked_axis(axis, len(self._staging.metadata.shape))
            if count:
                self._staging.metadata = self._longer(count, axis)
                self._appended, self._axis = self._appended + count, axis

    def _longer(self, count: int, axis: int) -> ArrayMetadata:
        """Return the description with more rows, if the array may be so large."""
        metadata = self._staging.metadata
        if not metadata.shape:
            raise ConfigError("an array without axes has no rows to append")
        if self._appended and axis != self._axis:
            raise ConfigError(
                f"this transaction has appended along axis {self._axis}, and grows no other one: append along axis "
                f"{axis} in another transaction, or resize the array before"
            )
        grown = along(metadata.shape, axis, metadata.shape[axis] + count)
        chunking.checked_shape(grown, dtypes.planned_bytes(metadata.dtype))
        return metadata.with_shape(grown)

    def worker(self) -> ArrayWorker:
        """Return a picklable handle through which other processes write for this transaction.

        Each process uploads what it writes and returns a part. Pass the parts to :meth:`add`. Workers cannot append.
        Give the array its final shape first, for example with :meth:`append_fill`.

        Examples
        --------
        >>> import hubarray as hub
        >>> a = hub.array((4, 2), "docs/workers:v0", dtype="int64")
        >>> def work(worker, i):  # runs in any process, on any machine
        ...     with worker as w:
        ...         w[i] = i
        ...     return w.part
        >>> with a.transaction("by workers") as t:
        ...     for part in map(work, [t.worker()] * 4, range(4)):
        ...         t.add(part)
        >>> a[:, 0].tolist()
        [0, 1, 2, 3]
        """
        self._life.require_open()
        base = self._base.record.head.number
        shape = self._staging.metadata.shape
        return ArrayWorker(self._array.root, self._version.name, base, shape, self._id, self._view)

    def add(self, part: ArrayPart) -> None:
        """Add the part of a worker to this transaction.

        Adding the same part again, from a worker that ran twice, changes nothing.

        Raises
        ------
        ConflictError
            Another worker, or this transaction, wrote other values to the same elements. Nothing is added.
        """
        self.require_addable(part)
        with self._lock:
            self._add(part)

    def require_addable(self, part: ArrayPart) -> None:
        """Raise the errors of :meth:`add`, without adding anything."""
        self._life.require_open()
        if not isinstance(part, ArrayPart):
            raise ConfigError(f"add takes the part of a worker's block, not {type(part).__name__}")
        if part.transaction != self._id:
            raise ReadOnlyError("this part was written for another transaction, or another array of it; add it there")
        with self._lock:
            self._fresh(part)

    def _fresh(self, part: ArrayPart) -> tuple[np.ndarray, list[int], dict[int, np.ndarray]]:
        """A part's refs, which of its chunks were not added before, and the masks of those; refuses overlaps."""
        refs = np.frombuffer(part.refs, REF).copy()
        homes.load(refs, part.homes)
        hashes = chunk_hashes(refs)
        fresh = [
            i for i, coords in enumerate(part.coords) if (part.written[i], hashes[i]) not in self._added.get(coords, ())
        ]
        masks = {i: part.mask(i, self._staging.metadata.chunks) for i in fresh}
        self._refuse_overlaps(part, masks)
        return refs, fresh, masks

    def _add(self, part: ArrayPart) -> None:
        refs, fresh, masks = self._fresh(part)
        hashes = chunk_hashes(refs)
        overlapping = [i for i in fresh if self._staging.is_written(part.coords[i])]
        both = [part.coords[i] for i in overlapping]
        theirs = self._base.chunks(both, refs[overlapping])
        ours = self._staging.chunks(both)
        with self._staging.changing():
            for i in fresh:
                coords, packed = part.coords[i], part.written[i]
                self._added.setdefault(coords, []).append((packed, hashes[i]))
                if coords in theirs:
                    mask = masks[i]
                    chunk = ours.pop(coords).copy()
                    chunk[mask] = theirs.pop(coords)[mask]
                    self._staging.put(coords, chunk, self._staging.written(coords) | mask)
                else:
                    self._staging.take(coords, refs[i], np.packbits(masks[i]))

    def _refuse_overlaps(self, part: ArrayPart, masks: dict[int, np.ndarray]) -> None:
        for i, mask in masks.items():
            coords = part.coords[i]
            if self._staging.is_written(coords):
                both = self._staging.written(coords) & mask
                if both.any():
                    raise ConflictError(
                        f"{self._version.name}: two workers of one transaction, or it and a worker, wrote the elements "
                        f"{region_text(coords, both, self._staging.metadata)}; give each worker regions of its own"
                    )

    allowed_when_frozen = False
    is_small = False

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        self._staging.require_whole()
        if base.digest != self._base.record.digest:
            self._move_onto(ArraySnapshot.of(version, base))
        coords, refs = self._staging.flush()
        metadata = self._staging.metadata
        message = f"transaction over {counted(len(coords), 'chunk')}"
        attrs = self._attribute_changes.on(base.attrs)
        changed = {} if attrs == base.attrs else {"attrs": attrs}
        return draft_of(base, metadata, changed=(coords, refs), message=message, **changed)

    def _parsed(self, key: Any) -> Selection:
        chosen = selection.parse(key, self._staging.metadata.shape)
        self._keys.append((key, chosen))
        return chosen

    def _move_onto(self, base: ArraySnapshot) -> None:
        """Check against what others did, and stage everything again on their record."""
        work = Work(
            self._base,
            self._staging,
            self._keys,
            self._reads,
            self._shape_seen,
            self._appended,
            self._axis,
            self._packs,
        )
        staging = rebased(work, base)
        if self._renames_axes:
            if base.metadata.dims != self._base.metadata.dims:
                raise ConflictError(f"{self._version.name}: its axes were renamed by somebody else in the meantime")
            staging.metadata = replace(staging.metadata, dims=self.staged.dims)
        self._staging, self._base = staging, base
