"""Codec chains that zarr-python runs, with what each compressor makes bounded. Imported when a chain needs it."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numcodecs import Zstd
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec, VLenBytesCodec, VLenUTF8Codec
from zarr.codecs._v2 import V2Codec
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV3Metadata

from hubarray.arrays.codecs.zarr_images import own_codec
from hubarray.errors import SourceError
from hubarray.limits import ANNOUNCED, DEFAULT_DECODED_BYTES, PIECEWISE, decompressed, max_encoded_bytes
from hubarray.redaction import shown_text

# What numcodecs decodes all frames of, of which each says its own size.
_OF_FRAMES = "zstd"
# Texts of any length begin with how many they are.
_COUNTED = ("vlen-utf8", "vlen-bytes", "vlen-array")
_UNBOUNDED = "makes objects that nothing bounds"
_REFUSED = {"pickle": "may run what the data names", "msgpack2": _UNBOUNDED, "json2": _UNBOUNDED}
_OPTIONS_OF_DTYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")
_MAX_ITEM_BYTES = 16


@dataclass(frozen=True)
class _Around:
    """A codec of zarr-python around another, which it is like but for what it decodes."""

    codec: Any
    max_text_bytes: int

    @property
    def is_fixed_size(self) -> bool:
        """As the codec says."""
        return bool(getattr(self.codec, "is_fixed_size", False))

    def to_dict(self) -> dict[str, Any]:
        """As the codec says."""
        described: dict[str, Any] = self.codec.to_dict()
        return described

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """As the codec says."""
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Any:
        """As the codec says."""
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def validate(self, **about: Any) -> None:
        """As the codec says."""
        self.codec.validate(**about)

    async def _encode_single(self, chunk: Any, chunk_spec: ArraySpec) -> Any:
        return await self.codec._encode_single(chunk, chunk_spec)


@dataclass(frozen=True)
class _Bounded(_Around, BytesBytesCodec):  # type: ignore[misc]
    """A codec from bytes to bytes that makes no more of a chunk than the chunk may have."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: ArraySpec) -> Any:
        described = self.to_dict()
        name = described["name"].removeprefix("numcodecs.")
        dtype, elements = chunk_spec.dtype.to_native_dtype(), math.prod(chunk_spec.shape)
        most = max_encoded_bytes(_max_bytes(elements, dtype, self.max_text_bytes))
        if name in PIECEWISE:
            data = chunk_bytes.to_bytes()
            decoded = await asyncio.to_thread(decompressed, name, data, most, described.get("configuration", {}))
            return chunk_spec.prototype.buffer.from_bytes(decoded)
        if name in ANNOUNCED:
            data = chunk_bytes.to_bytes()
            size = _announced_bytes(name, data, most)
            if name == _OF_FRAMES:
                frames = await asyncio.to_thread(_one_frame, Zstd(), data, size)
                return chunk_spec.prototype.buffer.from_bytes(frames)
        return await self.codec._decode_single(chunk_bytes, chunk_spec)


