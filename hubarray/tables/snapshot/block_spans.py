"""Rows that follow each other in a slab, by their blocks and not one by one: what a scan plans with. Pure.

A slab has a location for each of its rows, and rows of a hundred bytes are hundreds a block. Where the blocks of a slab
lie in the order of its rows, as writers lay them, a block's first row says all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.tables.format.locations import Locations, rows_in_blocks

_JOINED_BYTES = 1 << 20


@dataclass(frozen=True)
class BlockTable:
    """The blocks of a slab's group, in the order of their rows, of which none is null.

    Attributes
    ----------
    starts : array of int64
        The first row of each block in the slab, and the number of rows at the end.
    first_rows : array of int64
        Which row of its block that is.
    blocks : Locations
        Of these rows.
    """

    starts: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    blocks: Locations

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.starts.nbytes + self.first_rows.nbytes + self.blocks.nbytes

    def cut(self, first: int, end: int) -> BlockSpan:
        """The blocks that have the rows from ``first`` to before ``end``.

        Examples
        --------
        >>> table = BlockTable(np.array([0, 4, 8]), np.array([0, 0]), np.zeros(2, "V1"))
        >>> table.cut(3, 6).bounds.tolist(), table.cut(3, 6).first_rows.tolist()
        ([0, 1, 3], [3, 0])
        """
        low = int(np.searchsorted(self.starts, first, side="right")) - 1
        high = int(np.searchsorted(self.starts, end, side="left"))
        bounds = np.clip(self.starts[low : high + 1], first, end) - first
        first_rows = self.first_rows[low:high].copy()
        first_rows[:1] += first - self.starts[low]
        return BlockSpan(bounds, first_rows, self.blocks[low:high])


@dataclass(frozen=True)
class BlockSpan:
    """Neighbouring rows by their blocks.

    Attributes
    ----------
    bounds : array of int64
        Where the rows of each block begin among these rows, and the number of all.
    first_rows : array of int64
        Which row of its block each of them is.
    blocks : Locations
    """

    bounds: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    blocks: Locations


def coalesced_starts(
    blocks: Locations,
    chunks: npt.NDArray[np.uint64],
    is_whole: npt.NDArray[np.bool_],
    *,
    are_alike: bool,
    rows_follow: npt.NDArray[np.bool_] | bool = True,
) -> npt.NDArray[np.intp]:
    """Return the first block of each joint read, and the number of all blocks.

    Whole blocks that lie side by side are read together, up to a MiB, so that a scan of small rows does little work for
    each block. A joint read ends where a MiB of the chunk file begins, so that later reads find the same bytes in the
    cache.

    Parameters
    ----------
    blocks : Locations
        The location of one row of each block.
    chunks : array of uint64
        The number of each block's chunk file.
    is_whole : array of bool
        Whether all rows of a block are read, in their order.
    are_alike : bool
        Whether blocks that are read as one have to be equally long.
    rows_follow : array of bool
        Whether the rows of each block but the first follow those of the block before it among the requested ones.
    """
    offsets, lengths = blocks["offset"].astype(np.int64), blocks["length"].astype(np.int64)
    follows = (
        is_whole[1:]
        & is_whole[:-1]
        & (chunks[1:] == chunks[:-1])
        & ((lengths[1:] == lengths[:-1]) | (not are_alike))
        & (offsets[1:] == offsets[:-1] + lengths[:-1])
        & (offsets[1:] // _JOINED_BYTES == offsets[:-1] // _JOINED_BYTES)
        & rows_follow
    )
    return np.concatenate([[0], np.flatnonzero(~follows) + 1, [len(blocks)]]).astype(np.intp)


def block_table(block_locations: Locations) -> BlockTable | None:
    """The blocks of a slab's rows; None where they do not lie in their order, or where some are null."""
    if not len(block_locations) or not block_locations["length"].all():
        return None
    key = (block_locations["chunk"].astype(np.uint64) << np.uint64(32)) | block_locations["offset"]
    rows = rows_in_blocks(block_locations)
    begins = key[1:] != key[:-1]
    cuts = np.flatnonzero(begins) + 1
    if not (key[cuts] > key[cuts - 1]).all() or not (begins | (np.diff(rows) == 1)).all():
        return None
    starts = np.concatenate([[0], cuts])
    return BlockTable(
        np.concatenate([starts, [len(block_locations)]]), rows[starts].astype(np.int64), block_locations[starts]
    )
