"""Read the size of a compressed tile from its own header, by which decoders allocate memory. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping

# TIFF's numbers of compressions: https://www.loc.gov/preservation/digital/formats/content/tiff_tags.shtml, tag 259.
_JPEG, _JPEG_2000, _PNG, _WEBP = (6, 7, 33007, 34892), (33003, 33004, 33005, 34712), (34933,), (50001,)
_JPEG_XL, _JPEG_XR, _LERC = (50002, 52546), (22610, 34934), (34887,)
# https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1: frames are C0 to CF but for three kinds of tables.
_NO_FRAMES = (0xC4, 0xC8, 0xCC)
_JPEG_ALONE = (0x01, *range(0xD0, 0xD9))
_JPEG_SCAN = 0xDA


def _jpeg(data: bytes) -> int:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            height, width, channels = struct.unpack_from(">HHB", data, at + 5)
            return int(height * width * channels)
        if marker == _JPEG_SCAN:
            break
        alone = marker == 0xFF or marker in _JPEG_ALONE
        at += (1 if marker == 0xFF else 2) if alone else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError("it has no frame header")


def _jpeg_2000(data: bytes) -> int:
    # ITU-T T.800, A.5.1: SIZ is the first marker segment of the codestream, which boxes may be before.
    at = data.index(b"\xff\x4f\xff\x51")
    x, y, left, top = struct.unpack_from(">4I", data, at + 8)
    (channels,) = struct.unpack_from(">H", data, at + 40)
    return int(max(0, x - left) * max(0, y - top) * channels)


def _png(data: bytes) -> int:
    width, height = struct.unpack_from(">2I", data, 16)
    return int(4 * width * height)


def _webp(data: bytes) -> int:
    # RFC 9649: three kinds of first chunks, of which each has 14 bits for a side, or 24.
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (one & 0x3FFF for one in struct.unpack_from("<2H", data, 26))
    return int(4 * width * height)


def _jpeg_xl(data: bytes) -> int:
    # ISO/IEC 18181-1, "SizeHeader", behind the codestream's signature, which boxes may be before.
    bits, at = int.from_bytes(data[data.index(b"\xff\x0a") + 2 :][:16], "little"), 0

    def taken(count: int) -> int:
        nonlocal at
        at += count
        return bits >> (at - count) & ((1 << count) - 1)

    def side(small: int) -> int:
        return 8 * (1 + taken(5)) if small else 1 + taken((9, 13, 18, 30)[taken(2)])

    small = taken(1)
    height = side(small)
    # A ratio of width to height, 2 at most, may stand in for the width.
    width = side(small) if not taken(3) else 2 * height
    return 4 * width * height


def _jpeg_xr(data: bytes) -> int:
    # ITU-T T.832, annex A: a directory as of TIFF, with a width and a height of its own.
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    sides = {}
    for i in range(count):
        tag, kind, _, value = struct.unpack_from("<HHII", data, at + 2 + 12 * i)
        sides[tag] = value & 0xFFFF if kind == 3 else value
    return int(4 * sides[0xBC80] * sides[0xBC81])


def _lerc(data: bytes) -> int:
    # https://github.com/Esri/lerc, Lerc2.h, "HeaderInfo". Deflate or Zstandard may wrap it.
    if not data.startswith((b"Lerc2 ", b"CntZImage ")):
        if not data.startswith(b"x"):
            raise ValueError("its header is compressed")
        data = zlib.decompressobj().decompress(data, 64)
    if data.startswith(b"CntZImage "):
        height, width = struct.unpack_from("<2i", data, 18)
        return int(height * width)
    (version,) = struct.unpack_from("<i", data, 6)
    height, width, depth = struct.unpack_from("<3i", data, 14 if version > 2 else 10)
    return int(height * width * (depth if version > 3 else 1))


_SIZES: Mapping[int, Callable[[bytes], int]] = {
    **dict.fromkeys(_JPEG, _jpeg), **dict.fromkeys(_JPEG_2000, _jpeg_2000), **dict.fromkeys(_PNG, _png),
    **dict.fromkeys(_WEBP, _webp), **dict.fromkeys(_JPEG_XL, _jpeg_xl), **dict.fromkeys(_JPEG_XR, _jpeg_xr),
    **dict.fromkeys(_LERC, _lerc),
}  # fmt: skip


def has_own_size(compression: int) -> bool:
    """Return whether tiles of a compression are images with a size in their own header."""
    return compression in _SIZES


def declared_samples(compression: int, header: bytes) -> int:
    """Return an upper bound of the samples that a compressed tile decodes to, by its own header.

    Parameters
    ----------
    compression : int
        TIFF's number of a compression that :func:`has_own_size`.
    header : bytes
        The first bytes of the tile.

    Raises
    ------
    ValueError
        The header is damaged, or longer than the given bytes.

    Examples
    --------
    >>> declared_samples(34933, b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\1\\0\\0\\0\\0\\x10")
    16384
    """
    try:
        return _SIZES[compression](header)
    except (struct.error, IndexError, KeyError, zlib.error) as error:
        raise ValueError("its header is damaged") from error
