"""Which byte ranges to ask for: pure arithmetic over refs.

Blobs of one pack that lie close together are fetched by one ranged request, so
that small chunks make large requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.blobs.ref import Refs

MAX_RUN_BYTES = 16 << 20
MAX_GAP_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Run:
    """One ranged request.

    Attributes
    ----------
    first : int
        Position in the planned refs of one ref of the run; it names home and pack.
    start, length : int
        The byte range.
    members : array of int
        Positions of all refs the range covers, by offset.
    """

    first: int
    start: int
    length: int
    members: npt.NDArray[np.intp]


def plan_runs(refs: Refs, *, max_run_bytes: int = MAX_RUN_BYTES, max_gap_bytes: int = MAX_GAP_BYTES) -> list[Run]:
    """Group refs into ranged requests.

    Parameters
    ----------
    refs : array of REF, 1-d
        Present refs; several may be equal.
    max_run_bytes : int
        No run is longer, unless one blob alone is.
    max_gap_bytes : int
        Unwanted bytes between two neighbours that are worth fetching to save a request.

    Returns
    -------
    list of Run
        In the order of each run's earliest ref, so that output fills from the front.
    """
    if len(refs) == 0:
        return []
    if len(refs) == 1:
        return [Run(0, int(refs["offset"][0]), int(refs["length"][0]), np.zeros(1, np.intp))]
    packs = np.ascontiguousarray(refs["pack"]).view("<u8").reshape(-1, 2)
    offsets = refs["offset"].astype(np.int64)
    ends = offsets + refs["length"].astype(np.int64)
    order = np.lexsort((offsets, packs[:, 1], packs[:, 0], refs["home"]))
    same_pack = (
        (packs[order[1:]] == packs[order[:-1]]).all(axis=1) & (refs["home"][order[1:]] == refs["home"][order[:-1]])
    ).tolist()
    starts, stops = offsets[order].tolist(), ends[order].tolist()
    runs = []
    begin, stop = 0, stops[0]
    for i in range(1, len(order) + 1):
        if i < len(order) and same_pack[i - 1]:
            far = starts[i] - stop > max_gap_bytes
            long = max(stop, stops[i]) - starts[begin] > max_run_bytes
            if not far and not long:
                stop = max(stop, stops[i])
                continue
        members = order[begin:i]
        runs.append(Run(int(members[0]), starts[begin], stop - starts[begin], members))
        if i < len(order):
            begin, stop = i, stops[i]
    runs.sort(key=lambda run: int(run.members.min()))
    return runs
