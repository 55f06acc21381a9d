"""The codecs of table fields: compressors, and JPEG and PNG, whose headers are read before anything is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.codecs.codec_chains import NAMED_CHAINS
from hubarray.arrays.codecs.compressors import COMPRESSORS
from hubarray.arrays.codecs.image_headers import image_header, imagecodecs
from hubarray.errors import ConfigError
from hubarray.storage.base import Buffer

_NAMED_COMPRESSORS = ("blosc", "lz4", "zstd")
IMAGE_CODECS = ("jpeg", "png")
_DEFAULT_JPEG_QUALITY = 95
# libjpeg's limit, and half of what 31 bits hold.
_MAX_PIXELS = {"jpeg": 65_500, "png": 1 << 30}


def checked_codec(codec: Any, dtype: np.dtype[Any] | None, shape: Sequence[int | None]) -> Mapping[str, Any]:
    """Return the codec of a field in the form that a schema stores.

    Parameters
    ----------
    codec : str or mapping
        As :class:`hubarray.Field` takes it.
    dtype : dtype or None
        None for text and byte strings.
    shape : sequence of (int or None)

    Raises
    ------
    ConfigError
        No such codec, or it cannot encode such values.
    """
    chain: Any = {"name": codec} if isinstance(codec, str) else codec
    if not isinstance(chain, Mapping) or not isinstance(chain.get("name"), str):
        raise ConfigError(f"codec={codec!r}: give a name, or a mapping with one")
    name = chain["name"]
    if name in IMAGE_CODECS:
        return _checked_image(chain, dtype, shape)
    row = COMPRESSORS.get(name)
    if row is not None and isinstance(chain.get("configuration"), Mapping):
        configuration = dict(chain["configuration"])
        if chain.keys() == {"name", "configuration"} and row.takes(configuration) and _can_make(row, configuration):
            return {"name": name, "configuration": configuration}
    elif chain.keys() == {"name"} and name in _NAMED_COMPRESSORS:
        (chained,) = NAMED_CHAINS["auto" if name == "blosc" else name].compressor(dtype or np.dtype("u1"))
        return chained
    raise ConfigError(f"codec={codec!r}: give one of {', '.join((*_NAMED_COMPRESSORS, *IMAGE_CODECS))}, or None")


def _can_make(row: Any, configuration: dict[str, Any]) -> bool:
    try:
        row.made(configuration)
    except (KeyError, ValueError, TypeError):
        return False
    return True


def _checked_image(
    codec_dict: Mapping[str, Any], dtype: np.dtype[Any] | None, shape: Sequence[int | None]
) -> Mapping[str, Any]:
    name = codec_dict["name"]
    dtypes = {"jpeg": ("uint8",), "png": ("uint8", "uint16")}[name]
    channels = {"jpeg": (3,), "png": (2, 3, 4)}[name]
    fits = dtype is not None and dtype.name in dtypes
    fits = fits and (len(shape) == 2 or (len(shape) == 3 and shape[2] in channels))
    if not fits:
        raise ConfigError(
            f"codec {name}: is for images of {' or '.join(dtypes)} and of shape (height, width) or (height, width, "
            f"channels), with {' or '.join(map(str, channels))} channels, not for {dtype} of shape {shape}"
        )
    if name == "png":
        if codec_dict.keys() != {"name"}:
            raise ConfigError(f"codec={dict(codec_dict)}: png has no options")
        return {"name": "png"}
    quality = codec_dict.get("quality", _DEFAULT_JPEG_QUALITY)
    if codec_dict.keys() - {"name", "quality"} or type(quality) is not int or not 1 <= quality <= 100:
        raise ConfigError(f"codec={dict(codec_dict)}: jpeg has a quality of 1 to 100, and no other option")
    return {"name": "jpeg", "quality": quality}


def check_size(codec: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Raise ValueError of a shape that no image of a codec has."""
    most = _MAX_PIXELS[codec["name"]]
    if 0 in shape or max(shape[:2]) > most:
        raise ValueError(f"has the shape {shape}, and a {codec['name']} image has 1 to {most:,} pixels a side")


def image_encoded(codec: Mapping[str, Any], value: np.ndarray) -> bytes:
    """An image's bytes.

    Raises
    ------
    MissingPackageError
    """
    codecs = imagecodecs()
    value = np.ascontiguousarray(value)
    if codec["name"] == "png":
        return bytes(codecs.png_encode(value))
    return bytes(codecs.jpeg8_encode(value, level=codec["quality"]))


def image_decoded(codec: Mapping[str, Any], data: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An image's elements.

    Raises
    ------
    ValueError
        It is damaged, or not of this shape and dtype; which its header tells, before room is made for it.
    MissingPackageError
    """
    header = image_header(codec["name"], data)
    if header != (shape, dtype.name):
        raise ValueError(f"it is {header[1]} of shape {header[0]}, but the block declares {dtype.name} of {shape}")
    codecs = imagecodecs()
    decode = codecs.png_decode if codec["name"] == "png" else codecs.jpeg8_decode
    out = np.empty(shape, dtype)
    try:
        decode(bytes(data), out=out)
    except (RuntimeError, ValueError) as error:
        raise ValueError(str(error)) from None
    return out
