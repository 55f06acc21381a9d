"""A version as a Zarr v3 store: what zarr-python, xarray and Dask read and write, key by key.

Keys are those that Zarr would have: ``zarr.json``, and ``c/0/1`` for a chunk, whose bytes are the stored blob
itself. As a group the same lies under the variable's name, beside a ``zarr.json`` of the group.
"""

from __future__ import annotations

import asyncio
import builtins
import json
from collections.abc import AsyncIterator, Iterable, MutableMapping
from typing import Any

import numpy as np
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from hubarray.api.retry import retry
from hubarray.arrays.codecs import zarr_images
from hubarray.arrays.handle import ArrayHandle, refuse_expired, snapshot_of
from hubarray.arrays.indexing import numbering
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import is_all_fill
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import changed_elements
from hubarray.arrays.write.operations import Overwrite
from hubarray.arrays.write.transaction import Transaction
from hubarray.errors import ConfigError, CorruptDataError, HubError, ReadOnlyError
from hubarray.history.commits.commit import commit
from hubarray.history.commits.handle import commit_operation, newest_record
from hubarray.history.commits.operations import SetAttributes
from hubarray.interop.zarr_attributes import DIMENSION_NAMES, decoded_attributes, zarr_json
from hubarray.values.attributes import checked_attrs


def to_zarr_store(
    array: ArrayHandle, *, variable: str | None = None, transaction: Transaction | None = None
) -> HubStore:
    """See :meth:`hubarray.Array.to_zarr_store`."""
    zarr_images.register()
    if transaction is not None and not transaction.is_of(array):
        raise ConfigError(f"{array.name}:{array.version}: the transaction is of another array; give one of this array")
    return HubStore(array, variable=variable, transaction=transaction)


