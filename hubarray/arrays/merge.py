"""Merging one version into another: three ways, by chunk, and by element where both sides changed a chunk.

The changes of a side are found by comparing it with the common base: the fork, or the last merge of one into the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hubarray.arrays.diff import differing_chunks
from hubarray.arrays.indexing.chunk_grid import clipped
from hubarray.arrays.metadata.metadata import ArrayMetadata, metadata_of
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import changed_elements
from hubarray.arrays.write.operations import draft_of
from hubarray.arrays.write.rebase import region_text
from hubarray.arrays.write.staging import Staging
from hubarray.blobs.pack import PackWriter
from hubarray.errors import (
    ConfigError,
    ConflictError,
    CorruptDataError,
    FormatVersionError,
    NotFoundError,
    ObjectMissingError,
)
from hubarray.history.commits.draft import Draft
from hubarray.history.log.log import Log
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.names import Name, parse

CONFLICT_SIDES = (None, "ours", "theirs")
_SHOWN_REGIONS = 10
_BATCH_CHUNKS = 64

Coords = tuple[int, ...]
Side = tuple[Version, Record]


def find_bases(theirs: Side, ours: Side) -> list[Side]:
    """The newest commits that both versions contain, the base of the comparison.

    Normally one: the commit that the last merge between the two took, in whichever direction, else the one that
    was copied. Two where each took from the other without seeing what the other took.
    Costs the heads of the commits since then.

    Raises
    ------
    NotFoundError
        They have nothing in common, or it has expired.
    """
    into_ours, into_theirs = _last_taken(ours, theirs), _last_taken(theirs, ours)
    if into_ours is None and into_theirs is None:
        raise NotFoundError(
            f"{theirs[0].name} and {ours[0].name} have no commit in common: neither was copied from the other, or the "
            "other was deleted since then"
        )
    bases = []
    if into_ours is not None and not (into_theirs and into_theirs[1] >= into_ours[0]):
        bases.append((theirs[0], theirs[0].base_record(into_ours[1])))
    if into_theirs is not None and not (into_ours and into_ours[1] >= into_theirs[0]):
        bases.append((ours[0], ours[0].base_record(into_theirs[1])))
    return bases


def _last_taken(taker: Side, giver: Side) -> tuple[int, int] | None:
    """The last commit in which one version took over (copied, merged) a commit of another: the numbers of both."""
    version, record = taker
    number = record.head.number
    while number > 0:
        head = version.log.read_head(number)
        source = parse(head.source, commit_allowed=True) if head.source else None
        if source is not None and source.commit is not None:
            if source.at(None) == giver[0].name or (
                source.at(None) != version.name and _is_renamed(source, source.commit, giver[0])
            ):
                return (number, source.commit) if source.commit >= _first_of_line(giver) else None
            if source.at(None) == version.name:
                # A restore took back what lies between; a merge in there did not happen.
                number = source.commit
                continue
        if head.kind == "deleted" or number == 1:
            return None
        number -= 1
    return None


def _is_renamed(source: Name, number: int, giver: Version) -> bool:
    """Whether a commit that another name had is the giver's now: its log says so as long as there is one."""
    try:
        before = Log(giver.store, source.at(None)).read_head(number)
        return before.id == giver.log.read_head(number).id
    except (ObjectMissingError, CorruptDataError, FormatVersionError):
        return False


def _first_of_line(side: Side) -> int:
    """The number of the first commit of a version's present line: what was before a deletion is another array's."""
    version, record = side
    first = version.log.read_head(1) if record.head.number > 1 else record.head
    if first.line == record.head.line:
        return 1
    low, high = 1, record.head.number
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if version.log.read_head(middle).line == record.head.line else (middle, high)
    return high


