"""Images as sources of tables: in class folders, or beside a CSV that names them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from hubarray.arrays.images import image_header
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.missing import needed
from hubarray.interop.sources.base import readable, refuse_links_out
from hubarray.interop.table_sources.base import ALL, Rows, TableSource, taken
from hubarray.interop.table_sources.csv_cells import delimiter_of, typed_cells
from hubarray.interop.table_sources.frames import plain_key
from hubarray.limits import Budget
from hubarray.progress import announce
from hubarray.shown import shown_text
from hubarray.tables.block import MAX_BLOCK_BYTES
from hubarray.tables.images import image_decoded
from hubarray.tables.schema import PARTITION, Field, Schema

SUFFIXES = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png"}
_MOST_IMAGE_BYTES = MAX_BLOCK_BYTES // 2
_LOOKED_AT = 100
_MAX_COLUMNS = 1 << 16
_MAX_LINE_LETTERS = 4 << 20
# A cell as text of Python, beside its letters.
_CELL_BYTES = 64
# Modes of Pillow that RGB of 8 bits shows as they are.
_CONVERTED = ("P", "PA", "1", "L", "LA", "CMYK", "YCbCr", "RGB", "RGBA")


def folder(path: Path, images: Sequence[Path], schema: Schema | None) -> TableSource:
    """Images of a folder, those of a class in a folder of its own, which is a partition.

    Raises
    ------
    SourceError
    """
    classes: dict[str, list[Path]] = {}
    for one in images:
        classes.setdefault(one.relative_to(path).parent.as_posix(), []).append(one)
    label, codec = Field(str, index=True), _codec_of(images, schema, "image")
    fields = {"label": label, "path": Field(str, index=True), "image": Field("u1", (None, None, 3), codec=codec)}
    names = set(taken(list(fields), schema, shown_text(str(path))))

    def row(name: str, one: Path) -> dict[str, Any]:
        found: dict[str, Any] = {"label": name, "path": one.relative_to(path).as_posix()}
        found = {key: value for key, value in found.items() if key in names}
        return found | {"image": _image(one, codec)} if "image" in names else found

    def rows(name: str, some: Sequence[Path]) -> Callable[[], Rows]:
        return lambda: ([row(name, one)] for one in some)

    named: dict[str | int, Callable[[], Rows]] = {}
    for name, some in classes.items():
        named[name] = rows("" if name == "." else name, some)
    return TableSource(schema or Schema(fields), named, schema is None)


def _codec_of(images: Sequence[Path], schema: Schema | None, name: str) -> str | None:
    """The codec that a schema has for images; by default that which most files have already."""
    if schema is not None and name in schema:
        codec = schema[name].codec
        return str(codec["name"]) if codec is not None and schema[name].is_image else None
    kinds = [SUFFIXES[one.suffix.lower()] for one in images]
    return max(sorted(set(kinds)), key=kinds.count)


def _image(path: Path, codec: str | None) -> bytes | np.ndarray:
    """An image file as it is stored: its own bytes where the codec is theirs, or else its pixels as RGB."""
    where = shown_text(str(path))
    with readable(where):
        data = path.read_bytes()
    reasons: dict[str, ValueError] = {}
    for kind in sorted({"jpeg", "png"}, key=lambda one: one != codec):
        try:
            shape, dtype = image_header(kind, data)
        except ValueError as error:
            reasons[kind] = error
            continue
        if (kind, dtype, shape[2:]) == (codec, "uint8", (3,)):
            return data
        if int(np.prod(shape)) * np.dtype(dtype).itemsize > _MOST_IMAGE_BYTES:
            raise SourceError(f"{where}: has {shape[0]:,} x {shape[1]:,} pixels, more than are imported")
        if dtype != "uint8" or shape[2:] not in ((), (1,), (3,), (4,)):
            raise SourceError(f"{where}: is an image of {dtype}, and 8 bits of grey, RGB or RGBA are wanted")
        try:
            pixels = image_decoded({"name": kind}, data, shape, np.dtype(dtype))
        except ValueError as error:
            raise SourceError(f"{where}: {error}") from None
        pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
        return np.ascontiguousarray(np.broadcast_to(pixels[:, :, :3], (*pixels.shape[:2], 3)))
    return _as_rgb(path, where, reasons[SUFFIXES[path.suffix.lower()]])


def _as_rgb(path: Path, where: str, reason: ValueError) -> np.ndarray:
    """The pixels of an image of a kind that is not stored as it is: with a palette, CMYK, of two tones."""
    pillow = needed("PIL.Image", extra="images", why=f"importing {where}")
    with readable(where), pillow.open(path, formats=("PNG", "JPEG")) as image:
        if image.mode not in _CONVERTED:
            raise SourceError(f"{where}: {reason}")
        if image.width * image.height * 3 > _MOST_IMAGE_BYTES:
            raise SourceError(f"{where}: has {image.height:,} x {image.width:,} pixels, more than are imported")
        return np.asarray(image.convert("RGB"))


def table(
    path: Path, schema: Schema | None, key: str | None, follow_links: bool, max_decoded_bytes: int
) -> TableSource:
    """A CSV, with the images that one of its columns names, cut by the column that is the key.

    Raises
    ------
    ConfigError, SourceError
    """
    where = shown_text(str(path))
    columns = _csv_columns(path, where, max_decoded_bytes)
    row_count = len(next(iter(columns.values())))
    if PARTITION in columns:
        raise ConfigError(f"{where}: a column {PARTITION!r} is the index's own; rename it, and give key= its new name")
    if key is not None and key not in columns:
        raise ConfigError(f"key={key!r}: {where} has no such column; it has {', '.join(columns)}"[:300])
    named = [name for name, values in columns.items() if _is_image_column(path.parent, values)]
    images = named[0] if named else None
    if named[1:]:
        announce(f"{where}: takes the images of {named[0]!r}; of {', '.join(map(repr, named[1:]))} it takes the paths")
    fields: dict[str, Field] = {}
    typed: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        fields[name], typed[name] = typed_cells(values)
        if schema is not None and name in schema and schema[name].dtype is None:
            # Text stays text, though it may look like a number.
            typed[name] = values
    codec, image_name = None, ""
    if images is not None:
        files = [path.parent / value for value in columns[images] if value]
        if not follow_links:
            refuse_links_out(str(path.parent), [str(one) for one in files])
        image_name = "image" if "image" not in fields else f"{images}.image"
        codec = _codec_of(files, schema, image_name)
        fields[image_name] = Field("u1", (None, None, 3), codec=codec, nullable="" in columns[images])
    names = taken(list(fields), schema, where, key=key)

    def row(i: int) -> dict[str, Any]:
        # Plain numbers, which every dtype takes that they fit.
        found = {name: _plain(typed[name][i]) for name in names if name != image_name}
        if image_name in names and images is not None:
            file = columns[images][i]
            found[image_name] = _image(path.parent / file, codec) if file else None
        return found

    def lazily(some: Sequence[int]) -> Callable[[], Rows]:
        return lambda: ([row(i)] for i in some)

    groups: dict[str | int, list[int]] = {}
    for i in range(row_count):
        groups.setdefault(ALL if key is None else plain_key(typed[key][i]), []).append(i)
    partitions = {one: lazily(some) for one, some in groups.items()}
    return TableSource(schema or Schema(fields), partitions, schema is None)


def _csv_columns(path: Path, where: str, max_decoded_bytes: int) -> dict[str, list[str]]:
    """The cells of a CSV by the names in its header, counted while they are read."""
    budget = Budget(max_decoded_bytes, where)
    with readable(where), path.open(newline="", encoding="utf-8-sig") as file:
        delimiter = delimiter_of(file.readline(_MAX_LINE_LETTERS))
        file.seek(0)
        rows = csv.reader(_lines(file, where), strict=True, delimiter=delimiter)
        header = next(rows, [])
        if len(header) > _MAX_COLUMNS:
            raise SourceError(f"{where}: has {len(header):,} columns, and {_MAX_COLUMNS:,} are read")
        columns: dict[str, list[str]] = {}
        for name in header:
            if name in columns:
                raise SourceError(f"{where}: has two columns {shown_text(name)[:80]!r}; rename one")
            columns[name] = []
        lists = list(columns.values())
        for row in rows:
            if not row:
                continue
            if len(row) != len(lists):
                raise SourceError(f"{where}: line {rows.line_num} has {len(row)} cells, and the header {len(lists)}")
            budget.take(sum(map(len, row)) + _CELL_BYTES * len(row))
            for cells, cell in zip(lists, row, strict=True):
                cells.append(cell)
    if not columns or not lists[0]:
        raise SourceError(f"{where}: has no rows")
    return columns


def _lines(file: TextIO, where: str) -> Iterator[str]:
    while line := file.readline(_MAX_LINE_LETTERS):
        if len(line) == _MAX_LINE_LETTERS:
            raise SourceError(f"{where}: has a line of more than {_MAX_LINE_LETTERS:,} letters")
        yield line


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_image_column(folder: Path, values: Sequence[str]) -> bool:
    there = [value for value in values if value]
    if not there or not all(Path(one).suffix.lower() in SUFFIXES for one in there):
        return False
    # One that is missing is an error when it is read, and no reason to take paths for text.
    return any((folder / one).is_file() for one in there[:_LOOKED_AT])
