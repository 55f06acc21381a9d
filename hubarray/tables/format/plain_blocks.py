"""Whole blocks of numbers that lie side by side, copied into columns at once. Pure."""

from __future__ import annotations

import numpy as np

from hubarray.errors import CorruptDataError
from hubarray.storage.base import Buffer
from hubarray.tables.format.block import COUNT, HASH_BYTES, PAD_BYTES
from hubarray.tables.format.schema import Field, Group


class PlainBlocks:
    """Whole blocks of a plain group that follow each other, as if they were one: read by columns alone.

    Parameters
    ----------
    group : Group
        Plain, and without text in arrays.
    data : bytes
        Of blocks whose hashes are right, all of ``block_bytes``.
    block_bytes : int
    where : str
        How errors name them.

    Raises
    ------
    CorruptDataError
        One of them has other rows than a whole block.
    """

    def __init__(self, group: Group, data: Buffer, block_bytes: int, where: str) -> None:
        self._group, self._where, self._block_rows = group, where, group.rows_per_block
        self._bytes = np.frombuffer(data, "u1").reshape(-1, block_bytes)
        self.rows = len(self._bytes) * group.rows_per_block
        self._begins: dict[str, tuple[int, Field]] = {}
        begin = HASH_BYTES + COUNT.itemsize + -COUNT.itemsize % PAD_BYTES
        for name, field in group.fields:
            self._begins[name] = begin, field
            size = group.rows_per_block * (field.row_bytes or 0)
            begin += size + -size % PAD_BYTES
        counts = self._bytes[:, HASH_BYTES : HASH_BYTES + COUNT.itemsize]
        if begin != block_bytes or (np.ascontiguousarray(counts).view(COUNT) != group.rows_per_block).any():
            raise CorruptDataError(
                f"{where}: the blocks of {group.name!r} there have other rows than their locations declare; restore it "
                "from a copy"
            )

    def require_row(self, row: int) -> None:
        """Every row of whole blocks is there."""

    def is_text(self, name: str) -> bool:
        """Plain groups have no text."""
        return False

    def is_costly(self, name: str) -> bool:
        """All rows' values are made at once."""
        return False

    def column(self, name: str) -> np.ndarray:
        """All rows' values of a field."""
        field = self._begins[name][1]
        out: np.ndarray = np.empty((self.rows, *(n or 0 for n in field.shape)), field.dtype or "u1")
        self.decode_column(name, out)
        return out

    def decode_column(self, name: str, target: np.ndarray) -> bool:
        """Copy all rows' values of a field into place; False if it lies otherwise there."""
        begin, field = self._begins[name]
        assert field.dtype is not None
        size = self._block_rows * (field.row_bytes or 0)
        if target.dtype != field.dtype or target.shape[1:] != field.shape or not target.flags.c_contiguous:
            return False
        target.reshape(-1).view("u1").reshape(len(self._bytes), size)[...] = self._bytes[:, begin : begin + size]
        return True
