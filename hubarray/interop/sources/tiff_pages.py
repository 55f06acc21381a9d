"""TIFF pages: which of them are images, whether they are all there, and what their numbers mean."""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np

from hubarray.errors import SourceError
from hubarray.extras import needed
from hubarray.interop.sources.base import MAX_ROW_BYTES
from hubarray.interop.sources.tile_sizes import declared_samples, has_own_size, needs_whole_tile

# TIFF 6.0, "PhotometricInterpretation".
MIN_IS_WHITE, PALETTE = 0, 3
_SEPARATED = 5
ORIENTATION = 274
_STRIP_OFFSETS, _TILE_OFFSETS = 273, 324
_SLAB_ROWS = 256
_MAX_COMPARED_BYTES = 1 << 16
# tifffile refuses pages with more.
_MAX_TAGS = 4096
# A tile of up to so many samples is left to the decoder, whatever the page says.
_MIN_CHECKED_SAMPLES = 1 << 24
# The header is within this many bytes, unless a profile or a preview comes before it.
_HEADER_BYTES = 4096
# The OME model, "Pixels".
_OME_PIXELS = re.compile(r"<(?:\w{1,20}:)?Pixels\b[^>]{1,10000}>")
_OME_SIZES = re.compile(r"\bSize([TCZ])=[\"'](\d{1,18})[\"']")


def open_tiff(file: str | BinaryIO) -> Any:
    """A TIFF file, given by its path or open, that tifffile reads; nothing but this file is looked at.

    Raises
    ------
    MissingPackageError
    """
    return needed("tifffile", extra="images", why="importing TIFF").TiffFile(file, _multifile=False)


def images_of(where: str, file: Any) -> list[Any]:
    """The series of an open file, without overviews and masks of another one.

    Raises
    ------
    SourceError
        Its description says more planes than it has pages, or its last page says that there is another one.
    """
    _check_description(where, file)
    _check_chain(where, file)
    every = list(file.series)
    whole = [page for page in every if not (page.keyframe.is_reduced or page.keyframe.is_mask)]
    return whole or every


def _check_description(where: str, file: Any) -> None:
    """Refuse an OME-TIFF that says more planes than it has pages, before room is made for each of them."""
    if not file.is_ome:
        return
    planes = 0
    for pixels in _OME_PIXELS.findall(file.ome_metadata):
        sizes = {name: int(number) for name, number in _OME_SIZES.findall(pixels)}
        planes += math.prod(sizes.get(name, 1) for name in "TCZ")
    page_count = len(file.pages) * max(1, int(file.pages.first.samplesperpixel))
    if planes > page_count:
        raise SourceError(
            f"{where}: is cut short: its description declares {planes:,} planes, and it has {len(file.pages):,} pages"
        )


def _check_chain(where: str, file: Any) -> None:
    """Refuse a file whose pages end before their chain does: tifffile gives those that are there.

    Each directory is a number of tags, the tags, and where the next directory is: TIFF 6.0, section 2.
    """
    layout, raw = file.tiff, file.filehandle
    raw.seek(file.pages[len(file.pages) - 1].offset)
    (count,) = struct.unpack(layout.tagnoformat, raw.read(layout.tagnosize))
    raw.seek(count * layout.tagsize, os.SEEK_CUR)
    following = raw.read(layout.offsetsize)
    if len(following) < layout.offsetsize or any(following):
        raise SourceError(f"{where}: is cut short: there are pages behind the {len(file.pages):,} that it has")


def tags_of_frame(page: Any, codes: Collection[int]) -> dict[int, bytes]:
    """Return the stored bytes of some tags of a page of which tifffile reads no tags, as another page stands for it."""
    layout, raw = page.parent.tiff, page.parent.filehandle
    raw.seek(page.offset)
    (count,) = struct.unpack(layout.tagnoformat, raw.read(layout.tagnosize))
    if count > _MAX_TAGS:
        return {}
    entries = raw.read(count * layout.tagsize)
    attrs = {}
    for at in range(0, len(entries), layout.tagsize):
        (code,) = struct.unpack_from(f"{layout.byteorder}H", entries, at)
        if code in codes:
            numbers = "QQ" if layout.is_bigtiff else "II"
            length, place = struct.unpack_from(f"{layout.byteorder}{numbers}", entries, at + 4)
            entry = entries[at : at + layout.tagsize]
            if length > layout.offsetsize:
                raw.seek(place)
                entry = entry[:2] + raw.read(min(length, _MAX_COMPARED_BYTES))
            attrs[code] = entry
    return attrs


def check_within(where: str, page: Any) -> None:
    """Refuse a page whose tiles or strips are not all in its file, or decode to more than it says.

    Raises
    ------
    SourceError
    """
    size = page.parent.filehandle.size
    pieces = [piece for piece in zip(page.dataoffsets, page.databytecounts, strict=False) if piece[1]]
    if max((offset + count for offset, count in pieces), default=0) > size:
        raise SourceError(f"{where}: is cut short: a page has pixels behind its end, at {size:,} bytes")
    about = page.keyframe
    if not has_own_size(int(about.compression)):
        return
    tile_samples = math.prod(about.chunks)
    max_samples = max(_MIN_CHECKED_SAMPLES, 2 * tile_samples)
    max_sum = max(_MIN_CHECKED_SAMPLES, 2 * tile_samples * math.prod(about.chunked))
    total = 0
    for offset, count in pieces:
        try:
            samples = _declared_samples(about, offset, count)
        except ValueError as error:
            raise SourceError(f"{where}: the header of a tile cannot be read: {error}") from None
        total += samples
        if samples > max_samples or total > max_sum:
            raise SourceError(
                f"{where}: the header of a tile declares {samples:,} samples, and by its page it has {tile_samples:,}"
            )


