"""Single images in files: PNG, JPEG, TIFF and other formats of Pillow, recognized by content, with every bit."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from hubarray.arrays.codecs.image_headers import imagecodecs
from hubarray.errors import SourceError
from hubarray.extras import needed
from hubarray.interop.sources.base import MAX_ROW_BYTES, readable
from hubarray.interop.sources.found import common_attrs
from hubarray.interop.sources.tiff import tiff_attrs
from hubarray.interop.sources.tiff_pages import (
    as_meant,
    check_whole,
    images_of,
    open_tiff,
    page_shape,
    palette_of,
    turned,
)
from hubarray.sources import content
from hubarray.values import packing

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
# https://www.w3.org/TR/png-3/, "IHDR": a byte of depth, and one of the colour type, of which 0 is grey.
_PNG, _DEPTH, _COLOUR_TYPE = b"\x89PNG\r\n\x1a\n", 24, 25
_NETPBM_BYTES = 1024
# EXIF 2.32, and the tag of TIFF.
_ORIENTATION = 0x0112


class Still(NamedTuple):
    """Facts of an image, of which no pixel was decoded.

    Attributes
    ----------
    kind : str
        ``"PNG"``, ``"JPEG"``, ``"TIFF"``, and what else Pillow calls it.
    height, width, channels : int
        As they are stored; pixels of a palette have one channel.
    colours : int
        Channels of the colours of a palette; of other images as ``channels``.
    is_wide : bool
        Whether pixels have more than 8 bits.
    frames : int
        More than one of what moves, and of stacks.
    palette : bytes or None
        The colours of its numbers, to be compared with those of another image.
    orientation : int
        1 to 8, as EXIF counts; 1 is upright.
    dtype : str
        Of a pixel's numbers.
    bands_first : bool
        Whether each channel is a plane of its own.
    """

    kind: str
    height: int
    width: int
    channels: int
    colours: int
    is_wide: bool
    frames: int
    palette: bytes | None
    orientation: int
    dtype: str
    bands_first: bool = False

    def size(self, *, upright: bool) -> tuple[int, int]:
        """Height and width, of the image that was turned if it is to be upright."""
        turned = upright and self.orientation >= 5
        return (self.width, self.height) if turned else (self.height, self.width)


def still_of(where: str, data: bytes | None = None) -> Still:
    """The facts of an image file.

    Parameters
    ----------
    where : str
        Its path, or what to call ``data`` in errors.
    data : bytes, optional
        The file's content, where it is in no file.

    Raises
    ------
    SourceError
    """
    return _examined(where, data, with_attrs=False)[0]


def still_and_attrs(path: str) -> tuple[Still, dict[str, Any]]:
    """Return the facts of an image file, and its attributes: those of :func:`tiff_attrs`, or none of other kinds.

    Raises
    ------
    SourceError
    """
    return _examined(path, None, with_attrs=True)


def _examined(where: str, data: bytes | None, *, with_attrs: bool) -> tuple[Still, dict[str, Any]]:
    with readable(where), _begun(where, data) as file:
        if content.kind_of_content(file) == content.TIFF:
            with open_tiff(file) as tiff:
                page, frames = _only_page(where, tiff)
                attrs = tiff_attrs(where, tiff, page, [page]) if with_attrs else {}
                # Masks that share a palette may each have only the beginning of it.
                attrs.pop("colormap", None)
                shape, own_palette = page_shape(where, page), palette_of(page)
                height, width, channels = (*shape, 1)[:3] if _is_flat(page) else (*shape[1:], shape[0])
                still = Still(
                    "TIFF", height, width, channels, channels if own_palette is None else 3,
                    np.dtype(page.dtype).itemsize > 1, frames,
                    None if own_palette is None else repr(own_palette).encode(), _turn(page.tags.valueof(_ORIENTATION)),
                    str(np.dtype(page.dtype)), not _is_flat(page),
                )  # fmt: skip
                return still, attrs
        with _opened(where, file) as image:
            palette = _palette(image)
            channels = 1 if palette is not None else 3 if image.mode == "CMYK" else len(image.getbands())
            channels += _has_clear_colour(image)
            # What a camera keeps beside a JPEG, such as a preview, is no frame.
            kind = "JPEG" if image.format == "MPO" else str(image.format)
            frames = 1 if kind == "JPEG" else int(getattr(image, "n_frames", 1))
            is_wide = image.mode.startswith(("I", "F")) or _has_wide_colours(file)
            orientation = _orientation(image)
            colours = channels if palette is None else 4 if "transparency" in image.info else 3
            dtype = "uint16" if is_wide else "uint8"
            still = Still(
                kind, image.height, image.width, channels, colours, is_wide, frames, palette, orientation, dtype
            )  # fmt: skip
            return still, {}


def pixels(
    where: str,
    data: bytes | None = None,
    *,
    numbers: bool = True,
    upright: bool = False,
    bands_last: bool = True,
) -> np.ndarray:
    """The pixels of an image file: height by width, or by channels too.

    Parameters
    ----------
    where, data
        As of :func:`still_of`.
    numbers : bool
        For an image with a palette, whether to keep its numbers instead of its colors.
    upright : bool
        Turn what says that it lies on a side.
    bands_last : bool
        Return channels as the last axis. If false, planes of channels keep the first axis.

    Raises
    ------
    SourceError
        It cannot be read, or is larger than is read at once.
    """
    with readable(where), _begun(where, data) as file:
        image, orientation, row_axis = _decoded(where, file, numbers=numbers)
        image = turned(image, orientation, row_axis) if upright else image
        return np.ascontiguousarray(np.moveaxis(image, 0, -1)) if bands_last and row_axis else image


def colours_of(path: str) -> list[list[float]]:
    """The palette of an image file, as lists of red, green and blue, and alpha where some are transparent."""
    with readable(path), _begun(path, None) as file:
        if content.kind_of_content(file) == content.TIFF:
            with open_tiff(file) as tiff:
                return palette_of(_only_page(path, tiff)[0]) or []
        with _opened(path, file) as image:
            kind = "RGBA" if "transparency" in image.info else "RGB"
            flat = image.getpalette(kind) or []
            return [flat[i : i + len(kind)] for i in range(0, len(flat), len(kind))]


def _begun(where: str, data: bytes | None) -> BinaryIO:
    return open(where, "rb") if data is None else io.BytesIO(data)


def _decoded(where: str, file: BinaryIO, *, numbers: bool) -> tuple[np.ndarray, int, int]:
    """Return the stored pixels, their EXIF orientation, and their axis of rows."""
    if content.kind_of_content(file) == content.TIFF:
        with open_tiff(file) as tiff:
            page, _ = _only_page(where, tiff)
            _check_size(where, math.prod(page.shape) * np.dtype(page.dtype).itemsize)
            decoded = as_meant(where, page, page.asarray())
            palette = None if numbers else palette_of(page)
            if palette is not None:
                decoded = np.asarray(palette)[decoded].astype(np.uint8)
            return np.ascontiguousarray(decoded), _turn(page.tags.valueof(_ORIENTATION)), 0 if _is_flat(page) else 1
    with _opened(where, file) as image:
        # Before anything is decoded: what is declared is what will be taken.
        _check_size(where, image.width * image.height * (4 if image.mode == "P" else len(image.getbands())))
        orientation = _orientation(image)
        if _has_wide_colours(file) or (_has_clear_colour(image) and image.mode.startswith("I")):
            file.seek(0)
            return np.asarray(imagecodecs().png_decode(file.read())), orientation, 0
        if image.mode in ("P", "PA") and not (numbers and image.mode == "P"):
            image = image.convert("RGBA" if image.mode == "PA" or "transparency" in image.info else "RGB")
        elif image.mode == "CMYK":
            image = image.convert("RGB")
        elif _has_clear_colour(image):
            image = image.convert("RGBA" if image.mode == "RGB" else "LA")
        return np.asarray(image), orientation, 0


def _only_page(where: str, file: Any) -> tuple[Any, int]:
    """The page of a TIFF file that is one image, and how many frames there are."""
    series = images_of(where, file)
    if not series or series[0].keyframe is None:
        raise SourceError(f"{where}: has no image")
    page = series[0].keyframe
    check_whole(where, page)
    return page, max(1, sum(len(level.pages) for level in series) * int(page.imagedepth))


def _is_flat(page: Any) -> bool:
    """Whether its bands lie side by side in each pixel, or there is one."""
    return not (len(page.shape) == 3 and page.shaped[0] > 1)


def _opened(where: str, file: BinaryIO) -> Any:
    pillow = needed("PIL.Image", extra="images", why="importing images")
    _refuse_scaled(where, file)
    file.seek(0)
    try:
        # Whatever the name says, Pillow goes by the content, and would have Ghostscript run what is PostScript.
        return pillow.open(file, formats=FORMATS)
    except needed("PIL", extra="images", why="importing images").UnidentifiedImageError:
        raise SourceError(f"{where}: is truncated, or is not an image of a known format") from None


def _has_clear_colour(image: Any) -> bool:
    """Return whether one color of a PNG is transparent, which is shown as an alpha channel."""
    return image.format == "PNG" and "transparency" in image.info and image.mode in ("1", "L", "RGB", "I;16", "I")


def _refuse_scaled(where: str, file: BinaryIO) -> None:
    """Refuse a PPM or PGM whose numbers Pillow would scale: those of other maxima than bytes have.

    Raises
    ------
    SourceError
    """
    file.seek(0)
    begin = re.sub(rb"#[^\n]*\n", b" ", file.read(_NETPBM_BYTES)).split()
    # Of grey, 16 bits whole are kept.
    max_values = {b"P2": (b"255", b"65535"), b"P5": (b"255", b"65535"), b"P3": (b"255",), b"P6": (b"255",)}
    if len(begin) > 3 and begin[3] not in max_values.get(begin[0], (begin[3],)):
        raise SourceError(f"{where}: its largest number is not 255, and would be scaled; convert it to PNG or TIFF")


def _check_size(where: str, size_bytes: int) -> None:
    if size_bytes > MAX_ROW_BYTES:
        raise SourceError(f"{where}: takes {size_bytes:,} bytes, more than is read at once")


def _palette(image: Any) -> bytes | None:
    if image.mode != "P" or image.palette is None:
        return None
    kind, colours = image.palette.getdata()
    # What is transparent comes first, as palettes are alike if one begins the other.
    return f"{kind} {image.info.get('transparency')!r} ".encode() + bytes(colours)


def _orientation(image: Any) -> int:
    # Of a PNG without it, Pillow would decode all to look behind the pixels.
    known = image.format != "PNG" or "exif" in image.info
    return _turn(image.getexif().get(_ORIENTATION)) if known else 1


def _turn(tag: Any) -> int:
    return tag if isinstance(tag, int) and 1 <= tag <= 8 else 1


def _has_wide_colours(file: BinaryIO) -> bool:
    """Whether it is a PNG of 16 bits and several channels, of which Pillow keeps 8 bits."""
    at = file.tell()
    file.seek(0)
    begin = file.read(_COLOUR_TYPE + 1)
    # Pillow reads on from where it was.
    file.seek(at)
    return begin.startswith(_PNG) and len(begin) > _COLOUR_TYPE and begin[_DEPTH] == 16 and begin[_COLOUR_TYPE] != 0


def shared_attrs(
    where: str,
    paths: Sequence[str],
    stills: Iterable[Still],
    every: Iterable[Mapping[str, Any]],
    *,
    numbers: bool,
) -> dict[str, Any]:
    """Return the attributes that all images of a folder share, and the palette that class numbers refer to.

    Parameters
    ----------
    where : str
        The folder, for warnings.
    paths, stills, every : sequences
        The path, the facts and the attributes of each image.
    numbers : bool
        Whether images with a palette are stored as class numbers. If not, facts of these numbers are left out.
    """
    attrs = common_attrs(f"{where}: its images", every)
    palettes = [(len(still.palette), path) for still, path in zip(stills, paths, strict=True) if still.palette]
    if palettes and numbers:
        attrs["colormap"] = colours_of(max(palettes)[1])
    elif palettes:
        attrs = {name: value for name, value in attrs.items() if name not in packing.ATTRIBUTES}
    return attrs


def is_class_palette(stills: list[Still]) -> bool:
    """Whether images with a palette are masks, whose numbers are classes, and no photographs of few colours.

    Masks of a dataset share a palette, of which some may have only the beginning; others are of one channel, too.
    """
    longest = max((still.palette for still in stills if still.palette is not None), key=len, default=b"")
    return all(
        longest.startswith(still.palette) if still.palette is not None else still.channels == 1 for still in stills
    )  # fmt: skip
