"""Codecs: chunks to bytes and back, by a chain that Zarr v3 metadata describes.

The common chains (``bytes``, alone or with one of blosc, zstd, gzip and lz4)
run straight on numcodecs, which releases the GIL and can decode into place.
Every other chain runs through zarr-python's own pipeline, which is also the
oracle in the tests.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numcodecs import blosc
from numcodecs.gzip import GZip
from numcodecs.lz4 import LZ4
from numcodecs.lz4 import decompress as lz4_decompress
from numcodecs.zstd import Zstd

from hubarray import process
from hubarray.arrays.bounded import announced_bytes, decompressed
from hubarray.arrays.dtypes import dtype_from_json, dtype_to_json, fill_to_json, is_ml
from hubarray.arrays.unicode import TextCodec, has_text
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.storage.base import Buffer

_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_ONE_BYTE_KINDS = "bSV"
_TRIAL_BYTES = 16 << 20
_MAX_CODECS = 16
_MAX_INNER_CHUNKS = 1 << 16
_INDEX_ENTRY_BYTES = 16
# What they decode says how many elements it has, and room is made for as many.
_OF_VARIABLE_LENGTH = ("vlen-utf8", "vlen-bytes")
# https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst: a header, whose flags say whether what follows is
# a plain copy, which is what blosc stores of bytes that it cannot make smaller.
_BLOSC_HEADER_BYTES, _BLOSC_COPIED = 16, 2


class Codec(Protocol):
    """A chain: what a chunk is encoded and decoded by."""

    def encode(self, chunk: np.ndarray) -> Buffer:
        """Bytes of a chunk, which is C-contiguous and has the array's dtype and the chunk's shape."""

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        """Fill ``out``, C-contiguous and writable, with the chunk that ``data`` holds.

        Raises
        ------
        CorruptDataError
            The bytes do not decode to a chunk of this size.
        """

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        """What comes before the chunk's bytes as they are in memory, if that is how a blob of this length holds them.

        None where the blob has to be decoded. What is not 0 is so only if :meth:`is_raw` says so of the header.
        """

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        """Whether the bytes of a chunk follow this header as they are in memory."""


def named_chain(codec: Any, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> list[dict[str, Any]]:
    """The Zarr v3 ``codecs`` list that the ``codec`` argument means.

    Parameters
    ----------
    codec : str or list
        ``"auto"`` (blosc with lz4 and shuffle), ``"blosc-lz4"``,
        ``"blosc-zstd"``, ``"zstd"``, ``"gzip"``, ``"lz4"``, ``"none"``, or a
        Zarr v3 list of codecs.
    dtype, chunks
        Of the array; a list is checked against them.

    Raises
    ------
    ConfigError
        An unknown name, or a list that zarr-python does not accept.
    """
    if isinstance(codec, str):
        if codec not in _NAMED:
            raise ConfigError(f"codec {codec!r} is not known; give one of {', '.join(_NAMED)}, or a Zarr v3 list")
        return [_bytes_codec(dtype), *_NAMED[codec](dtype)]
    if not isinstance(codec, Sequence) or not codec:
        raise ConfigError("codec is a name or a non-empty list of Zarr v3 codecs")
    try:
        chain = [{"name": one} if isinstance(one, str) else dict(one) for one in codec]
    except (TypeError, ValueError):
        raise ConfigError("codec: each of a Zarr v3 list is a name, or a mapping of name and configuration") from None
    chain = [_bytes_codec(dtype) if one == {"name": "bytes"} else one for one in chain]
    check_chain(chain, chunks, dtype.itemsize)
    if _fast(chain) is None:
        _check_with_zarr(chain, dtype, chunks)
    _check_by_trial(chain, dtype, chunks)
    return chain


def check_chain(chain: Any, chunks: Sequence[int], itemsize: int) -> None:
    """Refuse what is no list of codecs, or has shards whose index would take more than the shard.

    Raises
    ------
    ConfigError
    """
    if not isinstance(chain, list) or not 0 < len(chain) <= _MAX_CODECS:
        raise ConfigError(f"codecs are a list of 1 to {_MAX_CODECS}")
    for one in chain:
        configuration = one.get("configuration", {}) if isinstance(one, dict) else None
        if not isinstance(configuration, dict) or not isinstance(one.get("name"), str):
            raise ConfigError("a codec is a name and a configuration")
        if one["name"] in _OF_VARIABLE_LENGTH:
            raise ConfigError(f"codec {one['name']!r} is for elements of variable length, which arrays do not have")
        if one["name"] == "sharding_indexed":
            _check_shards(configuration, chunks, itemsize)


def _check_shards(configuration: dict[str, Any], chunks: Sequence[int], itemsize: int) -> None:
    inner = configuration.get("chunk_shape")
    if not isinstance(inner, (list, tuple)) or len(inner) != len(chunks):
        raise ConfigError("sharding_indexed: its chunk_shape has one length an axis")
    if not all(type(n) is int and 1 <= n <= outer for n, outer in zip(inner, chunks, strict=True)):
        raise ConfigError("sharding_indexed: its chunk_shape is larger than the shard, or below 1")
    count = math.prod(-(-outer // n) for n, outer in zip(inner, chunks, strict=True))
    if count > _MAX_INNER_CHUNKS or count * _INDEX_ENTRY_BYTES > math.prod(chunks) * itemsize + (1 << 20):
        raise ConfigError(
            f"sharding_indexed: {count:,} chunks a shard; {_MAX_INNER_CHUNKS:,} are allowed, and fewer of small ones"
        )
    for part in ("codecs", "index_codecs"):
        if part in configuration:
            check_chain(configuration[part], inner, itemsize)


def _check_by_trial(chain: list[dict[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
    """Refuse a chain that cannot encode a chunk and decode it again, before anything depends on it."""
    shape = chunks if math.prod(chunks) * dtype.itemsize <= _TRIAL_BYTES else tuple(min(1, n) for n in chunks)
    try:
        codec = codec_for(chain, dtype_to_json(dtype), dtype, shape)
        out = np.empty(shape, dtype)
        codec.decode(codec.encode(np.zeros(shape, dtype)), out)
        kept = not out.reshape(-1).view("u1").any()
    except Exception as error:
        names = [one.get("name") for one in chain]
        raise ConfigError(f"codec {names}: cannot encode {dtype}: {type(error).__name__}: {error}") from None
    if not kept:
        raise ConfigError(f"codec {[one.get('name') for one in chain]}: does not give {dtype} back as it was")


def _bytes_codec(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.itemsize == 1 or (dtype.kind in _ONE_BYTE_KINDS and not is_ml(dtype)):
        return {"name": "bytes"}
    return _BYTES


def _blosc(name: str, level: int) -> Any:
    def make(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
        # Blosc keeps the element size in one byte; longer elements are shuffled as bytes, that is not at all.
        size = dtype.itemsize if dtype.itemsize < 256 else 1
        configuration = {"typesize": size, "cname": name, "clevel": level, "shuffle": "shuffle", "blocksize": 0}
        return [{"name": "blosc", "configuration": configuration}]

    return make


_NAMED: dict[str, Any] = {
    "auto": _blosc("lz4", 5),
    "blosc-lz4": _blosc("lz4", 5),
    "blosc-zstd": _blosc("zstd", 3),
    "zstd": lambda dtype: [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    "gzip": lambda dtype: [{"name": "gzip", "configuration": {"level": 5}}],
    "lz4": lambda dtype: [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
    "none": lambda dtype: [],
}


def codec_for(chain: list[dict[str, Any]], data_type: Any, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Codec:
    """The codec of an array; the same object for the same description."""
    return _codec_for(json.dumps([chain, data_type]), dtype, chunks)


@functools.lru_cache(maxsize=256)
def _codec_for(description: str, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Codec:
    chain, data_type = json.loads(description)
    codec = _fast(chain) or _ZarrChain(chain, data_type, chunks)
    return TextCodec(codec) if has_text(dtype) else codec


def _fast(chain: list[dict[str, Any]]) -> Codec | None:
    """The chain on numcodecs, or None where it is not one of the common ones."""
    if chain[0] not in ({"name": "bytes"}, _BYTES) or len(chain) > 2:
        return None
    if len(chain) == 1:
        return _Raw()
    name, configuration = chain[1]["name"], chain[1].get("configuration", {})
    known = _PLAIN_SETTINGS.get(name, {})
    if not known or not all(known.get(key, _never)(value) for key, value in configuration.items()):
        return None
    try:
        return _KINDS[name](_compressor(name, configuration))
    except (KeyError, ValueError):
        return None


def _within(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _never(value: Any) -> bool:
    return False


# What the compressors below take as it is; zarr-python judges everything else.
_PLAIN_SETTINGS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "blosc": {
        "cname": lambda value: value in ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib"),
        "clevel": _within(0, 9),
        "shuffle": lambda value: value in ("noshuffle", "shuffle", "bitshuffle"),
        "blocksize": _within(0, (1 << 31) - 1),
        "typesize": _within(1, 255),
    },
    "zstd": {"level": _within(-131072, 22), "checksum": lambda value: isinstance(value, bool)},
    "gzip": {"level": _within(0, 9)},
    "numcodecs.lz4": {"acceleration": _within(-(1 << 31), (1 << 31) - 1)},
}


def _compressor(name: str, configuration: dict[str, Any]) -> Any:
    if name == "blosc":
        blosc.use_threads = False
        shuffle = {"noshuffle": blosc.NOSHUFFLE, "shuffle": blosc.SHUFFLE, "bitshuffle": blosc.BITSHUFFLE}
        return blosc.Blosc(
            cname=configuration["cname"],
            clevel=configuration["clevel"],
            shuffle=shuffle[configuration["shuffle"]],
            blocksize=configuration.get("blocksize", 0),
            typesize=configuration["typesize"],
        )
    if name == "zstd":
        return Zstd(level=configuration["level"], checksum=configuration.get("checksum", False))
    if name == "gzip":
        return GZip(level=configuration["level"])
    return LZ4(acceleration=configuration.get("acceleration", 1))


class _Raw:
    """``bytes`` alone: the chunk as it is in memory."""

    def encode(self, chunk: np.ndarray) -> Buffer:
        return chunk.tobytes()

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        if len(data) != out.nbytes:
            raise _wrong_size(len(data), out.nbytes)
        _as_bytes(out)[:] = np.frombuffer(data, "u1")

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        return 0 if length_bytes == chunk_bytes else None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        return True


class _Encoded:
    """What always has to be decoded."""

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        return None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        return False


class _Compressed(_Encoded):
    """``bytes`` and one compressor of numcodecs."""

    def __init__(self, compressor: Any) -> None:
        self._compressor = compressor

    def encode(self, chunk: np.ndarray) -> Buffer:
        return memoryview(self._compressor.encode(_as_bytes(chunk)))

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        target = _as_bytes(out)
        try:
            size = self._decode_into(data, target)
        except (ValueError, RuntimeError, TypeError) as error:
            raise CorruptDataError(f"a chunk does not decode: {error}") from None
        if size != len(target):
            raise _wrong_size(size, len(target))

    def _decode_into(self, data: Buffer, target: np.ndarray) -> int:
        """Decode into place, if it is of the size of what is decoded, which is returned."""
        raise NotImplementedError


class _Checked(_Compressed):
    """Zstandard and gzip, which may store a checksum beside what they compress.

    Bytes and checksum have to be of one moment, though another thread may be changing the caller's array.
    """

    def encode(self, chunk: np.ndarray) -> Buffer:
        return memoryview(self._compressor.encode(chunk.tobytes()))


class _Zstd(_Checked):
    """Zstandard."""

    def _decode_into(self, data: Buffer, target: np.ndarray) -> int:
        size = announced_bytes("zstd", data) or 0
        if size == len(target):
            self._compressor.decode(data, target)
        return size


class _Gzip(_Checked):
    """gzip, which does not say in advance how much it holds."""

    def _decode_into(self, data: Buffer, target: np.ndarray) -> int:
        decoded = decompressed("gzip", data, len(target), {})
        if len(decoded) == len(target):
            target[:] = np.frombuffer(decoded, "u1")
        return len(decoded)


class _Blosc(_Compressed):
    """Blosc, decoded past numcodecs' class, which spends more on checks than a small chunk takes."""

    def _decode_into(self, data: Buffer, target: np.ndarray) -> int:
        # Blosc itself would read beyond a buffer that is cut short.
        if int.from_bytes(data[12:16], "little") != len(data):
            return -1
        size = int.from_bytes(data[4:8], "little")
        # It does not mind a place that is too large.
        if size == len(target):
            blosc.decompress(data, target)
        return size

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        return _BLOSC_HEADER_BYTES if length_bytes == chunk_bytes + _BLOSC_HEADER_BYTES else None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        size, length = int.from_bytes(header[4:8], "little"), int.from_bytes(header[12:16], "little")
        return bool(header[2] & _BLOSC_COPIED) and (size, length) == (chunk_bytes, chunk_bytes + _BLOSC_HEADER_BYTES)


