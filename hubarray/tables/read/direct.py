"""A few rows, each in a block of its own: read without a plan."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hubarray.blobs.coalesce import MAX_GAP_BYTES
from hubarray.blobs.ref import BlobName
from hubarray.errors import ObjectMissingError
from hubarray.storage.base import MAX_BUFFERS, Buffer
from hubarray.tables.format import locations
from hubarray.tables.format.block import Block, is_intact
from hubarray.tables.format.schema import Group
from hubarray.tables.snapshot.snapshot import TableSnapshot

# Of more, several threads are worth their while; from afar they are there anyway, and this is what they may hold.
_MAX_BYTES, _MAX_REMOTE_BYTES = 2 << 20, 64 << 20
# Of one request.
_RUN_BYTES = 4 << 20
MAX_ROWS = 64


class _BlockLocation(NamedTuple):
    """Where a block lies."""

    key: str
    name: BlobName
    check: int

    @property
    def offset(self) -> int:
        return self.name[2]

    @property
    def length(self) -> int:
        return self.name[3]


def blocks_at_hand(
    table: TableSnapshot, group: Group, numbers: Sequence[int], *, is_only: bool
) -> list[Block | None] | None:
    """The block of each row, None for one that is null as a whole.

    Parameters
    ----------
    table : TableState
    group : Group
    numbers : sequence of int
        Rows of the table; those below 0 are none.
    is_only : bool
        Whether this is the only group. Requests of several groups to a remote root are better made in parallel.

    Returns
    -------
    list or None
        None if the fast path does not apply, and the caller uses :func:`hubarray.tables.read.row_fetch.read`: for
        blocks of several rows, blocks to decode in parallel, many bytes, blocks in the disk cache, and damage.

    Raises
    ------
    CorruptDataError, StorageError
    """
    remote = table.fetcher.store.remote
    if group.rows_per_block > 1 or len(numbers) > MAX_ROWS or (len(numbers) > 1 and group.has_codec):
        return None
    if remote and not (is_only and len(set(numbers)) == len(numbers)):
        return None
    spots = [_spot(table, group, number) for number in numbers]
    present = [spot for spot in spots if spot is not None]
    if len(present) > 1 and sum(spot.length for spot in present) > (_MAX_REMOTE_BYTES if remote else _MAX_BYTES):
        return None
    blocks = _from_afar(table, present) if remote else _from_folder(table, present)
    if blocks is None:
        return None
    where = table.fetcher.store.where
    made = (
        Block(group, data, f"{where(spot.key)}: bytes {spot.offset} on")
        for spot, data in zip(present, blocks, strict=True)
    )
    return [spot and next(made) for spot in spots]


def _from_folder(table: TableSnapshot, spots: Sequence[_BlockLocation]) -> list[Buffer] | None:
    """The bytes of blocks, each in memory of its own: those that lie side by side are read by one call."""
    store = table.fetcher.store
    pieces: list[Buffer] = []
    for run in _runs(spots):
        buffers = [np.empty(spot.length, "u1").data for spot in run]
        try:
            done = store.read_into(run[0].key, run[0].offset, buffers)
        except ObjectMissingError:
            return None
        if done != sum(spot.length for spot in run):
            return None
        if not all(is_intact(data, check=spot.check) for spot, data in zip(run, buffers, strict=True)):
            return None
        pieces += buffers
    return pieces


def _from_afar(table: TableSnapshot, spots: Sequence[_BlockLocation]) -> list[Buffer] | None:
    """As :func:`_from_folder` of a remote root: those that lie side by side are one request, and all are under way."""
    checks = {spot.name: spot.check for spot in spots}
    runs = _runs(sorted(spots, key=lambda spot: (spot.key, spot.offset)))
    for first, second in itertools.pairwise(runs):
        # A request that has what lies between costs less than two: that takes a plan.
        if first[0].key == second[0].key and second[0].offset - first[-1].offset - first[-1].length <= MAX_GAP_BYTES:
            return None
    if any(len(run) > 1 and sum(spot.length for spot in run) > _RUN_BYTES for run in runs):
        return None
    parts = table.fetcher.runs(
        [[spot.name for spot in run] for run in runs], lambda name, data: is_intact(data, check=checks[name])
    )
    return None if parts is None else [parts[spot.name] for spot in spots]


def _runs(spots: Sequence[_BlockLocation]) -> list[list[_BlockLocation]]:
    """Combine blocks that follow each other in one pack, up to the limit of one read."""
    runs: list[list[_BlockLocation]] = []
    for spot in spots:
        last = runs[-1][-1] if runs and len(runs[-1]) < MAX_BUFFERS else None
        if last is not None and (last.key, last.offset + last.length) == (spot.key, spot.offset):
            runs[-1].append(spot)
        else:
            runs.append([spot])
    return runs


def _spot(table: TableSnapshot, group: Group, number: int) -> _BlockLocation | None:
    """Where a row's block lies; None where the row is null as a whole."""
    if number < 0:
        return None
    append = table.metadata.append_of(number)
    slab, within = divmod(number - append.first_row, locations.SLAB_ROWS)
    chunk, offset, length, check = table.locations(append, slab, group.name)[within].item()
    if not length:
        return None
    place = table.chunk_place(append.first + chunk, group, offset + length)
    home, pack, *_ = place.name
    return _BlockLocation(place.key, (home, pack, place.offset + offset, length), check)
