"""Limits on foreign bytes: how much they may decode to, checked before memory is allocated for it. Pure.

A few bytes from an untrusted author may decode to many. Formats that announce their decoded size are believed only if
it is within the limit. The others are decoded piece by piece up to the limit.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hubarray.errors import SourceError

Buffer = bytes | bytearray | memoryview

DEFAULT_DECODED_BYTES = 1 << 30
"""The bytes that a row group or a chunk of a source may decode to, unless an option or the setting raises it."""

MAX_JSON_VALUES = 1 << 20
"""Values of a JSON text. One takes 240 bytes at most, so they stay below 256 MiB."""

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


def max_encoded_bytes(chunk_bytes: int) -> int:
    """How long a chunk may be in any of its encoded forms.

    Compressors add a little to what they cannot make smaller; a shard adds its index; some filters widen elements.
    """
    return 2 * chunk_bytes + (1 << 20)


def _zstd_bytes(data: Buffer) -> int:
    head = bytes(data[:18])
    if head[:4] != _ZSTD_MAGIC or len(head) < 6:
        raise ValueError("is not a zstd frame")
    flags = head[4]
    single_segment = bool(flags & 0x20)
    begin = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[flags & 3]
    size = 1 if flags >> 6 == 0 and single_segment else _ZSTD_FIELD_BYTES[flags >> 6]
    if size == 0 or len(head) < begin + size:
        raise ValueError("is a zstd frame that does not declare its size")
    return int.from_bytes(head[begin : begin + size], "little") + (256 if size == 2 else 0)


def _blosc_bytes(data: Buffer) -> int:
    # https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst
    if len(data) < 16 or int.from_bytes(data[12:16], "little") != len(data):
        raise ValueError("is not a complete blosc buffer")
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
    if any(lzma_filter.get("dict_size", 0) > _LZMA_WORK_BYTES for lzma_filter in filters or ()):
        raise ValueError("has a dictionary that takes too much memory")
    return lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=filters)


# What decodes the other formats piece by piece, given the codec's configuration.
PIECEWISE: Mapping[str, Callable[[Mapping[str, Any]], _Decompressor]] = {
    "gzip": lambda configuration: zlib.decompressobj(wbits=31),
    "zlib": lambda configuration: zlib.decompressobj(),
    "bz2": lambda configuration: bz2.BZ2Decompressor(),
    "lzma": _lzma,
}


def decompressed(name: str, data: Buffer, max_bytes: int, configuration: Mapping[str, Any]) -> bytes:
    """Bytes of a format among :data:`PIECEWISE`, up to a bound.

    Parameters
    ----------
    name : str
    data : bytes
    max_bytes : int
    configuration : mapping
        Of the codec.

    Raises
    ------
    ValueError
        There are more, or the data is damaged.
    """
    make = PIECEWISE[name]
    try:
        return _joined(lambda: make(configuration), data, max_bytes)
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise ValueError(f"is not {name} data: {error}") from None


MAX_PAGES = 1 << 18
_MAX_COPIED_BYTES, _MAX_COPIES = 1 << 30, 256


def _joined(make: Callable[[], _Decompressor], data: Buffer, max_bytes: int) -> bytes:
    """The contents of all members, one after the other."""
    pieces: list[bytes] = []
    total_bytes = 0
    # What is behind each member is copied.
    left_bytes = max(_MAX_COPIED_BYTES, _MAX_COPIES * memoryview(data).nbytes)
    while data:
        decoder = make()
        # One byte more than there may be, so that the end is reached.
        pieces.append(decoder.decompress(data, max_bytes - total_bytes + 1))
        total_bytes += len(pieces[-1])
        if total_bytes > max_bytes:
            raise ValueError(f"holds more than the {max_bytes} bytes that it may")
        if not decoder.eof:
            raise ValueError("is cut short")
        data = decoder.unused_data
        left_bytes -= len(data)
        if left_bytes < 0:
            raise ValueError("has more members than are read")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@dataclass
class Budget:
    """The bytes that something may decode to, counted while it is decoded.

    Attributes
    ----------
    max_bytes : int
    where : str
        What is decoded, for the message.
    used_bytes : int
    left_pages : int
        Pages of it that may still be looked at.
    """

    max_bytes: int
    where: str
    used_bytes: int = 0
    left_pages: int = MAX_PAGES

    def take_page(self) -> None:
        """Count a page before it is looked at, such as one of Parquet.

        Raises
        ------
        SourceError
            There are too many.
        """
        self.left_pages -= 1
        if self.left_pages < 0:
            raise SourceError(f"{self.where}: has more than {MAX_PAGES:,} pages, more than is read; write it again")

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be taken."""
        return self.max_bytes - self.used_bytes

    def take(self, size_bytes: int) -> None:
        """Count some bytes before they are allocated.

        Raises
        ------
        SourceError
            With them it is more than the limit.
        """
        self.used_bytes += size_bytes
        if self.used_bytes > self.max_bytes:
            raise SourceError(
                f"{self.where}: decodes to more than {self.max_bytes:,} bytes (at least {self.used_bytes:,}), which is "
                "the limit. If you trust it, pass max_decoded_bytes=, or set it with "
                "hub.configure(max_decoded_bytes=...)"
            )


def parse_json(data: Buffer, *, max_values: int = MAX_JSON_VALUES) -> Any:
    """Return what a JSON text from a source holds; its values are counted before it is parsed.

    Parameters
    ----------
    data : bytes
    max_values : int
        How many values it may have, in lists and objects of any depth.

    Raises
    ------
    ValueError
        It is not JSON, is nested too deep, or has more values.

    Examples
    --------
    >>> parse_json(b'{"x": [1, 2]}')
    {'x': [1, 2]}
    """
    plain = bytes(data)
    if sum(map(plain.count, (b",", b"[", b"{"))) > max_values:
        raise ValueError(f"has more than the {max_values:,} values that are read")
    try:
        return json.loads(plain)
    except RecursionError:
        raise ValueError("is nested too deep") from None
