"""Whole blocks with text that follow each other, made into columns at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from hubarray.errors import CorruptDataError
from hubarray.storage.base import Buffer
from hubarray.tables.format.block import COUNT, HASH_BYTES, PAD_BYTES, text_array
from hubarray.tables.format.schema import Field, Group

if TYPE_CHECKING:
    import pyarrow as pa

_Offsets = npt.NDArray[np.int64]


class TextBlocks:
    """Whole blocks of a group with a layout, as if they were one: read by columns alone.

    Parameters
    ----------
    group : Group
        Of fields of fixed size and of text, without arrays of text.
    data : bytes
        Of blocks whose hashes are right.
    ends : sequence of int
        Where each of them ends.
    where : str
        How errors name them.

    Raises
    ------
    CorruptDataError
        One of them has other rows than a whole block, or does not hold what its header says.
    """

    def __init__(self, group: Group, data: Buffer, ends: Sequence[int], where: str) -> None:
        assert group.layout is not None
        self._group, self._where, self._data = group, where, memoryview(data)
        self.rows = len(ends) * group.rows_per_block
        # Of each field where its values begin in each block, and their bytes there; of text also each row's.
        self._places: dict[str, tuple[Field, _Offsets, _Offsets, _Offsets | None]] = {}
        stops = np.asarray(ends, np.int64)
        starts = np.concatenate([[0], stops[:-1]])
        size = group.rows_per_block
        header_bytes = (1 + sum(not row_bytes for _, _, row_bytes in group.layout) * size) * COUNT.itemsize
        begins = starts + HASH_BYTES + header_bytes + -header_bytes % PAD_BYTES
        if (begins > stops).any():
            self._refuse()
        view = self._data
        joined = b"".join([view[at : at + header_bytes] for at in (starts + HASH_BYTES).tolist()])
        headers = np.frombuffer(joined, COUNT).reshape(len(starts), -1)
        if (headers[:, 0] != size).any():
            self._refuse()
        lengths, used = headers[:, 1:].astype(np.int64), 0
        for name, field, row_bytes in group.layout:
            own = None if row_bytes else lengths[:, used : used + size]
            used += 0 if row_bytes else size
            sizes = np.full(len(starts), size * row_bytes, np.int64) if own is None else own.sum(axis=1)
            self._places[name] = field, begins, sizes, own
            begins = begins + sizes + -sizes % PAD_BYTES
        if (begins != stops).any():
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise CorruptDataError(
            f"{self._where}: the blocks of {self._group.name!r} there have other rows than their locations declare; "
            "restore it from a copy"
        )

    def require_row(self, row: int) -> None:
        """Every row of whole blocks is there."""

    def is_text(self, name: str) -> bool:
        """Whether a field's values are text or bytes."""
        return self._places[name][3] is not None

    def is_costly(self, name: str) -> bool:
        """All rows' values are made at once."""
        return False

    def column(self, name: str) -> Any:
        """All rows' values of a field: one array where their size is fixed, else a list."""
        field, _, _, lengths = self._places[name]
        if lengths is not None:
            return self.text_array(name).to_pylist()
        out: np.ndarray = np.empty((self.rows, *(n or 0 for n in field.shape)), field.dtype or "u1")
        self.decode_column(name, out)
        return out

    def text_array(self, name: str) -> pa.Array:
        """All rows' values of a field of text or bytes, as an Arrow array."""
        import pyarrow as pa

        field, _, sizes, lengths = self._places[name]
        assert lengths is not None
        bounds = np.concatenate([[0], np.cumsum(lengths.reshape(-1))])
        # Arrow reuses its memory. Python gets it from the kernel each time, which takes longer than filling it.
        joined = pa.allocate_buffer(int(bounds[-1]))
        target, end = memoryview(joined).cast("B"), 0
        for part, size in zip(self._parts(name), sizes.tolist(), strict=True):
            target[end : end + size] = part
            end += size
        array = text_array(joined, bounds, is_text=field.kind == "string")
        if array is None:
            raise CorruptDataError(
                f"{self._where}: a block there has {name!r}, which is not UTF-8; restore it from a copy"
            )
        return array

    def decode_column(self, name: str, target: np.ndarray) -> bool:
        """Copy all rows' values of a field into place; False if it lies otherwise there."""
        field, _, _, lengths = self._places[name]
        if lengths is not None or target.dtype != field.dtype or target.shape[1:] != field.shape:
            return False
        if not target.flags.c_contiguous:
            return False
        rows = target.reshape(-1).view("u1").reshape(len(self._places[name][1]), -1)
        for row, part in zip(rows, self._parts(name), strict=True):
            row[...] = part
        return True

    def _parts(self, name: str) -> list[Any]:
        _, begins, sizes, _ = self._places[name]
        data = self._data
        return [data[begin:end] for begin, end in zip(begins.tolist(), (begins + sizes).tolist(), strict=True)]
