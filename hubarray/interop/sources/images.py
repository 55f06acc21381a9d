"""Image files: TIFF with its axes and physical sizes, and folders of images of equal size, by classes or not."""

from __future__ import annotations

import enum
import glob
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.missing import needed
from hubarray.interop.sources.base import (
    MAX_ROW_BYTES,
    check_sizes,
    chosen,
    readable,
    refuse_links_out,
    stamp,
    whole_parts,
)
from hubarray.interop.sources.found import json_attrs
from hubarray.sources.folders import data_among, fixed_part, is_hidden

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
TIFF_SUFFIXES = (".tif", ".tiff")
_TAGS = ("ImageDescription", "Software", "DateTime", "XResolution", "YResolution", "ResolutionUnit", "GDAL_NODATA")
_GEO_TAGS = ("ModelPixelScaleTag", "ModelTiepointTag", "ModelTransformationTag")
_MOST_LETTERS = 4096
# tifffile's letters, in the words that xarray and OME use.
_AXES = {"S": "c", "I": "page", "Q": "page"}


class Tiff:
    """A series of a TIFF file, with the axes it names: a stack of pages, an OME-TIFF's T, Z, C, Y, X, ...

    Parameters
    ----------
    where : str
    key : str or None
        The number of the series, from 0, where there are several.
    """

    def __init__(self, where: str, key: str | None = None) -> None:
        tifffile = needed("tifffile", extra="images", why="importing TIFF")
        self.where = where
        self._open: Callable[[], Any] = lambda: tifffile.TiffFile(where, _multifile=False)
        with self._open() as file:
            keys = [str(i) for i in range(len(file.series))]
            self._series = int(chosen(where, key or (keys[0] if len(keys) == 1 else None), keys))
            series = file.series[self._series]
            pages = series.pages if len(keys) > 1 else file.pages
            shapes = {(page.shape, page.dtype) for page in pages if page is not None}
            declared = sum(math.prod(one.shape) for one in file.series)
            if any(page is None for page in pages) or declared > sum(math.prod(page.shape) for page in file.pages):
                raise SourceError(f"{where}: is cut short: pages are missing")
            if len(shapes) > 1:
                raise ConfigError(
                    f"{where}: its pages differ: {sorted(map(str, shapes))}; an array has elements of one shape"
                )
            page = tuple(pages[0].shape)
            whole, axes = tuple(map(int, series.shape)), str(series.axes)
            if whole[len(whole) - len(page) :] != page or math.prod(whole) != len(pages) * math.prod(page):
                whole, axes = (len(pages), *page), ""
            self._page_shape, self._leading = page, whole[: len(whole) - len(page)]
            if not self._leading:
                # One image is a stack of one, as a folder with one image is.
                self._leading, whole, axes = (1,), (1, *whole), f"I{axes}" if axes else ""
            self.rows: int | None = whole[0]
            self.row_shape, self.dtype = whole[1:], np.dtype(pages[0].dtype)
            self.dims: tuple[str | None, ...] | None = _dims(axes) if len(axes) == len(whole) else None
            self.attrs = _tiff_attrs(where, file, pages[0], tifffile)
        self.fingerprint: list[Any] | None = [*stamp(where), self._series]
        page_bytes = math.prod(page) * self.dtype.itemsize
        if page_bytes > MAX_ROW_BYTES:
            raise SourceError(
                f"{where}: a page of it takes {page_bytes:,} bytes and is read whole, which is done up to "
                f"{MAX_ROW_BYTES:,}; make the array with hub.array, and assign it in parts"
            )
        check_sizes(self, whole_rows=False)

    def _pages(self, file: Any) -> Any:
        return file.series[self._series].pages if len(file.series) > 1 else file.pages

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        pages_a_row = math.prod(self._leading[1:])
        with readable(self.where), self._open() as file:
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                wanted = range(first * pages_a_row, (first + count) * pages_a_row)
                yield np.stack([self._pages(file)[i].asarray() for i in wanted]).reshape(count, *self.row_shape)

    def parts(self, row: int, most_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`: page by page."""
        pages_a_row = math.prod(self._leading[1:])
        with readable(self.where), self._open() as file:
            for i, place in enumerate(np.ndindex(*self._leading[1:])):
                yield place, self._pages(file)[row * pages_a_row + i].asarray()


def _dims(axes: str) -> tuple[str, ...]:
    names = [_AXES.get(letter, letter.lower()) for letter in axes]
    # An axis of samples beside one of channels, say.
    return tuple(name if names.count(name) == 1 else f"{name}{i}" for i, name in enumerate(names))


def _tiff_attrs(where: str, file: Any, page: Any, tifffile: Any) -> dict[str, Any]:
    """Physical sizes, channels and place, and the tags that people look at."""
    found: dict[str, Any] = {}
    tags = page.tags
    kept = {name: _plain(tags[name].value) for name in _TAGS if name in tags}
    if file.is_ome:
        kept.pop("ImageDescription", None)
        pixels = _first(tifffile.xml2dict(file.ome_metadata).get("OME", {}).get("Image", {})).get("Pixels", {})
        sizes = {name: value for name, value in pixels.items() if name.startswith(("PhysicalSize", "TimeIncrement"))}
        channels = pixels.get("Channel", [])
        named = [one.get("Name") for one in (channels if isinstance(channels, list) else [channels])]
        found["ome"] = sizes | ({"Channels": named} if any(named) else {})
    if file.imagej_metadata:
        described = {name: value for name, value in file.imagej_metadata.items() if name != "Info"}
        found["imagej"] = {name: _plain(value) for name, value in described.items()}
        kept.pop("ImageDescription", None)
    geo = dict(getattr(file, "geotiff_metadata", None) or {})
    geo |= {name: _plain(tags[name].value) for name in _GEO_TAGS if name in tags}
    if geo:
        found["geotiff"] = {name: _plain(value) for name, value in geo.items()}
    if kept:
        found["tiff"] = kept
    return json_attrs(where, found)


def _first(value: Any) -> dict[str, Any]:
    one = value[0] if isinstance(value, list) and value else value
    return one if isinstance(one, dict) else {}


def _plain(value: Any) -> Any:
    """A tag's value as JSON has it: enumerations by name, ratios and arrays as lists, long texts cut."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return value[:_MOST_LETTERS]
    if isinstance(value, bytes):
        return value[:_MOST_LETTERS].decode("utf-8", "replace")
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value[:_MOST_LETTERS]]
    return value if isinstance(value, (bool, int, float)) or value is None else str(value)[:_MOST_LETTERS]


class Images:
    """Image files of equal size, sorted by the numbers in their names; those in folders of their own, class by class.

    Attributes
    ----------
    classes : list of str
        Names of the folders, where images lie in folders by class; else empty.
    labels : list of int
        Of each image, the number of its class.
    names : list of str
        Of each image, its path within the folder.
    """

    def __init__(self, where: str, *, follow_links: bool) -> None:
        self._pillow = needed("PIL.Image", extra="images", why="importing images")
        self.where = where
        folder = where if os.path.isdir(where) else fixed_part(where)
        self._paths, by_class = _in_folder(where) if os.path.isdir(where) else (_images(where), False)
        self.classes = sorted({Path(path).parent.name for path in self._paths}) if by_class else []
        if not self._paths:
            raise SourceError(f"{where}: there are no images; Parquet becomes a table, by hub.import_table")
        if not follow_links:
            refuse_links_out(folder, self._paths)
        self.labels = [self.classes.index(Path(path).parent.name) for path in self._paths if self.classes]
        self.names = [os.path.relpath(path, folder) for path in self._paths]
        first = self._image(self._paths[0])
        self.row_shape, self.dtype = first.shape, first.dtype
        for path in self._paths:
            with readable(path), self._opened(path) as image:
                if getattr(image, "n_frames", 1) > 1:
                    raise SourceError(
                        f"{path}: has {image.n_frames} frames; import it by itself, as a TIFF stack or a video"
                    )
                if (image.height, image.width) != self.row_shape[:2]:
                    raise SourceError(
                        f"{path} is {image.height} x {image.width} and {self._paths[0]} is {self.row_shape[0]} x "
                        f"{self.row_shape[1]}; make them one size, or a table of them: hub.import_table"
                    )
        self.rows: int | None = len(self._paths)
        self.attrs: dict[str, Any] = {"classes": self.classes} if self.classes else {}
        self.dims: tuple[str | None, ...] | None = ("sample", "y", "x", "c")[: 1 + len(self.row_shape)]
        self.fingerprint: list[Any] | None = [stamp(path) for path in self._paths]
        check_sizes(self, whole_rows=True)

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        for first in range(start, len(self._paths), block_rows):
            rows = [self._image(path) for path in self._paths[first : first + block_rows]]
            for path, row in zip(self._paths[first:], rows, strict=False):
                if (row.shape, row.dtype) != (self.row_shape, self.dtype):
                    raise SourceError(
                        f"{path} is {row.dtype} of shape {row.shape} and {self._paths[0]} {self.dtype} of "
                        f"{self.row_shape}; convert them to one mode, or make a table of them: hub.import_table"
                    )
            yield np.stack(rows)

    def parts(self, row: int, most_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)

    def _opened(self, path: str) -> Any:
        # Whatever the name says, Pillow goes by the content, and would have Ghostscript run what is PostScript.
        return self._pillow.open(path, formats=_FORMATS)

    def _image(self, path: str) -> np.ndarray:
        with readable(path), self._opened(path) as image:
            # Before anything is decoded: what is declared is what will be taken.
            if image.width * image.height * max(1, len(image.getbands())) * 4 > 4 * MAX_ROW_BYTES:
                raise SourceError(f"{path}: is {image.width} x {image.height}, more than is read at once")
            plain = image.convert("RGBA" if "transparency" in image.info else "RGB") if image.mode == "P" else image
            return np.asarray(plain)


def _in_folder(where: str) -> tuple[list[str], bool]:
    """The images of a folder, and whether they lie in folders by class.

    Raises
    ------
    SourceError
        Some lie elsewhere and would be left out.
    """
    direct, by_class = (_images(os.path.join(glob.escape(where), *deep), where) for deep in (("*",), ("*", "*")))
    deeper = _first_below(where, 2)
    levels = [some[0] for some in (direct, by_class, deeper) if some]
    if len(levels) > 1 or (deeper and not by_class):
        raise SourceError(
            f"{where}: has images at several depths, or deeper than folders by class: {', '.join(levels)}; import the "
            "folder that holds them, or a glob of those that are meant"
        )
    return direct or by_class, not direct


def _first_below(where: str, levels: int) -> list[str]:
    """An image that lies deeper below a folder than so many folders, if there is one."""
    for inner, folders, names in os.walk(where):
        folders[:] = sorted(one for one in folders if not is_hidden(one))
        if len(Path(inner).relative_to(where).parts) >= levels:
            for name in sorted(names):
                if Path(name).suffix.lower() in IMAGE_SUFFIXES and not is_hidden(name):
                    return [os.path.join(inner, name)]
    return []


def _images(pattern: str, folder: str | None = None) -> list[str]:
    """The images that a pattern matches, by the numbers in their names."""
    found = data_among(glob.glob(pattern, recursive=True), pattern, lambda path: not is_hidden(path), folder=folder)
    return [one for one in found if Path(one).suffix.lower() in IMAGE_SUFFIXES]
