"""Blocks of one row whose values take equally many bytes: they are read, or decoded, to where they belong.

Values that a codec could not make smaller lie behind its header as they are in memory. Only a block itself tells, so
its bytes are read to where they would belong, and looked at then.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.codecs.compressors import COMPRESSORS, Compressor
from hubarray.storage.base import Buffer
from hubarray.tables.format.block import HASH_BYTES, PAD_BYTES, compressor_of
from hubarray.tables.format.schema import Field, Group

# Of less, taking a block apart costs no more than filling many places.
_MIN_READ_BYTES = 16 << 10


@dataclass(frozen=True)
class _RowPart:
    """A field's values in a block of one row."""

    field: Field
    value_bytes: int
    codec: Compressor | None
    compressor: Any

    @property
    def header_bytes(self) -> int | None:
        """Of the codec, before a value that is stored as it is; None where it never is."""
        return 0 if self.codec is None else self.codec.raw_header_bytes


@dataclass(frozen=True)
class _Layout:
    """Blocks of one row whose values take equally many bytes.

    Attributes
    ----------
    counts : Struct
        The numbers behind a block's hash: of rows, and of bytes of each value that a codec has.
    head_bytes : int
        Before the first value.
    gaps : tuple of int, or None
        Bytes before each value, and behind the last one, where all are as they are in memory; None where codecs never
        leave them so, or they are too small.
    """

    parts: tuple[_RowPart, ...]
    counts: struct.Struct
    head_bytes: int
    gaps: tuple[int, ...] | None

    @functools.cached_property
    def raw_bytes(self) -> int:
        """The header of a block with uncompressed values; -1 for none."""
        return -1 if self.gaps is None else sum(self.gaps) + sum(part.value_bytes for part in self.parts)


@functools.lru_cache(maxsize=256)
def _layout(group: Group) -> _Layout | None:
    """None where blocks may have several rows, or their values differ in size."""
    if group.rows_per_block != 1:
        return None
    parts = []
    for _, field in group.fields:
        if field.dtype is None or not field.row_bytes or group.has_text:
            return None
        codec = None if field.codec is None else COMPRESSORS.get(field.codec["name"])
        if codec is None and field.codec is not None:
            return None
        parts.append(_RowPart(field, field.row_bytes, codec, None if codec is None else compressor_of(field)))
    counts = struct.Struct(f"<{1 + sum(part.codec is not None for part in parts)}I")
    head_bytes = HASH_BYTES + counts.size + _padding(counts.size)
    return _Layout(tuple(parts), counts, head_bytes, _gaps(parts, head_bytes))


def _gaps(parts: Sequence[_RowPart], head_bytes: int) -> tuple[int, ...] | None:
    if sum(part.value_bytes for part in parts) < _MIN_READ_BYTES:
        return None
    gaps, before = [], head_bytes
    for part in parts:
        if part.header_bytes is None:
            return None
        gaps.append(before + part.header_bytes)
        before = _padding(part.header_bytes + part.value_bytes)
    return (*gaps, before)


def _padding(size: int) -> int:
    return -size % PAD_BYTES


class ColumnBuffers:
    """Columns whose rows are filled from blocks of one row."""

    def __init__(self, layout: _Layout, columns: Sequence[np.ndarray], masks: Sequence[np.ndarray]) -> None:
        self._layout, self._columns, self._masks = layout, columns, masks

    def buffers(self, position: int, block_bytes: int) -> list[memoryview] | None:
        """Memory for a block, piece after piece, some of it a row of the columns; None if its length is another."""
        layout = self._layout
        if block_bytes != layout.raw_bytes or layout.gaps is None:
            return None
        pieces = []
        for gap, column in zip(layout.gaps, self._columns, strict=False):
            pieces += [memoryview(bytearray(gap)), _row(column, position).data]
        return [*pieces, memoryview(bytearray(layout.gaps[-1]))]

    def are_final(self, pieces: Sequence[memoryview]) -> bool:
        """Whether a block that was read to :meth:`buffers` says that its values are as they are in memory."""
        layout = self._layout
        lengths = [(part.header_bytes or 0) + part.value_bytes for part in layout.parts if part.codec is not None]
        if layout.counts.unpack_from(pieces[0], HASH_BYTES) != (1, *lengths):
            return False
        return all(
            part.codec is None or part.codec.is_raw(gap[len(gap) - (part.header_bytes or 0) :], part.value_bytes)
            for part, gap in zip(layout.parts, pieces[::2], strict=False)
        )

    def fill(self, position: int) -> None:
        """Note that a row is there."""
        for mask in self._masks:
            mask[position] = True

    def put(self, position: int, data: Buffer) -> bool:
        """Decode a block into a row; False where it is another than one expects, for others to say what is wrong."""
        layout, view = self._layout, memoryview(data)
        if len(view) < layout.head_bytes:
            return False
        rows, *lengths = layout.counts.unpack_from(view, HASH_BYTES)
        left, begin = iter(lengths), layout.head_bytes
        for part, column in zip(layout.parts, self._columns, strict=True):
            size = part.value_bytes if part.codec is None else next(left)
            stored, target = view[begin : begin + size], _row(column, position)
            if rows != 1 or len(stored) != size:
                return False
            if part.codec is None:
                target[:] = np.frombuffer(stored, "u1")
            elif not _is_decoded(part, stored, target):
                return False
            begin += size + _padding(size)
        if begin != len(view):
            return False
        self.fill(position)
        return True


def _is_decoded(part: _RowPart, stored: memoryview, target: np.ndarray) -> bool:
    assert part.codec is not None
    try:
        return part.codec.decode_into(part.compressor, stored, target) == part.value_bytes
    except (ValueError, RuntimeError, TypeError):
        return False


def _row(column: np.ndarray, position: int) -> np.ndarray:
    return column[position : position + 1].reshape(-1).view("u1")


def places(
    group: Group,
    out: Mapping[str, Any],
    fields: Sequence[str],
    names: Sequence[str],
    filled: Mapping[str, np.ndarray],
) -> ColumnBuffers | None:
    """Return where to put the blocks of a group, or None if their values differ in size or not all are needed.

    Parameters
    ----------
    group : Group
    out, filled : mapping of str to column, and to which of its rows were set
    fields, names : sequence of str
        As of :func:`hubarray.tables.read.row_fetch.columns_into`.
    """
    layout = _layout(group)
    called = dict(zip(fields, names, strict=True))
    if layout is None or len(names) != len(called) or called.keys() != dict(group.fields).keys():
        return None
    columns = [out[called[name]] for name, _ in group.fields]
    for part, column in zip(layout.parts, columns, strict=True):
        if not isinstance(column, np.ndarray) or column.dtype != part.field.dtype:
            return None
        if column.shape[1:] != part.field.shape or not column.flags.c_contiguous:
            return None
    return ColumnBuffers(layout, columns, [filled[name] for name in names])
