"""The array: a NumPy-like handle on a named version, or on one commit of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self

import numpy as np

from hubarray.arrays.codecs import dtypes
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.indexing import chunking, selection
from hubarray.arrays.indexing.plan import plan
from hubarray.arrays.metadata.attributes import Attributes
from hubarray.arrays.metadata.metadata import ArrayMetadata, checked_dims
from hubarray.arrays.operators import NoOperators
from hubarray.arrays.read.prefetch import load_chunks, require_few
from hubarray.arrays.read.read import read, read_within_chunk, worth_keeping
from hubarray.arrays.read.read_ahead import Pace, rows_ahead
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import along, assignable, checked_axis, rows_that_fit
from hubarray.arrays.write.operations import Append, Resize, SetDims, SetElements
from hubarray.arrays.write.struct_fields import names_fields, read_fields
from hubarray.arrays.write.transaction import Transaction
from hubarray.blobs.pools import pools
from hubarray.errors import ConfigError, ConflictError, CorruptDataError, NotFoundError
from hubarray.history.commits.handle import Handle
from hubarray.history.commits.operations import SetAttributes
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.redaction import counted
from hubarray.storage.url import Root
from hubarray.values.packing import is_packed


class ArrayHandle(Handle, NoOperators):
    """The elements of a version or a commit: :class:`hubarray.Array` without the methods for other packages."""

    __slots__ = ("_pace", "_seen")

    def __init__(self, root: Root, version: Version, record: Record, *, pinned: bool) -> None:
        super().__init__(root, version, record, pinned=pinned)
        self._seen = _state(version, record)
        self._pace = Pace(version.fetcher.memory.budget_bytes)

    @property
    def key(self) -> str | None:
        """Its name in its dataset, or None if the array has its own name."""
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._metadata.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self._metadata.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory. They may take much less in the bucket."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk."""
        return self._metadata.chunks

    @property
    def codec(self) -> list[dict[str, Any]]:
        """The Zarr v3 codec chain, as ``hub.array(codec=...)`` accepts it."""
        return [dict(codec) for codec in self._metadata.codecs]

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written."""
        return self._metadata.fill[()]

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The name of each axis, or None. Setting the names is a commit: ``a.dims = ("time", "y", "x")``."""
        return self._metadata.dims or (None,) * self.ndim

    @dims.setter
    def dims(self, names: Sequence[str | None] | None) -> None:
        self._commit(SetDims(checked_dims(names, self.ndim)), self._writable_record())

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def attrs(self) -> Attributes:
        """A mapping of JSON values. Changing it is a commit."""
        return Attributes(lambda: self._record().attrs, self._change_attrs)

    def stored_bytes(self) -> int:
        """Bytes of its chunks in the bucket. This reads the whole manifest. Copies count shared chunks, too.

        Examples
        --------
        >>> import hubarray as hub
        >>> a = hub.array(1000, "docs/stored:v0", dtype="uint8", chunks=1000, codec="none")
        >>> a[:] = 7
        >>> a.stored_bytes(), a.nbytes
        (1000, 1000)
        """
        return snapshot_of(self).stored_bytes()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        # What this process knows, without a request.
        record, metadata = self._seen.record, self._seen.metadata
        known = None if self._pinned is not None else self._version.last_seen
        with contextlib.suppress(NotFoundError, ConflictError):
            record = record if known is None else self._view(self._checked(known))
            metadata = self._metadata_of(record)
        state = ", fixed" if self._pinned is not None else ", frozen" if record.head.frozen else ""
        state = (", lossy" if is_lossy(metadata.codecs) else "") + state
        state = (", packed" if is_packed(record.attrs, metadata.dtype) else "") + state
        shown = f"shape {metadata.shape}, dtype {metadata.dtype}, chunks {metadata.chunks}{state}"
        return f"<hubarray.Array {self._version.name}@{record.head.number} in {self._root.url}: {shown}>"

    def __getitem__(self, key: Any) -> Any:
        """Read elements, with the indexing of NumPy.

        Raises
        ------
        IndexError
            Same as in NumPy.
        CorruptDataError, StorageError
            Data cannot be read. Nothing is returned in its place.
        """
        state = snapshot_of(self)
        metadata = state.metadata
        if names_fields(key, metadata.dtype):
            pinned = self.snapshot()
            return read_fields(
                metadata.shape, metadata.dtype, key, pinned.read_rows if metadata.shape else pinned.__getitem__
            )
        try:
            quick = read_within_chunk(state, key, self._read_ahead)
            if quick is not None:
                return quick
            chosen = selection.parse(key, metadata.shape)
            result = chosen.from_canonical(read(state, chosen))
        except CorruptDataError as error:
            refuse_expired(state, error)
            raise
        return result[()] if chosen.is_scalar else result

    def read_rows(self, rows: np.ndarray | slice, out: np.ndarray | None = None) -> np.ndarray:
        """Read rows without the memory cache, for epochs and loops that read each row once.

        Parameters
        ----------
        rows : slice or array of int
        out : ndarray, optional
            An array to fill and return. It must be C-contiguous, with the shape of the rows and the dtype of the array.

        Raises
        ------
        IndexError, CorruptDataError, StorageError
        """
        state = snapshot_of(self)
        chosen = selection.parse(rows, state.metadata.shape)
        try:
            return chosen.from_canonical(read(state, chosen, cached=False, out=out))
        except CorruptDataError as error:
            refuse_expired(state, error)
            raise

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign elements, with the indexing of NumPy. The commit is in the bucket when this returns.

        Costs the packs of the changed chunks and one record. Chunks that are only partly covered are read first.

        Raises
        ------
        ConflictError
            Another writer has shrunk or replaced the array in the meantime. Nothing was written.
        FrozenError, ReadOnlyError
        IndexError, ValueError, TypeError
            Same as in NumPy.
        """
        record = self._writable_record()
        metadata = self._metadata_of(record)
        if names_fields(key, metadata.dtype):
            with self.transaction() as t:
                t[key] = value
            return
        chosen = selection.parse(key, metadata.shape)
        values = assignable(value, key, chosen, metadata, record.attrs)
        if chosen.size:
            self._commit(SetElements(chosen, chosen.to_canonical(values)), record)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the samples ``a[0], a[1], ...`` of the commit that is the newest at the start.

        Three blocks of 2 to 16 MiB are read ahead. Like every large read, a loop over more than a quarter of the memory
        cache leaves nothing in the cache.
        """
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        pinned = self.snapshot()
        row_bytes = pinned.nbytes // max(1, len(pinned))
        rows = pinned.__getitem__ if worth_keeping(self._version.fetcher, pinned.nbytes) else pinned.read_rows
        return rows_ahead(lambda start, stop: rows(slice(start, stop)), len(pinned), row_bytes, pinned.chunks[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read the whole array into memory, for ``np.asarray(a)``."""
        if copy is False:
            raise ValueError("the array is in a bucket, so it cannot be had without a copy; leave out copy=False")
        result = np.asarray(self[...])
        return result if dtype is None else result.astype(dtype, copy=False)

    def append(self, rows: Any, *, axis: int = 0, message: str | None = None) -> slice:
        """Add rows after the last one, in one commit, and return their slice.

        If two processes append at once, both succeed, one after the other. Only the returned slice tells where the rows
        are.

        Parameters
        ----------
        rows : array_like
            Shape ``(n, *a.shape[1:])``. With ``axis``, it may differ from the shape of the array only in this axis.
        axis : int
            The axis to extend.
        message : str, optional
            Message of the commit in the log.

        Returns
        -------
        slice
            The added rows. Along the first axis, ``a[a.append(rows)]`` reads them.

        Raises
        ------
        ValueError
            The shape does not fit, or text is longer than the dtype.
        ConfigError
            The axis does not exist.
        """
        record = self._writable_record()
        metadata = self._metadata_of(record)
        axis = checked_axis(axis, len(metadata.shape))
        values = rows_that_fit(rows, metadata, record.attrs, axis)
        count, start = values.shape[axis], metadata.shape[axis]
        if not count:
            return slice(start, start)
        chunking.checked_shape(along(metadata.shape, axis, start + count), dtypes.planned_bytes(metadata.dtype))
        operation = Append(values, axis)
        self._commit(operation, record, message)
        return slice(operation.start, operation.start + count)

    def resize(self, shape: Any, *, message: str | None = None) -> None:
        """Change the length of axes, in one commit.

        Shrinking removes rows: if the array grows again, they are fill value. Growing costs one record. Shrinking also
        rewrites the chunks that it cuts.

        Parameters
        ----------
        shape : int or tuple of int
            The new shape, with the same number of axes.
        message : str, optional

        Raises
        ------
        ConfigError
            The value is not a shape, or has another number of axes.
        ConflictError
            Somebody else has resized the same axis in the meantime.
        """
        record = self._writable_record()
        metadata = self._metadata_of(record)
        lengths = chunking.checked_shape(shape, dtypes.planned_bytes(metadata.dtype))
        if len(lengths) != len(metadata.shape):
            raise ConfigError(
                f"resize to {lengths}: the array has {counted(len(metadata.shape), 'axis', plural='axes')}, and "
                "keeps them"
            )
        if lengths != metadata.shape:
            self._commit(Resize(lengths, metadata.shape), record, message)

    def transaction(self, message: str | None = None) -> Transaction:
        """Combine assignments into one commit, all or nothing: ``with a.transaction("why") as t: t[...] = ...``.

        The block reads the commit that was the newest at its start, with its own writes on top. If it raises, nothing
        becomes visible.

        Raises
        ------
        ConflictError
            Raised at the end of the block if others have changed what it read or wrote. :func:`hubarray.retry` runs it
            again.

        Notes
        -----
        A transaction covers one array. Use a dataset for several arrays.

        Examples
        --------
        >>> import hubarray as hub
        >>> a = hub.array((4, 2), "docs/transaction:v0", dtype="int64")
        >>> with a.transaction("two rows at once") as t:
        ...     t[0] = 1
        ...     t[1] = t[0] + 1
        >>> a[:2].tolist()
        [[1, 1], [2, 2]]
        """
        return Transaction(self, message)

    def prefetch(self, key: Any = ...) -> Future[None]:
        """Start to fetch a selection into the caches, and return at once.

        Decoded chunks go into the memory cache if they fit into half of it; otherwise, encoded chunks go into the disk
        cache. The chunks are those of the commit that this handle reads now.

        Returns
        -------
        concurrent.futures.Future
            It is done when everything is in the cache. Its ``result()`` raises errors, such as a ConfigError if the
            selection exceeds half of both caches. In a forked child it is never done.

        Raises
        ------
        IndexError
            Same as in NumPy.
        ConfigError
            The selection has more than 1,048,576 chunks.

        Examples
        --------
        >>> import hubarray as hub
        >>> a = hub.array((100, 8), "docs/prefetched:v0", chunks=(10, 8))
        >>> a.prefetch(slice(20, 40)).result()
        """
        return _prefetch(snapshot_of(self), key)

    def _read_ahead(self, coord: int) -> None:
        """Chunks along the first axis are read one after the other: fetch some before they are asked for."""
        if not self._pace.goes_on(coord):
            return
        state = self._seen
        metadata = state.metadata
        chunk, length = metadata.chunks[0], metadata.shape[0]
        if any(n > c for n, c in zip(metadata.shape[1:], metadata.chunks[1:], strict=True)):
            return
        window = self._pace.window(-(-length // chunk), metadata.chunk_bytes)
        if window:
            _prefetch(state, slice(window.start * chunk, min(window.stop * chunk, length)))

    def snapshot(self) -> Self:
        """Return a read-only handle that stays at the commit that this handle reads now."""
        return type(self)(self._root, self._version, self._record(), pinned=True)

    def _change_attrs(self, updates: dict[str, Any], removals: tuple[str, ...]) -> None:
        self._commit(SetAttributes(updates, removals), self._writable_record())

    @property
    def _metadata(self) -> ArrayMetadata:
        return self._metadata_of(self._record())

    def _state_of(self, record: Record) -> ArraySnapshot:
        seen = self._seen
        if seen.record is not record:
            alike = seen.record.description == record.description
            seen = ArraySnapshot(self._version, record, seen.metadata) if alike else _state(self._version, record)
            self._seen = seen
        return seen

    def _metadata_of(self, record: Record) -> ArrayMetadata:
        return self._state_of(record).metadata


def snapshot_of(array: ArrayHandle) -> ArraySnapshot:
    """Return the record that an array reads, with its description. Costs a probe if the last one is too long ago."""
    return array._state_of(array._record())


def _state(version: Version, record: Record) -> ArraySnapshot:
    if record.head.kind == "deleted":
        raise NotFoundError(f"{record.name}: is deleted")
    return ArraySnapshot.of(version, record)


def _prefetch(state: ArraySnapshot, key: Any) -> Future[None]:
    chosen = selection.parse(key, state.metadata.shape)
    chunks = plan(chosen, state.metadata.shape, state.metadata.chunks)
    require_few(state, chunks)
    return pools.ahead.submit(load_chunks, state, chunks)


def refuse_expired(state: ArraySnapshot, error: CorruptDataError) -> None:
    """Raise an error if the data has expired.

    Raises
    ------
    NotFoundError
    """
    if state.version.has_expired(state.record):
        raise NotFoundError(
            f"{state.record.name}: this commit has expired and its data was collected; read a newer one"
        ) from error
