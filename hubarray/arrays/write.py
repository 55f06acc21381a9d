"""The operations on arrays, each of which can be applied to whatever record is the newest.

An operation holds array coordinates and values, never chunk numbers or
positions computed on an older record, so that applying it again after a lost
race gives what would have come of applying it there in the first place. What
was uploaded is remembered, and used again where nothing underneath changed.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from hubarray.arrays.chunk_grid import Projection, chunk_view, clipped, project
from hubarray.arrays.chunk_writer import ChunkWriter, Task
from hubarray.arrays.metadata import ArrayMetadata, metadata_of
from hubarray.arrays.read import refs_of
from hubarray.arrays.selection import AxisSlice, Selection
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, TagNotFoundError
from hubarray.history import numbering
from hubarray.history.record import MAX_TAGS, Record
from hubarray.history.transaction import Contents, Draft
from hubarray.history.version import Version

Coords = tuple[int, ...]


def draft_of(metadata: ArrayMetadata, grid: tuple[int, ...], **fields: Any) -> Draft:
    """A draft of an array in a numbering grid that holds it; ``changed`` is (coordinates, refs) of changed chunks."""
    counts = numbering.chunk_counts(metadata.shape, metadata.chunks)
    if not numbering.fits(grid, counts):
        grid = numbering.enlarged(grid, counts)
    coords, refs = fields.pop("changed", ([], np.zeros(0, REF)))
    numbers = np.fromiter((numbering.number_of(c, grid) for c in coords), np.uint64, len(coords))
    return Draft(counts=counts, grid=grid, numbers=numbers, refs=refs, **fields)


def _elements_task(projection: Projection, selection: Selection, value: np.ndarray, metadata: ArrayMetadata) -> Task:
    def contents(old: np.ndarray | None) -> np.ndarray:
        part = value[(*projection.in_result, ...)]
        if projection.whole and part.shape == metadata.chunks and part.dtype == metadata.dtype:
            return np.ascontiguousarray(part)
        chunk = np.full(metadata.chunks, metadata.fill) if old is None else old
        chunk_view(chunk, selection)[projection.in_chunk] = part
        return chunk

    covered = clipped(projection.coords, metadata.shape, metadata.chunks) if projection.whole else None
    return Task(projection.coords, not projection.whole, contents, covered)


class SetElements:
    """``a[selection] = value``.

    Parameters
    ----------
    selection : Selection
        Resolved on the array as the caller saw it: absolute coordinates.
    value : ndarray
        Of the canonical shape (broadcast views are fine).
    """

    on_frozen = False

    def __init__(self, selection: Selection, value: np.ndarray) -> None:
        self._selection = selection
        self._value = value
        self._writer = ChunkWriter()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        metadata = metadata_of(base)
        self._check_fits(metadata, version)
        projections = project(self._selection, metadata.shape, metadata.chunks)
        tasks = (_elements_task(one, self._selection, self._value, metadata) for one in projections)
        changed = self._writer.write(
            tasks, metadata, base, version, packs, total_bytes=self._value.size * metadata.dtype.itemsize
        )
        if not changed[0]:
            return None
        return draft_of(metadata, base.grid, changed=changed, message=f"set elements in {_count(len(changed[0]))}")

    def _check_fits(self, metadata: ArrayMetadata, version: Version) -> None:
        points = iter(self._selection.points or ())
        for axis, (part, length) in enumerate(zip(self._selection.axes, metadata.shape, strict=True)):
            if part is None:
                index = next(points)
                last = int(index.max()) if index.size else -1
            else:
                last = part.start + (part.count - 1) * part.step if part.count else -1
            if last >= length:
                raise ConflictError(
                    f"{version.name}: was resized to {metadata.shape} by somebody else meanwhile, so index {last} of "
                    f"axis {axis} no longer exists; nothing was written"
                )


class Append:
    """``a.append(rows)``: rows after the last one, wherever that is by then.

    Attributes
    ----------
    start : int
        Where the rows went, when it was applied for the last time.
    """

    on_frozen = False

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.start = -1
        self._writer = ChunkWriter()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        before = metadata_of(base)
        if self._rows.shape[1:] != before.shape[1:]:
            raise ConflictError(
                f"{version.name}: was resized to {before.shape} by somebody else meanwhile, so rows of shape "
                f"{self._rows.shape[1:]} no longer fit; nothing was written"
            )
        start, count = before.shape[0], self._rows.shape[0]
        if start != self.start:
            self.start, self._writer = start, ChunkWriter()
        metadata = before.with_shape((start + count, *before.shape[1:]))
        rows = AxisSlice(start, 1, count)
        rest = tuple(AxisSlice(0, 1, length) for length in before.shape[1:])
        selection = Selection((rows, *rest), None, self._rows.shape, False)
        projections = project(selection, metadata.shape, metadata.chunks)
        tasks = (_elements_task(one, selection, self._rows, metadata) for one in projections)
        changed = self._writer.write(tasks, metadata, base, version, packs, total_bytes=self._rows.nbytes)
        return draft_of(metadata, base.grid, array=metadata.to_json(), changed=changed, message=f"append {count} rows")


class Resize:
    """``a.resize(shape)``: sets the lengths of the axes that differ from what the caller saw."""

    on_frozen = False

    def __init__(self, shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
        self._lengths = {axis: length for axis, length in enumerate(shape) if length != seen[axis]}
        self._seen = seen
        self._writer = ChunkWriter()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        before = metadata_of(base)
        for axis in self._lengths:
            if before.shape[axis] != self._seen[axis]:
                raise ConflictError(
                    f"{version.name}: axis {axis} was resized from {self._seen[axis]} to {before.shape[axis]} by "
                    "somebody else meanwhile; nothing was written"
                )
        shape = tuple(self._lengths.get(axis, length) for axis, length in enumerate(before.shape))
        if shape == before.shape:
            return None
        after = before.with_shape(shape)
        cut = sorted(_cut_chunks(before, after))
        refs = refs_of(version, base, cut)
        stored = [coords for coords, length in zip(cut, refs["length"].tolist(), strict=True) if length]
        tasks = (self._cut_task(coords, after) for coords in stored)
        changed = self._writer.write(tasks, after, base, version, packs, total_bytes=len(stored) * after.chunk_bytes)
        return draft_of(
            after, base.grid, array=after.to_json(), changed=changed, message=f"resize {before.shape} to {shape}"
        )

    @staticmethod
    def _cut_task(coords: Coords, after: ArrayMetadata) -> Task:
        kept = tuple(slice(0, length) for length in clipped(coords, after.shape, after.chunks))

        def contents(old: np.ndarray | None) -> np.ndarray:
            chunk = np.full(after.chunks, after.fill)
            if old is not None:
                chunk[kept] = old[kept]
            return chunk

        return Task(coords, True, contents, kept)


def _cut_chunks(before: ArrayMetadata, after: ArrayMetadata) -> set[Coords]:
    """Chunks that stay but lose elements: their elements beyond the edge have to become fill value."""
    counts = numbering.chunk_counts(after.shape, after.chunks)
    cut: set[Coords] = set()
    for axis, (new, old, chunk) in enumerate(zip(after.shape, before.shape, after.chunks, strict=True)):
        if new < old and new % chunk:
            ranges = [range(n) for n in counts]
            ranges[axis] = range(new // chunk, new // chunk + 1)
            cut.update(itertools.product(*ranges))
    return cut


class SetAttributes:
    """Set some attributes and remove others; those of other writers stay."""

    on_frozen = False

    def __init__(self, updates: dict[str, Any], removals: tuple[str, ...] = ()) -> None:
        self._updates = updates
        self._removals = removals

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        attrs = {key: value for key, value in base.attrs.items() if key not in self._removals} | self._updates
        if attrs == base.attrs:
            return None
        metadata = metadata_of(base)
        return draft_of(metadata, base.grid, attrs=attrs, message="set attributes")


class SetDims:
    """Name the axes anew."""

    on_frozen = False

    def __init__(self, dims: tuple[str | None, ...] | None) -> None:
        self._dims = dims

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        before = metadata_of(base)
        if before.dims == self._dims:
            return None
        after = replace(before, dims=self._dims)
        return draft_of(after, base.grid, array=after.to_json(), message="name axes")


class Expire:
    """Let commits up to a number go; their data follows when it is collected, after the grace period."""

    on_frozen = True

    def __init__(self, number: int) -> None:
        self._number = number

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        if self._number <= base.head.expired_to:
            return None
        message = f"expire commits up to {self._number}"
        return draft_of(metadata_of(base), base.grid, expired_to=self._number, message=message)


class Tag:
    """Name a commit for good.

    Parameters
    ----------
    tag : str
    number : int
        A commit that has not expired.
    """

    on_frozen = True

    def __init__(self, tag: str, number: int) -> None:
        self._tag = tag
        self._number = number

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        there = base.tags.get(self._tag)
        if there == self._number:
            return None
        if there is not None:
            raise AlreadyExistsError(
                f"{version.name}@{self._tag}: names commit {there} already; choose another tag, or hub.untag it first"
            )
        if self._number <= base.head.expired_to and self._number not in base.tags.values():
            raise NotFoundError(f"{version.name.at(self._number)}: this commit has expired and cannot be tagged")
        if len(base.tags) >= MAX_TAGS:
            raise ConfigError(f"{version.name}: has {MAX_TAGS} tags, and more are not kept")
        message = f"tag {self._number} {self._tag}"
        tags = base.tags | {self._tag: self._number}
        return draft_of(metadata_of(base), base.grid, tags=tags, message=message)


class Untag:
    """Take a tag away."""

    on_frozen = True

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        if self._tag not in base.tags:
            raise TagNotFoundError(f"{version.name}@{self._tag}: there is no such tag any more")
        tags = {tag: number for tag, number in base.tags.items() if tag != self._tag}
        return draft_of(metadata_of(base), base.grid, tags=tags, message=f"untag {base.tags[self._tag]} {self._tag}")


class Freeze:
    """Make the version immutable, for good."""

    on_frozen = True

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        if base.head.frozen:
            return None
        return draft_of(metadata_of(base), base.grid, frozen=True, message="freeze")


class Restore:
    """Make an older record's state the newest one.

    Parameters
    ----------
    old : Record
        Of the same version.
    only_onto : int or None
        The number of the commit that this is to follow, if it matters.
    """

    on_frozen = False

    def __init__(self, old: Record, only_onto: int | None = None) -> None:
        self._old = old
        self._only_onto = only_onto

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        return self.draft(base)

    def draft(self, base: Record) -> Draft:
        """What becomes of a base, a deleted one too."""
        old = self._old
        if self._only_onto not in (None, base.head.number):
            raise ConflictError(
                f"{base.ref.at(None)}: somebody else committed {base.head.number} meanwhile; nothing was written"
            )
        state = _state_of(old, fresh=old.head.generation != base.head.generation, message=f"restore {old.ref}")
        # What was frozen when it was deleted comes back so.
        return replace(state, frozen=True) if old.head.frozen else state


class Delete:
    """Mark the version deleted; its numbers go on if it is created again.

    Parameters
    ----------
    only_onto : int or None
        The number of the commit that this is to follow, if it matters.
    """

    on_frozen = True

    def __init__(self, only_onto: int | None = None) -> None:
        self._only_onto = only_onto

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        if self._only_onto not in (None, base.head.number):
            raise ConflictError(f"{version.name}: somebody else committed {base.head.number} meanwhile")
        return Draft(counts=(), grid=(), array={}, attrs={}, kind="deleted", frozen=False, message="delete")


class Overwrite:
    """Begin a new generation with another description; the history stays."""

    on_frozen = False

    def __init__(self, metadata: ArrayMetadata, attrs: dict[str, Any]) -> None:
        self._metadata = metadata
        self._attrs = attrs

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        return creation(self._metadata, self._attrs, message="overwrite", fresh=True)


class Replace:
    """Begin a new generation with the state of another version of the same name; the history stays.

    Parameters
    ----------
    record : Record
        Of that version; live until the commit is made.
    attrs : dict
        In place of that version's attributes.
    """

    on_frozen = False

    def __init__(self, record: Record, attrs: dict[str, Any]) -> None:
        self._record = record
        self._attrs = attrs

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        return replace(_state_of(self._record, fresh=True, message="overwrite"), attrs=self._attrs)


def _state_of(record: Record, *, fresh: bool, message: str) -> Draft:
    """A commit with the state that a record of the same name has."""
    return Draft(
        counts=numbering.chunk_counts(record.array["shape"], metadata_of(record).chunks),
        grid=record.grid,
        array=record.array,
        attrs=record.attrs,
        kind=record.head.kind,
        fresh=fresh,
        contents=Contents.of(record),
        source=str(record.ref),
        message=message,
    )


def creation(metadata: ArrayMetadata, attrs: dict[str, Any], *, message: str, fresh: bool = False) -> Draft:
    """What the first record of an array's life holds."""
    counts = numbering.chunk_counts(metadata.shape, metadata.chunks)
    return Draft(
        counts=counts,
        grid=numbering.numbering_grid(counts),
        array=metadata.to_json(),
        attrs=attrs,
        kind="array",
        tags=None if fresh else {},
        fresh=fresh,
        message=message,
    )


def _count(chunks: int) -> str:
    return "1 chunk" if chunks == 1 else f"{chunks:,} chunks"
