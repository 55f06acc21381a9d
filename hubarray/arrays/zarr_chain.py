"""Codec chains that zarr-python runs, with what each compressor makes bounded. Imported when a chain needs it."""

from __future__ import annotations

import asyncio
import math
import warnings
from dataclasses import dataclass
from typing import Any

from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV3Metadata

from hubarray.arrays.bounded import ANNOUNCED, PIECEWISE, decompressed, most_bytes


@dataclass(frozen=True)
class _Bounded(BytesBytesCodec):  # type: ignore[misc]
    """A codec from bytes to bytes that makes no more of a chunk than the chunk may have."""

    codec: Any

    @property
    def is_fixed_size(self) -> bool:
        """As the codec says."""
        return bool(self.codec.is_fixed_size)

    def to_dict(self) -> dict[str, Any]:
        """As the codec says."""
        described: dict[str, Any] = self.codec.to_dict()
        return described

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """As the codec says."""
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> _Bounded:
        """As the codec says."""
        return _Bounded(self.codec.evolve_from_array_spec(array_spec))

    def validate(self, **about: Any) -> None:
        """As the codec says."""
        self.codec.validate(**about)

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: ArraySpec) -> Any:
        return await self.codec._encode_single(chunk_bytes, chunk_spec)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: ArraySpec) -> Any:
        described = self.to_dict()
        name = described["name"].removeprefix("numcodecs.")
        item_bytes = chunk_spec.dtype.to_native_dtype().itemsize
        most = most_bytes(math.prod(chunk_spec.shape) * item_bytes)
        if name in PIECEWISE:
            data = chunk_bytes.to_bytes()
            found = await asyncio.to_thread(decompressed, name, data, most, described.get("configuration", {}))
            return chunk_spec.prototype.buffer.from_bytes(found)
        if name in ANNOUNCED and ANNOUNCED[name](chunk_bytes.to_bytes()) > most:
            raise ValueError(f"says that it holds more than the {most} bytes that it may")
        return await self.codec._decode_single(chunk_bytes, chunk_spec)


def _bounded(codec: Any) -> Any:
    if isinstance(codec, ShardingCodec):
        return ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=tuple(map(_bounded, codec.codecs)),
            index_codecs=tuple(map(_bounded, codec.index_codecs)),
            index_location=codec.index_location,
        )
    return _Bounded(codec) if isinstance(codec, BytesBytesCodec) else codec


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
        return BatchedCodecPipeline.from_codecs(tuple(map(_bounded, metadata.codecs))), spec