class _Lz4(_Compressed):
    """LZ4, decoded past numcodecs' class as well."""

    def _decode_into(self, data: Buffer, target: np.ndarray) -> int:
        size = int.from_bytes(data[:4], "little")
        if size == len(target):
            lz4_decompress(data, target)
        return size


_KINDS: dict[str, type[_Compressed]] = {"blosc": _Blosc, "numcodecs.lz4": _Lz4, "zstd": _Zstd, "gzip": _Gzip}


class _ZarrChain(_Encoded):
    """Any other chain, through zarr-python's codecs one after the other."""

    def __init__(self, chain: list[dict[str, Any]], data_type: Any, chunks: tuple[int, ...]) -> None:
        self._pipeline, self._spec = _zarr_pipeline(chain, data_type, chunks)

    def encode(self, chunk: np.ndarray) -> Buffer:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        # As in _Checked: the chain may have a checksum.
        value = default_buffer_prototype().nd_buffer.from_numpy_array(chunk.copy())
        (encoded,) = sync(self._pipeline.encode([(value, self._spec)]))
        return np.ascontiguousarray(encoded.as_numpy_array()).view("u1").data

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        value = default_buffer_prototype().buffer.from_bytes(bytes(data))
        try:
            (decoded,) = sync(self._pipeline.decode([(value, self._spec)]))
            found = decoded.as_numpy_array()
            if found.size != out.size or not np.can_cast(found.dtype, out.dtype, "equiv"):
                raise _wrong_size(found.nbytes, out.nbytes)
            out[...] = found.reshape(out.shape)
        except MemoryError:
            raise
        except Exception as error:
            # There are as many ways to fail as there are authors of codecs.
            raise CorruptDataError(f"a chunk does not decode: {type(error).__name__}: {error}") from None


def _zarr_pipeline(chain: list[dict[str, Any]], data_type: Any, chunks: tuple[int, ...]) -> tuple[Any, Any]:
    with process.importing:
        from hubarray.arrays.zarr_chain import zarr_pipeline

    fill = fill_to_json(np.zeros((), dtype_from_json(data_type)))
    return zarr_pipeline(chain, data_type, fill, chunks)


def _check_with_zarr(chain: list[dict[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
    try:
        _zarr_pipeline(chain, dtype_to_json(dtype), chunks)
    except Exception as error:
        names = [one.get("name") for one in chain]
        raise ConfigError(f"codec {names}: zarr does not accept this chain: {type(error).__name__}: {error}") from None


def _as_bytes(chunk: np.ndarray) -> np.ndarray:
    """A flat uint8 view of a C-contiguous array."""
    return chunk.reshape(-1).view("u1")


def _wrong_size(found: int, expected: int) -> CorruptDataError:
    return CorruptDataError(f"a chunk decodes to {found} bytes and {expected} were expected")
