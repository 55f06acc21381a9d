"""A block, as it is read: the bytes of one column group, of one row or of a few. Pure.

``docs/FORMAT.md``, "Blocks", has the bytes: a hash, how many rows, the sizes
of what differs from row to row, then field after field the values, each padded
to 8 bytes. Whatever is read from a bucket is checked here before it is used.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hubarray.arrays.codecs.compressors import COMPRESSORS
from hubarray.arrays.codecs.image_headers import image_header
from hubarray.arrays.codecs.text_codec import has_text, is_text
from hubarray.blobs.ref import blob_hash, whole_blob_hash
from hubarray.errors import CorruptDataError
from hubarray.storage.base import Buffer
from hubarray.tables.format.field_codecs import image_decoded
from hubarray.tables.format.schema import Field, Group

if TYPE_CHECKING:
    import pyarrow as pa

HASH_BYTES = 16
CHECK_BYTES = 4
MAX_BLOCK_BYTES = 1 << 30
PAD_BYTES = 8
# Up to this many rows, Python makes the values faster than Arrow.
_MADE_BY_PYTHON = 16
COUNT = np.dtype("<u4")

Value = Any


@dataclass(frozen=True)
class HeaderCounts:
    """How many numbers the header has of each row of a field: presence, dimensions, length."""

    null: bool
    dims: int
    length: bool

    @property
    def numbers(self) -> int:
        """How many they are together."""
        return self.null + self.dims + self.length


@functools.cache
def sizes_of(field: Field) -> HeaderCounts:
    """The numbers that a block's header has of each row of a field."""
    length = field.kind != "fixed" or field.is_image
    return HeaderCounts(field.nullable, sum(n is None for n in field.shape), length)


@functools.cache
def described(group: Group) -> bytes:
    """The fields of a group as a digest covers them: what decides how equal values are encoded."""
    fields = [field.to_json() for _, field in group.fields]
    compared = [{part: field.get(part) for part in ("dtype", "shape", "codec", "nullable")} for field in fields]
    return json.dumps(compared, sort_keys=True).encode()


def is_compressed(field: Field) -> bool:
    """Whether a block has all values of a field compressed together."""
    return field.codec is not None and not field.is_image


@functools.cache
def _made(name: str, configuration: tuple[tuple[str, Any], ...]) -> Any:
    return COMPRESSORS[name].made(dict(configuration))


def compressor_of(field: Field) -> Any:
    """The codec that compresses a field's values, and decompresses them."""
    assert field.codec is not None
    return _made(field.codec["name"], tuple(sorted(field.codec["configuration"].items())))


