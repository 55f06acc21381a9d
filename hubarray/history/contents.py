"""Contents of a record: the refs of numbered blobs, its overlay over its manifest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, Refs
from hubarray.history.manifest import Manifest
from hubarray.history.overlay import LEAF_NUMBERS, Numbers, Overlay
from hubarray.history.record import Record


def refs_of(fetcher: Fetcher, record: Record, numbers: Numbers) -> Refs:
    """The refs of chunks at a record: its overlay over its manifest."""
    found, refs = record.overlay.lookup(numbers)
    out = Manifest(fetcher, record.manifest).lookup(numbers) if not found.all() else None
    if out is None:
        return refs
    out[found] = refs
    return out


def ref_of(fetcher: Fetcher, record: Record, number: int) -> np.void | None:
    """The ref of one chunk at a record, or None; as :func:`refs_of`, and several times as fast."""
    overlay = record.overlay.numbers
    position = int(overlay.searchsorted(np.uint64(number)))
    if position < len(overlay) and overlay[position] == number:
        return record.overlay.refs[position]
    return Manifest(fetcher, record.manifest).lookup_one(number)


def present_refs(fetcher: Fetcher, record: Record, *, batch_bytes: int) -> Iterator[tuple[Numbers, Refs]]:
    """Every present chunk of a record by number, in batches of about so many stored bytes.

    Reads the whole manifest, leaf by leaf.
    """
    overlay = record.overlay
    over = overlay.numbers // np.uint64(LEAF_NUMBERS)
    numbers, refs, held = [np.zeros(0, np.uint64)], [np.zeros(0, REF)], 0
    for leaf, stored in _with_gaps(Manifest(fetcher, record.manifest).leaves(), np.unique(over).tolist()):
        within = Overlay(np.arange(LEAF_NUMBERS, dtype=np.uint64) + np.uint64(leaf * LEAF_NUMBERS), stored)
        merged = within.merged(overlay.numbers[over == leaf], overlay.refs[over == leaf])
        there = np.flatnonzero(merged.refs["length"])
        # A leaf of large chunks is far more than a batch, one of small chunks far less.
        upto = np.cumsum(merged.refs["length"][there].astype(np.int64))
        first = taken = 0
        while first < len(there):
            last = int(np.searchsorted(upto, taken + batch_bytes - held)) + 1
            numbers.append(merged.numbers[there[first:last]])
            refs.append(merged.refs[there[first:last]])
            held += int(upto[min(last, len(there)) - 1]) - taken
            first, taken = last, int(upto[min(last, len(there)) - 1])
            if held >= batch_bytes:
                yield np.concatenate(numbers), np.concatenate(refs)
                numbers, refs, held = [], [], 0
    if held:
        yield np.concatenate(numbers), np.concatenate(refs)


def _with_gaps(leaves: Iterator[tuple[int, Refs]], wanted: list[int]) -> Iterator[tuple[int, Refs]]:
    """Leaves in order, with empty ones where a wanted index has none."""
    empty = np.zeros(LEAF_NUMBERS, REF)
    missing = iter(wanted)
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
