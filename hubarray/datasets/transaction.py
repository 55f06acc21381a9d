"""Transactions over several arrays: many writes in one commit, all or nothing.

Each array has its own transaction, and all start on one commit of the dataset. At the end, they are rebased onto the
newest commit, checked array by array, and become one commit together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.metadata.attributes import Attributes
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.context_guard import BlockLife
from hubarray.arrays.write.transaction import Transaction
from hubarray.arrays.write.worker import ArrayPart, ArrayWorker
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import new_id
from hubarray.datasets import growing
from hubarray.datasets.dataset_draft import DatasetDraft
from hubarray.datasets.description import Description, description_of, view
from hubarray.datasets.operations import (
    AddArray,
    ChangeArray,
    ChangeAttributes,
    ChangeDataset,
    DatasetChange,
    DropArray,
    OnlyIfAbsent,
    adoption,
    entry_of,
    fetch_tails,
)
from hubarray.datasets.worker import DatasetWorker, Parts, added_array
from hubarray.errors import ConfigError
from hubarray.history.commits.commit import check_message, check_writable
from hubarray.history.commits.handle import commit_operation, newest_record
from hubarray.history.commits.operations import AttributeChanges
from hubarray.process import uptime_seconds
from hubarray.values.foreign import unmasked
from hubarray.values.objects import plain_objects, refuse_objects

if TYPE_CHECKING:
    from hubarray.datasets.handle import DatasetHandle
    from hubarray.handles.member import DatasetArray


class DatasetTransaction:
    """Arrays to read and write, committed together: the ``t`` in ``with ds.transaction("message") as t``.

    ``t["image"]`` is a :class:`hubarray.results.Transaction` of that array. ``t["new"] = spec`` adds an array, and
    ``del t["old"]`` drops one. ``t.attrs`` are the attributes of the dataset. The transaction belongs to the process
    that started it. Threads of the process can share it.

    Raises
    ------
    ConflictError
        Raised at the end of the block if others have changed an element that it read or wrote, in any array. Nothing of
        the transaction is visible. :func:`hubarray.retry` runs it again.
    """

    # So that a name that is mistyped is an error when it is assigned to.
    __slots__ = (
        "_adopted", "_array_class", "_attribute_changes", "_base", "_began", "_dataset", "_draft", "_id", "_life",
        "_lock", "_message", "_open", "_packs", "_version",
    )  # fmt: skip

    def __init__(self, dataset: DatasetHandle, message: str | None, array_class: type[Any]) -> None:
        self._dataset, self._message, self._array_class = dataset, message, array_class
        self._life = BlockLife("dataset.transaction()")

    def __enter__(self) -> DatasetTransaction:
        self._life.require_new()
        check_message(self._message)
        self._began = uptime_seconds()
        self._version, self._base = newest_record(self._dataset)
        check_writable(self._base, ChangeDataset([]))
        self._packs = PackWriter(self._version.store, self._version.name.home)
        self._open: dict[str, Transaction] = {}
        # Which arrays come and go; what is written to them is theirs.
        self._draft = DatasetDraft(self._version, self._base)
        self._attribute_changes = AttributeChanges()
        self._adopted: dict[str, DatasetChange] = {}
        # One for all arrays: they share a pack writer, and rows of several arrays stay in step.
        self._lock = threading.RLock()
        self._id = new_id()
        self._life.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._life.is_open:
            return
        self._life.end()
        for staging in self._open.values():
            staging.end()
        structure = self._structure()
        if kind is not None or not (structure or any(staging.has_changes for staging in self._open.values())):
            self._packs.abandon()
            return
        # Those that were only read are checked too.
        written = [ChangeArray(name, staging, id=self._draft.id_of(name)) for name, staging in self._open.items()]
        operation = ChangeDataset([*structure, *written], seen=self._base)
        commit_operation(self._dataset, operation, self._base, self._message, packs=self._packs, began=self._began)

    def _structure(self) -> list[DatasetChange]:
        """Return the changes that drop and add arrays, and that change the attributes of the dataset."""
        entries, now = description_of(self._base).arrays, self._draft.arrays
        # By their ids: an entry is another object each time that a description is read.
        stay = {name for name, entry in now.items() if name in entries and entries[name].id == entry.id}
        changes: list[DatasetChange] = [
            DropArray(name, entry.id, seen=self._base) for name, entry in entries.items() if name not in stay
        ]
        for name, entry in now.items():
            if name not in stay:
                changes.append(OnlyIfAbsent(name, AddArray(name, entry)))
        changes += self._adopted.values()
        if self._attribute_changes:
            changes.append(ChangeAttributes(self._attribute_changes))
        return changes

    def is_of(self, dataset: DatasetHandle) -> bool:
        """Return whether this is a transaction of the given dataset, through any handle."""
        mine = self._dataset
        return (mine.root, mine.name, mine.version) == (dataset.root, dataset.name, dataset.version)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._draft.arrays, *self._adopted])

    def __contains__(self, name: object) -> bool:
        return name in self._draft.arrays or name in self._adopted

    def __getitem__(self, name: str) -> Transaction:
        """Return an array within the transaction.

        Raises
        ------
        NotFoundError, ReadOnlyError
        """
        self._life.require_open()
        if name in self._adopted:
            raise ConfigError(f"{name!r}: is adopted by this transaction; write to it before, or when it is committed")
        with self._lock:
            if name not in self._open:
                array = self._array(name, pinned=False)
                seen = self._draft.view(name)
                self._open[name] = Transaction(array, None, view=partial(view, name=name)).begin(
                    ArraySnapshot.of(self._version, seen),
                    self._packs,
                    self._began,
                    id=self._part_id(name),
                    lock=self._lock,
                )
            return self._open[name]

    def _part_id(self, name: str) -> str:
        """The id that parts of an array carry, so that they are not added to another one that has taken its name."""
        return f"{self._id}/{self._draft.id_of(name)}"

    def array(self, name: str) -> DatasetArray:
        """Return an array as it was at the start, to read. An array that was added in the transaction is empty.

        Raises
        ------
        NotFoundError
        """
        self._life.require_open()
        return self._array(name, pinned=True)

    def _array(self, name: str, *, pinned: bool) -> DatasetArray:
        seen, id_ = self._draft.view(name), self._draft.id_of(name)
        array: DatasetArray = self._array_class(self._dataset.root, self._version, seen, pinned=pinned, id=id_)
        return array

    def __setitem__(self, name: str, array: ArraySpec | ArrayHandle | np.ndarray) -> None:
        """Add an array: a spec to write to, an array in memory, or an array of the same root.

        An array of the same root is adopted in its current state, without moving data. You can write to it after the
        commit.

        Raises
        ------
        AlreadyExistsError
            The name is taken. ``del t["name"]`` drops that array, and ``t["name"][...] = ...`` assigns to it.
        ConfigError
        """
        self._life.require_open()
        if isinstance(array, ArrayHandle):
            self._adopt(name, array)
            return
        if isinstance(array, np.ndarray):
            with growing.about(name):
                array = plain_objects(unmasked(array))
            if array.dtype == object:
                refuse_objects(repr(name), array)
        spec = ArraySpec(array.shape, array.dtype) if isinstance(array, np.ndarray) else array
        if not isinstance(spec, ArraySpec):
            raise ConfigError(
                f"{name!r}: give a hub.ArraySpec, an array of hubarray under the same root, or one of NumPy, not a "
                f"{type(array).__name__}"
            )
        with growing.about(name):
            entry = entry_of(spec.metadata(), spec.attributes())
        with self._lock:
            self._draft.check_new(name, list(self))
            self._draft.create(name, entry)
        if isinstance(array, np.ndarray):
            self[name][...] = array

    def _adopt(self, name: str, array: ArrayHandle) -> None:
        change = adoption(name, array, self._version)
        with self._lock:
            self._draft.check_new(name, list(self))
            self._adopted[name] = OnlyIfAbsent(name, change)

    def __delitem__(self, name: str) -> None:
        """Drop an array, with what the transaction wrote to it.

        Raises
        ------
        NotFoundError
        """
        self._life.require_open()
        with self._lock:
            if self._adopted.pop(name, None) is not None:
                return
            self._draft.drop(name)
            if name in self._open:
                self._open.pop(name).end()

    @property
    def attrs(self) -> Attributes:
        """The attributes of the dataset within the transaction. Setting and deleting them is part of the
        transaction."""
        self._life.require_open()
        return Attributes(lambda: self._attribute_changes.on(self._base.attrs), self._change_attrs)

    def _change_attrs(self, updates: dict[str, Any], removals: tuple[str, ...]) -> None:
        self._life.require_open()
        with self._lock:
            self._attribute_changes.change(updates, removals)

    def append(self, rows: dict[str, Any], *, dim: str | None = None) -> None:
        """Add rows to all arrays that have the same dimension, like :meth:`hubarray.Dataset.append`."""
        self._life.require_open()
        axes = growing.append_axes(self._described(), growing.checked_mapping(rows), dim)
        metadata = {name: replace(metadata_of(self._draft.view(name)), dims=self._dims(name)) for name in axes}
        attrs = {name: self[name].attrs for name in axes}
        values = growing.fitting(rows, metadata, attrs, axes)
        growing.check_rows(values, axes)
        with self._lock:
            if len(axes) > 1:
                fetch_tails(self._version, self._draft, axes)
            for name, new_rows in values.items():
                self[name].append(new_rows, axis=axes[name])

    def append_fill(self, count: int, *, dim: str) -> None:
        """Add rows of fill value to all arrays that have a dimension, for example rows that workers will write.

        Parameters
        ----------
        count : int
        dim : str

        Raises
        ------
        ConfigError
            No array has the dimension.
        """
        self._life.require_open()
        described = self._described()
        names = growing.having(described, dim)
        if not names:
            raise ConfigError(f"append_fill: no array has a dimension {dim!r}")
        axes = growing.append_axes(described, names, dim)
        with self._lock:
            for name, axis in axes.items():
                self[name].append_fill(count, axis=axis)

    def _dims(self, name: str) -> tuple[str | None, ...] | None:
        opened = self._open.get(name)
        return metadata_of(self._draft.view(name)).dims if opened is None else opened.staged.dims

    def _described(self) -> Description:
        """The arrays, with the names of axes that were set in the transaction."""
        arrays = dict(self._draft.arrays)
        for name, opened in self._open.items():
            arrays[name] = replace(arrays[name], array=opened.staged.to_json())
        return Description(arrays)

    def worker(self) -> DatasetWorker:
        """Return a picklable handle through which other processes write to several arrays for this transaction.

        Each process uploads what it writes and returns a part. Pass the parts to :meth:`add`. Workers can also write to
        arrays that the transaction added as specs.

        Examples
        --------
        >>> import hubarray as hub
        >>> ds = hub.dataset({"x": hub.ArraySpec(4), "y": hub.ArraySpec(4)}, "docs/dataset-workers:v0")
        >>> def work(worker, i):  # runs in any process, on any machine
        ...     with worker as w:
        ...         w["x"][i] = i
        ...         w["y"][i] = -i
        ...     return w.part
        >>> with ds.transaction("by workers") as t:
        ...     for part in map(work, [t.worker()] * 4, range(4)):
        ...         t.add(part)
        >>> ds["y"][:].tolist()
        [0.0, -1.0, -2.0, -3.0]
        """
        self._life.require_open()
        entries, workers = description_of(self._base).arrays, {}
        for name, entry in self._draft.arrays.items():
            # Those that this block has not touched are not opened for it: dropping them would be a conflict.
            opened = self._open.get(name)
            shape = metadata_of(self._draft.view(name)).shape if opened is None else opened.staged.shape
            is_there = name in entries and entries[name].id == entry.id
            seen = partial(view, name=name) if is_there else partial(added_array, name=name, entry=entry)
            root, number = self._dataset.root, self._base.head.number
            workers[name] = ArrayWorker(root, self._version.name, number, shape, self._part_id(name), seen)
        return DatasetWorker(workers)

    def add(self, part: Parts) -> None:
        """Add the part of a worker to this transaction, like :meth:`hubarray.results.Transaction.add`."""
        self._life.require_open()
        if not isinstance(part, dict) or not all(isinstance(array_part, ArrayPart) for array_part in part.values()):
            raise ConfigError(f"add takes the part of a worker's block, not {type(part).__name__}")
        with self._lock:
            for name, array_part in part.items():
                self[name].require_addable(array_part)
            for name, array_part in part.items():
                self[name].add(array_part)
