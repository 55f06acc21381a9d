"""Read the size of a compressed tile from its own header, by which decoders allocate memory. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

from hubarray.arrays.codecs.image_headers import imagecodecs
from hubarray.limits import ANNOUNCED

# TIFF's numbers of compressions: https://www.loc.gov/preservation/digital/formats/content/tiff_tags.shtml, tag 259.
_JPEG, _JPEG_2000, _PNG, _WEBP = (6, 7, 33007, 34892), (33003, 33004, 33005, 34712), (34933,), (34927, 50001)
_JPEG_XL, _JPEG_XR, _LERC = (50002, 52546), (22610, 34934), (34887,)
# https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1: frames are C0 to CF but for three kinds of tables.
_NO_FRAMES = (0xC4, 0xC8, 0xCC)
_JPEG_ALONE = (0x01, *range(0xD0, 0xD9))
_JPEG_SCAN = 0xDA
_MAX_MARKERS = 1000
# ITU-T T.800, A.5.1, A.6.1 and I.4: size, coding style, tile part; and the box of the codestream.
_SIZ, _COD, _SOT = 0x51, 0x52, 0x90
_MIN_PRECINCT_EXPONENT = 4
_PNG_CHANNELS = {0: 1, 2: 3, 3: 4, 4: 2, 6: 4}
# ISO/IEC 18181-1, "SizeHeader": ratios of width to height.
_RATIOS = ((1, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_MAX_LERC_BYTES = 64 << 20
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


def _jpeg(data: bytes, samples_per_pixel: int) -> int:
    at = 2
    for _ in range(_MAX_MARKERS):
        if data[at] != 0xFF or data[at + 1] in (0x00, _JPEG_SCAN):
            break
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            height, width, channels = struct.unpack_from(">HHB", data, at + 5)
            return int(height * width * channels)
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError("it has no frame header")


def _jpeg_2000(data: bytes, samples_per_pixel: int) -> int:
    data = _codestream(data, b"\xff\x4f\xff\x51", {b"jp2c": 0})
    (x, y, left, top), (channels,) = struct.unpack_from(">4I", data, 8), struct.unpack_from(">H", data, 40)
    at = 2
    for _ in range(_MAX_MARKERS):
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at] != 0xFF or marker == _SOT or length < 2:
            break
        # A decoder makes room for every precinct, however small they are.
        if marker == _COD and data[at + 4] & 1:
            precincts = data[at + 14 : at + 2 + length]
            if min((min(precinct & 15, precinct >> 4) for precinct in precincts), default=0) < _MIN_PRECINCT_EXPONENT:
                raise ValueError(f"it has precincts of less than {1 << _MIN_PRECINCT_EXPONENT} samples")
        at += 2 + length
    return int(max(0, x - left) * max(0, y - top) * channels)


def _codestream(data: bytes, signature: bytes, kinds: Mapping[bytes, int]) -> bytes:
    """Return the codestream of an image, which may be in a box of one of some kinds, behind so many bytes."""
    at = 0
    for _ in range(_MAX_MARKERS):
        if data.startswith(signature, at):
            return data[at:]
        length, kind = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, start)
            start += 8
        if kind in kinds:
            at = start + kinds[kind]
            continue
        if length < start - at:
            break
        at += length
    raise ValueError("it has no codestream")


def _png(data: bytes, samples_per_pixel: int) -> int:
    width, height = struct.unpack_from(">2I", data, 16)
    return int(_PNG_CHANNELS[data[25]] * width * height)


def _webp(data: bytes, samples_per_pixel: int) -> int:
    # RFC 9649: three kinds of first chunks, of which each has 14 bits for a side, or 24.
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        raise ValueError("it is not a RIFF file")
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (length & 0x3FFF for length in struct.unpack_from("<2H", data, 26))
    return int(max(3, samples_per_pixel) * width * height)


def _jpeg_xl(data: bytes, samples_per_pixel: int) -> int:
    # ISO/IEC 18181-1, "SizeHeader" and "ImageMetadata", after the signature of the codestream.
    data = _codestream(data, b"\xff\x0a", {b"jxlc": 0, b"jxlp": 4})
    bits, at = int.from_bytes(data[2:64], "little"), 0

    def taken(count: int) -> int:
        nonlocal at
        at += count
        return bits >> (at - count) & ((1 << count) - 1)

    def side(small: int) -> int:
        return 8 * (1 + taken(5)) if small else 1 + taken((9, 13, 18, 30)[taken(2)])

    def size() -> tuple[int, int]:
        small = taken(1)
        height = side(small)
        ratio = taken(3)
        over, under = _RATIOS[ratio]
        return height, height * over // under if ratio else side(small)

    height, width = size()
    extra_channels = 0
    if not taken(1):
        if taken(1):
            taken(3)
            if taken(1):
                size()
            if taken(1) or taken(1):
                raise ValueError("it has a preview or moves")
        is_float = taken(1)
        taken((0, 0, 0, 6)[taken(2)] + 4 * is_float)
        taken(1)
        choice = taken(2)
        extra_channels = choice if choice < 2 else 2 + taken(4) if choice == 2 else 1 + taken(12)
    return (samples_per_pixel + extra_channels) * width * height


def _jpeg_xr(data: bytes, samples_per_pixel: int) -> int:
    # ITU-T T.832, annex A: a directory as of TIFF, with sizes and a place; and 8.3, sizes of the codestream there.
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    values = {}
    for i in range(count):
        tag, kind, _, value = struct.unpack_from("<HHII", data, at + 2 + 12 * i)
        values[tag] = value & 0xFFFF if kind == 3 else value
    image = values[0xBCC0]
    if data[image : image + 8] != b"WMPHOTO\0":
        raise ValueError("it has no codestream")
    width, height = struct.unpack_from(">2H" if data[image + 10] & 0x80 else ">2I", data, image + 12)
    area = max(values[0xBC80] * values[0xBC81], (1 + width) * (1 + height))
    return int(samples_per_pixel * area)


def _lerc(data: bytes, samples_per_pixel: int) -> int:
    # Deflate or Zstandard may wrap it.
    if data.startswith(_ZSTANDARD):
        if ANNOUNCED["zstd"](data) > _MAX_LERC_BYTES:
            raise ValueError(f"it decompresses to more than {_MAX_LERC_BYTES:,} bytes")
        try:
            data = imagecodecs().zstd_decode(data)
        except RuntimeError as error:
            raise ValueError("it is cut short") from error
    elif not data.startswith((b"Lerc2 ", b"CntZImage ")):
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(data, _MAX_LERC_BYTES)
        if not decompressor.eof:
            raise ValueError(f"it is cut short, or decompresses to more than {_MAX_LERC_BYTES:,} bytes")
    return sum(_lerc_bands(data))


def _lerc_bands(data: bytes) -> Iterator[int]:
    """Yield the samples of each band. Source: https://github.com/Esri/lerc, Lerc2.h, "HeaderInfo"."""
    at = 0
    while data[at : at + 6] == b"Lerc2 ":
        (version,) = struct.unpack_from("<i", data, at + 6)
        start = at + (14 if version > 2 else 10)
        height, width, depth, *others = struct.unpack_from("<6i", data, start)
        depth, length = (depth, others[2]) if version > 3 else (1, others[1])
        if min(height, width, depth) <= 0 or length < start + 24 - at:
            raise ValueError("it has an empty band")
        yield height * width * depth
        at += length
    if data[at : at + 10] == b"CntZImage ":
        # Lerc1 does not say how long a band is, so each further signature may begin one.
        height, width = struct.unpack_from("<2I", data, at + 18)
        yield height * width * data.count(b"CntZImage ", at)
    elif not at:
        raise ValueError("it is not LERC")


