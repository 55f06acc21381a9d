"""Rebase a transaction: find conflicts, and stage it again on another base.

Its keys, reads and writes are held against what others changed, by element and by value. Where both appended, its rows
go behind theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.indexing import selection
from hubarray.arrays.indexing.chunk_grid import clipped, region_of
from hubarray.arrays.indexing.plan import chunk_view, plan
from hubarray.arrays.indexing.selection import Selection, row_selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import along, changed_elements
from hubarray.arrays.write.staging import Staging, rows_of
from hubarray.blobs.pack import PackWriter
from hubarray.errors import ConflictError

_AGAIN = "nothing was written; hub.retry(function) runs a function with a transaction in it until it gets through"
_SHOWN_REGIONS = 5

Coords = tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """A transaction's reads and writes, as far as they decide onto which commit it can be moved.

    Attributes
    ----------
    base : ArraySnapshot
        What it began from, or was moved onto last.
    staging : Staging
        What it wrote.
    keys : list of (key, Selection)
        Every index that it used, and what that meant.
    reads : list of Selection
    shape_seen : bool
        Whether its code looked at the shape.
    appended : int
        Rows that it added at the end of an axis.
    axis : int
        That axis.
    packs : PackWriter
    """

    base: ArraySnapshot
    staging: Staging
    keys: list[tuple[Any, Selection]]
    reads: list[Selection]
    shape_seen: bool
    appended: int
    axis: int
    packs: PackWriter


def rebased(work: Work, base: ArraySnapshot) -> Staging:
    """The same work on a newer record of the array.

    Raises
    ------
    ConflictError
        It depends on what others changed since; nothing is changed.
    """
    if base.metadata.shape != work.base.metadata.shape:
        _check_shape(work, base.metadata.shape)
    changes = _others_changes(work, base)
    _check_reads(work, changes)
    return _restage(work, base, changes)


def _check_shape(work: Work, shape: tuple[int, ...]) -> None:
    old, axis = work.base.metadata.shape, work.axis
    grown = along(shape, axis, shape[axis] + work.appended) if shape else shape
    moved = bool(work.appended) and shape[axis] != old[axis]
    for key, chosen in work.keys:
        same = not work.shape_seen and _selects_same(key, chosen, grown)
        if not same or (moved and _reaches(chosen, min(old[axis], shape[axis]), axis)):
            raise ConflictError(
                f"{work.base.version.name}: was resized from {old} to {shape} by somebody else in the meantime, and "
                f"this transaction depends on the shape; {_AGAIN}"
            )
    if work.shape_seen or (work.appended and along(shape, axis, 0) != along(old, axis, 0)):
        raise ConflictError(
            f"{work.base.version.name}: was resized from {old} to {shape} by somebody else in the meantime; {_AGAIN}"
        )


def _others_changes(work: Work, base: ArraySnapshot) -> dict[Coords, tuple[np.ndarray, np.ndarray]]:
    """Chunks touched here that others changed: a mask of the changed elements, and the chunk as they left it."""
    before, after = work.base.metadata, base.metadata
    touched = set(work.staging.touched)
    for chosen in work.reads:
        touched.update(projection.coords for projection in plan(chosen, work.staging.metadata.shape, after.chunks))
    both = [c for c in sorted(touched) if _exists(c, before.shape, after) and _exists(c, after.shape, after)]
    before_refs, after_refs = work.base.refs(both), base.refs(both)
    differ = np.flatnonzero(
        (before_refs["hash"] != after_refs["hash"]).any(axis=1) | (before_refs["length"] != after_refs["length"])
    ).tolist()
    coords = [both[i] for i in differ]
    old, new = base.chunks(coords, before_refs[differ]), base.chunks(coords, after_refs[differ])
    changes = {}
    for c in coords:
        # Elements beyond the old shape are nobody's yet: what both appended there is put in order later.
        inside = tuple(slice(0, n) for n in clipped(c, before.shape, after.chunks))
        changed = np.zeros(after.chunks, bool)
        changed[inside] = changed_elements(old[c][inside], new[c][inside])
        changes[c] = (changed, new[c])
    return changes


def _refuse_lost(work: Work, coords: Coords, written: np.ndarray, after: ArrayMetadata) -> None:
    """A conflict, if elements that were written here no longer exist."""
    lost = written.copy()
    if work.appended:
        _behind(lost, coords, work.base.metadata, work.axis)[...] = False
    lost[tuple(slice(0, max(0, n)) for n in clipped(coords, after.shape, after.chunks))] = False
    if lost.any():
        raise ConflictError(
            f"{work.base.version.name}: was resized to {after.shape} by somebody else in the meantime, and "
            f"{region_text(coords, lost, after)}, written in this transaction, no longer exists; "
            f"{_AGAIN}"
        )


def _check_reads(work: Work, changes: dict[Coords, tuple[np.ndarray, np.ndarray]]) -> None:
    conflicts: dict[Coords, np.ndarray] = {}
    for coords, (changed, _) in changes.items():
        if work.staging.is_written(coords):
            conflicts[coords] = changed & work.staging.written(coords)
    for chosen in work.reads:
        for projection in plan(chosen, work.staging.metadata.shape, work.staging.metadata.chunks):
            if projection.coords in changes:
                read = np.zeros(work.staging.metadata.chunks, bool)
                chunk_view(read, chosen)[projection.in_chunk] = True
                hit = changes[projection.coords][0] & read
                conflicts[projection.coords] = conflicts.get(projection.coords, hit) | hit
    regions = [region_text(c, mask, work.staging.metadata) for c, mask in sorted(conflicts.items()) if mask.any()]
    if regions:
        more = f" and {len(regions) - _SHOWN_REGIONS} more" if len(regions) > _SHOWN_REGIONS else ""
        raise ConflictError(
            f"{work.base.version.name}: elements this transaction read or wrote were changed by somebody else "
            f"meanwhile, in {', '.join(regions[:_SHOWN_REGIONS])}{more}; {_AGAIN}"
        )


def _restage(work: Work, base: ArraySnapshot, changes: dict[Coords, tuple[np.ndarray, np.ndarray]]) -> Staging:
    """Put what was written onto the newer record: merged chunks, and appended rows at the new end."""
    old, seen, after, axis = work.staging, work.base.metadata.shape, base.metadata, work.axis
    shape = along(after.shape, axis, after.shape[axis] + work.appended) if after.shape else ()
    fresh = Staging(base, after.with_shape(shape), work.packs)
    shifted = bool(work.appended) and after.shape[axis] != seen[axis]
    for coords in old.touched:
        written = old.written(coords)
        _refuse_lost(work, coords, written, after)
        if shifted:
            _behind(written, coords, work.base.metadata, axis)[...] = False
            if not written.any():
                continue
        if coords in changes or shifted or not _same_extent(coords, seen, after):
            chunk = fresh.chunks([coords])[coords].copy()
            chunk[written] = old.chunks([coords])[coords][written]
            fresh.put(coords, chunk, written)
        else:
            fresh.adopt(coords, old)
    if shifted:
        for begin, end in rows_of(after.with_shape(shape), seen[axis], seen[axis] + work.appended, axis):
            values = old.read(row_selection(begin, end - begin, shape, axis))
            new_begin = begin - seen[axis] + after.shape[axis]
            fresh.write(row_selection(new_begin, end - begin, shape, axis), values)
    return fresh


def _behind(chunk: np.ndarray, coords: Coords, metadata: ArrayMetadata, axis: int) -> np.ndarray:
    """The part of a chunk that lies behind an array's last row along an axis."""
    last = max(0, metadata.shape[axis] - coords[axis] * metadata.chunks[axis])
    return chunk[(*[slice(None)] * axis, slice(last, None))]


