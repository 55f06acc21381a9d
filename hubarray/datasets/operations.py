"""The operations on datasets, each of which can be applied to whatever record is the newest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hubarray.arrays.diff import diff
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.indexing import numbering, selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.read.prefetch import fetch_together, tail
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.operations import SetElements
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import new_id
from hubarray.datasets import growing
from hubarray.datasets.changes import Changes
from hubarray.datasets.description import Description, Entry, view
from hubarray.errors import ConfigError, ConflictError
from hubarray.history.commits.commit import Contents, Draft, Operation
from hubarray.history.commits.operations import AttributeChanges
from hubarray.history.log.version import Version
from hubarray.history.records.head import Head
from hubarray.history.records.record import Record
from hubarray.values.foreign import unmasked
from hubarray.values.objects import plain_objects, refuse_objects

Step = Callable[[Changes, Version, PackWriter], None]


def entry_of(metadata: ArrayMetadata, attrs: dict[str, Any]) -> Entry:
    """A new array, without chunks."""
    counts = numbering.chunk_counts(metadata.shape, metadata.chunks)
    return Entry(new_id(), metadata.to_json(), attrs, numbering.numbering_grid(counts))


def creation(version: Version, steps: Sequence[Step], attrs: dict[str, Any], packs: PackWriter) -> Draft:
    """The draft of a dataset's first record, with the arrays that some steps add."""
    name, empty = version.name, Description().to_json()
    nothing = Head(name.owner, name.name, name.version, 1, "", "", "", "dataset", "", "")
    made = Steps(steps).apply(Record(nothing, described=empty), version, packs) or Draft()
    packs.finish()
    return Draft(
        kind="dataset",
        description=made.description or empty,
        attrs=attrs,
        tags={},
        contents=Contents.made(version, made.numbers, made.refs),
        numbers=made.numbers,
        refs=made.refs,
        message="create",
    )


class Steps:
    """Steps that are taken one after the other, and become one commit.

    Parameters
    ----------
    steps : sequence of callable
        Each is given the changes so far, the version and the pack writer.
    seen : Record, optional
        What the caller decided by: what does not fit a newer one is a conflict, and no mistake of the caller's.
    is_small : bool
        As of an operation.
    """

    allowed_when_frozen = False

    def __init__(self, steps: Sequence[Step], *, seen: Record | None = None, is_small: bool = False) -> None:
        self._steps, self._seen, self.is_small = steps, seen, is_small

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        changes = Changes(version, base)
        for step in self._steps:
            step(changes, version, packs)
        try:
            return changes.draft()
        except ConfigError as error:
            if self._seen is None or self._seen.digest == base.digest:
                raise
            raise ConflictError(
                f"{version.name}: was changed by somebody else meanwhile, so that {error.args[0]}; nothing was written"
            ) from None


def on_array(name: str, operation: Operation, *, id: str | None = None) -> Step:
    """A step: an operation on one array; on the one of an ``id``, or on whichever has the name.

    Raises
    ------
    ConflictError
        When it is taken: the name has another array.
    """

    def take(changes: Changes, version: Version, packs: PackWriter) -> None:
        _require_same(changes, version, name, id)
        with naming(name):
            draft = operation.apply(changes.view(name), version, packs)
        if draft is not None:
            changes.add(name, draft)

    return take


def read_tails(axes: Mapping[str, int], ids: Mapping[str, str]) -> Step:
    """A step that changes nothing: what appends to several arrays need of them is read for all at once."""

    def take(changes: Changes, version: Version, packs: PackWriter) -> None:
        fetch_tails(version, changes, {name: axis for name, axis in axes.items() if changes.id_of(name) == ids[name]})

    return take


def fetch_tails(version: Version, changes: Changes, axes: Mapping[str, int]) -> None:
    """Fetch the chunks that rows will share with those before them, of all arrays together."""
    states = {name: ArraySnapshot.of(version, changes.view(name)) for name in axes}
    fetch_together(version.fetcher, ((state, tail(state.metadata, axes[name])) for name, state in states.items()))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Conflicts about an array say which of the dataset's it is."""
    try:
        yield
    except ConflictError as error:
        raise ConflictError(f"array {name!r}: {error.args[0]}") from None


