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
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numcodecs import blosc
from numcodecs.gzip import GZip
from numcodecs.lz4 import LZ4
from numcodecs.lz4 import decompress as lz4_decompress
from numcodecs.zstd import Zstd

from hubarray import process
from hubarray.arrays.dtypes import dtype_from_json, dtype_to_json, fill_to_json
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.storage.base import Buffer

_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_ONE_BYTE_KINDS = "bSV"
_TRIAL_BYTES = 16 << 20


class Codec(Protocol):
    """A chain: what a chunk is encoded and decoded by.

    ``stores_raw`` says that encoded bytes are those of the chunk in memory.
    """

    stores_raw: bool

    def encode(self, chunk: np.ndarray) -> Buffer:
        """Bytes of a chunk, which is C-contiguous and has the array's dtype and the chunk's shape."""

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        """Fill ``out``, C-contiguous and writable, with the chunk that ``data`` holds.

        Raises
        ------
        CorruptDataError
            The bytes do not decode to a chunk of this size.
        """


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
    chain = [{"name": one} if isinstance(one, str) else dict(one) for one in codec]
    chain = [_bytes_codec(dtype) if one == {"name": "bytes"} else one for one in chain]
    if _fast(chain) is None:
        _check_with_zarr(chain, dtype, chunks)
    _check_by_trial(chain, dtype, chunks)
    return chain


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
    if dtype.itemsize == 1 or dtype.kind in _ONE_BYTE_KINDS:
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
    fast = _fast(chain)
    return fast if fast is not None else _ZarrChain(chain, data_type, chunks)


def _fast(chain: list[dict[str, Any]]) -> Codec | None:
    """The chain on numcodecs, or None where it is not one of the common ones."""
    if chain[0] not in ({"name": "bytes"}, _BYTES) or len(chain) > 2:
        return None
    if len(chain) == 1:
        return _Raw()
    name, configuration = chain[1]["name"], chain[1].get("configuration", {})
    try:
        compressor = _compressor(name, configuration)
    except (KeyError, ValueError, TypeError):
        return None
    return _Compressed(compressor, *_INTO.get(name, (None, None))) if compressor else None


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
    if name == "numcodecs.lz4":
        return LZ4(acceleration=configuration.get("acceleration", 1))
    return None


def _blosc_size(data: Buffer) -> int:
    """What a blosc buffer decodes to; -1 if it is cut short, which blosc itself would read beyond."""
    return int.from_bytes(data[4:8], "little") if int.from_bytes(data[12:16], "little") == len(data) else -1


def _lz4_size(data: Buffer) -> int:
    return int.from_bytes(data[:4], "little")


# How compressors decode into place: past the classes, which spend more on checks than a small chunk takes.
_INTO: dict[str, tuple[Callable[[Buffer], int], Callable[[Buffer, np.ndarray], None]]] = {
    "blosc": (_blosc_size, blosc.decompress),
    "numcodecs.lz4": (_lz4_size, lz4_decompress),
}


class _Raw:
    """``bytes`` alone: the chunk as it is in memory."""

    stores_raw = True

    def encode(self, chunk: np.ndarray) -> Buffer:
        return chunk.tobytes()

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        if len(data) != out.nbytes:
            raise _wrong_size(len(data), out.nbytes)
        _as_bytes(out)[:] = np.frombuffer(data, "u1")


class _Compressed:
    """``bytes`` and one compressor of numcodecs.

    Parameters
    ----------
    compressor
        A numcodecs codec.
    size_of, decode_into : callable or None
        Tell from encoded bytes how large they decode, and decode into place, for
        compressors that can; they do not mind a place that is too large.
    """

    stores_raw = False

    def __init__(
        self,
        compressor: Any,
        size_of: Callable[[Buffer], int] | None,
        decode_into: Callable[[Buffer, np.ndarray], None] | None,
    ) -> None:
        self._compressor = compressor
        self._size_of = size_of
        self._decode_into = decode_into

    def encode(self, chunk: np.ndarray) -> Buffer:
        return memoryview(self._compressor.encode(_as_bytes(chunk)))

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        target = _as_bytes(out)
        try:
            if self._size_of is not None and self._decode_into is not None:
                size = self._size_of(data)
                if size == len(target):
                    self._decode_into(data, target)
                    return
            else:
                decoded = np.frombuffer(self._compressor.decode(data), "u1")
                size = len(decoded)
                if size == len(target):
                    target[:] = decoded
                    return
        except (ValueError, RuntimeError, TypeError, OSError, EOFError, zlib.error) as error:
            raise CorruptDataError(f"a chunk does not decode: {error}") from None
        raise _wrong_size(size, len(target))


class _ZarrChain:
    """Any other chain, through zarr-python's codecs one after the other."""

    stores_raw = False

    def __init__(self, chain: list[dict[str, Any]], data_type: Any, chunks: tuple[int, ...]) -> None:
        self._pipeline, self._spec = _zarr_pipeline(chain, data_type, chunks)

    def encode(self, chunk: np.ndarray) -> Buffer:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        value = default_buffer_prototype().nd_buffer.from_numpy_array(chunk)
        (encoded,) = sync(self._pipeline.encode([(value, self._spec)]))
        return np.ascontiguousarray(encoded.as_numpy_array()).view("u1").data

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        value = default_buffer_prototype().buffer.from_bytes(bytes(data))
        try:
            (decoded,) = sync(self._pipeline.decode([(value, self._spec)]))
            out[...] = decoded.as_numpy_array().reshape(out.shape)
        except (ValueError, RuntimeError, TypeError) as error:
            raise CorruptDataError(f"a chunk does not decode: {error}") from None


def _zarr_pipeline(chain: list[dict[str, Any]], data_type: Any, chunks: tuple[int, ...]) -> tuple[Any, Any]:
    with process.importing:
        from zarr.core.array import create_codec_pipeline
        from zarr.core.array_spec import ArrayConfig, ArraySpec
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.metadata import ArrayV3Metadata

    with warnings.catch_warnings():
        # zarr-python warns of data types without a final specification; docs/FORMAT.md pins ours.
        warnings.simplefilter("ignore")
        metadata = ArrayV3Metadata.from_dict(
            {
                "zarr_format": 3,
                "node_type": "array",
                "shape": list(chunks),
                "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
                "chunk_key_encoding": {"name": "default"},
                "fill_value": _any_fill(data_type),
                "codecs": chain,
                "attributes": {},
            }
        )
        spec = ArraySpec(
            shape=chunks,
            dtype=metadata.data_type,
            fill_value=metadata.fill_value,
            config=ArrayConfig(order="C", write_empty_chunks=True),
            prototype=default_buffer_prototype(),
        )
        return create_codec_pipeline(metadata), spec


def _any_fill(data_type: Any) -> Any:
    return fill_to_json(np.zeros((), dtype_from_json(data_type)))


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
