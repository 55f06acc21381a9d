"""The operations on arrays, each of which can be applied to whatever record is the newest.

An operation holds array coordinates and values, never chunk numbers or
positions computed on an older record, so that applying it again after a lost
race gives what would have come of applying it there in the first place. What
was uploaded is remembered, and used again where nothing underneath changed.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hubarray.arrays.indexing import numbering
from hubarray.arrays.indexing.chunk_grid import clipped
from hubarray.arrays.indexing.plan import Projection, chunk_view, plan
from hubarray.arrays.indexing.selection import Selection, row_selection
from hubarray.arrays.metadata.metadata import ArrayMetadata, metadata_of
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import along
from hubarray.arrays.write.chunk_writer import ChunkWriter, Task
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import Refs
from hubarray.errors import ConflictError
from hubarray.history.commits.commit import SMALL_BYTES
from hubarray.history.commits.draft import ChunkChanges, Draft
from hubarray.history.log.version import Version
from hubarray.history.records.overlay import Numbers
from hubarray.history.records.record import Record

Coords = tuple[int, ...]
Changes = tuple[list[Coords], Refs]


def draft_of(base: Record, after: ArrayMetadata, *, changed: Changes | None = None, **fields: Any) -> Draft:
    """Return the draft that changes an array to a new description. Its chunks are renumbered or dropped to fit.

    Parameters
    ----------
    base : Record
    after : ArrayMetadata
        The array afterwards, with the dtype and chunk shape of the base.
    changed : (coordinates, refs), optional
        Chunks that are set.
    **fields
        Other fields of the draft.
    """
    before = metadata_of(base)
    old, new = (numbering.chunk_counts(metadata.shape, metadata.chunks) for metadata in (before, after))
    grid = base.grid if numbering.fits(base.grid, new) else numbering.enlarged(base.grid, new)
    shrunk = [axis for axis, count in enumerate(new) if count < old[axis]]
    chunks = ChunkChanges()
    if grid != base.grid or any(axis > 0 for axis in shrunk):
        fields["grid"] = grid
        chunks = ChunkChanges(renumbered=partial(_renumbered, old=base.grid, new=grid, counts=new))
    elif shrunk:
        chunks = ChunkChanges(dropped=[(new[0] * numbering.strides(grid)[0], 1 << 64)])
    if after != before:
        fields["description"] = after.to_json()
    if changed is not None:
        coords, refs = changed
        numbers = np.fromiter((numbering.number_of(c, grid) for c in coords), np.uint64, len(coords))
        chunks = replace(chunks, numbers=numbers, refs=refs)
    return Draft(chunks=chunks, **fields)


def _renumbered(
    numbers: Numbers, refs: Refs, *, old: tuple[int, ...], new: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[Numbers, Refs]:
    inside = numbering.within(numbers, old, counts)
    return numbering.renumber(numbers[inside], old, new, len(counts)), refs[inside]


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

    allowed_when_frozen = False

    def __init__(self, selection: Selection, value: np.ndarray) -> None:
        self._selection = selection
        self._value = value
        self._writer = ChunkWriter()
        self.is_small = value.size * value.dtype.itemsize <= SMALL_BYTES

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        metadata = metadata_of(base)
        self._check_fits(metadata, version)
        projections = plan(self._selection, metadata.shape, metadata.chunks)
        tasks = (_elements_task(projection, self._selection, self._value, metadata) for projection in projections)
        changed = self._writer.write(
            tasks,
            metadata,
            ArraySnapshot.of(version, base),
            packs,
            total_bytes=self._value.size * metadata.dtype.itemsize,
        )
        if not changed[0]:
            return None
        return draft_of(base, metadata, changed=changed, message=f"set elements in {_count(len(changed[0]))}")

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
                    f"{version.name}: was resized to {metadata.shape} by somebody else in the meantime, so index "
                    f"{last} of axis {axis} no longer exists; nothing was written"
                )


class Append:
    """``a.append(rows)``: rows after the last one of an axis, wherever that is by then.

    Attributes
    ----------
    start : int
        Where the rows went, when it was applied for the last time.
    """

    allowed_when_frozen = False

    def __init__(self, rows: np.ndarray, axis: int = 0) -> None:
        self._rows, self._axis = rows, axis
        self.is_small = rows.nbytes <= SMALL_BYTES
        self.start = -1
        self._writer = ChunkWriter()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        before, axis = metadata_of(base), self._axis
        if along(self._rows.shape, axis, 0) != along(before.shape, axis, 0):
            raise ConflictError(
                f"{version.name}: was resized to {before.shape} by somebody else in the meantime, so rows of shape "
                f"{self._rows.shape} no longer fit; nothing was written"
            )
        start, count = before.shape[axis], self._rows.shape[axis]
        if start != self.start:
            self.start, self._writer = start, ChunkWriter()
        metadata = before.with_shape(along(before.shape, axis, start + count))
        selection = row_selection(start, count, before.shape, axis)
        projections = plan(selection, metadata.shape, metadata.chunks)
        tasks = (_elements_task(projection, selection, self._rows, metadata) for projection in projections)
        changed = self._writer.write(
            tasks, metadata, ArraySnapshot.of(version, base), packs, total_bytes=self._rows.nbytes
        )
        return draft_of(base, metadata, changed=changed, message=f"append {count} rows")


class Resize:
    """``a.resize(shape)``: sets the lengths of the axes that differ from what the caller saw."""

    allowed_when_frozen = False
    is_small = False

    def __init__(self, shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
        self._lengths = {axis: length for axis, length in enumerate(shape) if length != seen[axis]}
        self._seen = seen
        self._writer = ChunkWriter()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
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
        state = ArraySnapshot.of(version, base)
        refs = state.refs(cut)
        stored = [coords for coords, length in zip(cut, refs["length"].tolist(), strict=True) if length]
        tasks = (self._cut_task(coords, after) for coords in stored)
        changed = self._writer.write(tasks, after, state, packs, total_bytes=len(stored) * after.chunk_bytes)
        return draft_of(base, after, changed=changed, message=f"resize {before.shape} to {shape}")

    @staticmethod
    def _cut_task(coords: Coords, after: ArrayMetadata) -> Task:
        clipped_slices = tuple(slice(0, length) for length in clipped(coords, after.shape, after.chunks))

        def contents(old: np.ndarray | None) -> np.ndarray:
            chunk = np.full(after.chunks, after.fill)
            if old is not None:
                chunk[clipped_slices] = old[clipped_slices]
            return chunk

        return Task(coords, True, contents, clipped_slices)


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


class SetDims:
    """Rename the axes."""

    allowed_when_frozen = False
    is_small = True

    def __init__(self, dims: tuple[str | None, ...] | None) -> None:
        self._dims = dims

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        before = metadata_of(base)
        if before.dims == self._dims:
            return None
        return draft_of(base, replace(before, dims=self._dims), message="name axes")


class Overwrite:
    """Begin a new generation with another description; the history stays."""

    allowed_when_frozen = False
    is_small = True

    def __init__(self, metadata: ArrayMetadata, attrs: dict[str, Any]) -> None:
        self._metadata = metadata
        self._attrs = attrs

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        return creation(self._metadata, self._attrs, message="overwrite", fresh=True)


def creation(metadata: ArrayMetadata, attrs: dict[str, Any], *, message: str, fresh: bool = False) -> Draft:
    """The draft of the first record of an array's life."""
    return Draft(
        kind="array",
        description=metadata.to_json(),
        attrs=attrs,
        grid=numbering.numbering_grid(numbering.chunk_counts(metadata.shape, metadata.chunks)),
        tags=None if fresh else {},
        fresh=fresh,
        message=message,
    )


def _count(chunks: int) -> str:
    return "1 chunk" if chunks == 1 else f"{chunks:,} chunks"
