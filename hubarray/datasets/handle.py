"""The dataset: a handle on several arrays under one name, where every change is one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from hubarray.arrays.codecs import dtypes
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.arrays.indexing import chunking
from hubarray.arrays.metadata.attributes import Attributes
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.read.prefetch import fetch_together, rows_at
from hubarray.arrays.write.assignment import along
from hubarray.arrays.write.operations import Append, Resize
from hubarray.blobs.scheduling import side_by_side
from hubarray.datasets import growing
from hubarray.datasets.description import Description, checked_name, description_of, view
from hubarray.datasets.diff import DatasetDiff, diff_datasets
from hubarray.datasets.member_handle import MemberHandle
from hubarray.datasets.operations import (
    ChangeArray,
    ChangeDataset,
    DatasetChange,
    DropArray,
    ReadTails,
    RenameArray,
    changes_to_add,
)
from hubarray.datasets.transaction import DatasetTransaction
from hubarray.errors import ConfigError
from hubarray.history.commits.handle import Handle, seen_record
from hubarray.history.commits.operations import SetAttributes
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.redaction import counted, shown_text
from hubarray.storage.url import Root
from hubarray.values.packing import is_packed

ArrayT = TypeVar("ArrayT", bound=MemberHandle)


class DatasetHandle(Handle, Generic[ArrayT]):
    """Arrays that are committed together: :class:`hubarray.Dataset` without the methods for other packages."""

    __slots__ = ("_arrays",)

    # Of what class its arrays are.
    _array_class: ClassVar[type[Any]] = MemberHandle

    def __init__(self, root: Root, version: Version, record: Record, *, pinned: bool) -> None:
        super().__init__(root, version, record, pinned=pinned)
        description_of(record)
        self._arrays: dict[str, tuple[str, ArrayT]] = {}

    @property
    def dims(self) -> dict[str, int]:
        """The length of each named dimension."""
        return self._description.dimensions()

    @property
    def attrs(self) -> Attributes:
        """The attributes of the dataset. Changing them is a commit. Each array also has its own."""
        return Attributes(lambda: self._record().attrs, self._change_attrs)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory. They may take much less in the bucket."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def arrays(self) -> dict[str, ArrayT]:
        """All arrays by name, in the order of their addition."""
        return {name: self[name] for name in self}

    def __len__(self) -> int:
        return len(self._description.arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._description.arrays))

    def __contains__(self, name: object) -> bool:
        return name in self._description.arrays

    def keys(self) -> list[str]:
        """Return the names of the arrays."""
        return list(self)

    def values(self) -> list[ArrayT]:
        """Return the arrays, in the order of :meth:`keys`."""
        return list(self.arrays.values())

    def items(self) -> list[tuple[str, ArrayT]]:
        """Return pairs of names and arrays."""
        return list(self.arrays.items())

    def __getitem__(self, name: str) -> ArrayT:
        """Return an array of the dataset. Costs no request.

        Raises
        ------
        NotFoundError
        """
        if not isinstance(name, str):
            raise ConfigError(f"dataset[{name!r}]: give the name of an array; elements are dataset['name'][...]")
        record = self._record()
        seen = view(record, name)
        id_there = description_of(record).arrays[name].id
        known = self._arrays.get(name)
        if known is None or known[0] != id_there:
            known = id_there, self._array_class(self._root, self._version, seen, pinned=self.fixed)
            self._arrays[name] = known
        return known[1]

    def __setitem__(self, name: str, array: ArraySpec | ArrayHandle | np.ndarray) -> None:
        """Add an array, in one commit: a spec, an array of the same root, or an array in memory.

        Adding an array of the same root moves no data.

        Raises
        ------
        AlreadyExistsError
            The name is taken. Drop that array first, or assign to its elements: ``dataset["name"][...] = ...``.
        ConfigError
        """
        record = self._writable_record()
        self._commit(ChangeDataset(changes_to_add(self._version, checked_name(name), array), seen=record), record)

    def __delitem__(self, name: str) -> None:
        """Drop an array, in one commit. Earlier commits still have it."""
        self.drop([name])

    def drop(self, names: str | Sequence[str], *, message: str | None = None) -> None:
        """Drop arrays, in one commit. Earlier commits still have them.

        Raises
        ------
        NotFoundError
            A name does not exist. Nothing was written.
        """
        record = self._writable_record()
        names = [names] if isinstance(names, str) else list(dict.fromkeys(names))
        if names:
            entries = description_of(record).arrays
            ids = {name: entries[name].id for name in names if name in entries}
            self._commit(ChangeDataset([DropArray(name, ids.get(name)) for name in names]), record, message)

    def rename(self, old: str, new: str, *, message: str | None = None) -> None:
        """Rename an array, in one commit, without moving data.

        Raises
        ------
        NotFoundError, AlreadyExistsError, ConfigError
        """
        record = self._writable_record()
        entry = description_of(record).arrays.get(old)
        if entry is None or old != new:
            change = RenameArray(old, new, None if entry is None else entry.id)
            self._commit(ChangeDataset([change]), record, message)

    def samples(self, columns: str | Sequence[str] | None = None) -> list[str]:
        """Return the arrays that share their first dimension, such as images and labels, or the given ones.

        Raises
        ------
        ConfigError
            The arrays have different first dimensions.
        """
        if columns is None:
            return growing.samples(self._description)
        return [columns] if isinstance(columns, str) else list(columns)

    def rows(self, at: Any, columns: str | Sequence[str] | None = None) -> dict[str, Any]:
        """Read rows of several arrays of one commit in parallel: ``ds.rows(17)``, ``ds.rows(slice(0, 32))``.

        Parameters
        ----------
        at : int, slice, mask or array of int
            The index along the first axis of each array.
        columns : str or sequence of str, optional
            Names of arrays. The default is :meth:`samples`.

        Returns
        -------
        dict of str to ndarray or scalar

        Raises
        ------
        IndexError, ConfigError, NotFoundError, CorruptDataError, StorageError
        """
        pinned = self if self.fixed else self.snapshot()
        names = pinned.samples(columns)
        if len(names) > _MANY_ARRAYS:
            states = (snapshot_of(pinned[name]) for name in names)
            fetch_together(self._version.fetcher, ((state, rows_at(state.metadata, at)) for state in states))
        column_values = side_by_side([partial(pinned[name].__getitem__, at) for name in names])
        return dict(zip(names, column_values, strict=True))

    def append(self, rows: Mapping[str, Any], *, dim: str | None = None, message: str | None = None) -> slice:
        """Add rows to all arrays that have the same dimension, in one commit, and return their slice.

        If two processes append at once, both succeed, one after the other. The rows of one append have the same
        position in all arrays.

        Parameters
        ----------
        rows : mapping of str to array_like
            The same number of rows for each array, with the shape of the array except in the dimension.
        dim : str, optional
            The dimension to extend. The default is the dimension that all of the arrays have, and with which one
            begins.
        message : str, optional
            Message of the commit in the log.

        Returns
        -------
        slice
            The added rows.

        Raises
        ------
        ConfigError
            An array of the dimension is missing, or has another number of rows.
        ValueError
            The rows do not fit the array.

        Examples
        --------
        >>> import hubarray as hub
        >>> pair = {"image": hub.ArraySpec((0, 4, 4), "uint8", dims=("sample", "y", "x")),
        ...         "label": hub.ArraySpec(0, "int64", dims=("sample",))}
        >>> ds = hub.dataset(pair, "docs/appended:v0")
        >>> ds.append({"image": np.ones((3, 4, 4)), "label": [7, 8, 9]})
        slice(0, 3, None)
        >>> ds["label"][1:]
        array([8, 9])
        """
        record = self._writable_record()
        described = description_of(record)
        axes = growing.append_axes(described, growing.checked_mapping(rows), dim)
        metadata = {name: metadata_of(view(record, name)) for name in axes}
        values = growing.fitting(rows, metadata, {name: described.arrays[name].attrs for name in axes}, axes)
        count = growing.check_rows(values, axes)
        for name, axis in axes.items():
            shape = metadata[name].shape
            start = shape[axis]
            chunking.checked_shape(along(shape, axis, start + count), dtypes.planned_bytes(metadata[name].dtype))
        if not count:
            return slice(start, start)
        appends = {name: Append(new_rows, axes[name]) for name, new_rows in values.items()}
        ids = {name: described.arrays[name].id for name in appends}
        changes: list[DatasetChange] = [ReadTails(axes, ids)] if len(appends) > 1 else []
        changes += [ChangeArray(name, append, id=ids[name]) for name, append in appends.items()]
        is_small = all(append.is_small for append in appends.values())
        self._commit(ChangeDataset(changes, seen=record, is_small=is_small), record, message)
        start = next(iter(appends.values())).start
        return slice(start, start + count)

    def resize(self, lengths: Mapping[str, int] | None = None, *, message: str | None = None, **more: int) -> None:
        """Change the length of dimensions in all arrays that have them, in one commit: ``ds.resize(sample=100)``.

        Parameters
        ----------
        lengths : mapping of str to int, optional
            The new length of each dimension; you can also use keywords.
        message : str, optional
        **more : int

        Raises
        ------
        ConfigError
            No array has the dimension.
        ConflictError
            Somebody else has resized it in the meantime.
        """
        record = self._writable_record()
        changes: list[DatasetChange] = []
        described = description_of(record)
        for name, shape in growing.resized(described, {**(lengths or {}), **more}).items():
            metadata = metadata_of(view(record, name))
            checked = chunking.checked_shape(shape, dtypes.planned_bytes(metadata.dtype))
            changes.append(ChangeArray(name, Resize(checked, metadata.shape), id=described.arrays[name].id))
        if changes:
            self._commit(ChangeDataset(changes, seen=record), record, message)

    def transaction(self, message: str | None = None) -> DatasetTransaction:
        """Combine writes to several arrays into one commit: ``with ds.transaction("why") as t: t["image"][3] = ...``.

        Raises
        ------
        ConflictError
            Raised at the end of the block if others have changed what it read or wrote. :func:`hubarray.retry` runs it
            again.

        Examples
        --------
        >>> import hubarray as hub
        >>> ds = hub.dataset({"x": hub.ArraySpec(4), "y": hub.ArraySpec(4)}, "docs/two-arrays:v0")
        >>> with ds.transaction("both at once") as t:
        ...     t["x"][0] = 1
        ...     t["y"][0] = t["x"][0] + 1
        >>> ds["y"][0]
        np.float64(2.0)
        """
        return DatasetTransaction(self, message, self._array_class)

    def diff(self, other: DatasetHandle | int, *, elements: bool = False) -> DatasetDiff:
        """Compare another dataset, or a commit of this one, with this dataset, by array; see ``hub.diff``.

        Costs the manifest nodes that the two do not share, and no data unless ``elements=True``.

        Parameters
        ----------
        other : Dataset or int
        elements : bool
            Read the chunks that differ, and compare their elements.

        Examples
        --------
        >>> import hubarray as hub
        >>> ds = hub.dataset({"x": hub.ArraySpec(4), "y": hub.ArraySpec(4)}, "docs/dataset-diff:v0")
        >>> ds["y"][2] = 1
        >>> list(ds.diff(1).changed)
        ['y']
        """
        if isinstance(other, DatasetHandle):
            before = other._version, seen_record(other)
        elif isinstance(other, int) and not isinstance(other, bool) and other > 0:
            before = self._version, self._version.cached(other)
        else:
            raise ConfigError(f"diff takes a dataset or the number of a commit, not {other!r}"[:200])
        return diff_datasets(before, (self._version, self._record()), elements=elements)

    def snapshot(self) -> Self:
        """Return a read-only handle that stays at the commit that this handle reads now."""
        return type(self)(self._root, self._version, self._record(), pinned=True)

    def __repr__(self) -> str:
        record = self._record()
        state = ", fixed" if self.fixed else ", frozen" if record.head.frozen else ""
        lines = [f"<hubarray.Dataset {self._version.name}@{record.head.number} in {self._root.url}: "
                 f"{counted(len(self), 'array')}{state}>"]  # fmt: skip
        for name, array in list(self.arrays.items())[:_SHOWN_ARRAYS]:
            named = zip(array.dims, array.shape, strict=True)
            axes = ", ".join(f"{shown_text(dim)}: {n}" if dim else str(n) for dim, n in named)
            lossy = ", lossy" if is_lossy(array.codec) else ""
            lossy += ", packed" if is_packed(array.attrs, array.dtype) else ""
            lines.append(f"  {shown_text(name):16} {dtypes.dtype_name(array.dtype):10} ({axes}){lossy}")
        if len(self) > _SHOWN_ARRAYS:
            lines.append(f"  and {len(self) - _SHOWN_ARRAYS} more")
        return "\n".join(lines)

    @property
    def _description(self) -> Description:
        return description_of(self._record())

    def _change_attrs(self, updates: dict[str, Any], removals: tuple[str, ...]) -> None:
        self._commit(SetAttributes(updates, removals), self._writable_record())


_SHOWN_ARRAYS = 40
# Fewer have their requests under way together.
_MANY_ARRAYS = 16
