"""Compressors of numcodecs, a row each: how Zarr v3 names and configures it, how it is made, bounded and stored raw.

They release the GIL and decode into place. Whatever has no row here runs
through zarr-python (:mod:`hubarray.arrays.codecs.zarr_chain`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numcodecs import blosc
from numcodecs.gzip import GZip
from numcodecs.lz4 import LZ4
from numcodecs.lz4 import decompress as lz4_decompress
from numcodecs.zstd import Zstd

from hubarray.limits import ANNOUNCED, decompressed
from hubarray.storage.base import Buffer

# https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst: a header, whose flags say whether what follows is
# a plain copy, which is what blosc stores of bytes that it cannot make smaller.
_BLOSC_HEADER_BYTES, _BLOSC_COPIED = 16, 2

Configuration = Mapping[str, Any]


@dataclass(frozen=True)
class Compressor:
    """A row.

    Attributes
    ----------
    name : str
        In Zarr v3 metadata.
    settings : mapping
        Which values of its configuration it takes as they are; zarr-python judges everything else.
    made : callable
        numcodecs' object of a configuration.
    decode_into : callable
        ``(compressor, data, target)``: decodes into place, if what is decoded is of the target's size; returns that
        size, which is known before room is made for it.
    has_checksum : bool
        Whether it may store a checksum beside what it compresses. Bytes and checksum have to be of one moment, though
        another thread may be changing the caller's array: such a one compresses a copy.
    raw_header_bytes : int or None
        How long the header is before bytes that it stores as they are; None if it never does.
    is_raw : callable
        ``(header, chunk_bytes)``: whether a chunk's bytes follow this header as they are in memory.
    """

    name: str
    settings: Mapping[str, Callable[[Any], bool]]
    made: Callable[[Configuration], Any]
    decode_into: Callable[[Any, Buffer, np.ndarray], int]
    has_checksum: bool = False
    raw_header_bytes: int | None = None
    is_raw: Callable[[Buffer, int], bool] = lambda header, chunk_bytes: False

    def takes(self, configuration: Configuration) -> bool:
        """Whether numcodecs does of this configuration what zarr-python would."""
        return all(key in self.settings and self.settings[key](value) for key, value in configuration.items())


def within(low: int, high: int) -> Callable[[Any], bool]:
    """A test of a setting: whether it is a whole number between two."""
    return lambda value: type(value) is int and low <= value <= high


def _among(*values: str) -> Callable[[Any], bool]:
    return lambda value: value in values


_SHUFFLES = {"noshuffle": blosc.NOSHUFFLE, "shuffle": blosc.SHUFFLE, "bitshuffle": blosc.BITSHUFFLE}


def _blosc(configuration: Configuration) -> Any:
    blosc.use_threads = False
    return blosc.Blosc(
        cname=configuration["cname"],
        clevel=configuration["clevel"],
        shuffle=_SHUFFLES[configuration["shuffle"]],
        blocksize=configuration.get("blocksize", 0),
        typesize=configuration["typesize"],
    )


def _blosc_into(compressor: Any, data: Buffer, target: np.ndarray) -> int:
    # Past numcodecs' class, which spends more on checks than a small chunk takes.
    # Blosc itself would read beyond a buffer that is cut short.
    if int.from_bytes(data[12:16], "little") != len(data):
        return -1
    size = int.from_bytes(data[4:8], "little")
    # It does not mind a place that is too large.
    if size == len(target):
        blosc.decompress(data, target)
    return size


def _blosc_is_raw(header: Buffer, chunk_bytes: int) -> bool:
    size, length = int.from_bytes(header[4:8], "little"), int.from_bytes(header[12:16], "little")
    return bool(header[2] & _BLOSC_COPIED) and (size, length) == (chunk_bytes, chunk_bytes + _BLOSC_HEADER_BYTES)


def _zstd_into(compressor: Any, data: Buffer, target: np.ndarray) -> int:
    size = ANNOUNCED["zstd"](data)
    if size == len(target):
        compressor.decode(data, target)
    return size


def _gzip_into(compressor: Any, data: Buffer, target: np.ndarray) -> int:
    # gzip does not say in advance how much it holds.
    decoded = decompressed("gzip", data, len(target), {})
    if len(decoded) == len(target):
        target[:] = np.frombuffer(decoded, "u1")
    return len(decoded)


def _lz4_into(compressor: Any, data: Buffer, target: np.ndarray) -> int:
    # Past numcodecs' class as well.
    size = int.from_bytes(data[:4], "little")
    if size == len(target):
        lz4_decompress(data, target)
    return size


COMPRESSORS = {
    compressor.name: compressor
    for compressor in (
        Compressor(
            name="blosc",
            settings={
                "cname": _among("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib"),
                "clevel": within(0, 9),
                "shuffle": _among(*_SHUFFLES),
                "blocksize": within(0, (1 << 31) - 1),
                "typesize": within(1, 255),
            },
            made=_blosc,
            decode_into=_blosc_into,
            raw_header_bytes=_BLOSC_HEADER_BYTES,
            is_raw=_blosc_is_raw,
        ),
        Compressor(
            name="zstd",
            settings={"level": within(-131072, 22), "checksum": lambda value: isinstance(value, bool)},
            made=lambda of: Zstd(level=of["level"], checksum=of.get("checksum", False)),
            decode_into=_zstd_into,
            has_checksum=True,
        ),
        Compressor(
            name="gzip",
            settings={"level": within(0, 9)},
            made=lambda of: GZip(level=of["level"]),
            decode_into=_gzip_into,
            has_checksum=True,
        ),
        Compressor(
            name="numcodecs.lz4",
            settings={"acceleration": within(-(1 << 31), (1 << 31) - 1)},
            made=lambda of: LZ4(acceleration=of.get("acceleration", 1)),
            decode_into=_lz4_into,
        ),
    )
}
