"""Chunks that are encoded images, for zarr-python: where no other package brings their codecs, these do.

They have the names and the configurations of the package imagecodecs-zarr, which other readers use where it is
installed. What we read goes through ours all the same: they make no more of a chunk than it may have.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import get_codec_class, register_codec

from hubarray.arrays.codecs.image_codecs import image_codec
from hubarray.errors import HubError


@dataclass(frozen=True)
class _ImageChunks(ArrayBytesCodec):  # type: ignore[misc]
    """One image a chunk."""

    is_fixed_size = False
    named: ClassVar[str] = ""
    configuration: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The codec of a description."""
        return cls(dict(data.get("configuration") or {}))

    def to_dict(self) -> Any:
        """Its description."""
        configuration = {"configuration": self.configuration} if self.configuration else {}
        return {"name": self.named, **configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Not known before it is encoded."""
        raise NotImplementedError

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        codec, dtype = self._codec(chunk_spec)
        out = np.empty(chunk_spec.shape, dtype)
        try:
            await asyncio.to_thread(codec.decode, chunk_bytes.to_bytes(), out)
        except HubError as error:
            raise ValueError(str(error)) from None
        return chunk_spec.prototype.nd_buffer.from_numpy_array(out)

    async def _encode_single(self, chunk_array: Any, chunk_spec: Any) -> Any:
        codec, dtype = self._codec(chunk_spec)
        values = np.ascontiguousarray(chunk_array.as_numpy_array(), dtype)
        return chunk_spec.prototype.buffer.from_bytes(bytes(await asyncio.to_thread(codec.encode, values)))

    def _codec(self, chunk_spec: Any) -> tuple[Any, np.dtype[Any]]:
        dtype = np.dtype(chunk_spec.dtype.to_native_dtype())
        return image_codec([self.to_dict()], dtype, tuple(chunk_spec.shape)), dtype


class PngChunks(_ImageChunks):
    """PNG."""

    named = "imagecodecs_png"


class JpegChunks(_ImageChunks):
    """JPEG."""

    named = "imagecodecs_jpeg"


class WebpChunks(_ImageChunks):
    """WebP."""

    named = "imagecodecs_webp"


class JpegxlChunks(_ImageChunks):
    """JPEG XL."""

    named = "imagecodecs_jpegxl"


_BY_NAME = {image_class.named: image_class for image_class in (PngChunks, JpegChunks, WebpChunks, JpegxlChunks)}


def own_codec(codec: Any) -> Any:
    """Return our codec instead of another one with the same name, and other codecs unchanged."""
    described = codec.to_dict()
    made = _BY_NAME.get(described["name"])
    if made is None or isinstance(codec, made):
        return codec
    settings = described.get("configuration") or {}
    return made({name: value for name, value in settings.items() if value is not None})


def register() -> None:
    """Make zarr-python know the codecs that it does not know yet."""
    for image_class in _BY_NAME.values():
        try:
            get_codec_class(image_class.named)
        except (KeyError, ValueError):
            register_codec(image_class.named, image_class)
