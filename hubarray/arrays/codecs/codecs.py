"""Codecs: chunks to bytes and back, by a chain that Zarr v3 metadata describes.

The common chains (``bytes``, alone or with a compressor that has a row in
:mod:`hubarray.arrays.codecs.compressors`) run straight on numcodecs, and images
(:mod:`hubarray.arrays.codecs.image_codecs`) on imagecodecs. Every other chain runs
through zarr-python's own pipeline, which is also the oracle in the tests.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Protocol

import numpy as np

from hubarray import process
from hubarray.arrays.codecs.compressors import COMPRESSORS, Compressor
from hubarray.arrays.codecs.dtypes import dtype_from_json, fill_to_json
from hubarray.arrays.codecs.image_codecs import image_codec
from hubarray.arrays.codecs.text_codec import TextCodec, has_text, text_codec
from hubarray.errors import CorruptDataError
from hubarray.storage.base import Buffer

LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}


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
        """How long the header is before a chunk's bytes, where a blob of this length holds them as they are in memory.

        None where the blob has to be decoded. Where it is not 0, only :meth:`is_raw` can tell, from the header.
        """

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        """Whether the bytes of a chunk follow this header as they are in memory."""


def codec_for(chain: list[dict[str, Any]], data_type: Any, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Codec:
    """The codec of an array; the same object for the same description.

    Raises
    ------
    Exception
        Whatever zarr-python raises of a chain that it does not accept.
    """
    return _codec_for(json.dumps([chain, data_type]), dtype, chunks)


@functools.lru_cache(maxsize=256)
def _codec_for(description: str, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Codec:
    chain, data_type = json.loads(description)
    if dtype.kind == "T":
        return text_codec(chain)
    codec = image_codec(chain, dtype, chunks) or common_codec(chain) or _ZarrChain(chain, data_type, chunks)
    return TextCodec(codec) if has_text(dtype) else codec


def common_codec(chain: list[dict[str, Any]]) -> Codec | None:
    """The chain on numcodecs, or None where it is not one of the common ones."""
    if chain[0] not in ({"name": "bytes"}, LITTLE_ENDIAN) or len(chain) > 2:
        return None
    if len(chain) == 1:
        return _Raw()
    row, configuration = COMPRESSORS.get(chain[1]["name"]), chain[1].get("configuration", {})
    if row is None or not row.takes(configuration):
        return None
    try:
        return _Compressed(row, row.made(configuration))
    except (KeyError, ValueError):
        return None


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


class _Compressed:
    """``bytes`` and one compressor."""

    def __init__(self, row: Compressor, compressor: Any) -> None:
        self._row, self._compressor = row, compressor
        self._decode_into, self.is_raw = row.decode_into, row.is_raw

    def encode(self, chunk: np.ndarray) -> Buffer:
        return memoryview(self._compressor.encode(chunk.tobytes() if self._row.has_checksum else _as_bytes(chunk)))

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        target = _as_bytes(out)
        try:
            size = self._decode_into(self._compressor, data, target)
        except (ValueError, RuntimeError, TypeError) as error:
            raise CorruptDataError(f"a chunk does not decode: {error}") from None
        if size != len(target):
            raise _wrong_size(size, len(target))

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        header_bytes = self._row.raw_header_bytes
        return header_bytes if header_bytes is not None and length_bytes == chunk_bytes + header_bytes else None


class _ZarrChain:
    """Any other chain, through zarr-python's codecs one after the other."""

    def __init__(self, chain: list[dict[str, Any]], data_type: Any, chunks: tuple[int, ...]) -> None:
        with process.importing:
            from hubarray.arrays.codecs.zarr_chain import zarr_pipeline

        fill = fill_to_json(np.zeros((), dtype_from_json(data_type)))
        self._pipeline, self._spec = zarr_pipeline(chain, data_type, fill, chunks)

    def encode(self, chunk: np.ndarray) -> Buffer:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        # A copy, as of compressors with a checksum: the chain may have one.
        value = default_buffer_prototype().nd_buffer.from_numpy_array(chunk.copy())
        (encoded,) = sync(self._pipeline.encode([(value, self._spec)]))
        return np.ascontiguousarray(encoded.as_numpy_array()).view("u1").data

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        value = default_buffer_prototype().buffer.from_bytes(bytes(data))
        try:
            (decoded,) = sync(self._pipeline.decode([(value, self._spec)]))
            array = decoded.as_numpy_array()
            if array.size != out.size or not np.can_cast(array.dtype, out.dtype, "equiv"):
                raise _wrong_size(array.nbytes, out.nbytes)
            out[...] = array.reshape(out.shape)
        except MemoryError:
            raise
        except Exception as error:
            # There are as many ways to fail as there are authors of codecs.
            raise CorruptDataError(f"a chunk does not decode: {type(error).__name__}: {error}") from None

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        return None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        return False


def _as_bytes(chunk: np.ndarray) -> np.ndarray:
    """A flat uint8 view of a C-contiguous array."""
    return chunk.reshape(-1).view("u1")


def _wrong_size(found_bytes: int, expected: int) -> CorruptDataError:
    return CorruptDataError(f"a chunk decodes to {found_bytes} bytes and {expected} were expected")
