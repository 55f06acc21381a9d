"""The overlay: refs of chunks changed since the manifest root, kept in the record itself.

Pure: lookups, merges, the packed form, and which leaves to fold when it is full.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.blobs.ref import REF, Refs, check_refs, homes

Numbers = npt.NDArray[np.uint64]

LEAF_NUMBERS = 1024
MAX_OVERLAY_REFS = 256
MAX_FOLDED_LEAVES = 8

_ENTRY = np.dtype([("number", "<u8"), ("ref", REF)])


@dataclass(frozen=True)
class Overlay:
    """Sorted chunk numbers and their refs; a null ref is a chunk that became absent."""

    numbers: Numbers
    refs: Refs

    def __len__(self) -> int:
        return len(self.numbers)

    def lookup(self, numbers: Numbers) -> tuple[npt.NDArray[np.bool_], Refs]:
        """Which numbers are here, and the refs of those that are."""
        if len(self.numbers) == 0:
            return np.zeros(len(numbers), bool), np.zeros(0, REF)
        places = np.searchsorted(self.numbers, numbers)
        places[places == len(self.numbers)] = 0
        is_present = self.numbers[places] == numbers
        return is_present, self.refs[places[is_present]]

    def merged(self, numbers: Numbers, refs: Refs) -> Overlay:
        """This overlay with newer entries over it (``numbers`` distinct, in any order)."""
        is_kept = ~np.isin(self.numbers, numbers)
        all_numbers = np.concatenate([self.numbers[is_kept], numbers.astype(np.uint64)])
        all_refs = np.concatenate([self.refs[is_kept], refs])
        order = np.argsort(all_numbers, kind="stable")
        return Overlay(all_numbers[order], all_refs[order])

    def where(self, mask: npt.NDArray[np.bool_]) -> Overlay:
        """The entries that a mask selects."""
        return Overlay(self.numbers[mask], self.refs[mask])

    def encode(self, home: str) -> tuple[str, list[str]]:
        """Base64 of the packed entries, and the table of homes they index."""
        entries = np.zeros(len(self), _ENTRY)
        entries["number"] = self.numbers
        entries["ref"] = self.refs
        table = homes.store(entries["ref"], home)
        return base64.b64encode(entries.tobytes()).decode("ascii"), table

    @staticmethod
    def decode(text: str, table: Sequence[str]) -> Overlay:
        """The inverse of :meth:`encode`, for untrusted text.

        Raises
        ------
        ValueError
            The text is not an overlay: not packed entries, out of order, or with refs that no pack can have.
        """
        entries = np.frombuffer(base64.b64decode(text, validate=True), _ENTRY)
        numbers, refs = entries["number"].astype(np.uint64), entries["ref"].copy()
        if (numbers[1:] <= numbers[:-1]).any():
            raise ValueError("its numbers are out of order")
        check_refs(refs, len(table))
        homes.load(refs, table)
        return Overlay(numbers, refs)


EMPTY_OVERLAY = Overlay(np.zeros(0, np.uint64), np.zeros(0, REF))


def split_for_fold(
    overlay: Overlay, *, max_refs: int = MAX_OVERLAY_REFS, leaf_numbers: int = LEAF_NUMBERS
) -> tuple[Overlay, Overlay]:
    """Split an overlay into what stays and what is folded into the manifest.

    Nothing is folded while it fits. Past that, whole leaves are folded, fullest
    first: 8 of them, or as many as it takes to fit when a commit is large.

    Returns
    -------
    (kept, folded)
    """
    if len(overlay) <= max_refs:
        return overlay, EMPTY_OVERLAY
    leaves = overlay.numbers // np.uint64(leaf_numbers)
    distinct, inverse, counts = np.unique(leaves, return_inverse=True, return_counts=True)
    fullest = np.argsort(-counts, kind="stable")
    remaining = len(overlay) - np.cumsum(counts[fullest])
    needed = int(np.argmax(remaining <= max_refs)) + 1
    chosen = np.zeros(len(distinct), bool)
    chosen[fullest[: max(needed, MAX_FOLDED_LEAVES)]] = True
    folded = chosen[inverse]
    return overlay.where(~folded), overlay.where(folded)
