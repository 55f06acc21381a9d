"""The digests of blocks that are stored beside their locations: equal digests mean equal rows."""

from __future__ import annotations

import numpy as np

from hubarray.tables.format.locations import Locations, begin_blocks
from hubarray.tables.format.schema import Group
from hubarray.tables.snapshot.snapshot import TableSnapshot


def digests_of(table: TableSnapshot, group: Group, numbers: np.ndarray) -> np.ndarray:
    """The digest of the block that each of some rows is in; zeros where the table has not its first row.

    A block that began in an earlier slab has that slab's.
    """
    result = np.zeros(len(numbers), "V16")
    for append, slab, first, inside in table.slabs_of(numbers):
        where = table.locations(append, slab, group.name)
        rows = numbers[inside] - first
        begins = np.flatnonzero(begin_blocks(where))
        digests = table.digests(append, slab, group.name, len(begins))
        which = np.searchsorted(begins, rows, side="right") - 1
        here = which >= 0
        here[here] &= _same_block(where[rows[here]], where[begins[which[here]]])
        result[inside[here]] = digests[which[here]]
        before = inside[which < 0]
        if len(before) and slab:
            earlier = table.locations(append, slab - 1, group.name)
            starts = np.flatnonzero(begin_blocks(earlier))
            if len(starts):
                last = table.digests(append, slab - 1, group.name, len(starts))[-1:]
                same = _same_block(where[rows[which < 0]], earlier[starts[-1:]])
                result[before[same]] = last
    return result


def _same_block(first: Locations, second: Locations) -> np.ndarray:
    same = (first["length"] == second["length"]) & (first["check"] == second["check"])
    return np.asarray(same & (first["chunk"] == second["chunk"]) & (first["offset"] == second["offset"]))
