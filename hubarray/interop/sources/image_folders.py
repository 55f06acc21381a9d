"""Folders of images of equal size, by classes or not."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hubarray.errors import SourceError
from hubarray.interop.sources.base import check_sizes, refuse_links_out, stamp, whole_parts
from hubarray.interop.sources.stills import Still, is_class_palette, pixels, shared_attrs, still_and_attrs
from hubarray.redaction import shown_text
from hubarray.sources.content import is_image, warn_of_unread_images
from hubarray.sources.folders import data_among, fixed_part, is_hidden


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

    def __init__(self, where: str, *, follow_links: bool, upright: bool = False) -> None:
        self.where, self._upright = where, upright
        folder = (
            where if os.path.isdir(where) else os.path.dirname(where) if os.path.isfile(where) else fixed_part(where)
        )
        self._paths, by_class = _image_paths(where)
        self.classes = sorted({Path(path).parent.name for path in self._paths}) if by_class else []
        if not self._paths:
            raise SourceError(f"{where}: there are no images; for Parquet use hub.import_table (hubarray import-table)")
        if not follow_links:
            refuse_links_out(folder, self._paths)
        self.labels = [self.classes.index(Path(path).parent.name) for path in self._paths if self.classes]
        self.names = [os.path.relpath(path, folder) for path in self._paths]
        stills: list[Still] = []
        attrs: list[dict[str, Any]] = []
        for path in self._paths:
            still, its = still_and_attrs(path)
            # Most have the same, which is kept once.
            attrs.append(attrs[-1] if attrs and attrs[-1] == its else its)
            if still.frames > 1:
                raise SourceError(f"{path}: has {still.frames} frames; import it by itself, as a TIFF stack or a video")
            size, expected = still.size(upright=upright), stills[0].size(upright=upright) if stills else None
            if expected is not None and size != expected:
                raise SourceError(
                    f"{path} is {size[0]} x {size[1]} and {self._paths[0]} is {expected[0]} x {expected[1]}; make them "
                    "one size, or a table of them: hub.import_table"
                )
            stills.append(still)
        self._numbers = is_class_palette(stills)
        shown = shown_text(where)
        first = self._image(self._paths[0])
        self.row_shape, self.dtype = first.shape, first.dtype
        self.rows: int | None = len(self._paths)
        self.attrs: dict[str, Any] = shared_attrs(shown, self._paths, stills, attrs, numbers=self._numbers)
        if self.classes:
            self.attrs["classes"] = self.classes
        turned = sum(still.orientation != 1 for still in stills)
        if turned and not upright:
            warnings.warn(
                f"{shown}: {turned:,} of {len(stills):,} images lie on a side, says their EXIF, and are "
                'stored as they lie; orientation="apply" turns them',
                stacklevel=2,
            )
        axes = ("sample", "c", "y", "x") if stills[0].bands_first else ("sample", "y", "x", "c")
        self.dims: tuple[str | None, ...] | None = axes[: 1 + len(self.row_shape)]
        self.fingerprint: list[Any] | None = [[upright], *(stamp(path) for path in self._paths)]
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

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)

    def _image(self, path: str) -> np.ndarray:
        return pixels(path, numbers=self._numbers, upright=self._upright, bands_last=False)


def _image_paths(where: str) -> tuple[list[str], bool]:
    """The images of a folder, a pattern or a file, and whether they lie in folders by class."""
    if os.path.isdir(where):
        return _in_folder(where)
    # A file that is named itself need not be called like an image.
    return ([where] if os.path.isfile(where) else _images(where)), False


def _in_folder(where: str) -> tuple[list[str], bool]:
    """The images of a folder, and whether they lie in folders by class.

    Raises
    ------
    SourceError
        Some lie elsewhere and would be left out.
    """
    direct, by_class = (_images(os.path.join(glob.escape(where), *deep), where) for deep in (("*",), ("*", "*")))
    deeper = _first_below(where, 2)
    levels = [paths[0] for paths in (direct, by_class, deeper) if paths]
    if len(levels) > 1 or (deeper and not by_class):
        raise SourceError(
            f"{where}: has images at several depths, or deeper than folders by class: {', '.join(levels)}; import the "
            "folder that holds them, or a glob of those that are meant"
        )
    return direct or by_class, not direct


def _first_below(where: str, levels: int) -> list[str]:
    """Return an image that is deeper below a folder than the limit, if there is one."""
    for inner, folders, names in os.walk(where):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        if len(Path(inner).relative_to(where).parts) >= levels:
            for name in sorted(names):
                path = os.path.join(inner, name)
                if not is_hidden(name) and is_image(path):
                    return [path]
    return []


def _images(pattern: str, folder: str | None = None) -> list[str]:
    """The images that a pattern matches, by the numbers in their names."""
    paths = data_among(glob.glob(pattern, recursive=True), pattern, lambda path: not is_hidden(path), folder=folder)
    warn_of_unread_images(shown_text(folder or pattern), paths)
    return [image_path for image_path in paths if is_image(image_path)]
