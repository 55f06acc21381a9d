"""A few rows whose blocks lie in a local folder, or side by side: read on the thread that asks, without a plan."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hubarray.blobs.ref import BlobName
from hubarray.errors import ObjectMissingError
from hubarray.storage.base import MAX_BUFFERS, Buffer
from hubarray.tables import locations
from hubarray.tables.block import Block, is_intact
from hubarray.tables.schema import Group
from hubarray.tables.state import TableState

# Of more, several threads are worth their while.
_MOST_BYTES = 2 << 20
MOST_ROWS = 64


class _Spot(NamedTuple):
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
    table: TableState, group: Group, numbers: Sequence[int], *, is_only: bool
) -> list[Block | None] | None:
    """The block of each row, None for one that is null as a whole.

    Parameters
    ----------
    table : TableState
    group : Group
    numbers : sequence of int
        Rows of the table; those below 0 are none.
    is_only : bool
        Whether no other group is wanted: for several, requests to a remote root are better made in parallel.

    Returns
    -------
    list or None
        None where :func:`hubarray.tables.rows.read` is the one to read them, and to say what is wrong: for blocks of
        several rows or to be decoded in parallel, for many bytes, for several requests to a remote root, and after
        damage.

    Raises
    ------
    CorruptDataError, StorageError
    """
    remote = table.fetcher.store.remote
    if group.rows_per_block > 1 or len(numbers) > MOST_ROWS or (len(numbers) > 1 and group.has_codec):
        return None
    if remote and not (is_only and all(b - a == 1 for a, b in itertools.pairwise(numbers))):
        return None
    spots = [_spot(table, group, number) for number in numbers]
    there = [spot for spot in spots if spot is not None]
    if len(there) > 1 and sum(spot.length for spot in there) > _MOST_BYTES:
        return None
    blocks = _from_afar(table, there) if remote else _from_folder(table, there)
    if blocks is None:
        return None
    where = table.fetcher.store.where
    made = (
        Block(group, data, f"{where(spot.key)}: bytes {spot.offset} on")
        for spot, data in zip(there, blocks, strict=True)
    )
    return [spot and next(made) for spot in spots]


def _from_folder(table: TableState, spots: Sequence[_Spot]) -> list[Buffer] | None:
    """The bytes of blocks, each in memory of its own: those that lie side by side are read by one call."""
    store = table.fetcher.store
    found: list[Buffer] = []
    while len(found) < len(spots):
        run = spots[len(found) : len(found) + _side_by_side(spots[len(found) :])]
        buffers = [np.empty(spot.length, "u1").data for spot in run]
        try:
            done = store.read_into(run[0].key, run[0].offset, buffers)
        except ObjectMissingError:
            return None
        if done != sum(spot.length for spot in run):
            return None
        if not all(is_intact(data, check=spot.check) for spot, data in zip(run, buffers, strict=True)):
            return None
        found += buffers
    return found


def _from_afar(table: TableState, spots: Sequence[_Spot]) -> list[Buffer] | None:
    """As :func:`_from_folder` of a remote root, where all of them are one request."""
    if not spots:
        return []
    if _side_by_side(spots) < len(spots):
        return None
    found = table.fetcher.side_by_side(
        [spot.name for spot in spots], lambda i, data: is_intact(data, check=spots[i].check)
    )
    # The one copy: what a row keeps alive is its own blocks, not the request that they came in.
    return None if found is None else [bytearray(data) for data in found]


def _side_by_side(spots: Sequence[_Spot]) -> int:
    """How many from the first on follow each other in one pack, as many as one call may read."""
    count, upto = 1, spots[0].offset + spots[0].length
    while count < min(len(spots), MAX_BUFFERS) and (spots[count].key, spots[count].offset) == (spots[0].key, upto):
        upto += spots[count].length
        count += 1
    return count


def _spot(table: TableState, group: Group, number: int) -> _Spot | None:
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
    return _Spot(place.key, (home, pack, place.offset + offset, length), check)
