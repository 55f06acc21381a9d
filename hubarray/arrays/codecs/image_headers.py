"""Images as they are stored, read no further than their headers; and imagecodecs, which decodes them. Pure."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

from hubarray import process
from hubarray.errors import MissingPackageError
from hubarray.storage.base import Buffer

# https://www.w3.org/TR/png-3/, "IHDR": width, height, bit depth, colour type.
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1: frame headers, and markers without a length.
_JPEG_FRAMES = {0xC0, 0xC1, 0xC2}
_JPEG_ALONE = {0x01, *range(0xD0, 0xD8)}
_JPEG_PROGRESSIVE = 0xC2
_JPEG_SCAN = 0xDA
_JPEG_END = b"\xff\xd9"


def image_header(name: str, data: Buffer) -> tuple[tuple[int, ...], str]:
    """The shape and the dtype that an image says it decodes to.

    Raises
    ------
    ValueError
        It is not such an image, is truncated, or has a kind that is not stored (a palette, transparency beside the
        channels, CMYK, fewer than 8 bits).
    """
    view = memoryview(data)
    return _png_header(view) if name == "png" else _jpeg_header(view)


def check_image(name: str, data: Buffer) -> tuple[tuple[int, ...], str]:
    """As :func:`image_header`, and of a PNG the checksum of every chunk: a flipped bit is found without decoding.

    Raises
    ------
    ValueError
    """
    header = image_header(name, data)
    if name == "png":
        view, at = memoryview(data), 8
        # The header has found that the chunks lead to the end.
        while at + 12 <= len(view):
            end = at + 8 + int.from_bytes(view[at : at + 4], "big")
            if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
                raise ValueError("is a PNG image that is damaged: a chunk does not match its checksum")
            if bytes(view[at + 4 : at + 8]) == b"IEND":
                break
            at = end + 4
    return header


def _png_header(data: memoryview) -> tuple[tuple[int, ...], str]:
    if bytes(data[:8]) != _PNG_SIGNATURE or bytes(data[12:16]) != b"IHDR" or len(data) < 33:
        raise ValueError("is not a PNG image")
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
        raise ValueError("is not a JPEG image")
    at, shape_and_dtype, min_bits = 2, None, 0
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
        if marker == _JPEG_SCAN and shape_and_dtype is not None and 8 * (len(data) - at) < min_bits:
            # Decoders make up what is not there, however much that is.
            raise ValueError("is a JPEG image that is cut short, or declares a wrong size")
        if marker == _JPEG_SCAN and shape_and_dtype is not None:
            # What is before the scan may be a thumbnail with an end of its own.
            if bytes(data[-2:]) != _JPEG_END and bytes(data[at:]).rfind(_JPEG_END) < 0:
                raise ValueError("is a JPEG image that is cut short")
            return shape_and_dtype
        if marker in _JPEG_FRAMES:
            height, width, channels = (
                int.from_bytes(data[at + 5 : at + 7], "big"),
                int.from_bytes(data[at + 7 : at + 9], "big"),
                data[at + 9],
            )
            if data[at + 4] != 8 or channels not in (1, 3) or not width or not height:
                raise ValueError("is a JPEG image that is neither grey nor RGB of 8 bits")
            shape_and_dtype = ((height, width) if channels == 1 else (height, width, channels)), "uint8"
            # Of each block of 8 x 8 pixels: a code for its mean; unless it is progressive, another for the rest.
            blocks = -(-height // 8) * -(-width // 8)
            min_bits = blocks if marker == _JPEG_PROGRESSIVE else 2 * blocks
        elif length < 2 or (0xC3 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            raise ValueError("is a JPEG image of a kind that is not stored")
        at += 2 + length
    raise ValueError("is a JPEG image without a frame header and a scan")


def imagecodecs() -> Any:
    """The package, imported when it is needed.

    Raises
    ------
    MissingPackageError
    """
    try:
        with process.importing:
            return importlib.import_module("imagecodecs")
    except ImportError:
        raise MissingPackageError(
            "encoded images need the package 'imagecodecs', which is not installed: pip install 'hubarray[images]'"
        ) from None
