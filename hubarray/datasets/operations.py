"""The operations on datasets, each of which can be applied to whatever record is the newest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from hubarray.arrays.diff import diff
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.arrays.indexing import numbering, selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.read.prefetch import fetch_together, tail
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.operations import SetElements
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import new_id
from hubarray.datasets import growing
from hubarray.datasets.dataset_draft import DatasetDraft
from hubarray.datasets.description import Description, Entry, view
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commits.commit import Operation
from hubarray.history.commits.draft import ChunkChanges, Contents, Draft
from hubarray.history.commits.operations import AttributeChanges
from hubarray.history.log.version import Version
from hubarray.history.records.head import Head
from hubarray.history.records.record import Record
from hubarray.values.foreign import unmasked
from hubarray.values.objects import plain_objects, refuse_objects


class DatasetChange(Protocol):
    """A change to a dataset, which can be applied to any record of it, again and again."""

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """Add the change to a draft.

        Raises
        ------
        ConflictError
            The dataset changed in a way that this change cannot be applied to.
        """


def entry_of(metadata: ArrayMetadata, attrs: dict[str, Any]) -> Entry:
    """Return the entry of a new array, without chunks."""
    counts = numbering.chunk_counts(metadata.shape, metadata.chunks)
    return Entry(new_id(), metadata.to_json(), attrs, numbering.numbering_grid(counts))


def creation(version: Version, changes: Sequence[DatasetChange], attrs: dict[str, Any], packs: PackWriter) -> Draft:
    """Return the draft of a dataset's first record, with the arrays that the changes add."""
    name, empty = version.name, Description().to_json()
    nothing = Head(name.owner, name.name, name.version, 1, "", "", "", "dataset", "", "")
    draft = ChangeDataset(changes).apply(Record(nothing, described=empty), version, packs) or Draft()
    packs.finish()
    assert isinstance(draft.chunks, ChunkChanges)
    numbers = draft.chunks.numbers
    contents = replace(Contents.made(version, numbers, draft.chunks.refs), changed=numbers)
    return Draft(
        kind="dataset", description=draft.description or empty, attrs=attrs, tags={}, chunks=contents, message="create"
    )


class ChangeDataset:
    """An operation: changes that are applied in order and become one commit.

    Parameters
    ----------
    changes : sequence of DatasetChange
    seen : Record, optional
        The record that the caller saw. A change that does not fit a newer record is a conflict, not a wrong argument.
    is_small : bool
        See :class:`hubarray.history.commits.commit.Operation`.
    """

    allowed_when_frozen = False

    def __init__(self, changes: Sequence[DatasetChange], *, seen: Record | None = None, is_small: bool = False) -> None:
        self._changes, self._seen, self.is_small = changes, seen, is_small

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        draft = DatasetDraft(version, base)
        for change in self._changes:
            change.apply(draft, version, packs)
        try:
            return draft.build()
        except ConfigError as error:
            if self._seen is None or self._seen.digest == base.digest:
                raise
            raise ConflictError(
                f"{version.name}: was changed by somebody else in the meantime, so that {error.args[0]}; nothing was "
                "written"
            ) from None


@dataclass(frozen=True)
class ChangeArray:
    """An operation on the array with an id, or without an id, on the array that has the name."""

    name: str
    operation: Operation
    id: str | None = None

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        _require_same(draft, version, self.name, self.id)
        with naming(self.name):
            array_draft = self.operation.apply(draft.view(self.name), version, packs)
        if array_draft is not None:
            draft.add(self.name, array_draft)


@dataclass(frozen=True)
class ReadTails:
    """No change: the chunks that appends to several arrays need are fetched together.

    Attributes
    ----------
    axes : mapping of str to int
        The axis of each array.
    ids : mapping of str to str
        Arrays that have another id now are left out.
    """

    axes: Mapping[str, int]
    ids: Mapping[str, str]

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        fetch_tails(
            version, draft, {name: axis for name, axis in self.axes.items() if draft.id_of(name) == self.ids[name]}
        )


def fetch_tails(version: Version, draft: DatasetDraft, axes: Mapping[str, int]) -> None:
    """Fetch the chunks that new rows will share with existing rows, for all arrays together."""
    states = {name: ArraySnapshot.of(version, draft.view(name)) for name in axes}
    fetch_together(version.fetcher, ((state, tail(state.metadata, axes[name])) for name, state in states.items()))


@dataclass(frozen=True)
class AddArray:
    """Add an array without chunks."""

    name: str
    entry: Entry

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        draft.create(self.name, self.entry)