_SIZES: Mapping[int, Callable[[bytes, int], int]] = {
    **dict.fromkeys(_JPEG, _jpeg), **dict.fromkeys(_JPEG_2000, _jpeg_2000), **dict.fromkeys(_PNG, _png),
    **dict.fromkeys(_WEBP, _webp), **dict.fromkeys(_JPEG_XL, _jpeg_xl), **dict.fromkeys(_JPEG_XR, _jpeg_xr),
    **dict.fromkeys(_LERC, _lerc),
}  # fmt: skip
# Those of which one header tells all. LERC has one for each band.
_ONE_HEADER = frozenset(_SIZES) - frozenset(_LERC)


def has_own_size(compression: int) -> bool:
    """Return whether tiles of a compression are images with a size in their own header."""
    return compression in _SIZES


def needs_whole_tile(compression: int) -> bool:
    """Return whether :func:`declared_samples` needs all bytes of a tile, and not only the first ones."""
    return compression not in _ONE_HEADER


def declared_samples(compression: int, header: bytes, samples_per_pixel: int) -> int:
    """Return how many samples a compressed tile decodes to, by its own header.

    Parameters
    ----------
    compression : int
        TIFF's number of a compression that :func:`has_own_size`.
    header : bytes
        The first bytes of the tile, or all if the compression :func:`needs_whole_tile`.
    samples_per_pixel : int
        The channels of the page, for compressions whose header does not state them.

    Raises
    ------
    ValueError
        The header is damaged, or longer than the given bytes.

    Examples
    --------
    >>> declared_samples(34933, b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\1\\0\\0\\0\\0\\x10\\x08\\x02", 1)
    12288
    """
    try:
        return _SIZES[compression](header, samples_per_pixel)
    except (struct.error, IndexError, KeyError, zlib.error) as error:
        raise ValueError("it is damaged") from error
