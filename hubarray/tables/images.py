"""Images as they are stored: JPEG and PNG, whose headers are read before anything is decoded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray import process
from hubarray.errors import MissingPackageError
from hubarray.storage.base import Buffer

# https://www.w3.org/TR/png-3/, "IHDR": width, height, bit depth, colour type.
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1: frame headers, and markers without a length.
_JPEG_FRAMES = {0xC0, 0xC1, 0xC2}
_JPEG_ALONE = {0x01, *range(0xD0, 0xD8)}
_JPEG_SCAN = 0xDA
_JPEG_END = b"\xff\xd9"
# libjpeg's limit, and half of what 31 bits hold.
_MOST_PIXELS = {"jpeg": 65_500, "png": 1 << 30}


def image_header(name: str, data: Buffer) -> tuple[tuple[int, ...], str]:
    """The shape and the dtype that an image says it decodes to.

    Raises
    ------
    ValueError
        It is no such image, cut short, or one of a kind that is not stored (a palette, transparency beside the
        channels, CMYK, fewer than 8 bits).
    """
    view = memoryview(data)
    return _png_header(view) if name == "png" else _jpeg_header(view)


def _png_header(data: memoryview) -> tuple[tuple[int, ...], str]:
    if bytes(data[:8]) != _PNG_SIGNATURE or bytes(data[12:16]) != b"IHDR" or len(data) < 33:
        raise ValueError("is no PNG image")
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    depth, colours = data[24], data[25]
    if depth not in (8, 16) or colours not in _PNG_CHANNELS or not width or not height:
        raise ValueError("is a PNG image with a palette or with less than 8 bits")
    at, kind = 8, b""
    while at + 12 <= len(data) and kind != b"IEND":
        kind = bytes(data[at + 4 : at + 8])
        if kind == b"tRNS":
            # Decoders make a channel of it, which the shape does not have.
            raise ValueError("is a PNG image with a transparent colour (tRNS)")
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    if kind != b"IEND" or at > len(data):
        raise ValueError("is a PNG image that is cut short")
    channels = _PNG_CHANNELS[colours]
    return (height, width) if channels == 1 else (height, width, channels), f"uint{depth}"


def _jpeg_header(data: memoryview) -> tuple[tuple[int, ...], str]:
    if bytes(data[:2]) != b"\xff\xd8":
        raise ValueError("is no JPEG image")
    at, found = 2, None
    while at + 9 < len(data):
        if data[at] != 0xFF:
            raise ValueError("is a JPEG image whose header is damaged")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _JPEG_ALONE:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _JPEG_SCAN and found is not None:
            # What is before the scan may be a thumbnail with an end of its own.
            if bytes(data[-2:]) != _JPEG_END and bytes(data[at:]).rfind(_JPEG_END) < 0:
                raise ValueError("is a JPEG image that is cut short")
            return found
        if marker in _JPEG_FRAMES:
            height, width, channels = (
                int.from_bytes(data[at + 5 : at + 7], "big"),
                int.from_bytes(data[at + 7 : at + 9], "big"),
                data[at + 9],
            )
            if data[at + 4] != 8 or channels not in (1, 3) or not width or not height:
                raise ValueError("is a JPEG image that is neither grey nor RGB of 8 bits")
            found = ((height, width) if channels == 1 else (height, width, channels)), "uint8"
        elif length < 2 or (0xC3 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            raise ValueError("is a JPEG image of a kind that is not stored")
        at += 2 + length
    raise ValueError("is a JPEG image without a frame header and a scan")


def check_size(codec: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Raise ValueError of a shape that no image of a codec has."""
    most = _MOST_PIXELS[codec["name"]]
    if 0 in shape or max(shape[:2]) > most:
        raise ValueError(f"has the shape {shape}, and a {codec['name']} image has 1 to {most:,} pixels a side")


def image_encoded(codec: Mapping[str, Any], value: np.ndarray) -> bytes:
    """An image's bytes.

    Raises
    ------
    MissingPackageError
    """
    codecs = _imagecodecs()
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
    codecs = _imagecodecs()
    decode = codecs.png_decode if codec["name"] == "png" else codecs.jpeg8_decode
    out = np.empty(shape, dtype)
    try:
        decode(bytes(data), out=out)
    except (RuntimeError, ValueError) as error:
        raise ValueError(str(error)) from None
    return out


def _imagecodecs() -> Any:
    try:
        with process.importing:
            return importlib.import_module("imagecodecs")
    except ImportError:
        raise MissingPackageError(
            "JPEG and PNG fields need the package 'imagecodecs', which is not installed: pip install 'hubarray[images]'"
        ) from None