@dataclass(frozen=True)
class AdoptArray:
    """Add an array of the same root in its current state. Its chunks stay where they are.

    Attributes
    ----------
    name : str
    source, record : Version, Record
        The array's, or what an array of another dataset sees of its record.
    """

    name: str
    source: Version
    record: Record

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        draft.adopt(self.name, self.source, self.record)


@dataclass(frozen=True)
class OnlyIfAbsent:
    """A change that adds an array that did not exist when the caller looked. If it exists now, that is a conflict."""

    name: str
    change: DatasetChange

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        if draft.id_of(self.name) is not None:
            raise ConflictError(
                f"{version.name}: somebody else has added an array {self.name!r} in the meantime; nothing was written"
            )
        self.change.apply(draft, version, packs)


@dataclass(frozen=True)
class ChangeAttributes:
    """Change the attributes of the dataset itself."""

    changes: AttributeChanges

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        draft.change_attrs(self.changes)


@dataclass(frozen=True)
class DropArray:
    """Drop the array with an id.

    Attributes
    ----------
    name : str
    id : str or None
    seen : Record or None
        If set, a change to the array since this record is a conflict.
    """

    name: str
    id: str | None
    seen: Record | None = None

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        _require_same(draft, version, self.name, self.id)
        if self.seen is not None and _was_changed(version, self.seen, draft.base, self.name):
            raise ConflictError(
                f"{version.name}: the array {self.name!r}, which this transaction drops, was changed by somebody else "
                "meanwhile; nothing was written"
            )
        draft.drop(self.name)


@dataclass(frozen=True)
class RenameArray:
    """Rename the array with an id."""

    name: str
    new_name: str
    id: str | None

    def apply(self, draft: DatasetDraft, version: Version, packs: PackWriter) -> None:
        """See :class:`DatasetChange`."""
        _require_same(draft, version, self.name, self.id)
        draft.rename({self.name: self.new_name})


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Conflicts about an array say which of the dataset's it is."""
    try:
        yield
    except ConflictError as error:
        raise ConflictError(f"array {name!r}: {error.args[0]}") from None


def _require_same(draft: DatasetDraft, version: Version, name: str, id: str | None) -> None:
    if id is not None and draft.id_of(name) != id:
        raise ConflictError(
            f"{version.name}: the array {name!r} was dropped, renamed or replaced by somebody else in the meantime; "
            "nothing was written"
        )


def adoption(name: str, array: ArrayHandle, version: Version) -> AdoptArray:
    """Return the change that adds an array of the same root in its current state.

    Raises
    ------
    ConfigError
        It is under another root.
    """
    state = snapshot_of(array if array.fixed else array.refresh())
    if array.root != version.fetcher.root:
        raise ConfigError(
            f"{name!r}: {array.name}:{array.version} is under another root; hub.transfer brings it here first"
        )
    return AdoptArray(name, state.version, state.record)


def _was_changed(version: Version, before: Record, after: Record, name: str) -> bool:
    if before.digest == after.digest:
        return False
    old, new = view(before, name), view(after, name)
    return (old.described, old.attrs) != (new.described, new.attrs) or bool(diff((version, old), (version, new)))


def changes_to_add(version: Version, name: str, array: ArraySpec | ArrayHandle | np.ndarray) -> list[DatasetChange]:
    """Return the changes that add an array to a dataset.

    Raises
    ------
    ConfigError
    """
    if isinstance(array, ArraySpec):
        with growing.about(name):
            return [AddArray(name, entry_of(array.metadata(), array.attributes()))]
    if isinstance(array, ArrayHandle):
        return [adoption(name, array, version)]
    if isinstance(array, np.ndarray):
        with growing.about(name):
            values: np.ndarray = plain_objects(unmasked(array))
        if values.dtype == object:
            refuse_objects(repr(name), values)
        with growing.about(name):
            metadata = ArraySpec(values.shape, values.dtype).metadata()
        changes: list[DatasetChange] = [AddArray(name, entry_of(metadata, {}))]
        if values.size:
            values = values.astype(metadata.dtype, copy=False)
            whole = selection.parse(..., values.shape)
            changes.append(ChangeArray(name, SetElements(whole, whole.to_canonical(values))))
        return changes
    raise ConfigError(
        f"{name!r}: give a hub.ArraySpec, an array of hubarray under the same root, or one of NumPy, not a "
        f"{type(array).__name__}"
    )