def _selects_same(key: Any, chosen: Selection, shape: tuple[int, ...]) -> bool:
    """Whether a key means the same elements of another shape."""
    try:
        again = selection.parse(key, shape)
    except IndexError:
        return False
    if again.axes != chosen.axes or again.shape != chosen.shape:
        return False
    pairs = zip(again.points or (), chosen.points or (), strict=True)
    return all(np.array_equal(first, second) for first, second in pairs)


def _reaches(chosen: Selection, row: int, axis: int) -> bool:
    """Whether a selection has elements in some row of an axis or after it."""
    first = chosen.axes[axis] if chosen.axes else None
    if first is None:
        place = sum(axis_selection is None for axis_selection in chosen.axes[:axis])
        rows = chosen.points[place] if chosen.points else np.zeros(0, np.int64)
        return bool(rows.size) and int(rows.max()) >= row
    return first.count > 0 and first.start + (first.count - 1) * first.step >= row


def _exists(coords: Coords, shape: tuple[int, ...], metadata: ArrayMetadata) -> bool:
    return all(c * chunk < length for c, chunk, length in zip(coords, metadata.chunks, shape, strict=True))


def _same_extent(coords: Coords, shape: tuple[int, ...], after: ArrayMetadata) -> bool:
    """Whether as much of a chunk lies within both shapes."""
    return all(
        min(chunk, max(0, a - c * chunk)) == min(chunk, max(0, b - c * chunk))
        for c, chunk, a, b in zip(coords, after.chunks, shape, after.shape, strict=True)
    )


def region_text(coords: Coords, mask: np.ndarray, metadata: ArrayMetadata) -> str:
    """The smallest box around a mask's elements, as array indices."""
    if not coords:
        return "[()]"
    parts = []
    for axis, whole in enumerate(region_of(coords, metadata.shape, metadata.chunks)):
        hit = np.flatnonzero(mask.any(axis=tuple(i for i in range(mask.ndim) if i != axis)))
        parts.append(f"{whole.start + int(hit[0])}:{whole.start + int(hit[-1]) + 1}")
    return f"[{', '.join(parts)}]"
