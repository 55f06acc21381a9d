"""A dataset as a Zarr v3 group: what zarr-python and xarray read and write, key by key."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from hubarray.arrays.codecs import zarr_images
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.datasets.handle import DatasetHandle
from hubarray.datasets.transaction import DatasetTransaction
from hubarray.errors import ConfigError, ReadOnlyError
from hubarray.history.commits.handle import commit_operation, newest_record
from hubarray.history.commits.operations import SetAttributes
from hubarray.interop.zarr.array_store import HubStore, cut, replace_attributes
from hubarray.interop.zarr_attributes import decoded_attributes, zarr_group_json
from hubarray.values.attributes import checked_attrs

_GROUP = "zarr.json"


def to_zarr_store(dataset: DatasetHandle, *, transaction: DatasetTransaction | None = None) -> HubGroupStore:
    """See :meth:`hubarray.Dataset.to_zarr_store`."""
    zarr_images.register()
    return HubGroupStore(dataset, transaction=transaction)


class HubGroupStore(Store):
    """A dataset as a Zarr v3 store: a group with an array for each of its arrays.

    A dataset without arrays and attributes may be written as a group that is not there yet (``mode="w-"``).
    Reads are of the commit that was the newest when the store was made, or of the last one written through it. Each
    write is a commit: of a chunk, or of a description, by which arrays are added, and resized with all arrays that
    share the dimension. Deleting the folder of an array drops it; emptying the store drops all.

    Parameters
    ----------
    dataset : Dataset
        A fixed commit makes the store read-only.
    read_only : bool, optional
    transaction : DatasetTransaction, optional
        Of the dataset: what is written becomes part of it, and so one commit, with arrays that come and go, their
        attributes and the dataset's. Those that stay may grow by rows, with all that begin with the same dimension.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self, dataset: DatasetHandle, *, read_only: bool | None = None, transaction: DatasetTransaction | None = None
    ) -> None:
        if dataset.fixed and read_only is False:
            raise ReadOnlyError(f"{dataset.name}:{dataset.version}: a fixed commit can only be read")
        if transaction is not None and not transaction.is_of(dataset):
            raise ConfigError(
                f"{dataset.name}:{dataset.version}: the transaction is of another dataset; give one of this dataset"
            )
        super().__init__(read_only=dataset.fixed if read_only is None else read_only)
        self._dataset, self._transaction = dataset, transaction
        self._shown: dict[str, tuple[int, ...]] = {}
        self._is_made = False
        self._look()

    def _look(self) -> None:
        self._seen = self._dataset.snapshot()
        self._stores: dict[str, HubStore] = {}

    @property
    def _members(self) -> DatasetHandle | DatasetTransaction:
        """The commit that is seen, or the transaction: whichever has the arrays there are."""
        return self._seen if self._transaction is None else self._transaction

    def _attrs(self) -> dict[str, Any]:
        return dict(self._members.attrs)

    def _array(self, name: str) -> ArrayHandle:
        return self._seen[name] if self._transaction is None else self._transaction.array(name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, HubGroupStore)
            and (self._dataset.root, self._dataset.name, self._dataset.version, self._seen.commit)
            == (other._dataset.root, other._dataset.name, other._dataset.version, other._seen.commit)
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HubGroupStore({self._dataset.name}:{self._dataset.version}@{self._seen.commit})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_stores": {}}

    def with_read_only(self, read_only: bool = False) -> HubGroupStore:
        """The same store, to read only or to write."""
        return HubGroupStore(self._dataset, read_only=read_only, transaction=self._transaction)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The bytes of a key, or None."""
        await self._ensure_open()
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> builtins.list[Buffer | None]:
        """The bytes of several keys."""
        return list(await asyncio.gather(*(self.get(key, prototype, span) for key, span in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether a key has bytes."""
        return await self.get(key, default_buffer_prototype()) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Write a chunk, or a description: one commit."""
        await self._ensure_open()
        self._check_writable()
        await asyncio.to_thread(self.set_sync, key, value)

    async def delete(self, key: str) -> None:
        """Make a chunk fill value again, or drop an array whose description it is: one commit."""
        await self._ensure_open()
        self._check_writable()
        await asyncio.to_thread(self.delete_sync, key)

    async def delete_dir(self, prefix: str) -> None:
        """Drop an array, or all of them."""
        await self._ensure_open()
        self._check_writable()
        name = prefix.strip("/")
        if not name:
            await self.clear()
        elif name in self._members:
            await asyncio.to_thread(self._drop, [name])
        else:
            await super().delete_dir(prefix)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing below a folder."""
        return self._is_new() if not prefix.strip("/") else await super().is_empty(prefix)

    def _is_new(self) -> bool:
        """Whether a new group may be made here: of a dataset without arrays and attributes, until there is one."""
        return not (self.read_only or self._is_made or list(self._members) or self._attrs())

    async def clear(self) -> None:
        """Drop all arrays."""
        await self._ensure_open()
        self._check_writable()
        await asyncio.to_thread(self._drop, list(self._dataset if self._transaction is None else self._transaction))

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """:meth:`get` without an event loop."""
        kind = default_buffer_prototype() if prototype is None else prototype
        described = self._described(key)
        if described is not None:
            return kind.buffer.from_bytes(cut(json.dumps(described).encode(), byte_range))
        store = self._store(key)
        return None if store is None else store.get_sync(key, prototype=kind, byte_range=byte_range)

    def _described(self, key: str) -> dict[str, Any] | None:
        """The group's description, or that of an array that is shown with another shape than it has."""
        if key == _GROUP and self._is_new():
            return None
        if key == _GROUP and self._transaction is not None:
            return {"zarr_format": 3, "node_type": "group", "attributes": self._attrs()}
        if key == _GROUP:
            # Nothing within a transaction: who looks at an array there depends on it.
            return zarr_group_json(self._attrs(), {name: self._array_json(name) for name in self._members})
        name, _, rest = key.partition("/")
        return self._array_json(name) if rest == _GROUP and name in self._shown else None

    def _array_json(self, name: str) -> dict[str, Any]:
        described = self._store_of(name).description()
        return described | {"shape": list(self._shown[name])} if name in self._shown else described

    def set_sync(self, key: str, value: Buffer) -> None:
        """:meth:`set` without an event loop."""
        self._check_writable()
        if key == _GROUP:
            self._describe_group(json.loads(value.to_bytes()))
            self._is_made = True
            return
        name, _, rest = key.partition("/")
        if rest == _GROUP:
            description = json.loads(value.to_bytes())
            if description.get("node_type") != "array":
                raise ConfigError(f"{key}: a dataset holds arrays, and no groups within it")
            if name not in (self._dataset if self._transaction is None else self._transaction):
                self._create(name, description)
            elif self._transaction is None:
                self._describe(name, description, key, value)
            else:
                self._grow_within(self._transaction, name, description, key, value)
            return
        store = self._store(key)
        if store is None:
            raise ConfigError(f"{key}: {self._dataset.name} has no array {name!r}; write its zarr.json first")
        store.set_sync(key, value)
        if self._transaction is None:
            self._look()

    def delete_sync(self, key: str) -> None:
        """:meth:`delete` without an event loop."""
        self._check_writable()
        name, _, rest = key.partition("/")
        if rest == _GROUP and name in self._members:
            self._drop([name])
            return
        store = self._store(key)
        if store is not None:
            store.delete_sync(key)
            if self._transaction is None:
                self._look()

    async def list(self) -> AsyncIterator[str]:
        """All keys; reads the whole manifest."""
        await self._ensure_open()
        if not self._is_new():
            yield _GROUP
        for name in self._members:
            async for key in self._store_of(name).list_prefix(f"{name}/"):
                yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys that begin with a prefix."""
        name, slash, _ = prefix.partition("/")
        if slash and name in self._members:
            async for key in self._store_of(name).list_prefix(prefix):
                yield key
            return
        async for key in self.list():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a folder."""
        folder = prefix.strip("/")
        if not folder:
            for name in [] if self._is_new() else [_GROUP, *self._members]:
                yield name
        elif folder.partition("/")[0] in self._members:
            async for name in self._store_of(folder.partition("/")[0]).list_dir(folder):
                yield name

    def _store(self, key: str) -> HubStore | None:
        name, slash, _ = key.partition("/")
        return self._store_of(name) if slash and name in self._members else None

    def _store_of(self, name: str) -> HubStore:
        store = self._stores.get(name)
        if store is None:
            seen = self._array(name)
            if self._transaction is None:
                array: ArrayHandle = seen if self._dataset.fixed else self._dataset[name]
                store = HubStore(array, variable=name, seen=seen)
            else:
                store = HubStore(seen, variable=name, transaction=self._transaction[name], seen=seen)
            self._stores[name] = store
        return store

    def _describe_group(self, description: dict[str, Any]) -> None:
        attributes = checked_attrs(description.get("attributes", {}))
        if self._transaction is not None:
            replace_attributes(self._transaction.attrs, attributes)
            return
        stored = dict(self._dataset.attrs)
        if attributes == stored:
            return
        _, record = newest_record(self._dataset)
        gone = tuple(key for key in stored if key not in attributes)
        commit_operation(self._dataset, SetAttributes(attributes, gone), record)
        self._look()

    def _create(self, name: str, description: dict[str, Any]) -> None:
        after = ArrayMetadata.from_json(description)
        attributes = decoded_attributes(description.get("attributes", {}), after.dtype, keep_nan=True)
        spec = ArraySpec(
            after.shape, after.dtype, after.chunks, list(after.codecs), after.fill[()], after.dims, attributes
        )
        if self._transaction is not None:
            self._transaction[name] = spec
            return
        self._dataset[name] = spec
        self._look()

    def _describe(self, name: str, description: dict[str, Any], key: str, value: Buffer) -> None:
        after = ArrayMetadata.from_json(description)
        array = self._dataset[name]
        grown = {
            dim: new
            for dim, old, new in zip(array.dims, array.shape, after.shape, strict=False)
            if dim is not None and old != new
        }
        if grown and len(after.shape) == array.ndim:
            # Arrays that share the dimension grow with it. Whoever appends to one after the other adds to the length
            # that each had, so those are shown as they were until they are asked for themselves.
            before = {other: self._shown.get(other, array.shape) for other, array in self._dataset.arrays.items()}
            self._dataset.resize(grown)
            self._shown |= {other: shape for other, shape in before.items() if self._dataset[other].shape != shape}
        self._shown.pop(name, None)
        self._store_of(name).set_sync(key, value)
        self._look()

    def _grow_within(
        self, transaction: DatasetTransaction, name: str, description: dict[str, Any], key: str, value: Buffer
    ) -> None:
        """Describe an array; if it grows, all that begin with its dimension do, and are shown as they were."""
        lengths = zip(
            self._array(name).dims,
            transaction[name].staged.shape,
            ArrayMetadata.from_json(description).shape,
            strict=False,
        )
        grown = {dim: new for dim, old, new in lengths if dim is not None and new > old}
        self._store_of(name).set_sync(key, value)
        self._shown.pop(name, None)
        for other in [
            other_name
            for other_name in transaction
            if other_name != name and grown.keys() & set(self._array(other_name).dims)
        ]:
            now = transaction[other].staged.shape
            for axis, dim in enumerate(self._array(other).dims):
                count = grown.get(dim, 0) - now[axis] if dim is not None else 0
                if count > 0:
                    self._shown.setdefault(other, now)
                    transaction[other].append_fill(count, axis=axis)

    def _drop(self, names: builtins.list[str]) -> None:
        if self._transaction is not None:
            for name in names:
                del self._transaction[name]
                self._stores.pop(name, None)
        else:
            self._dataset.drop(names)
        self._shown = {name: shape for name, shape in self._shown.items() if name not in names}
        if self._transaction is None:
            self._look()