class Merge:
    """Bring the changes of ``theirs`` since the last common commit into the version this is committed to.

    Parameters
    ----------
    version, record : Version, Record
        Theirs.
    on_conflict : None, "ours" or "theirs"
        Whose elements stay where both changed one to different values; None refuses.
    bases : list of (Version, Record), optional
        The common base, if the logs need not be read, as for arrays of a dataset.
    """

    allowed_when_frozen = False
    is_small = False

    def __init__(
        self, version: Version, record: Record, on_conflict: str | None, *, bases: list[Side] | None = None
    ) -> None:
        if on_conflict not in CONFLICT_SIDES:
            raise ConfigError(
                f"on_conflict={on_conflict!r}: give 'ours' (the version merged into), 'theirs', or nothing"
            )
        self._version = version
        self._theirs = record
        self._on_conflict = on_conflict
        self._known_bases = bases

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        # Looked for on every base: another merge may have been made meanwhile.
        theirs = (self._version, self._theirs)
        self._bases = find_bases(theirs, (version, base)) if self._known_bases is None else self._known_bases
        ours = metadata_of(base)
        shape = self._merged_shape(ours, version)
        dims = self._merged_dims(ours, version)
        olds = [base_side.attrs for _, base_side in self._bases]
        attrs = merged_attrs(olds, self._theirs.attrs, base.attrs, self._on_conflict, version)
        staging = Staging(ArraySnapshot.of(version, base), ours.with_shape(shape), packs)
        changed = {coords for side in self._bases for coords in differing_chunks(side, theirs)[0]}
        coords = sorted(changed | self._grown_chunks(ours, (version, base)))
        conflicts: list[str] = []
        for first in range(0, len(coords), _BATCH_CHUNKS):
            conflicts += self._merge_chunks(coords[first : first + _BATCH_CHUNKS], staging)
        if conflicts:
            more = f" and {len(conflicts) - _SHOWN_REGIONS} more" if len(conflicts) > _SHOWN_REGIONS else ""
            raise ConflictError(
                f"{self._theirs.name} into {version.name}: both changed {', '.join(conflicts[:_SHOWN_REGIONS])}{more}; "
                "nothing was written. Say whose elements stay with on_conflict='ours' or 'theirs'"
            )
        if not staging.touched and (shape, dims, attrs) == (ours.shape, ours.dims, base.attrs):
            return None
        return draft_of(
            base,
            replace(ours.with_shape(shape), dims=dims),
            attrs=attrs,
            changed=staging.flush(),
            source=str(self._theirs.name),
            message=f"merge {self._theirs.name}",
        )

    def _grown_chunks(self, ours: ArrayMetadata, side: Side) -> set[Coords]:
        """The chunks of ours that lie where both sides grew: what either has there is its own, fill values too."""
        changed_coords: set[Coords] = set()
        for base_side in self._bases:
            old, axes = metadata_of(base_side[1]).shape, self._grown_axes(base_side[1], ours.shape)
            if axes:
                changed_coords |= {coords for coords in differing_chunks(base_side, side)[0]
                          if any((coords[i] + 1) * ours.chunks[i] > old[i] for i in axes)}  # fmt: skip
        return changed_coords

    def _grown_axes(self, base: Record, ours: tuple[int, ...]) -> list[int]:
        """The axes along which both sides grew since a common commit."""
        axes = zip(metadata_of(base).shape, metadata_of(self._theirs).shape, ours, strict=True)
        return [i for i, (old, theirs, own) in enumerate(axes) if theirs > old and own > old]

    def _merge_chunks(self, coords: list[Coords], staging: Staging) -> list[str]:
        metadata = staging.metadata
        before = [ArraySnapshot.of(*side).chunks(coords) for side in self._bases]
        their_chunks = ArraySnapshot.of(self._version, self._theirs).chunks(coords)
        our_chunks = staging.base.chunks(coords)
        their_shape, our_shape = metadata_of(self._theirs).shape, staging.base.metadata.shape
        conflicts = []
        for axis_coord in coords:
            theirs, ours = their_chunks[axis_coord], our_chunks[axis_coord]
            changed, ours_changed = (
                np.logical_or.reduce([changed_elements(old[axis_coord], new) for old in before])
                for new in (theirs, ours)
            )
            for _, record in self._bases:
                if self._grown_axes(record, our_shape):
                    new = ~_within(axis_coord, metadata_of(record).shape, metadata.chunks)
                    changed = changed | (new & _within(axis_coord, their_shape, metadata.chunks))
                    ours_changed = ours_changed | (new & _within(axis_coord, our_shape, metadata.chunks))
            both = changed & ours_changed & changed_elements(theirs, ours)
            inside = _within(axis_coord, metadata.shape, metadata.chunks)
            if (changed & ~inside).any():
                # They changed what the other side cut off.
                if self._on_conflict != "ours":
                    conflicts.append(region_text(axis_coord, changed & ~inside, metadata))
                    continue
                changed &= inside
            if both.any() and self._on_conflict is None:
                conflicts.append(region_text(axis_coord, both, metadata))
                continue
            if self._on_conflict == "ours":
                changed &= ~both
            if changed.any():
                merged = ours.copy()
                merged[changed] = theirs[changed]
                staging.put(axis_coord, merged, changed)
        return conflicts

    def _merged_dims(self, ours: ArrayMetadata, version: Version) -> tuple[str | None, ...] | None:
        """The names of the axes: theirs, if they have changed them."""
        theirs, olds = metadata_of(self._theirs).dims, [metadata_of(base).dims for _, base in self._bases]
        if theirs == ours.dims or all(theirs == old for old in olds):
            return ours.dims
        if any(ours.dims != old for old in olds):
            if self._on_conflict is None:
                raise ConflictError(
                    f"{self._theirs.name} and {version.name}: both renamed the axes, {theirs} and {ours.dims}; "
                    "nothing was written. Say whose names stay with on_conflict='ours' or 'theirs'"
                )
            return ours.dims if self._on_conflict == "ours" else theirs
        return theirs

    def _merged_shape(self, ours: ArrayMetadata, version: Version) -> tuple[int, ...]:
        theirs = metadata_of(self._theirs)
        olds = [metadata_of(base) for _, base in self._bases]
        for base_dims in (theirs, *olds):
            if not base_dims.stored_like(ours):
                raise ConflictError(
                    f"{self._theirs.name} and {version.name} are, or were, stored differently and cannot be merged: "
                    f"{base_dims.describe()}; {ours.describe()}"
                )
        shape = []
        for axis, (a, b) in enumerate(zip(theirs.shape, ours.shape, strict=True)):
            before = [old.shape[axis] for old in olds]
            if a < max(before):
                raise ConflictError(
                    f"{self._theirs.name}: shrank axis {axis} from {max(before)} to {a}, which cannot be merged; "
                    f"resize {version.name} itself, and merge after"
                )
            resized, ours_resized = any(a != old for old in before), any(b != old for old in before)
            if resized and ours_resized and a != b:
                raise ConflictError(
                    f"{self._theirs.name} and {version.name}: both resized axis {axis}, to {a} and to {b}; nothing was "
                    "written. Append the rows of one to the other, or resize one back, and merge after"
                )
            shape.append(a if resized else b)
        return tuple(shape)