def _declared_samples(page: Any, offset: int, count: int) -> int:
    """Return the samples that a compressed tile of ``count`` bytes declares."""
    raw, compression, before = page.parent.filehandle, int(page.compression), page.jpegheader or b""
    samples = int(page.samplesperpixel) if page.planarconfig == 1 else 1
    if count > _HEADER_BYTES and not needs_whole_tile(compression):
        raw.seek(offset)
        with contextlib.suppress(ValueError):
            return declared_samples(compression, before + raw.read(_HEADER_BYTES), samples)
    raw.seek(offset)
    return declared_samples(compression, before + raw.read(count), samples)


def check_whole(where: str, page: Any) -> None:
    """Refuse a page that cannot be read whole: of odd samples, in large tiles, or of which tiles are not even named.

    Raises
    ------
    SourceError
    """
    if page.dtype is None:
        raise SourceError(f"{where}: has samples of {page.bitspersample} bits, which are not read")
    tile_bytes = math.prod(page.chunks) * np.dtype(page.dtype).itemsize if page.is_tiled else 0
    if tile_bytes > MAX_ROW_BYTES:
        raise SourceError(f"{where}: has tiles of {tile_bytes:,} bytes, and up to {MAX_ROW_BYTES:,} are read")
    tag = page.tags.get(_TILE_OFFSETS) or page.tags.get(_STRIP_OFFSETS)
    expected = math.prod(page.chunked)
    if tag is not None and tag.count < expected:
        # Decoders read those that are missing as zeros.
        raise SourceError(f"{where}: is cut short: it has {expected:,} tiles or strips, and names {tag.count:,}")
    check_within(where, page)


def as_meant(where: str, page: Any, values: np.ndarray) -> np.ndarray:
    """Pixels of a page as they are to be seen: light is more, and inks are RGB. Those of a palette stay numbers.

    Raises
    ------
    SourceError
        It counts white as least, and has alpha in a plane of its own.
    """
    if page.photometric == MIN_IS_WHITE and values.dtype.kind in "bu":
        if page.extrasamples and page.planarconfig != 1:
            raise SourceError(f"{where}: counts white as least, and has alpha in a plane of its own; convert it first")
        shades = values[..., : values.shape[-1] - len(page.extrasamples)] if page.extrasamples else values
        most = values.dtype.type((1 << page.bitspersample) - 1)
        image = values.copy()
        image[..., : shades.shape[-1]] = ~shades if values.dtype == bool else most - shades
        return image
    if is_inks(page, values.dtype):
        image = np.empty((*values.shape[:-1], 3), np.uint8)
        # Some rows at a time, as it takes numbers of 16 bits.
        for first in range(0, len(values), _SLAB_ROWS):
            rows = slice(first, first + _SLAB_ROWS)
            colours, black = (255 - values[rows][..., which].astype(np.uint16) for which in (slice(3), slice(3, 4)))
            image[rows] = (colours * black + 127) // 255
        return image
    return values


def is_inverted(page: Any) -> bool:
    """Return whether a page counts white as least, so that :func:`as_meant` inverts its counts."""
    return bool(page.photometric == MIN_IS_WHITE and np.dtype(page.dtype).kind in "bu")


def is_inks(page: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a page is of cyan, magenta, yellow and black in 8 bits."""
    return bool(page.photometric == _SEPARATED and page.samplesperpixel == 4 and dtype == np.uint8)


def turned(values: np.ndarray, orientation: int, axis: int = 0) -> np.ndarray:
    """Pixels that lie on a side, upright.

    Parameters
    ----------
    values : ndarray
    orientation : int
        1 to 8, as TIFF 6.0 and EXIF count.
    axis : int
        The axis of rows; that of columns follows.

    Examples
    --------
    >>> turned(np.array([[1, 2, 3]]), 6).tolist()
    [[1], [2], [3]]
    """
    rows, columns = axis, axis + 1
    mirrored = {2: (columns,), 3: (rows, columns), 4: (rows,), 6: (rows,), 7: (rows, columns), 8: (columns,)}
    image = np.flip(values, mirrored.get(orientation, ()))
    return np.ascontiguousarray(image.swapaxes(rows, columns) if orientation >= 5 else image)


def page_shape(where: str, page: Any) -> tuple[int, ...]:
    """The shape of a page's pixels as :func:`as_meant` gives them.

    Raises
    ------
    SourceError
        It is of inks in planes.
    """
    shape = tuple(map(int, page.shape))
    if not is_inks(page, np.dtype(page.dtype)):
        return shape
    if shape[-1] != 4:
        raise SourceError(f"{where}: is of inks in planes of their own; convert it to RGB")
    return (*shape[:-1], 3)


def palette_of(page: Any) -> list[list[float]] | None:
    """The colours of the numbers of a page: red, green and blue of 0 to 255; None where it has no palette."""
    palette = page.colormap if page.photometric == PALETTE else None
    if palette is None or palette.ndim != 2 or len(palette) != 3:
        return None
    wide = palette.T.astype(np.int64)
    # Of 16 bits, which writers make of 8 by two rules.
    for step in (257, 256):
        if not (wide % step).any():
            return [[int(level) for level in colour] for colour in wide // step]
    return [[level / 257 for level in colour] for colour in wide.tolist()]
