"""Images of fields: JPEG and PNG, whose headers are read before anything is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.arrays.codecs.image_headers import image_header, imagecodecs
from hubarray.storage.base import Buffer

# libjpeg's limit, and half of what 31 bits hold.
_MAX_PIXELS = {"jpeg": 65_500, "png": 1 << 30}


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
    found = image_header(codec["name"], data)
    if found != (shape, dtype.name):
        raise ValueError(f"it is {found[1]} of shape {found[0]}, and the block says {dtype.name} of {shape}")
    codecs = imagecodecs()
    decode = codecs.png_decode if codec["name"] == "png" else codecs.jpeg8_decode
    out = np.empty(shape, dtype)
    try:
        decode(bytes(data), out=out)
    except (RuntimeError, ValueError) as error:
        raise ValueError(str(error)) from None
    return out
