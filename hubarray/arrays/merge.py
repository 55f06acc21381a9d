"""Merging one version into another: three ways, by chunk, and by element where both sides changed a chunk.

What a side changed is told by comparing it with what the two had in common: the
fork, or the last merge of the one into the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.chunk_grid import clipped
from hubarray.arrays.diff import differing_chunks, refs_at
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.staging import Staging, fetch_chunks
from hubarray.arrays.transaction import changed_elements, region_text
from hubarray.arrays.write import draft_of
from hubarray.blobs.pack import PackWriter
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.record import Record
from hubarray.history.transaction import Draft
from hubarray.history.version import Version
from hubarray.names import parse

SIDES = (None, "ours", "theirs")
_SHOWN_REGIONS = 10
_BATCH_CHUNKS = 64

Coords = tuple[int, ...]


@dataclass(frozen=True)
class Common:
    """What two versions had in common: one commit of each, from which their changes are told."""

    theirs: Record
    ours: Record


def find_common(theirs: tuple[Version, Record], ours: tuple[Version, Record]) -> Common:
    """The last merge of one into the other, else where one was copied from the other.

    Costs the heads of the commits since then.

    Raises
    ------
    NotFoundError
        They have nothing in common, or it has expired.
    """
    into_ours = _last_taken(ours, theirs[0])
    into_theirs = _last_taken(theirs, ours[0])
    if into_theirs is not None and (into_ours is None or into_theirs[0] > into_ours[1]):
        return Common(theirs[0].source(into_theirs[0]), ours[0].source(into_theirs[1]))
    if into_ours is not None:
        return Common(theirs[0].source(into_ours[1]), ours[0].source(into_ours[0]))
    raise NotFoundError(
        f"{theirs[0].name} and {ours[0].name} have no commit in common: neither was copied from the other"
    )


def _last_taken(taker: tuple[Version, Record], giver: Version) -> tuple[int, int] | None:
    """The last commit in which one version took over (copied, merged) a commit of another: the numbers of both."""
    version, record = taker
    number = record.head.number
    while number > 0:
        head = version.log.read_head(number)
        source = parse(head.source, commit_allowed=True) if head.source else None
        if source is not None and source.commit is not None:
            if source.at(None) == giver.name:
                return number, source.commit
            if source.at(None) == version.name:
                # A restore took back what lies between; a merge in there did not happen.
                number = source.commit
                continue
        if head.kind == "deleted" or number == 1:
            return None
        number -= 1
    return None


class Merge:
    """Bring the changes of ``theirs`` since the last common commit into the version this is committed to.

    Parameters
    ----------
    version, record : Version, Record
        Theirs.
    on_conflict : None, "ours" or "theirs"
        Whose elements stay where both changed one to different values; None refuses.
    """

    on_frozen = False

    def __init__(self, version: Version, record: Record, on_conflict: str | None) -> None:
        if on_conflict not in SIDES:
            raise ConfigError(
                f"on_conflict={on_conflict!r}: give 'ours' (the version merged into), 'theirs', or nothing"
            )
        self._version = version
        self._theirs = record
        self._on_conflict = on_conflict

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        # Looked for on every base: another merge may have been made meanwhile.
        self._common = find_common((self._version, self._theirs), (version, base))
        ours = ArrayMetadata.from_json(base.array)
        shape = self._merged_shape(ours, version)
        attrs = _merged_attrs(self._common.theirs.attrs, self._theirs.attrs, base.attrs, self._on_conflict, version)
        staging = Staging(version, base, ours.with_shape(shape), packs)
        coords, old, new = differing_chunks((self._version, self._common.theirs), (self._version, self._theirs))
        conflicts: list[str] = []
        for first in range(0, len(coords), _BATCH_CHUNKS):
            part = slice(first, first + _BATCH_CHUNKS)
            conflicts += self._merge_chunks(coords[part], old[part], new[part], base, version, staging)
        if conflicts:
            more = f" and {len(conflicts) - _SHOWN_REGIONS} more" if len(conflicts) > _SHOWN_REGIONS else ""
            raise ConflictError(
                f"{self._theirs.ref} into {version.name}: both changed {', '.join(conflicts[:_SHOWN_REGIONS])}{more}; "
                "nothing was written. Say whose elements stay with on_conflict='ours' or 'theirs'"
            )
        if not staging.touched and shape == ours.shape and attrs == base.attrs:
            return None
        return draft_of(
            ours.with_shape(shape),
            base.grid,
            array=ours.with_shape(shape).to_json(),
            attrs=attrs,
            changed=staging.flush(),
            source=str(self._theirs.ref),
            message=f"merge {self._theirs.ref}",
        )

    def _merge_chunks(
        self, coords: list[Coords], old: np.ndarray, new: np.ndarray, base: Record, version: Version, staging: Staging
    ) -> list[str]:
        metadata = staging.metadata
        our_old = refs_at(version, self._common.ours, metadata.chunks, coords)
        our_new = refs_at(version, base, metadata.chunks, coords)
        chunks = [
            fetch_chunks(one, metadata, coords, refs)
            for one, refs in (
                (self._version, old), (self._version, new), (version, our_old), (version, our_new)
            )
        ]  # fmt: skip
        conflicts = []
        for one in coords:
            their_before, theirs, our_before, ours = (found[one] for found in chunks)
            changed = changed_elements(their_before, theirs)
            both = changed & changed_elements(our_before, ours) & changed_elements(theirs, ours)
            inside = np.zeros(metadata.chunks, bool)
            inside[tuple(slice(0, max(0, n)) for n in clipped(one, metadata.shape, metadata.chunks))] = True
            if (changed & ~inside).any():
                # They changed what the other side cut off.
                if self._on_conflict != "ours":
                    conflicts.append(region_text(one, changed & ~inside, metadata))
                    continue
                changed &= inside
            if both.any() and self._on_conflict is None:
                conflicts.append(region_text(one, both, metadata))
                continue
            if self._on_conflict == "ours":
                changed &= ~both
            if changed.any():
                merged = ours.copy()
                merged[changed] = theirs[changed]
                staging.put(one, merged, changed)
        return conflicts

    def _merged_shape(self, ours: ArrayMetadata, version: Version) -> tuple[int, ...]:
        theirs, their_old, our_old = (
            ArrayMetadata.from_json(one.array) for one in (self._theirs, self._common.theirs, self._common.ours)
        )
        for one in (theirs, their_old, our_old):
            if not one.stored_like(ours):
                raise ConflictError(
                    f"{self._theirs.ref} and {version.name} are, or were, stored differently and cannot be merged: "
                    f"{one.describe()}; {ours.describe()}"
                )
        shape = []
        for axis, (a, a_old, b, b_old) in enumerate(
            zip(theirs.shape, their_old.shape, ours.shape, our_old.shape, strict=True)
        ):
            if a < a_old:
                raise ConflictError(
                    f"{self._theirs.ref}: shrank axis {axis} from {a_old} to {a}, which cannot be merged; resize "
                    f"{version.name} itself, and merge after"
                )
            if a != a_old and b != b_old and a != b:
                raise ConflictError(
                    f"{self._theirs.ref} and {version.name}: both resized axis {axis}, to {a} and to {b}; nothing was "
                    "written"
                )
            shape.append(a if a != a_old else b)
        return tuple(shape)


def _merged_attrs(
    old: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any], on_conflict: str | None, version: Version
) -> dict[str, Any]:
    merged = dict(ours)
    absent = object()
    for key in old.keys() | theirs.keys():
        before, after, here = (side.get(key, absent) for side in (old, theirs, ours))
        if after in (before, here):
            continue
        if here != before and on_conflict is None:
            raise ConflictError(f"{version.name}: both changed the attribute {key!r}; nothing was written")
        if here != before and on_conflict == "ours":
            continue
        if after is absent:
            merged.pop(key, None)
        else:
            merged[key] = after
    return merged