@dataclass(frozen=True)
class _BoundedTexts(_Around, ArrayBytesCodec):  # type: ignore[misc]
    """A codec of texts of any length, of which a chunk has no more than its elements."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: ArraySpec) -> Any:
        _check_count(chunk_bytes.to_bytes(), math.prod(chunk_spec.shape))
        return await self.codec._decode_single(chunk_bytes, chunk_spec)


def _max_bytes(elements: int, dtype: np.dtype[Any], max_text_bytes: int) -> int:
    """The bytes that a chunk may decode to. Objects are texts, as long as they like."""
    size = elements * dtype.itemsize
    return max(size, max_text_bytes) if dtype.kind in "OT" else size


def _announced_bytes(name: str, data: bytes, most: int) -> int:
    size = ANNOUNCED[name](data)
    if size > most:
        raise ValueError(f"declares more than the {most} bytes that it may")
    return size


def _one_frame(codec: Any, data: bytes, size: int) -> bytes:
    """The contents of the first frame, where it is the only one: of others nobody has counted anything."""
    return bytes(codec.decode(data, np.empty(size, "u1")))


def _check_count(data: Any, elements: int) -> None:
    """Refuse texts that are more than their chunk has, or than there are lengths for."""
    count = int.from_bytes(data[:4], "little")
    if count > min(elements, len(data) // 4 - 1):
        raise ValueError("declares more elements than its chunk")


def _check_dtypes(options: Mapping[str, Any], item_bytes: int) -> None:
    """Refuse a filter that makes far larger elements than those of the array, which are what is counted.

    Raises
    ------
    ValueError
    """
    for name in _OPTIONS_OF_DTYPES:
        if name in options and np.dtype(options[name]).itemsize > max(_MAX_ITEM_BYTES, item_bytes):
            raise ValueError(f"has a filter that makes elements of {np.dtype(options[name]).itemsize:,} bytes")


def _check_chain(codecs: Iterable[Any], item_bytes: int) -> None:
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            _check_chain(codec.codecs, item_bytes)
        elif isinstance(codec, V2Codec):
            for step in codec.filters or ():
                _check_dtypes(step.get_config(), item_bytes)
        elif isinstance(codec, ArrayArrayCodec):
            _check_dtypes(codec.to_dict().get("configuration") or {}, item_bytes)


def _bounded(codec: Any, max_text_bytes: int = DEFAULT_DECODED_BYTES) -> Any:
    def inner(codecs: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(_bounded(codec, max_text_bytes) for codec in codecs)

    if isinstance(codec, ShardingCodec):
        return ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=inner(codec.codecs),
            index_codecs=inner(codec.index_codecs),
            index_location=codec.index_location,
        )
    if isinstance(codec, (VLenUTF8Codec, VLenBytesCodec)):
        return _BoundedTexts(codec, max_text_bytes)
    if isinstance(codec, BytesBytesCodec):
        return _Bounded(codec, max_text_bytes)
    return own_codec(codec) if isinstance(codec, ArrayBytesCodec) and not isinstance(codec, V2Codec) else codec


@dataclass(frozen=True)
class _BoundedV2(V2Codec):  # type: ignore[misc]
    """The chain of a Zarr of format 2, whose compressor makes no more of a chunk than the chunk may have."""

    max_text_bytes: int = 0

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        elements, dtype = math.prod(chunk_spec.shape), chunk_spec.dtype.to_native_dtype()
        size = _max_bytes(elements, dtype, self.max_text_bytes)
        steps = [*(self.filters or ()), *([self.compressor] if self.compressor else [])]
        bounded = [_BoundedCodec(step, max_encoded_bytes(size), elements) for step in steps]
        filters, compressor = (bounded[:-1], bounded[-1]) if self.compressor else (bounded, None)
        return await V2Codec(tuple(filters), compressor)._decode_single(chunk_bytes, chunk_spec)


@dataclass(frozen=True)
class _BoundedCodec:
    """A codec of numcodecs, bounded."""

    codec: Any
    max_bytes: int
    elements: int

    def decode(self, data: Any) -> Any:
        """The data decoded."""
        name = self.codec.codec_id
        if name in _REFUSED:
            raise ValueError(f"its codec {name!r} {_REFUSED[name]}, so nothing is decoded; write it as vlen-utf8")
        plain = bytes(memoryview(data).cast("B")) if name in (*_COUNTED, *PIECEWISE, *ANNOUNCED) else b""
        if name in _COUNTED:
            _check_count(plain, self.elements)
        if name in PIECEWISE:
            return decompressed(name, plain, self.max_bytes, self.codec.get_config())
        if name in ANNOUNCED:
            size = _announced_bytes(name, plain, self.max_bytes)
            if name == _OF_FRAMES:
                return _one_frame(self.codec, plain, size)
        return self.codec.decode(data)


def bounded_array(array: Any, max_text_bytes: int) -> Any:
    """The same array of zarr-python, whose chunks decode to no more than they may have.

    Parameters
    ----------
    array : zarr.Array
    max_text_bytes : int
        How many bytes a chunk of texts of any length may decode to.

    Raises
    ------
    SourceError
        A filter makes larger elements than the array has.
    """
    inner = array.async_array
    pipeline = inner.codec_pipeline
    try:
        _check_chain(pipeline, np.dtype(array.dtype).itemsize)
    except (TypeError, ValueError) as error:
        raise SourceError(f"{shown_text(str(array.store_path))}: {error}") from None
    bounded_pipeline = type(inner)(metadata=inner.metadata, store_path=inner.store_path, config=inner.config)
    to_bytes = pipeline.array_bytes_codec
    if isinstance(to_bytes, V2Codec):
        to_bytes = _BoundedV2(to_bytes.filters, to_bytes.compressor, max_text_bytes)
    compressors = tuple(_bounded(compressor, max_text_bytes) for compressor in pipeline.bytes_bytes_codecs)
    made = replace(pipeline, array_bytes_codec=_bounded(to_bytes, max_text_bytes), bytes_bytes_codecs=compressors)
    object.__setattr__(bounded_pipeline, "codec_pipeline", made)
    return type(array)(bounded_pipeline)


def zarr_pipeline(
    chain: list[dict[str, Any]], data_type: Any, fill_value: Any, chunks: tuple[int, ...]
) -> tuple[Any, ArraySpec]:
    """zarr-python's pipeline of a chain, and the specification of the chunks it takes.

    Raises
    ------
    Exception
        Whatever zarr-python raises of a chain that it does not accept.
    """
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
                "fill_value": fill_value,
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
        _check_chain(metadata.codecs, metadata.data_type.to_native_dtype().itemsize)
        return BatchedCodecPipeline.from_codecs(tuple(map(_bounded, metadata.codecs))), spec
