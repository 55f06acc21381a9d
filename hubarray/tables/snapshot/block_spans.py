"""Rows that follow each other in a slab, by their blocks and not one by one: what a scan plans with. Pure.

A slab has a location for each of its rows, and rows of a hundred bytes are hundreds a block. Where the blocks of a slab
lie in the order of its rows, as writers lay them, a block's first row says all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.tables.format.locations import Locations, rows_in_blocks


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

    def heads(self, *, block_rows: int, alike: bool, joined_bytes: int) -> npt.NDArray[np.intp]:
        """Where whole blocks begin that can be read as one, as they follow each other, and the number of all blocks.

        Parameters
        ----------
        block_rows : int
            Rows of a whole block.
        alike : bool
            Whether they have to be equally long.
        joined_bytes : int
            They are divided at fixed multiples in a chunk file, independent of the read, so that later reads find them
            in the cache.
        """
        blocks = self.blocks
        whole = (np.diff(self.bounds) == block_rows) & (self.first_rows == 0)
        offsets, lengths = blocks["offset"].astype(np.int64), blocks["length"].astype(np.int64)
        follows = (
            whole[1:]
            & whole[:-1]
            & (blocks["chunk"][1:] == blocks["chunk"][:-1])
            & ((lengths[1:] == lengths[:-1]) | (not alike))
            & (offsets[1:] == offsets[:-1] + lengths[:-1])
            & (offsets[1:] // joined_bytes == offsets[:-1] // joined_bytes)
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
