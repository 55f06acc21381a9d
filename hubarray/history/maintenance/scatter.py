"""Which chunks are worth writing again: pure arithmetic over refs.

Two reasons: their pack is mostly dead, so that writing the rest again frees
it; or neighbouring chunks lie scattered over many places, so that reading them
takes many requests.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hubarray.blobs.coalesce import MAX_RUN_BYTES, plan_runs
from hubarray.blobs.pack import OWN_PACK_BYTES
from hubarray.blobs.ref import ID_BYTES, Refs

MIN_ALIVE_SHARE = 0.5
SCATTERED_FACTOR = 4


def alive_bytes(refs: Refs) -> dict[bytes, int]:
    """Bytes that distinct refs need of each pack, by pack id."""
    packs, inverse = _packs_of(refs)
    sums = np.bincount(inverse, weights=refs["length"].astype(np.float64), minlength=len(packs))
    return {pack: int(total) for pack, total in zip(packs, sums.tolist(), strict=True)}


def in_sparse_packs(refs: Refs, alive: dict[bytes, int], sizes: dict[bytes, int]) -> npt.NDArray[np.bool_]:
    """Which refs point into packs that are less than half alive.

    Parameters
    ----------
    refs : array of REF
    alive, sizes : dict
        Bytes of each pack that anything live needs, and that it has, by pack id. A pack of unknown size is left alone.
    """
    packs, inverse = _packs_of(refs)
    sparse = np.array([alive.get(pack, 0) < MIN_ALIVE_SHARE * sizes.get(pack, 0) for pack in packs], bool)
    return np.asarray(sparse[inverse])


def _packs_of(refs: Refs) -> tuple[list[bytes], npt.NDArray[np.intp]]:
    """The distinct packs of refs, and the index among them of each ref's."""
    packs, inverse = np.unique(np.ascontiguousarray(refs["pack"]).view(f"V{ID_BYTES}"), return_inverse=True)
    return [pack.tobytes() for pack in packs], inverse.reshape(-1)


def scattered(refs: Refs, *, run_bytes: int = MAX_RUN_BYTES) -> npt.NDArray[np.bool_]:
    """Which refs lie in stretches that take far more requests to read than they would side by side.

    A stretch is neighbouring chunks of about ``run_bytes`` together. It is scattered when it takes more than
    four requests for each that its bytes would need. Blobs that are packs by themselves neither count nor move.

    Parameters
    ----------
    refs : array of REF
        In chunk order, present ones only.
    """
    chosen = np.zeros(len(refs), bool)
    small = np.flatnonzero(refs["length"] < OWN_PACK_BYTES)
    if len(small) == 0:
        return chosen
    stretches = (np.cumsum(refs["length"][small].astype(np.int64)) - 1) // run_bytes
    for members in np.split(small, np.flatnonzero(np.diff(stretches)) + 1):
        # A stretch that was written as one may still lie across two packs.
        if len(plan_runs(refs[members], max_run_bytes=run_bytes)) > SCATTERED_FACTOR + 1:
            chosen[members] = True
    return chosen
