"""Decompression that is bounded before it is done: whoever wrote the bytes may have made little stand for much. Pure.

Formats that say how much they hold are believed only if that is not too much; the others are decoded piece by
piece up to the bound.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hubarray.storage.base import Buffer

# https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md, "Frame_Header".
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_FIELD_BYTES = {0: 0, 1: 2, 2: 4, 3: 8}
_LZMA_WORK_BYTES = 100 << 20


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Any, max_length: int = ..., /) -> bytes: ...


def most_bytes(chunk_bytes: int) -> int:
    """How long a chunk may be in any of its encoded forms.

    Compressors add a little to what they cannot make smaller; a shard adds its index; some filters widen elements.
    """
    return 2 * chunk_bytes + (1 << 20)


def _zstd_bytes(data: Buffer) -> int:
    head = bytes(data[:18])
    if head[:4] != _ZSTD_MAGIC or len(head) < 6:
        raise ValueError("is no zstd frame")
    flags = head[4]
    single_segment = bool(flags & 0x20)
    begin = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[flags & 3]
    size = 1 if flags >> 6 == 0 and single_segment else _ZSTD_FIELD_BYTES[flags >> 6]
    if size == 0 or len(head) < begin + size:
        raise ValueError("is a zstd frame that does not say how much it holds")
    return int.from_bytes(head[begin : begin + size], "little") + (256 if size == 2 else 0)


def _blosc_bytes(data: Buffer) -> int:
    # https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst
    if len(data) < 16 or int.from_bytes(data[12:16], "little") != len(data):
        raise ValueError("is no whole blosc buffer")
    return int.from_bytes(data[4:8], "little")


def _lz4_bytes(data: Buffer) -> int:
    # numcodecs puts the size before the block.
    if len(data) < 4:
        raise ValueError("is too short for lz4")
    return int.from_bytes(data[:4], "little")


# How much compressed bytes say they hold, of the formats that say it; ValueError of what is not of the format.
ANNOUNCED: Mapping[str, Callable[[Buffer], int]] = {"zstd": _zstd_bytes, "blosc": _blosc_bytes, "lz4": _lz4_bytes}


def _lzma(configuration: Mapping[str, Any]) -> _Decompressor:
    filters = configuration.get("filters")
    if configuration.get("format", 1) != lzma.FORMAT_RAW:
        return lzma.LZMADecompressor(memlimit=_LZMA_WORK_BYTES)
    if any(one.get("dict_size", 0) > _LZMA_WORK_BYTES for one in filters or ()):
        raise ValueError("has a dictionary that takes too much memory")
    return lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=filters)


# What decodes the other formats piece by piece, given the codec's configuration.
PIECEWISE: Mapping[str, Callable[[Mapping[str, Any]], _Decompressor]] = {
    "gzip": lambda configuration: zlib.decompressobj(wbits=31),
    "zlib": lambda configuration: zlib.decompressobj(),
    "bz2": lambda configuration: bz2.BZ2Decompressor(),
    "lzma": _lzma,
}


def decompressed(name: str, data: Buffer, most: int, configuration: Mapping[str, Any]) -> bytes:
    """Bytes of a format among :data:`PIECEWISE`, up to a bound.

    Parameters
    ----------
    name : str
    data : bytes
    most : int
        How many bytes there may be.
    configuration : mapping
        Of the codec.

    Raises
    ------
    ValueError
        There are more, or the data is damaged.
    """
    make = PIECEWISE[name]
    try:
        return _joined(lambda: make(configuration), data, most)
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise ValueError(f"is no {name} data: {error}") from None


def _joined(make: Callable[[], _Decompressor], data: Buffer, most: int) -> bytes:
    """The contents of all members, one after the other."""
    pieces: list[bytes] = []
    found = 0
    while data:
        one = make()
        # One byte more than there may be, so that the end is reached.
        pieces.append(one.decompress(data, most - found + 1))
        found += len(pieces[-1])
        if found > most:
            raise ValueError(f"holds more than the {most} bytes that it may")
        if not one.eof:
            raise ValueError("is cut short")
        data = one.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