def _require_same(changes: Changes, version: Version, name: str, id: str | None) -> None:
    if id is not None and changes.id_of(name) != id:
        raise ConflictError(
            f"{version.name}: the array {name!r} was dropped, renamed or replaced by somebody else meanwhile; nothing "
            "was written"
        )


def adoption(name: str, array: ArrayHandle, version: Version) -> Step:
    """A step: an array of the same root as it is now.

    Raises
    ------
    ConfigError
        It is under another root.
    """
    state = array.state() if array.fixed else array.refresh().state()
    if array.root != version.fetcher.root:
        raise ConfigError(
            f"{name!r}: {array.name}:{array.version} is under another root; hub.transfer brings it here first"
        )
    return adopt(name, state.version, state.record)


def create(name: str, entry: Entry) -> Step:
    """A step: an array more, without chunks."""
    return lambda changes, version, packs: changes.create(name, entry)


def once(name: str, step: Step) -> Step:
    """A step that adds an array which was not there when the caller looked; that it is now is a conflict."""

    def take(changes: Changes, version: Version, packs: PackWriter) -> None:
        if changes.id_of(name) is not None:
            raise ConflictError(f"{version.name}: somebody else added an array {name!r} meanwhile; nothing was written")
        step(changes, version, packs)

    return take


def change_attrs(attribute_changes: AttributeChanges) -> Step:
    """A step: the dataset's own attributes."""
    return lambda changes, version, packs: changes.change_attrs(attribute_changes)


def drop(name: str, id: str | None, *, seen: Record | None = None) -> Step:
    """A step: an array less; the one of an id, as it was in a record that the caller decided by.

    Raises
    ------
    ConflictError
        When it is taken: somebody else changed the array since.
    """

    def take(changes: Changes, version: Version, packs: PackWriter) -> None:
        _require_same(changes, version, name, id)
        if seen is not None and _was_changed(version, seen, changes.base, name):
            raise ConflictError(
                f"{version.name}: the array {name!r}, which this transaction drops, was changed by somebody else "
                "meanwhile; nothing was written"
            )
        changes.drop(name)

    return take


def _was_changed(version: Version, before: Record, after: Record, name: str) -> bool:
    if before.digest == after.digest:
        return False
    one, two = view(before, name), view(after, name)
    return (one.described, one.attrs) != (two.described, two.attrs) or bool(diff((version, one), (version, two)))


def rename(old: str, new: str, id: str | None) -> Step:
    """A step: another name for an array; for the one of an id."""

    def take(changes: Changes, version: Version, packs: PackWriter) -> None:
        _require_same(changes, version, old, id)
        changes.rename({old: new})

    return take


def adopt(name: str, source: Version, record: Record) -> Step:
    """A step: an array of the same root as it is, whose chunks stay where they are.

    Parameters
    ----------
    name : str
    source, record : Version, Record
        The array's, or what an array of another dataset sees of its record.
    """

    return lambda changes, version, packs: changes.adopt(name, source, record)


def steps_to_add(version: Version, name: str, array: ArraySpec | ArrayHandle | np.ndarray) -> list[Step]:
    """Steps that make an array part of a dataset of some version.

    Raises
    ------
    ConfigError
    """
    if isinstance(array, ArraySpec):
        with growing.about(name):
            return [create(name, entry_of(array.metadata(), array.attributes()))]
    if isinstance(array, ArrayHandle):
        return [adoption(name, array, version)]
    if isinstance(array, np.ndarray):
        with growing.about(name):
            values: np.ndarray = plain_objects(unmasked(array))
        if values.dtype == object:
            refuse_objects(repr(name), values)
        with growing.about(name):
            metadata = ArraySpec(values.shape, values.dtype).metadata()
        steps = [create(name, entry_of(metadata, {}))]
        if values.size:
            values = values.astype(metadata.dtype, copy=False)
            whole = selection.parse(..., values.shape)
            steps.append(on_array(name, SetElements(whole, whole.to_canonical(values))))
        return steps
    raise ConfigError(
        f"{name!r}: give a hub.ArraySpec, an array of hubarray under the same root, or one of NumPy, not a "
        f"{type(array).__name__}"
    )
