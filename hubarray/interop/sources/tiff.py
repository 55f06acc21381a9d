"""TIFF: stacks of pages with their axes, pages of any size by rows of tiles, and what GDAL, OME and ImageJ say."""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.extras import needed
from hubarray.interop.sources.base import MAX_ROW_BYTES, check_sizes, chosen, readable, stamp
from hubarray.interop.sources.found import common_attrs, json_attrs
from hubarray.interop.sources.members import Members, refuse_many, storable
from hubarray.interop.sources.sliced import boxes_of
from hubarray.interop.sources.tiff_pages import (
    ORIENTATION,
    PALETTE,
    as_meant,
    check_whole,
    check_within,
    images_of,
    is_inks,
    is_inverted,
    open_tiff,
    page_shape,
    palette_of,
    tags_of_frame,
    turned,
)  # fmt: skip

_TAGS = ("ImageDescription", "Software", "DateTime", "XResolution", "YResolution", "ResolutionUnit", "Orientation",
         "GDAL_NODATA")  # fmt: skip
_FACT_TAGS = (42112, 42113)
_GEO_TAGS = ("ModelPixelScaleTag", "ModelTiepointTag", "ModelTransformationTag")
_MAX_LETTERS = 4096
_MAX_XML_LETTERS = 1 << 20
# tifffile's letters, in the words that xarray and OME use.
_AXES = {"S": "c", "I": "page", "Q": "page"}
_READ_AT_ONCE_BYTES = 16 << 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class Tiff:
    """A series of a TIFF file, with the axes it names: a stack of pages, an OME-TIFF's T, Z, C, Y, X, ...

    Parameters
    ----------
    where : str
    key : str or None
        The number of the series, from 0, where there are several.
    upright : bool
        Turn pages that say that they lie on a side.
    """

    fill: Any = None

    def __init__(self, where: str, key: str | None = None, *, upright: bool = False) -> None:
        self.where = where
        self._open: Callable[[], Any] = partial(open_tiff, where)
        with self._open() as file:
            series = images_of(where, file)
            keys = [str(i) for i in range(len(series))]
            self._series = int(chosen(where, key or (keys[0] if len(keys) == 1 else None), keys))
            level = series[self._series]
            pages = self._pages(file)
            about = pages[0].keyframe if pages[0] is not None else level.keyframe
            shapes = {(page.shape, page.dtype) for page in pages if page is not None}
            declared = sum(math.prod(level.shape) for level in file.series)
            if any(page is None for page in pages) or declared > sum(math.prod(page.shape) for page in file.pages):
                raise SourceError(f"{where}: is cut short: pages are missing")
            if len(shapes) > 1:
                raise ConfigError(
                    f"{where}: its pages differ: {sorted(map(str, shapes))}; an array has elements of one shape"
                )
            page = tuple(pages[0].shape)
            whole, axes = tuple(map(int, level.shape)), str(level.axes)
            if whole[len(whole) - len(page) :] != page or math.prod(whole) != len(pages) * math.prod(page):
                whole, axes = (len(pages), *page), ""
            self._leading = whole[: len(whole) - len(page)]
            if not self._leading:
                # One image is a stack of one, as a folder with one image is.
                self._leading, axes = (1,), f"I{axes}" if axes else ""
            self._check_pages(pages, upright=upright)
            orientation = about.tags.valueof(ORIENTATION)
            self._turn = orientation if upright and orientation in range(1, 9) else 1
            # Planes of bands come before rows.
            self._row_axis = 1 if len(page) == 3 and about.shaped[0] > 1 else 0
            shape = list(page_shape(where, about))
            if self._turn >= 5:
                at = self._row_axis
                shape[at], shape[at + 1] = shape[at + 1], shape[at]
            self.shape: tuple[int, ...] = (*self._leading, *shape)
            self.rows: int | None = self.shape[0]
            self.row_shape, self.dtype = self.shape[1:], np.dtype(pages[0].dtype)
            self.dims: tuple[str | None, ...] | None = _dims(axes) if len(axes) == len(self.shape) else None
            self.attrs = tiff_attrs(where, file, about, pages)
            page_bytes = math.prod(page) * self.dtype.itemsize
            if page_bytes > MAX_ROW_BYTES:
                self._check_segments(about, page_bytes)
        self.fingerprint: list[Any] | None = [*stamp(where), self._series, self._turn]
        check_sizes(self, whole_rows=False, stored_bytes=os.path.getsize(where))

    def _check_pages(self, pages: Any, *, upright: bool) -> None:
        """Refuse pages that are cut short, or differ in what is said of all of them."""
        own = [page for page in pages if page.keyframe is page]
        for page in own:
            check_whole(self.where, page)
        if upright and len({page.tags.valueof(ORIENTATION) for page in own}) > 1:
            raise ConfigError(f"{self.where}: its pages have different orientations, and can be turned only one by one")
        if len({repr(palette_of(page)) for page in own if page.photometric == PALETTE}) > 1:
            raise ConfigError(f"{self.where}: its pages have different palettes; import them one by one, with key=")

    def _check_segments(self, page: Any, page_bytes: int) -> None:
        """Refuse a page that is too large to be held, if its tiles or strips are, too."""
        # A strip may say more rows than there are.
        rows = min(page.tilelength if page.is_tiled else page.rowsperstrip, page.imagelength)
        segment_bytes = rows * math.prod(page.chunks[1:]) * self.dtype.itemsize
        if self._turn != 1:
            raise SourceError(f"{self.where}: a page of it takes {page_bytes:,} bytes, more than is turned at once")
        if segment_bytes > MAX_ROW_BYTES and not page.is_memmappable:
            raise SourceError(
                f"{self.where}: a page of it takes {page_bytes:,} bytes, and is compressed in pieces of "
                f"{segment_bytes:,}, of which up to {MAX_ROW_BYTES:,} are read; write it in tiles"
            )

    def _pages(self, file: Any) -> Any:
        if len(file.series) == 1 and len(file.series[0].levels) == 1:
            return file.pages
        return images_of(self.where, file)[self._series].pages

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        pages_a_row = math.prod(self._leading[1:])
        with readable(self.where), self._open() as file:
            pages = self._pages(file)
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                page_numbers = range(first * pages_a_row, (first + count) * pages_a_row)
                pages_read = [self._page(pages[i]) for i in page_numbers]
                yield np.stack(pages_read).reshape(count, *self.row_shape)

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`: page by page, and of large pages some rows of tiles at a time."""
        pages_a_row = math.prod(self._leading[1:])
        with readable(self.where), self._open() as file:
            pages = self._pages(file)
            for i, place in enumerate(np.ndindex(*self._leading[1:])):
                page = pages[row * pages_a_row + i]
                if self._turn != 1:
                    yield place, self._page(page)
                    continue
                check_within(self.where, page)
                for where, values in pieces_of(page, max_bytes):
                    yield (*place, *where), as_meant(self.where, page.keyframe, values)

    def _page(self, page: Any) -> np.ndarray:
        check_within(self.where, page)
        return turned(as_meant(self.where, page.keyframe, page.asarray()), self._turn, self._row_axis)


def tiff_members(where: str, *, upright: bool) -> Members | None:
    """The series of a TIFF that has several, by their numbers; None of one alone."""
    with open_tiff(where) as file:
        names = [str(i) for i in range(len(images_of(where, file)))]
    refuse_many(where, dict.fromkeys(names))
    if len(names) == 1:
        return None
    arrays = storable(where, {f"series{name}": partial(Tiff, where, name, upright=upright) for name in names})
    return Members(where, arrays, {}, stamp(where))


def pieces_of(page: Any, max_bytes: int) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Iterate over pieces of a page with about this number of bytes: the position of each, and its stored pixels.

    Raises
    ------
    SourceError
    """
    about, dtype = page.keyframe, np.dtype(page.dtype)
    if math.prod(page.shape) * dtype.itemsize <= max_bytes or about.shaped[1] != 1:
        yield (), page.asarray()
        return
    if about.is_memmappable:
        mapped = page.asarray(out="memmap")
        for box in boxes_of(mapped.shape, dtype.itemsize, max_bytes):
            yield box, np.array(mapped[box])
        return
    planes = len(page.shape) == 3 and about.shaped[0] > 1
    held: list[tuple[int, np.ndarray]] = []
    at, size = (0, 0), 0
    # One after the other: of what compresses well, those that threads decode ahead would take all memory.
    for segment, (plane, _, y, x, _), shape in page.segments(
        maxworkers=1, buffersize=_READ_AT_ONCE_BYTES, _fullsize=False
    ):
        if y >= about.imagelength or x >= about.imagewidth:
            continue
        if held and ((plane, y) != at or size > max_bytes):
            yield _joined(held, *at, planes=planes)
            held, size = [], 0
        height, width = min(shape[1], about.imagelength - y), min(shape[2], about.imagewidth - x)
        piece = np.full((height, width, shape[3]), about.nodata, dtype)
        if segment is not None:
            piece = np.asarray(segment).reshape(shape)[0, :height, :width]
        held.append((x, piece if len(page.shape) == 3 and not planes else piece[..., 0]))
        at, size = (plane, y), size + piece.nbytes
    if held:
        yield _joined(held, *at, planes=planes)


def _joined(held: list[tuple[int, np.ndarray]], plane: int, y: int, *, planes: bool) -> tuple[Any, np.ndarray]:
    """Neighbouring tiles of a row as one piece."""
    first, last = held[0], held[-1]
    where = (slice(y, y + first[1].shape[0]), slice(first[0], last[0] + last[1].shape[1]))
    return ((plane, *where) if planes else where), np.concatenate([part for _, part in held], axis=1)


def _dims(axes: str) -> tuple[str, ...]:
    names = [_AXES.get(letter, letter.lower()) for letter in axes]
    # An axis of samples beside one of channels, say.
    return tuple(name if names.count(name) == 1 else f"{name}{i}" for i, name in enumerate(names))


def tiff_attrs(where: str, file: Any, page: Any, pages: Iterable[Any]) -> dict[str, Any]:
    """Return physical sizes, channels, georeference, common tags, and what the pages say of their values.

    Parameters
    ----------
    where : str
    file : tifffile.TiffFile
    page : tifffile.TiffPage
        The page whose tags are kept.
    pages : iterable of tifffile.TiffPage or tifffile.TiffFrame
        All pages of the image.
    """
    facts: dict[str, Any] = {}
    tags = page.tags
    tag_values = {name: _plain(tags[name].value) for name in _TAGS if name in tags}
    if file.is_ome:
        tag_values.pop("ImageDescription", None)
        tifffile = needed("tifffile", extra="images", why="importing TIFF")
        pixels = _first(tifffile.xml2dict(file.ome_metadata).get("OME", {}).get("Image", {})).get("Pixels", {})
        sizes = {name: value for name, value in pixels.items() if name.startswith(("PhysicalSize", "TimeIncrement"))}
        channels = pixels.get("Channel", [])
        named = [channel.get("Name") for channel in (channels if isinstance(channels, list) else [channels])]
        facts["ome"] = sizes | ({"Channels": named} if any(named) else {})
    if file.imagej_metadata:
        described = {name: value for name, value in file.imagej_metadata.items() if name != "Info"}
        facts["imagej"] = {name: _plain(value) for name, value in described.items()}
        tag_values.pop("ImageDescription", None)
    geo = dict(getattr(file, "geotiff_metadata", None) or {})
    geo |= {name: _plain(tags[name].value) for name in _GEO_TAGS if name in tags}
    if geo:
        facts["geotiff"] = {name: _plain(value) for name, value in geo.items()}
    palette = palette_of(page)
    if palette is not None:
        facts["colormap"] = palette
    if tag_values:
        facts["tiff"] = tag_values
    return json_attrs(where, facts | common_attrs(f"{where}: its pages", _facts_of(pages)))


def _facts_of(pages: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the facts of each page that has tags of its own, and no facts for one that differs from its keyframe."""
    expected: dict[int, dict[int, bytes]] = {}
    for page in pages:
        about = page.keyframe
        if about is page:
            yield _facts(page)
            continue
        if id(about) not in expected:
            expected[id(about)] = tags_of_frame(about, _FACT_TAGS)
            yield _facts(about)
        if tags_of_frame(page, _FACT_TAGS) != expected[id(about)]:
            yield {}


def _facts(page: Any) -> dict[str, Any]:
    """Return what a page says of its values: GDAL's facts of bands, and the fill value."""
    tags = page.tags
    if is_inks(page, np.dtype(page.dtype)):
        # They are facts of inks, and the values become RGB.
        return {}
    attrs = gdal_attrs(str(tags["GDAL_METADATA"].value), page.samplesperpixel) if "GDAL_METADATA" in tags else {}
    fill = _fill_value(tags["GDAL_NODATA"].value, np.dtype(page.dtype)) if "GDAL_NODATA" in tags else None
    if fill is not None:
        attrs["_FillValue"] = fill
    return _inverted(attrs, (1 << page.bitspersample) - 1) if is_inverted(page) else attrs


def _inverted(facts: dict[str, Any], top: int) -> dict[str, Any]:
    """Return the facts of counts that are stored as ``top`` minus what a file has."""
    attrs = dict(facts)
    if "_FillValue" in facts:
        attrs["_FillValue"] = top - facts["_FillValue"]
    for scale, offset in (("scale_factor", "add_offset"), ("scales", "offsets")):
        if scale in facts or offset in facts:
            scales, offsets = np.asarray(facts.get(scale, 1.0)), np.asarray(facts.get(offset, 0.0))
            attrs |= {scale: (-scales).tolist(), offset: (offsets + scales * top).tolist()}
    return attrs


def gdal_attrs(text: str, bands: int) -> dict[str, Any]:
    """GDAL's facts of bands, in the words of CF and rioxarray, and its other items under ``"gdal"``.

    Source: https://gdal.org/drivers/raster/gtiff.html, "Metadata".

    Examples
    --------
    >>> gdal_attrs('<GDALMetadata><Item name="SCALE" sample="0" role="scale">0.5</Item></GDALMetadata>', 1)
    {'scale_factor': 0.5}
    """
    if len(text) > _MAX_XML_LETTERS or "<!" in text:
        return {"gdal": {"GDAL_METADATA": text[:_MAX_LETTERS]}}
    try:
        items = list(ElementTree.fromstring(text.rstrip("\0")).iter("Item"))
    except ElementTree.ParseError:
        return {"gdal": {"GDAL_METADATA": text[:_MAX_LETTERS]}}
    of_bands: dict[str, dict[int, str]] = {}
    others: dict[str, Any] = {}
    for item in items:
        name, sample, value = item.get("name", ""), item.get("sample", ""), (item.text or "")[:_MAX_LETTERS]
        role = item.get("role", "")
        if sample.isdecimal() and len(sample) < 6 and int(sample) < bands:
            of_bands.setdefault(role or name, {})[int(sample)] = value
        else:
            others[name] = value
    by_role = {role: of_bands.pop(role, {}) for role in ("scale", "offset")}
    try:
        scales, offsets = ([_finite(by_role[role].get(i, default)) for i in range(bands)] if by_role[role] else []
                           for role, default in (("scale", "1"), ("offset", "0")))  # fmt: skip
    except ValueError:
        # One of them alone would decode to wrong numbers.
        others |= {role: [texts.get(i) for i in range(bands)] for role, texts in by_role.items() if texts}
        scales, offsets = [], []
    attrs: dict[str, Any] = {}
    is_one = len(set(scales)) < 2 and len(set(offsets)) < 2
    for numbers, alone, several in ((scales, "scale_factor", "scales"), (offsets, "add_offset", "offsets")):
        if numbers:
            attrs |= {alone: numbers[0]} if is_one else {several: numbers}
    for role, named in (("description", "long_name"), ("unittype", "units")):
        named_bands = of_bands.pop(role, {})
        if named_bands:
            texts = [named_bands.get(i, "") for i in range(bands)]
            attrs[named] = texts[0] if bands == 1 else texts
    others |= {role: [texts.get(i) for i in range(bands)] for role, texts in of_bands.items()}
    return attrs | ({"gdal": others} if others else {})


def _finite(text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text[:80]!r} is not a number")
    return number


def _fill_value(tag_text: Any, dtype: np.dtype[Any]) -> int | float | None:
    """The number that stands for no data, if the dtype has it."""
    try:
        text = str(tag_text).strip(" \0")
        number = _finite(text)
        fill = int(text) if dtype.kind in "iu" and text.lstrip("+-").isdecimal() else number
        return fill if dtype.kind in "iuf" and dtype.type(fill) == fill else None
    except (ValueError, OverflowError):
        return None


def _first(value: Any) -> dict[str, Any]:
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _plain(value: Any) -> Any:
    """A tag's value as JSON has it: enumerations by name, ratios and arrays as lists, long texts cut."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return value[:_MAX_LETTERS]
    if isinstance(value, bytes):
        return value[:_MAX_LETTERS].decode("utf-8", "replace")
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value[:_MAX_LETTERS]]
    return value if isinstance(value, (bool, int, float)) or value is None else str(value)[:_MAX_LETTERS]