class HubStore(Store):
    """One array as a Zarr v3 store.

    Reads are of the commit that was the newest when the store was made, or of the last one written through it: a
    graph of xarray or Dask never sees half of somebody else's commit. A write is a commit, of one chunk; write
    large things with ``with a.transaction()`` or :func:`hubarray.store`. Writing ``zarr.json`` may change the
    shape and the attributes and nothing else.

    It holds one array: other keys are refused, and so are bytes that are not a chunk of it. An empty chunk, all
    fill value, is not stored, so ``get`` gives None for it. Emptying the store, as xarray's ``mode="w"`` does, takes
    effect with the description that is written next: a new generation of the array, whose old commits stay.

    Parameters
    ----------
    array : Array
        A fixed commit (``name@number``, ``a.snapshot()``) makes the store read-only.
    variable : str, optional
        Show a group that holds the array under this name, as xarray wants it.
    read_only : bool, optional
    transaction : Transaction, optional
        Of the array: what is written becomes part of it, and so one commit. It may grow by rows; its axes stay.
    seen : Array, optional
        The commit that reads are of; by default the newest.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self,
        array: ArrayHandle,
        *,
        variable: str | None = None,
        read_only: bool | None = None,
        transaction: Transaction | None = None,
        seen: ArrayHandle | None = None,
    ) -> None:
        if variable is not None and (not variable or "/" in variable):
            raise ConfigError(f"variable={variable!r}: give one name, without '/'")
        # What is written to a transaction is no commit yet, so what it began from may be fixed.
        fixed = array.fixed and transaction is None
        if fixed and read_only is False:
            raise ReadOnlyError(f"{array!r}: a fixed commit can only be read; load the version to write")
        super().__init__(read_only=fixed if read_only is None else read_only)
        self._array = array
        self._variable = variable
        self._transaction = transaction
        self._emptied = False
        self._seen = array.snapshot() if seen is None else seen

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, HubStore)
            and (self._array.root, self._array.name, self._array.version, self._array.key, self._variable)
            == (other._array.root, other._array.name, other._array.version, other._array.key, other._variable)
            and self._seen.commit == other._seen.commit
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HubStore({self._seen!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def with_read_only(self, read_only: bool = False) -> HubStore:
        """The same store, to read only or to write."""
        return HubStore(self._array, variable=self._variable, read_only=read_only, transaction=self._transaction)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The bytes of a key, or None. One coalesced request at most, hash checked."""
        await self._ensure_open()
        data = await asyncio.to_thread(self._bytes, key)
        return None if data is None else prototype.buffer.from_bytes(cut(data, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> builtins.list[Buffer | None]:
        """The bytes of several keys."""
        return list(await asyncio.gather(*(self.get(key, prototype, span) for key, span in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether a key has bytes."""
        await self._ensure_open()
        return await asyncio.to_thread(self._bytes, key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Write a chunk, or the metadata: one commit."""
        await self._ensure_open()
        self._check_writable()
        await asyncio.to_thread(self._set, key, value.to_bytes())

    async def delete(self, key: str) -> None:
        """Make a chunk fill value again: one commit."""
        await self._ensure_open()
        self._check_writable()
        await asyncio.to_thread(self._delete, key)

    async def delete_dir(self, prefix: str) -> None:
        """Make the chunks below a folder fill value; the array itself stays, so its own folder is refused."""
        folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        if folder in ("", f"{self._variable}/"):
            await self.clear()
            return
        if any(key.startswith(folder) for key in self._own_keys()):
            raise self._refused_deletion(prefix)
        await super().delete_dir(prefix)

    async def clear(self) -> None:
        """Begin anew with the description that is written next; see the class."""
        await self._ensure_open()
        self._check_writable()
        if self._transaction is not None:
            raise ConfigError("a transaction keeps the array's description, so its store cannot be emptied")
        self._emptied = True

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """:meth:`get` without an event loop."""
        data = self._bytes(key)
        kind = default_buffer_prototype() if prototype is None else prototype
        return None if data is None else kind.buffer.from_bytes(cut(data, byte_range))

    def set_sync(self, key: str, value: Buffer) -> None:
        """:meth:`set` without an event loop."""
        self._check_writable()
        self._set(key, value.to_bytes())

    def delete_sync(self, key: str) -> None:
        """:meth:`delete` without an event loop."""
        self._check_writable()
        self._delete(key)

    async def list(self) -> AsyncIterator[str]:
        """All keys; reads the whole manifest."""
        await self._ensure_open()
        for key in await asyncio.to_thread(self._keys):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys that begin with a prefix."""
        async for key in self.list():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a folder."""
        folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        names = dict.fromkeys([key.removeprefix(folder).split("/")[0] async for key in self.list_prefix(folder)])
        for name in names:
            yield name

    def _bytes(self, key: str) -> bytes | None:
        where = self._place(key)
        if where is None or self._emptied:
            return None
        if where == "group":
            return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()
        if where == "array":
            return json.dumps(self.description()).encode()
        state = snapshot_of(self._seen)
        metadata = state.metadata
        if len(where) != len(metadata.shape) or not self._within(where):
            return None
        if self._transaction is not None:
            return self._staged_bytes(self._transaction, where, metadata)
        refs = state.refs([where])
        if not refs["length"][0]:
            return None
        try:
            return bytes(state.fetcher.blobs(refs, max_bytes=metadata.max_blob_bytes)[0])
        except CorruptDataError as error:
            refuse_expired(state, error)
            raise

    def _staged_bytes(self, transaction: Transaction, coords: tuple[int, ...], metadata: ArrayMetadata) -> bytes | None:
        """A chunk as the transaction has it now."""
        chunk = np.full(metadata.chunks, metadata.fill)
        chunk[self._inside(coords)] = transaction[self._region(coords)]
        return None if is_all_fill(chunk, metadata.fill) else bytes(metadata.codec.encode(chunk))

    def description(self) -> dict[str, Any]:
        """The array's ``zarr.json``."""
        described = zarr_json(self._seen, None if self._transaction is None else self._transaction.attrs)
        described["shape"] = list(self._shape())
        if self._variable is not None:
            names = described.get(DIMENSION_NAMES) or [None] * self._seen.ndim
            # Those of several arrays in one group are not the same.
            before = "dim" if self._seen.key is None else f"{self._seen.key}_dim"
            described[DIMENSION_NAMES] = [f"{before}_{axis}" if dim is None else dim for axis, dim in enumerate(names)]
        return described

    def _place(self, key: str) -> Any:
        """The meaning of a key: "group", "array", a chunk's coordinates, or None."""
        if self._variable is not None:
            if key == "zarr.json":
                return "group"
            if not key.startswith(f"{self._variable}/"):
                return None
            key = key.removeprefix(f"{self._variable}/")
        if key == "zarr.json":
            return "array"
        first, *rest = key.split("/")
        if first != "c" or not all(part.isascii() and part.isdigit() and str(int(part)) == part for part in rest):
            return None
        return tuple(map(int, rest))

    def _shape(self) -> tuple[int, ...]:
        """The shape that is read: of the commit that is seen, or within the transaction."""
        return self._seen.shape if self._transaction is None else self._transaction.staged.shape

    def _within(self, coords: tuple[int, ...]) -> bool:
        counts = numbering.chunk_counts(self._shape(), self._seen.chunks)
        return len(coords) == len(counts) and all(c < n for c, n in zip(coords, counts, strict=True))

    def _set(self, key: str, data: bytes) -> None:
        where = self._place(key)
        if where == "array":
            self._describe(data)
        elif isinstance(where, tuple):
            self._write_chunk(key, where, data)
        elif where == "group":
            if json.loads(data).get("attributes"):
                raise ConfigError(f"{key}: the group is made up for the array and keeps no attributes; set the array's")
            # Nothing was written, so the newest commit stays unread. Zarr writes the array's zarr.json at the same
            # time, which may create the array again.
            return
        else:
            raise ConfigError(f"{key}: this store holds one array, {self._array.name}, and no such key")
        if self._transaction is None:
            self._seen = self._array.snapshot()

    def _write_chunk(self, key: str, coords: tuple[int, ...], data: bytes) -> None:
        metadata = snapshot_of(self._array).metadata
        if not self._within(coords):
            raise ConfigError(f"{key}: outside the array, whose shape is {self._array.shape}")
        chunk = np.empty(metadata.chunks, metadata.dtype)
        try:
            metadata.codec.decode(data, chunk)
        except HubError as error:
            raise ConfigError(f"{key}: these bytes are not a chunk of {metadata.describe()} ({error})") from None
        # An array, though it has no axes: text without axes would be a str.
        within: Any = (*self._inside(coords), ...)
        region, new = self._region(coords), chunk[within]
        if self._transaction is not None:
            self._transaction[region] = new
            return
        # What Zarr writes it read at the commit seen here: only what it changed is assigned to the newest one.
        old = np.asarray(self._seen[region], metadata.dtype)
        changed = changed_elements(old, new) if old.shape == new.shape else np.ones(new.shape, bool)
        if changed.all():
            self._array[region] = new
            return

        def merge() -> None:
            with self._array.transaction() as t:
                values = t[region]
                values[changed] = new[changed]
                t[region] = values

        if changed.any():
            retry(merge)

    def _region(self, coords: tuple[int, ...]) -> tuple[slice, ...]:
        shape = self._array.shape if self._transaction is None else self._shape()
        sizes = zip(coords, self._array.chunks, shape, strict=True)
        return tuple(slice(c * n, min((c + 1) * n, length)) for c, n, length in sizes)

    def _inside(self, coords: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(slice(0, part.stop - part.start) for part in self._region(coords))

    def _describe(self, data: bytes) -> None:
        described = json.loads(data)
        after = ArrayMetadata.from_json(described)
        is_in_group = self._array.key is not None
        attrs = described.get("attributes", {})
        attributes = decoded_attributes(attrs, after.dtype, keep_nan=is_in_group)
        before = snapshot_of(self._array).metadata
        if self._emptied:
            self._begin_anew(after, attributes)
            return
        if self._transaction is not None:
            now = self._shape()
            changed = [
                (axis, new - old) for axis, (old, new) in enumerate(zip(now, after.shape, strict=False)) if new != old
            ]
            grows = len(changed) <= 1 and all(count > 0 for _, count in changed)
            if not after.stored_like(before) or len(now) != len(after.shape) or not grows:
                raise ConfigError(
                    "a transaction keeps the array's description, and its shape but for rows that are appended along "
                    "one axis; change them before it"
                )
            for axis, count in changed:
                self._transaction.append_fill(count, axis=axis)
            replace_attributes(self._transaction.attrs, attributes)
            return
        if not after.stored_like(before):
            raise ConfigError(
                f"{self._array.name}: writing zarr.json can change the shape and the attributes only. The array "
                f"has {before.describe()}; the new zarr.json says {after.describe()}"
            )
        if after.dims is not None and list(after.dims) != self.description().get(DIMENSION_NAMES):
            self._array.dims = after.dims
        if after.shape != before.shape:
            self._array.resize(after.shape)
        stored = dict(self._array.attrs)
        gone = tuple(key for key in stored if key not in attributes)
        if gone or any(stored.get(key, ...) != value for key, value in attributes.items()):
            state = ArraySnapshot.of(*newest_record(self._array))
            commit_operation(self._array, SetAttributes(attributes, gone), state.record)

    def _begin_anew(self, metadata: ArrayMetadata, attributes: dict[str, Any]) -> None:
        array = self._array
        if array.key is not None:
            raise ConfigError(f"{array.key!r} is an array of a dataset: drop it there, and add another one")
        state = ArraySnapshot.of(*newest_record(array))
        record = commit(state.version, Overwrite(metadata, checked_attrs(attributes)), base=state.record)
        self._array, self._emptied = type(array)(array.root, state.version, record, pinned=False), False

    def _delete(self, key: str) -> None:
        where = self._place(key)
        if self._emptied:
            return
        if isinstance(where, tuple) and self._within(where) and self._transaction is not None:
            self._transaction[self._region(where)] = self._array.fill_value
        elif isinstance(where, tuple) and self._within(where):
            self._array[self._region(where)] = self._array.fill_value
            self._seen = self._array.snapshot()
        elif where in ("array", "group"):
            raise self._refused_deletion(key)

    def _refused_deletion(self, key: str) -> ConfigError:
        name = f"{self._array.name}:{self._array.version}"
        return ConfigError(f"{key!r} of {name}: nothing was deleted; delete the version itself: hub.delete({name!r})")

    def _own_keys(self) -> builtins.list[str]:
        return ["zarr.json"] if self._variable is None else ["zarr.json", f"{self._variable}/zarr.json"]

    def _keys(self) -> Iterable[str]:
        if self._emptied:
            return []
        before = "" if self._variable is None else f"{self._variable}/"
        own = self._own_keys()
        for coords, _ in snapshot_of(self._seen).present():
            own += ["/".join([f"{before}c", *map(str, chunk_coords)]) for chunk_coords in coords.tolist()]
        return own


def replace_attributes(stored: MutableMapping[str, Any], new: dict[str, Any]) -> None:
    """Make attributes others, which are all there are then."""
    for key in [key for key in stored if key not in new]:
        del stored[key]
    if any(stored.get(key, ...) != value for key, value in new.items()):
        stored.update(new)


def cut(data: bytes, byte_range: ByteRequest | None) -> bytes:
    """The part of a value that is asked for."""
    if byte_range is None:
        return data
    if isinstance(byte_range, RangeByteRequest):
        return data[byte_range.start : byte_range.end]
    if isinstance(byte_range, OffsetByteRequest):
        return data[byte_range.offset :]
    if isinstance(byte_range, SuffixByteRequest):
        return data[max(0, len(data) - byte_range.suffix) :]
    raise ValueError(f"Unexpected byte_range, got {byte_range}.")
