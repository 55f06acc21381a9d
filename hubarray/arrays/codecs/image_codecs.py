"""Codecs whose chunks are encoded images: PNG, JPEG, WebP and JPEG XL.

They are array-to-bytes codecs of Zarr v3, named and configured as the package
imagecodecs-zarr does, which lets zarr-python read them from an export.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.codecs.compressors import within
from hubarray.arrays.codecs.image_headers import image_header, imagecodecs
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.storage.base import Buffer

_STORED_PREFIX = "imagecodecs_"
_LARGEST_AUTO_BYTES = 128 << 20
_TILE_SIDE = 1024
# A last axis that is no longer is of channels.
_MAX_CHANNELS = 5


@dataclass(frozen=True)
class ImageCodec:
    """A row: how one format of images is called, configured and bounded.

    Attributes
    ----------
    name, about : str
        The name for users, and its purpose.
    functions : str
        The prefix of imagecodecs' functions.
    dtypes : tuple of str
    channels : tuple of int
        How long a third axis may be.
    grey : bool
        Whether images of two axes can be encoded.
    longest_side : int
        In pixels.
    lossless : mapping or None
        The configuration without a quality; None where there always is one.
    has_quality : bool
        Whether it can lose something, and how much is said.
    default_quality : int or None
    settings : mapping
        The allowed keys of a configuration, and their values.
    fixed : mapping
        Arguments of encoder and decoder beside the configuration.
    """

    name: str
    about: str
    functions: str
    dtypes: tuple[str, ...]
    channels: tuple[int, ...]
    longest_side: int
    settings: Mapping[str, Callable[[Any], bool]]
    lossless: Mapping[str, Any] | None = None
    has_quality: bool = True
    default_quality: int | None = None
    grey: bool = True
    fixed: Mapping[str, Any] | None = None

    @property
    def stored_name(self) -> str:
        """Its name in Zarr v3 metadata."""
        return f"{_STORED_PREFIX}{self.name}"

    def configuration(self, quality: Any) -> dict[str, Any]:
        """The Zarr v3 configuration of a quality, or of none.

        Raises
        ------
        ConfigError
        """
        if quality is None:
            quality = self.default_quality
        if quality is None:
            return dict(self.lossless or {})
        if not self.has_quality:
            raise ConfigError(f"codec {self.name!r} is without loss and has no quality")
        if type(quality) is not int or not 1 <= quality <= 100:
            raise ConfigError(f"codec {self.name!r}: quality={quality!r} is not a number from 1 to 100")
        return {"level": quality} | ({} if self.lossless is None else {"lossless": False})

    def is_lossy(self, configuration: Mapping[str, Any]) -> bool:
        """Whether values do not come back as they were."""
        return self.lossless is None or configuration.get("lossless", True) is False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


IMAGE_CODECS = {
    image_codec.name: image_codec
    for image_codec in (
        ImageCodec(
            name="png",
            about="lossless, readable everywhere",
            functions="png",
            dtypes=("uint8", "uint16"),
            channels=(2, 3, 4),
            longest_side=1 << 30,
            settings={"level": within(0, 9)},
            lossless={},
            has_quality=False,
        ),
        ImageCodec(
            name="jpeg",
            about="small photographs, lossy",
            functions="jpeg8",
            dtypes=("uint8",),
            channels=(3,),
            longest_side=65_500,
            settings={"level": within(0, 100)},
            default_quality=95,
        ),
        ImageCodec(
            name="webp",
            about="color images, smaller than PNG; lossy with a quality",
            functions="webp",
            dtypes=("uint8",),
            # Of an image with transparency that is opaque, libwebp drops the channel.
            channels=(3,),
            grey=False,
            longest_side=16_383,
            settings={"level": within(0, 100), "lossless": _is_bool, "method": within(0, 6)},
            lossless={"lossless": True},
        ),
        ImageCodec(
            name="jpegxl",
            about="smallest; lossy with a quality",
            functions="jpegxl",
            dtypes=("uint8", "uint16"),
            channels=(2, 3, 4),
            longest_side=1 << 30,
            settings={"level": within(0, 100), "lossless": _is_bool, "effort": within(1, 9)},
            lossless={"lossless": True},
            # Chunks are encoded beside each other already.
            fixed={"numthreads": 1},
        ),
    )
}
_BY_STORED_NAME = {image_codec.stored_name: image_codec for image_codec in IMAGE_CODECS.values()}


def named_image_codec(codec: Any) -> ImageCodec | None:
    """The row that a user's ``codec`` names, alone or with a quality; None of everything else."""
    name = codec.get("name") if isinstance(codec, Mapping) else codec
    return IMAGE_CODECS.get(name) if isinstance(name, str) else None


def image_chain(codec: Any, dtype: np.dtype[Any], chunks: tuple[int, ...]) -> list[dict[str, Any]]:
    """The Zarr v3 ``codecs`` list of a name, or of ``{"name": ..., "quality": ...}``.

    Raises
    ------
    ConfigError
        The name or an option is unknown, or the chunks cannot be such images.
    MissingPackageError
    """
    codec_dict = dict(codec) if isinstance(codec, Mapping) else {"name": codec}
    row = named_image_codec(codec_dict)
    if row is None or codec_dict.keys() - {"name", "quality"}:
        raise ConfigError(
            f"codec {codec_dict!r}: give one of {', '.join(IMAGE_CODECS)} as its name, and if need be a quality"
        )
    configuration = row.configuration(codec_dict.get("quality"))
    _check_image(row, dtype, chunks)
    imagecodecs()
    return [{"name": row.stored_name} | ({"configuration": configuration} if configuration else {})]