def _within(coords: Coords, shape: tuple[int, ...], chunks: tuple[int, ...]) -> np.ndarray:
    """The elements of a chunk that an array of some shape has."""
    changed_grid = np.zeros(chunks, bool)
    changed_grid[tuple(slice(0, max(0, n)) for n in clipped(coords, shape, chunks))] = True
    return changed_grid


def merged_attrs(
    olds: list[dict[str, Any]],
    theirs: dict[str, Any],
    ours: dict[str, Any],
    on_conflict: str | None,
    version: Version,
) -> dict[str, Any]:
    """Attributes of which either side's changes are kept.

    Raises
    ------
    ConflictError
        Both changed one, and ``on_conflict`` says nothing.
    """
    merged = dict(ours)
    absent = object()
    for key in theirs.keys() | {key for old in olds for key in old}:
        before = [old.get(key, absent) for old in olds]
        after, here = theirs.get(key, absent), ours.get(key, absent)
        if after == here or all(after == old for old in before):
            continue
        ours_changed = any(here != old for old in before)
        if ours_changed and on_conflict is None:
            raise ConflictError(f"{version.name}: both changed the attribute {key!r}; nothing was written")
        if ours_changed and on_conflict == "ours":
            continue
        if after is absent:
            merged.pop(key, None)
        else:
            merged[key] = after
    return merged