class Block:
    """A block that was fetched.

    Parameters
    ----------
    group : Group
    data : bytes
        Whose hash is right: :func:`is_intact`. What is read of it are views of these bytes, where it is stored plain.
    where : str
        How errors name it.

    Raises
    ------
    CorruptDataError
        It does not hold what its header says.
    """

    def __init__(self, group: Group, data: Buffer, where: str) -> None:
        self._group, self._data, self._where = group, memoryview(data), where
        self._columns: dict[str, _Column] = {}
        layout = group.layout
        if group.is_plain:
            begin = self._plain_columns()
        else:
            begin = self._any_columns() if layout is None else self._text_columns(layout)
        if begin != len(self._data):
            self._refuse(f"has {len(self._data):,} bytes, and its header speaks of {begin:,}")

    def _require_rows(self) -> None:
        if not 1 <= self.rows <= self._group.rows_per_block:
            self._refuse(f"has {self.rows} rows, and up to {self._group.rows_per_block} are stored together")

    def _plain_columns(self) -> int:
        """Where the fields of a plain group lie; tells where the last one ends."""
        if len(self._data) < HASH_BYTES + COUNT.itemsize:
            self._refuse("is cut short")
        self.rows = int.from_bytes(self._data[HASH_BYTES : HASH_BYTES + COUNT.itemsize], "little")
        self._require_rows()
        begin = HASH_BYTES + COUNT.itemsize + -COUNT.itemsize % PAD_BYTES
        for name, field in self._group.fields:
            size = self.rows * (field.row_bytes or 0)
            self._columns[name] = self._bounded(_Column(name, field, size, begin=begin, stored_bytes=size))
            begin += size + -size % PAD_BYTES
        return begin

    def _text_columns(self, layout: Sequence[tuple[str, Field, int]]) -> int:
        """As :meth:`_plain_columns`, where some fields are text: the header has the lengths of all of it."""
        texts = sum(not row_bytes for _, _, row_bytes in layout)
        self.rows = int(self._numbers(HASH_BYTES, 1)[0])
        self._require_rows()
        header_bytes = (1 + texts * self.rows) * COUNT.itemsize
        lengths = self._numbers(HASH_BYTES + COUNT.itemsize, texts * self.rows)
        begin, used = HASH_BYTES + header_bytes + -header_bytes % PAD_BYTES, 0
        for name, field, row_bytes in layout:
            if row_bytes:
                column = _Column(name, field, self.rows * row_bytes, begin=begin)
            else:
                own = lengths[used : used + self.rows]
                used += self.rows
                ends = np.cumsum(own, dtype=np.int64)
                column = _Column(name, field, int(ends[-1]), own[:, None], ends, begin=begin)
            column.stored_bytes = column.plain_bytes
            begin += column.plain_bytes + -column.plain_bytes % PAD_BYTES
            self._columns[name] = self._bounded(column)
        return begin

    def _any_columns(self) -> int:
        group = self._group
        compressed = sum(is_compressed(field) for _, field in group.fields)
        head = self._numbers(HASH_BYTES, 1 + compressed)
        self.rows = int(head[0])
        self._require_rows()
        sizes = [sizes_of(field).numbers for _, field in group.fields]
        numbers = self._numbers(HASH_BYTES + head.nbytes, sum(sizes) * self.rows)
        header_bytes = head.nbytes + numbers.nbytes
        begin, used = HASH_BYTES + header_bytes + -header_bytes % PAD_BYTES, 0
        stored = iter(head[1:].tolist())
        for (name, field), count in zip(group.fields, sizes, strict=True):
            own = numbers[used : used + count * self.rows].reshape(self.rows, count)
            used += count * self.rows
            column = self._column(name, field, own)
            column.begin = begin
            column.stored_bytes = next(stored) if is_compressed(field) else column.plain_bytes
            begin += column.stored_bytes + -column.stored_bytes % PAD_BYTES
            self._columns[name] = column
        return begin

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory, with what it decompresses to."""
        return len(self._data) + sum(
            column.plain_bytes for column in self._columns.values() if is_compressed(column.field)
        )

    def row(self, row: int, names: Sequence[str], *, encoded: bool = False) -> dict[str, Value]:
        """One row's values of some fields: arrays, text, bytes, or None; with ``encoded`` images as they are stored.

        Raises
        ------
        CorruptDataError
            The row of the location does not exist, or a value does not decode.
        """
        self.require_row(row)
        return {name: self._value(self._columns[name], row, encoded=encoded) for name in names}

    def require_row(self, row: int) -> None:
        """Refuse a row that the block has not, which only a location can mean."""
        if not 0 <= row < self.rows:
            self._refuse(f"has {self.rows} rows, and its location is of row {row}")

    def is_text(self, name: str) -> bool:
        """Whether a field's values are text or bytes."""
        return self._columns[name].field.dtype is None

    def is_costly(self, name: str) -> bool:
        """Whether all rows' values of a field cost more than a few of them: they are made one by one."""
        return self._columns[name].numbers is not None

    def column(self, name: str) -> Value:
        """All rows' values of a field: one array where their size is fixed and none may be null, else a list."""
        column = self._columns[name]
        if column.numbers is None and column.field.dtype is not None:
            return self._plain(column).view(column.field.dtype).reshape(self.rows, *column.field.shape)
        if column.field.dtype is None and self.rows > _MADE_BY_PYTHON:
            return self.text_array(name).to_pylist()
        dtype = column.field.dtype
        if column.numbers is not None and dtype is not None and not column.field.ragged and not column.field.is_image:
            plain = self._plain(column).view(dtype).reshape(self.rows, *column.field.shape)
            return [
                value if is_present else None for value, is_present in zip(plain, column.numbers[:, 0], strict=True)
            ]
        return [self._value(column, row) for row in range(self.rows)]

    def decode_column(self, name: str, target: np.ndarray) -> bool:
        """Decompress all rows' values of a field into place; False if it is not compressed, or lies otherwise there.

        Raises
        ------
        CorruptDataError
            The values do not decode: ``target`` may have some of them.
        """
        column = self._columns[name]
        field = column.field
        if column.plain is not None or column.numbers is not None or field.dtype is None or not is_compressed(field):
            return False
        if target.dtype != field.dtype or target.nbytes != column.plain_bytes or not target.flags.c_contiguous:
            return False
        if has_text(field.dtype):
            return False
        self._decompress(column, target.reshape(-1).view("u1"))
        return True

    def text_array(self, name: str) -> pa.Array:
        """All rows' values of a field of text or bytes, as an Arrow array."""
        column = self._columns[name]
        assert column.numbers is not None
        assert column.ends is not None
        bounds = np.concatenate([[0], column.ends])
        present = column.numbers[:, 0] if column.field.nullable else None
        is_text = column.field.kind == "string"
        array = text_array(self._plain(column).tobytes(), bounds, is_text=is_text, present=present)
        if array is None:
            self._refuse(f"has {name!r}, which is not UTF-8")
        return array

    def _numbers(self, begin: int, count: int) -> np.ndarray:
        if begin + count * COUNT.itemsize > len(self._data):
            self._refuse("is cut short")
        return np.frombuffer(self._data, COUNT, count, begin)

    def _column(self, name: str, field: Field, numbers: np.ndarray) -> _Column:
        sizes = sizes_of(field)
        if not sizes.numbers:
            return self._bounded(_Column(name, field, plain_bytes=self.rows * (field.row_bytes or 0)))
        if sizes.numbers == 1 and sizes.length and not field.is_image:
            # Text that may not be null: lengths, and nothing that could contradict them.
            ends = np.cumsum(numbers[:, 0], dtype=np.int64)
            return self._bounded(_Column(name, field, int(ends[-1]), numbers, ends))
        present = numbers[:, 0] if sizes.null else np.ones(self.rows, COUNT)
        if (present > 1).any() or numbers[present == 0].any():
            self._refuse(f"declares impossible values for {name!r}")
        dims = numbers[:, int(sizes.null) :][:, : sizes.dims]
        known = math.prod(n for n in field.shape if n is not None) * (field.dtype.itemsize if field.dtype else 1)
        # As floats first: whoever wrote them may have meant them to overflow.
        if (np.maximum(dims, 1).astype(np.float64).prod(axis=1) * known > MAX_BLOCK_BYTES).any():
            self._refuse(f"declares more than {MAX_BLOCK_BYTES:,} bytes")
        lengths = numbers[:, -1].astype(np.int64) if sizes.length else dims.astype(np.int64).prod(axis=1) * known
        if field.ragged or field.is_image:
            # Elsewhere a null takes as much room as a value.
            lengths = np.where(present == 1, lengths, 0)
        ends = np.cumsum(lengths)
        return self._bounded(_Column(name, field, int(ends[-1]), numbers, ends))

    def _bounded(self, column: _Column) -> _Column:
        if column.plain_bytes > MAX_BLOCK_BYTES:
            self._refuse(f"says that {column.name!r} has {column.plain_bytes:,} bytes, more than {MAX_BLOCK_BYTES:,}")
        return column

    def _plain(self, column: _Column) -> np.ndarray:
        """The bytes of a field's values one after the other, decompressed."""
        if column.plain is None:
            field = column.field
            if is_compressed(field):
                plain = np.empty(column.plain_bytes, "u1")
                self._decompress(column, plain)
            else:
                plain = np.frombuffer(self._stored(column), "u1")
            if field.dtype is not None and has_text(field.dtype) and not is_text(plain.view(field.dtype)):
                self._refuse(f"has {column.name!r}, whose text has code points beyond U+10FFFF")
            column.plain = plain
        return column.plain

    def _stored(self, column: _Column) -> memoryview:
        return self._data[column.begin : column.begin + column.stored_bytes]

    def _decompress(self, column: _Column, plain: np.ndarray) -> None:
        assert column.field.codec is not None
        stored = self._stored(column)
        if not len(plain) and not len(stored):
            return
        row = COMPRESSORS[column.field.codec["name"]]
        try:
            size = row.decode_into(compressor_of(column.field), stored, plain)
        except (ValueError, RuntimeError, TypeError) as error:
            self._refuse(f"has {column.name!r}, which does not decode: {error}")
        if size != len(plain):
            self._refuse(f"has {column.name!r}, which decodes to {size:,} bytes and not {len(plain):,}")

    def _value(self, column: _Column, row: int, *, encoded: bool = False) -> Value:
        field = column.field
        if column.numbers is None or column.ends is None:
            length, shape = field.row_bytes or 0, tuple(n or 0 for n in field.shape)
            begin = row * length
        else:
            own = column.numbers[row].tolist()
            if field.nullable and not own[0]:
                return None
            dims = iter(own[int(field.nullable) :])
            shape = tuple(next(dims) if n is None else n for n in field.shape)
            begin = int(column.ends[row - 1]) if row else 0
            length = int(column.ends[row]) - begin
        if field.is_image:
            data = self._data[column.begin + begin : column.begin + begin + length]
            return self._encoded(column, data, shape) if encoded else self._image(column, data, shape)
        part = self._plain(column)[begin : begin + length]
        if field.dtype is not None:
            value = part.view(field.dtype).reshape(shape)
            return value if shape else value[()]
        if field.kind == "bytes":
            return part.tobytes()
        try:
            return part.tobytes().decode()
        except UnicodeDecodeError:
            self._refuse(f"has {column.name!r}, which is not UTF-8")

    def _encoded(self, column: _Column, data: memoryview, shape: Any) -> bytes:
        assert column.field.codec is not None
        assert column.field.dtype is not None
        try:
            header = image_header(column.field.codec["name"], data)
        except ValueError as error:
            self._refuse(f"has {column.name!r}, which {error}")
        if header != (shape, column.field.dtype.name):
            self._refuse(f"has {column.name!r}, an image of another shape than it declares")
        return bytes(data)

    def _image(self, column: _Column, data: memoryview, shape: Any) -> np.ndarray:
        field = column.field
        assert field.codec is not None
        assert field.dtype is not None
        try:
            return image_decoded(field.codec, data, shape, field.dtype)
        except ValueError as error:
            self._refuse(f"has {column.name!r}, which does not decode: {error}")

    def _refuse(self, what: str) -> NoReturn:
        raise CorruptDataError(f"{self._where}: the block of {self._group.name!r} there {what}; restore it from a copy")


