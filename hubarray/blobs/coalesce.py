"""Which byte ranges to ask for: pure arithmetic over refs.

Blobs of one pack that lie close together are fetched by one ranged request, so
that small chunks make large requests.
"""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.blobs.ref import Refs

MAX_RUN_BYTES = 16 << 20
MAX_GAP_BYTES = 64 << 10
# Up to so many refs, going through them one by one takes less than setting up what goes through thousands quickly.
_FEW = 48


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """One ranged request.

    Attributes
    ----------
    first : int
        Position in the planned refs of one ref of the run; it names home and pack.
    start, length : int
        The byte range.
    members : list of int
        Positions of all refs the range covers, by offset.
    """

    first: int
    start: int
    length: int
    members: list[int]


def plan_runs(
    refs: Refs, *, max_run_bytes: int = MAX_RUN_BYTES, max_gap_bytes: int = MAX_GAP_BYTES
) -> list[RangeRequest]:
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
        return [RangeRequest(0, int(refs["offset"][0]), int(refs["length"][0]), [0])]
    packs = np.ascontiguousarray(refs["pack"]).view("<u8").reshape(-1, 2)
    if len(refs) <= _FEW:
        return _plan_few(refs, packs.tolist(), max_run_bytes, max_gap_bytes)
    offsets = refs["offset"].astype(np.int64)
    ends = offsets + refs["length"].astype(np.int64)
    order = np.lexsort((offsets, packs[:, 1], packs[:, 0], refs["home"]))
    same_pack = (packs[order[1:]] == packs[order[:-1]]).all(axis=1)
    same_pack &= refs["home"][order[1:]] == refs["home"][order[:-1]]
    starts, stops = offsets[order], _running_ends(ends[order], same_pack)
    near = same_pack & (starts[1:] - stops[:-1] <= max_gap_bytes)
    bounds = [0, *(np.flatnonzero(~near) + 1).tolist(), len(order)]
    positions, first_of, last_of = order.tolist(), starts.tolist(), stops.tolist()
    runs, begins = [], []
    for begin, end in itertools.pairwise(bounds):
        while begin < end:
            # What is too long for one run alone is one all the same.
            stop = max(begin + 1, bisect.bisect_right(last_of, first_of[begin] + max_run_bytes, begin, end))
            members = positions[begin:stop]
            runs.append(RangeRequest(members[0], first_of[begin], last_of[stop - 1] - first_of[begin], members))
            begins.append(begin)
            begin = stop
    return [runs[i] for i in np.argsort(np.minimum.reduceat(order, begins)).tolist()]


def _plan_few(refs: Refs, packs: list[list[int]], max_run_bytes: int, max_gap_bytes: int) -> list[RangeRequest]:
    offsets = refs["offset"].tolist()
    ends = [offset + length for offset, length in zip(offsets, refs["length"].tolist(), strict=True)]
    where = list(zip(refs["home"].tolist(), packs, offsets, strict=True))
    groups: list[list[int]] = []
    pack, start, end = None, 0, 0
    for i in sorted(range(len(where)), key=where.__getitem__):
        *its_pack, offset = where[i]
        reach = max(end, ends[i])
        if its_pack == pack and offset - end <= max_gap_bytes and reach - start <= max_run_bytes:
            groups[-1].append(i)
            end = reach
        else:
            groups.append([i])
            pack, start, end = its_pack, offset, ends[i]
    groups.sort(key=min)
    return [RangeRequest(run[0], offsets[run[0]], max(ends[i] for i in run) - offsets[run[0]], run) for run in groups]


def _running_ends(ends: npt.NDArray[np.int64], same_pack: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The farthest end so far in the same pack."""
    lift = np.concatenate([[0], np.cumsum(~same_pack)]) * (ends.max() + 1)
    return np.asarray(np.maximum.accumulate(ends + lift) - lift)
