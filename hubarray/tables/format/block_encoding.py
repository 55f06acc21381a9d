"""A block, as it is made: the values of rows to bytes, and the digest by which equal ones are one. Pure.

The bytes are those that :mod:`hubarray.tables.format.block` reads.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import blake3
import numpy as np

from hubarray.blobs.ref import blob_hash
from hubarray.storage.base import Buffer
from hubarray.tables.format.block import (
    COUNT,
    PAD_BYTES,
    HeaderCounts,
    Value,
    compressor_of,
    described,
    is_compressed,
    sizes_of,
)
from hubarray.tables.format.field_codecs import image_encoded
from hubarray.tables.format.schema import Field, Group

# Above, copying costs more than a call a row.
_COPIED_BYTES = 4 << 10


def encode(group: Group, columns: Mapping[str, Sequence[Value]]) -> list[Buffer]:
    """A block of rows, in pieces that follow each other.

    Parameters
    ----------
    group : Group
    columns : mapping of str to sequence
        The values of each field, one per row, as :func:`hubarray.tables.format.field_values.checked` returns them:
        arrays, encoded images, text as UTF-8 bytes, or None. One array may hold all values of a field of fixed size
        that is neither nullable nor an image.
    """
    rows = len(next(iter(columns.values())))
    numbers: list[np.ndarray] = []
    stored_lengths: list[int] = []
    pieces: list[Buffer] = []
    for name, field in group.fields:
        values = columns[name]
        if field.is_image:
            values = [image_of(field, value) if isinstance(value, np.ndarray) else value for value in values]
        sizes = sizes_of(field)
        if sizes.numbers:
            numbers.append(_size_numbers(field, sizes, values))
        payload = _payload(field, values)
        if is_compressed(field):
            stored_lengths.append(sum(map(len, payload)))
        pieces += payload
        pieces.append(bytes(-sum(map(len, payload)) % PAD_BYTES))
    counts = np.concatenate([np.array([rows, *stored_lengths], COUNT), *(array.reshape(-1) for array in numbers)])
    header = counts.astype(COUNT).tobytes()
    header += bytes(-len(header) % PAD_BYTES)
    return [blob_hash(header, *pieces), header, *pieces]


def digest(group: Group, columns: Mapping[str, Sequence[Value]]) -> bytes:
    """BLAKE3, 16 bytes, of a block's values before they are encoded, and of what they are encoded with.

    Equal digests are equal blocks. An image that came encoded is another value than its elements.
    """
    hasher = blake3.blake3(described(group))
    for name, _ in group.fields:
        values = columns[name]
        if isinstance(values, np.ndarray) and values[:1].nbytes < _COPIED_BYTES:
            hasher.update(_interleaved(values))
            continue
        if {*map(type, values)} == {bytes}:
            hasher.update(
                b"".join(itertools.chain.from_iterable(zip(map(_head, map(len, values)), values, strict=True)))
            )
            continue
        for value in values:
            if value is None:
                hasher.update(b"N")
            elif isinstance(value, Image):
                hasher.update(b"I" + len(value.data).to_bytes(8, "little"))
                hasher.update(value.data)
            elif isinstance(value, bytes):
                hasher.update(_head(len(value)))
                hasher.update(value)
            else:
                hasher.update(b"A" + np.array([value.ndim, *value.shape], "<u8").tobytes())
                hasher.update(_bytes_of(value))
    return hasher.digest(length=16)


@functools.lru_cache(maxsize=1 << 12)
def _head(length: int) -> bytes:
    """Before text or bytes what a digest says of them."""
    return b"B" + length.to_bytes(8, "little")


def _interleaved(values: np.ndarray) -> np.ndarray:
    """Before each value what a digest says of an array."""
    shape = values.shape[1:]
    head = np.frombuffer(b"A" + np.array([len(shape), *shape], "<u8").tobytes(), "u1")
    out = np.empty((len(values), len(head) + values[:1].nbytes), "u1")
    out[:, : len(head)] = head
    out[:, len(head) :] = np.ascontiguousarray(values).view("u1").reshape(len(values), -1)
    return out


def _size_numbers(field: Field, sizes: HeaderCounts, values: Sequence[Value]) -> np.ndarray:
    if sizes.numbers == 1 and sizes.length and not field.is_image:
        return np.fromiter(map(len, values), COUNT, len(values)).reshape(-1, 1)
    numbers = np.zeros((len(values), sizes.numbers), COUNT)
    ragged = [i for i, n in enumerate(field.shape) if n is None]
    for row, value in enumerate(values):
        if value is None:
            continue
        own = [1] if sizes.null else []
        if sizes.dims:
            shape = value.shape
            own += [shape[i] for i in ragged]
        if sizes.length:
            own.append(len(value.data) if isinstance(value, Image) else len(value))
        numbers[row] = own
    return numbers


@dataclass(frozen=True)
class Image:
    """An image as it is stored, with the shape that it decodes to."""

    data: bytes
    shape: tuple[int, ...]


def image_of(field: Field, value: np.ndarray) -> Image:
    """An array as an image that is stored."""
    assert field.codec is not None
    return Image(image_encoded(field.codec, value), value.shape)


def _payload(field: Field, values: Sequence[Value]) -> list[Buffer]:
    """The values of a field one after the other, compressed together if they are."""
    if field.is_image:
        return [value.data for value in values if value is not None]
    if field.kind != "fixed":
        plain: list[Buffer] = [value for value in values if value is not None]
        if sum(map(len, plain)) < len(plain) * _COPIED_BYTES:
            plain = [b"".join(plain)]
    elif isinstance(values, np.ndarray):
        plain = [_bytes_of(values)]
    else:
        empty = bytes(field.row_bytes or 0)
        plain = [empty if value is None else _bytes_of(value) for value in values]
    if not is_compressed(field):
        return plain
    data = b"".join(plain)
    return [memoryview(compressor_of(field).encode(np.frombuffer(data, "u1")))] if data else []


def _bytes_of(value: np.ndarray) -> Buffer:
    return value.reshape(-1).view("u1").data if value.size else b""