@dataclass
class _Column:
    """A field's part of a block: where it begins, and where the values of each row end, if that differs."""

    name: str
    field: Field
    plain_bytes: int
    numbers: np.ndarray | None = None
    ends: np.ndarray | None = None
    begin: int = 0
    stored_bytes: int = 0
    plain: np.ndarray | None = None


def text_array(data: Any, bounds: np.ndarray, *, is_text: bool, present: np.ndarray | None = None) -> pa.Array | None:
    """Return the text or the bytes between increasing bounds from 0 as an Arrow array; None if text is not UTF-8.

    ``present`` says which rows are not null, if some may be.
    """
    import pyarrow as pa

    valid = None if present is None else pa.array(present.astype(bool)).buffers()[1]
    buffers = [valid, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.string() if is_text else pa.binary(), len(bounds) - 1, buffers)
    try:
        if is_text:
            array.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return array


def is_intact(data: Buffer, *more: Buffer, check: int) -> bool:
    """Whether a block, which may be in pieces, is whole, and the one that its location means."""
    view = memoryview(data)
    if len(view) < HASH_BYTES or int.from_bytes(view[:CHECK_BYTES], "little") != check:
        return False
    return blob_hash(view[HASH_BYTES:], *more) == bytes(view[:HASH_BYTES])


def are_intact(data: Buffer, *, ends: Sequence[int], checks: Sequence[int]) -> bool:
    """As :func:`is_intact` of blocks that follow each other, given where each ends: what is done for one is little."""
    view = memoryview(data)
    if len(view) != ends[-1]:
        return False
    begins = [0, *ends[:-1]]
    heads = b"".join([view[begin : begin + HASH_BYTES] for begin in begins])
    if len(heads) != HASH_BYTES * len(begins):
        return False
    # A location has the first bytes of the hash, as a number.
    if not np.array_equal(np.frombuffer(heads, COUNT)[:: HASH_BYTES // CHECK_BYTES], np.asarray(checks)):
        return False
    bodies = (view[begin + HASH_BYTES : end] for begin, end in zip(begins, ends, strict=True))
    return b"".join(map(whole_blob_hash, bodies)) == heads


def check_of(pieces: Sequence[Buffer]) -> int:
    """The check of a block that :func:`encode` made, for its location."""
    return int.from_bytes(memoryview(pieces[0])[:CHECK_BYTES], "little")
