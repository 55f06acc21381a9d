"""Differences between two commits, from refs alone: no data is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubarray.arrays.indexing import numbering
from hubarray.arrays.indexing.chunk_grid import clipped, merged_boxes
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import changed_elements
from hubarray.blobs.ref import Refs
from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.history.records.contents import differing_numbers, numbered_alike, present_refs
from hubarray.history.records.record import Record

_BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class Diff:
    """The chunks in which two commits differ.

    Attributes
    ----------
    chunks : tuple
        Coordinates of the chunks that differ, in C order.
    regions : tuple
        The same as few boxes of elements, each a tuple of slices.
    bytes : int
        Stored bytes of those chunks on the second side.
    shapes : tuple
        The shapes of both sides.
    elements : int or None
        How many elements differ, where they were compared.
    """

    chunks: tuple[tuple[int, ...], ...]
    regions: tuple[tuple[slice, ...], ...]
    bytes: int
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    elements: int | None = None

    def __bool__(self) -> bool:
        return bool(self.chunks) or self.shapes[0] != self.shapes[1]


def diff(first: tuple[Version, Record], second: tuple[Version, Record]) -> Diff:
    """Compare two commits chunk by chunk, by the hashes of what is stored.

    Equal hashes mean equal elements; chunks encoded differently count as
    different. Costs the manifest nodes that the two do not share.

    Raises
    ------
    ConfigError
        They have other chunks or data types, so chunks cannot be compared.
    """
    sides = [metadata_of(record) for _, record in (first, second)]
    before, after = sides
    if not before.stored_like(after):
        raise ConfigError(
            f"{first[1].name} and {second[1].name} are stored differently and cannot be compared chunk by chunk: "
            f"{before.describe()}; {after.describe()}"
        )
    differing, _, refs = differing_chunks(first, second)
    shape = tuple(max(a, b) for a, b in zip(before.shape, after.shape, strict=True))
    regions = tuple(
        tuple(
            slice(a * chunk, min(b * chunk, length))
            for a, b, chunk, length in zip(start, stop, before.chunks, shape, strict=True)
        )
        for start, stop in merged_boxes(differing)
    )
    return Diff(tuple(differing), regions, int(refs["length"].sum()), (before.shape, after.shape))


def diff_elements(first: tuple[Version, Record], second: tuple[Version, Record]) -> Diff:
    """Compare two commits element by element, bit for bit, where their chunks differ.

    Chunks that only one side has are different. Costs what :func:`diff` does, and both sides of the chunks that differ.

    Raises
    ------
    ConfigError, CorruptDataError, StorageError
    """
    rough = diff(first, second)
    first_metadata = metadata_of(first[1])
    whole = tuple(max(a, b) for a, b in zip(*rough.shapes, strict=True))
    common = tuple(min(a, b) for a, b in zip(*rough.shapes, strict=True))
    batch = max(1, _BATCH_BYTES // max(1, first_metadata.chunk_bytes))
    chunks, regions, count, size = [], [], 0, 0
    for begin in range(0, len(rough.chunks), batch):
        chunk_batch = list(rough.chunks[begin : begin + batch])
        sides = [ArraySnapshot.of(*side) for side in (first, second)]
        refs = [side.refs(chunk_batch) for side in sides]
        old, new = (side.chunks(chunk_batch, chunk_refs) for side, chunk_refs in zip(sides, refs, strict=True))
        for i, coords in enumerate(chunk_batch):
            inside = tuple(slice(0, max(0, n)) for n in clipped(coords, whole, first_metadata.chunks))
            both = tuple(slice(0, max(0, n)) for n in clipped(coords, common, first_metadata.chunks))
            mask = np.ones(first_metadata.chunks, bool)
            mask[both] = changed_elements(old[coords][both], new[coords][both])
            mask = mask[inside]
            if not mask.any():
                continue
            chunks.append(coords)
            count, size = count + int(mask.sum()), size + int(refs[1]["length"][i])
            regions.append(_box(mask, coords, first_metadata.chunks))
    return Diff(tuple(chunks), tuple(regions), size, rough.shapes, count)


def _box(mask: np.ndarray, coords: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[slice, ...]:
    """The smallest box of elements around those of a mask."""
    hits = [np.flatnonzero(mask.any(axis=tuple(i for i in range(mask.ndim) if i != axis))) for axis in range(mask.ndim)]
    begins = [c * n for c, n in zip(coords, chunks, strict=True)]
    return tuple(slice(b + int(hit[0]), b + int(hit[-1]) + 1) for b, hit in zip(begins, hits, strict=True))


def differing_chunks(
    first: tuple[Version, Record], second: tuple[Version, Record]
) -> tuple[list[tuple[int, ...]], Refs, Refs]:
    """Coordinates of the chunks in which two records differ, in C order, and their refs on either side."""
    coords = [tuple(row) for row in _candidates(first, second).tolist()]
    old_refs, new_refs = (ArraySnapshot.of(*side).refs(coords) for side in (first, second))
    differ = np.flatnonzero(
        (old_refs["length"] != new_refs["length"]) | (old_refs["hash"] != new_refs["hash"]).any(axis=1)
    ).tolist()
    return [coords[i] for i in differ], old_refs[differ], new_refs[differ]


def _candidates(first: tuple[Version, Record], second: tuple[Version, Record]) -> np.ndarray:
    """Coordinates of chunks that may differ, distinct and in C order, shape ``(n, ndim)``."""
    ndim = len(metadata_of(first[1]).shape)
    sides = [(version.fetcher, record) for version, record in (first, second)]
    if numbered_alike(first[1], second[1]):
        coords_parts = [numbering.coords_array(differing_numbers(*sides), first[1].grid, ndim)]
    else:
        coords_parts = [np.zeros((0, ndim), np.uint64)]
        for fetcher, record in sides:
            every = present_refs(fetcher, record, batch_bytes=_BATCH_BYTES)
            coords_parts += [numbering.coords_array(numbers, record.grid, ndim) for numbers, _ in every]
    everything = np.concatenate(coords_parts)
    return np.unique(everything, axis=0) if ndim else everything[:1]
