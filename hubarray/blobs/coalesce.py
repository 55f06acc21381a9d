"""Which byte ranges to ask for: pure arithmetic over refs.

Blobs of one pack that lie close together are fetched by one ranged request, so
that small chunks make large requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hubarray.blobs.ref import BlobName

MAX_RUN_BYTES = 16 << 20
MAX_GAP_BYTES = 64 << 10


class RangeRequest(NamedTuple):
    """One ranged request.

    Attributes
    ----------
    start, length : int
        The byte range, in the pack that its members share.
    members : list of int
        Positions of all blobs the range covers, by offset.
    """

    start: int
    length: int
    members: list[int]


def plan_runs(
    names: Sequence[BlobName],
    positions: Sequence[int] | None = None,
    *,
    max_run_bytes: int = MAX_RUN_BYTES,
    max_gap_bytes: int = MAX_GAP_BYTES,
) -> list[RangeRequest]:
    """Group blobs into ranged requests.

    Parameters
    ----------
    names : sequence of BlobName
        Several may be equal.
    positions : sequence of int, optional
        The blobs to plan for; all by default.
    max_run_bytes : int
        No run is longer, unless one blob alone is.
    max_gap_bytes : int
        Unwanted bytes between two neighbours that are worth fetching to save a request.

    Returns
    -------
    list of RangeRequest
        In the order of each run's earliest blob, so that output fills from the front.
    """
    if positions is None:
        positions = range(len(names))
    if len(positions) == 1:
        _, _, offset, length = names[positions[0]]
        return [RangeRequest(offset, length, [*positions])]
    groups: list[list[int]] = []
    lengths: dict[int, int] = {}
    last_home, last_pack, start, end = "", b"", 0, 0
    for i in sorted(positions, key=names.__getitem__):
        home, pack, offset, length = names[i]
        reach = max(end, offset + length)
        if pack == last_pack and offset - end <= max_gap_bytes and reach - start <= max_run_bytes and home == last_home:
            groups[-1].append(i)
        else:
            groups.append([i])
            last_home, last_pack, start, reach = home, pack, offset, offset + length
        end = reach
        lengths[groups[-1][0]] = end - start
    groups.sort(key=min)
    return [RangeRequest(names[run[0]][2], lengths[run[0]], run) for run in groups]
