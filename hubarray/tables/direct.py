"""A few rows of a root that is a local folder: their blocks are read on the thread that asks, without a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubarray.errors import ObjectMissingError
from hubarray.storage.base import MAX_BUFFERS
from hubarray.tables import locations
from hubarray.tables.block import Block, is_intact
from hubarray.tables.schema import Group
from hubarray.tables.state import TableState

# Of more, several threads are worth their while.
_MOST_BYTES = 2 << 20
MOST_ROWS = 64


def blocks_at_hand(table: TableState, group: Group, numbers: Sequence[int]) -> list[Block | None] | None:
    """The block of each row, None for one that is null as a whole.

    Parameters
    ----------
    table : TableState
    group : Group
    numbers : sequence of int
        Rows of the table; those below 0 are none.

    Returns
    -------
    list or None
        None where :func:`hubarray.tables.rows.read` is the one to read them, and to say what is wrong: in a remote
        root, for blocks of several rows or to be decoded in parallel, for many bytes, and after damage.

    Raises
    ------
    CorruptDataError, StorageError
    """
    store = table.fetcher.store
    if store.remote or group.rows_per_block > 1 or len(numbers) > MOST_ROWS:
        return None
    if len(numbers) > 1 and group.has_codec:
        return None
    places = [_place(table, group, number) for number in numbers]
    if len(places) > 1 and sum(length for _, _, length, _ in places) > _MOST_BYTES:
        return None
    found: list[Block | None] = [None] * len(places)
    begin = 0
    while begin < len(places):
        key, start, length, _ = places[begin]
        if not length:
            begin += 1
            continue
        end, upto = begin + 1, start + length
        while end < len(places) and places[end][:2] == (key, upto) and end - begin < MAX_BUFFERS:
            upto += places[end][2]
            end += 1
        buffers = [np.empty(length, "u1").data for _, _, length, _ in places[begin:end]]
        try:
            done = store.read_into(key, start, buffers)
        except ObjectMissingError:
            return None
        if done != upto - start:
            return None
        where = store.where(key)
        for i, data in enumerate(buffers, begin):
            if not is_intact(data, check=places[i][3]):
                return None
            found[i] = Block(group, data, f"{where}: bytes {places[i][1]} on")
        begin = end
    return found


def _place(table: TableState, group: Group, number: int) -> tuple[str, int, int, int]:
    """Key, offset and length of a row's block, and its check."""
    if number < 0:
        return "", 0, 0, 0
    append = table.metadata.append_of(number)
    slab, within = divmod(number - append.first_row, locations.SLAB_ROWS)
    chunk, offset, length, check = table.locations(append, slab, group.name)[within].item()
    if not length:
        return "", 0, 0, 0
    key, begin = table.chunk_place(append.first + chunk, group, offset + length)
    return key, begin + offset, length, check
