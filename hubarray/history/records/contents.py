"""Contents of a record: the refs of numbered blobs, its overlay over its manifest.

In a record that is seen for one member of its version, numbers are those of the member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, Refs
from hubarray.history.records.manifest import Manifest, differing_leaves
from hubarray.history.records.overlay import LEAF_NUMBERS, Numbers, Overlay
from hubarray.history.records.record import Member, Record

_EVERY_NUMBER = range(1 << 64)
_MAX_COMPARED = 1 << 20
# The last pair of records, and the numbers that differ.
_compared: dict[tuple[tuple[str, str], ...], Numbers] = {}


def refs_of(fetcher: Fetcher, record: Record, numbers: Numbers) -> Refs:
    """The refs of chunks at a record: its overlay over its manifest."""
    if record.member is not None:
        refs = np.zeros(len(numbers), REF)
        inner, is_inside = record.member.extents.in_manifest(numbers)
        if is_inside.any():
            refs[is_inside] = refs_of(fetcher, record.member.whole, inner[is_inside])
        return refs
    in_overlay, refs = record.overlay.lookup(numbers)
    out = Manifest(fetcher, record.manifest).lookup(numbers) if not in_overlay.all() else None
    if out is None:
        return refs
    out[in_overlay] = refs
    return out


def ref_of(fetcher: Fetcher, record: Record, number: int) -> np.void | None:
    """The ref of one chunk at a record, or None; as :func:`refs_of`, and several times as fast."""
    if record.member is not None:
        inner, is_inside = record.member.extents.in_manifest(np.array([number], np.uint64))
        return ref_of(fetcher, record.member.whole, int(inner[0])) if is_inside[0] else None
    overlay = record.overlay.numbers
    position = int(overlay.searchsorted(np.uint64(number)))
    if position < len(overlay) and overlay[position] == number:
        return record.overlay.refs[position]
    return Manifest(fetcher, record.manifest).lookup_one(number)


def present_refs(
    fetcher: Fetcher, record: Record, *, batch_bytes: int, stretch: range = _EVERY_NUMBER
) -> Iterator[tuple[Numbers, Refs]]:
    """Iterate over the stored chunks of a record by number, in batches of about this number of stored bytes.

    Reads the manifest leaf by leaf: all of it, or a stretch of numbers; of a member, what its extents have.
    """
    if record.member is not None:
        yield from _present_of_member(fetcher, record.member, batch_bytes)
        return
    inside = (record.overlay.numbers >= np.uint64(stretch.start)) & (
        record.overlay.numbers <= np.uint64(stretch.stop - 1)
    )
    overlay = record.overlay.where(inside)
    over = overlay.numbers // np.uint64(LEAF_NUMBERS)
    numbers, refs, held = [np.zeros(0, np.uint64)], [np.zeros(0, REF)], 0
    leaves = Manifest(fetcher, record.manifest).leaves(stretch.start, stretch.stop)
    for leaf, stored in _with_gaps(leaves, np.unique(over).tolist()):
        within = Overlay(np.arange(LEAF_NUMBERS, dtype=np.uint64) + np.uint64(leaf * LEAF_NUMBERS), stored)
        merged = within.merged(overlay.numbers[over == leaf], overlay.refs[over == leaf])
        outside = (merged.numbers < np.uint64(stretch.start)) | (merged.numbers > np.uint64(stretch.stop - 1))
        places = np.flatnonzero((merged.refs["length"] > 0) & ~outside)
        # A leaf of large chunks is far more than a batch, one of small chunks far less.
        upto = np.cumsum(merged.refs["length"][places].astype(np.int64))
        first = taken = 0
        while first < len(places):
            last = int(np.searchsorted(upto, taken + batch_bytes - held)) + 1
            numbers.append(merged.numbers[places[first:last]])
            refs.append(merged.refs[places[first:last]])
            held += int(upto[min(last, len(places)) - 1]) - taken
            first, taken = last, int(upto[min(last, len(places)) - 1])
            if held >= batch_bytes:
                yield np.concatenate(numbers), np.concatenate(refs)
                numbers, refs, held = [], [], 0
    if held:
        yield np.concatenate(numbers), np.concatenate(refs)


def _present_of_member(fetcher: Fetcher, member: Member, batch_bytes: int) -> Iterator[tuple[Numbers, Refs]]:
    """In the order of the member's numbers, an extent's leaves after the other's."""
    for first, start, size in member.extents.to_json():
        stretch = range(start, start + size)
        for numbers, refs in present_refs(fetcher, member.whole, batch_bytes=batch_bytes, stretch=stretch):
            yield numbers - np.uint64(start) + np.uint64(first), refs


def differing_numbers(first: tuple[Fetcher, Record], second: tuple[Fetcher, Record]) -> Numbers:
    """Numbers of chunks that may differ between two records that number them alike, in order.

    Costs the manifest nodes that the two do not share; of members, of all members of the version.
    """
    wholes = [
        (fetcher, record if record.member is None else record.member.whole) for fetcher, record in (first, second)
    ]
    every = _differing(wholes)
    members = [record.member for _, record in (first, second)]
    if members[0] is None or members[1] is None:
        return every
    mine = [member.extents.in_member(every) for member in members if member is not None]
    return np.unique(np.concatenate([numbers[is_present] for numbers, is_present in mine]))


def _differing(wholes: Sequence[tuple[Fetcher, Record]]) -> Numbers:
    """As :func:`differing_numbers`, of whole versions; remembered, as all members are compared one after the other."""
    key = tuple((fetcher.identity, record.digest) for fetcher, record in wholes)
    known = _compared.get(key)
    if known is not None:
        return known
    trees = [Manifest(fetcher, record.manifest) for fetcher, record in wholes]
    number_parts = [record.overlay.numbers for _, record in wholes]
    for leaf, *tables in differing_leaves(*trees):
        present = np.flatnonzero(sum(table["length"] for table in tables if table is not None))
        number_parts.append(present.astype(np.uint64) + np.uint64(leaf * LEAF_NUMBERS))
    every = np.unique(np.concatenate(number_parts))
    if all(record.digest for _, record in wholes) and len(every) <= _MAX_COMPARED:
        _compared.clear()
        _compared[key] = every
    return every


def numbered_alike(first: Record, second: Record) -> bool:
    """Whether a manifest's number means the same chunk in both: of arrays with a grid, of members with extents too."""
    if first.grid != second.grid or (first.member is None) != (second.member is None):
        return False
    if first.member is None or second.member is None:
        return True
    return first.member.extents.includes(second.member.extents) or second.member.extents.includes(first.member.extents)


def _with_gaps(leaves: Iterator[tuple[int, Refs]], leaf_numbers: list[int]) -> Iterator[tuple[int, Refs]]:
    """Leaves in order, with empty ones where a wanted index has none."""
    empty = np.zeros(LEAF_NUMBERS, REF)
    missing = iter(leaf_numbers)
    ahead = next(missing, None)
    for leaf, refs in leaves:
        while ahead is not None and ahead <= leaf:
            if ahead < leaf:
                yield ahead, empty
            ahead = next(missing, None)
        yield leaf, refs
    while ahead is not None:
        yield ahead, empty
        ahead = next(missing, None)