def image_codec(chain: Sequence[Mapping[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> Any:
    """The codec of a chain of one image codec; None of other chains.

    Raises
    ------
    ConfigError
        The configuration is unknown, or the chunks cannot be such images.
    """
    row = _BY_STORED_NAME.get(chain[0]["name"])
    if row is None:
        return None
    configuration = chain[0].get("configuration", {})
    for key, value in configuration.items():
        if key not in row.settings or not row.settings[key](value):
            raise ConfigError(f"codec {row.stored_name!r} has no such setting: {str(key)[:80]}={str(value)[:80]}")
    _check_image(row, dtype, chunks)
    return _Image(row, configuration, _image_shape(chunks))


def is_image_codec(name: str) -> bool:
    """Whether Zarr v3 metadata names one of these codecs so."""
    return name in _BY_STORED_NAME


def is_lossy(chain: Sequence[Mapping[str, Any]]) -> bool:
    """Whether values that went through a chain may come back changed."""
    row = _BY_STORED_NAME.get(chain[0]["name"])
    return row is not None and row.is_lossy(chain[0].get("configuration", {}))


def image_chunks(row: ImageCodec, shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Chunks of one image each: of the last two axes, or three if the last is of channels; tiles of huge ones.

    Examples
    --------
    >>> image_chunks(IMAGE_CODECS["png"], (100, 480, 640, 3), 1), image_chunks(IMAGE_CODECS["png"], (9, 28, 28), 1)
    ((1, 480, 640, 3), (1, 28, 28))
    """
    lengths = [max(1, length) for length in shape]
    if not lengths:
        return ()
    if len(lengths) > 2 and 1 < lengths[-1] <= _MAX_CHANNELS and lengths[-1] not in row.channels:
        known = " or ".join(map(str, (*([1] if row.grey else []), *row.channels)))
        raise ConfigError(
            f"codec {row.name!r}: an image has {known} channels, and the last axis has {lengths[-1]}; for images that "
            "are so narrow, give chunks"
        )
    channels = 1 if len(lengths) > 2 and lengths[-1] in (1, *row.channels) else 0
    sides = lengths[len(lengths) - 2 - channels :] if len(lengths) > 2 else lengths
    if int(np.prod(sides)) * itemsize > _LARGEST_AUTO_BYTES or max(sides) > row.longest_side:
        sides = [min(length, _TILE_SIDE) for length in sides]
    return (*[1] * (len(lengths) - len(sides)), *sides)


def _image_shape(chunks: Sequence[int]) -> tuple[int, ...]:
    """A chunk's shape without axes of length 1, as imagecodecs takes and gives it."""
    longer = tuple(length for length in chunks if length > 1)
    return (1,) * (2 - len(longer)) + longer


def _check_image(row: ImageCodec, dtype: np.dtype[Any], chunks: Sequence[int]) -> None:
    shape = _image_shape(chunks)
    fits = (len(shape) == 2 and row.grey) or (len(shape) == 3 and shape[2] in row.channels)
    if dtype.name not in row.dtypes or not fits or max(shape[:2]) > row.longest_side:
        grey = "(height, width), or " if row.grey else ""
        raise ConfigError(
            f"codec {row.name!r}: a chunk is one image of {' or '.join(row.dtypes)}, {grey}(height, width, channels) "
            f"with {' or '.join(map(str, row.channels))} channels and sides of up to {row.longest_side:,}; it cannot "
            f"be one of {dtype} with the chunks {tuple(chunks)}: give chunks of one image, (1, ..., height, width)"
        )


class _Image:
    """One image a chunk."""

    def __init__(self, row: ImageCodec, configuration: Mapping[str, Any], shape: tuple[int, ...]) -> None:
        self._row, self._shape = row, shape
        self._arguments = {**configuration, **(row.fixed or {})}

    def encode(self, chunk: np.ndarray) -> Buffer:
        encode = getattr(imagecodecs(), f"{self._row.functions}_encode")
        encoded: bytes = encode(chunk.reshape(self._shape), **self._arguments)
        return encoded

    def decode(self, data: Buffer, out: np.ndarray) -> None:
        decode = getattr(imagecodecs(), f"{self._row.functions}_decode")
        try:
            if self._row.name == "jpeg":
                # Of one that is cut short, libjpeg makes up the rest.
                image_header("jpeg", data)
            # A place of a given shape: what says that it is of another is refused before anything is decoded.
            decode(bytes(data), out=out.reshape(self._shape), **(self._row.fixed or {}))
        except (RuntimeError, ValueError, TypeError) as error:
            raise CorruptDataError(
                f"a chunk does not decode to an image of {self._shape}: {type(error).__name__}: {error}"
            ) from None

    def raw_header_bytes(self, length_bytes: int, chunk_bytes: int) -> int | None:
        return None

    def is_raw(self, header: Buffer, chunk_bytes: int) -> bool:
        return False
