"""Images as sources of tables: in class folders, or beside a CSV that names them. Cells of the CSV get types."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import readable, refuse_links_out
from hubarray.interop.sources.stills import Still, shared_attrs, still_and_attrs
from hubarray.interop.table_sources.base import ALL, Rows, TableImport, taken
from hubarray.interop.table_sources.frames import plain_key
from hubarray.interop.table_sources.stored_images import StoredImages
from hubarray.limits import Budget
from hubarray.progress import announce
from hubarray.redaction import shown_text
from hubarray.sources.content import is_image_name
from hubarray.tables.format.schema import PARTITION, Field, Schema

# As a number is written: 00123 is a name, and so is 1_000. No integer has more digits than 20.
_WHOLE = re.compile("0|-?[1-9][0-9]{0,19}")
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|[+-]?inf", re.IGNORECASE)
_QUOTED = re.compile('"[^"]*("|$)')
_DIGITS = re.compile("[+-]?[0-9]+")
_LOOKED_AT = 100
_MAX_COLUMNS = 1 << 16
_MAX_LINE_LETTERS = 4 << 20
# A cell as text of Python, beside its letters.
_CELL_BYTES = 64


def delimiter_of(header: str) -> str:
    """The letter between the names of a header: a comma, a semicolon or a tab.

    Examples
    --------
    >>> delimiter_of("id;name, first;age")
    ';'
    >>> delimiter_of('"last, first, middle";age')
    ';'
    """
    return max(",;\t", key=_QUOTED.sub("", header).count)


def typed_cells(values: Sequence[str]) -> tuple[Field, Sequence[Any]]:
    """A column of text as whole numbers or numbers, if all of it are, and none would be written otherwise again.

    An empty cell among numbers is null, and empty text among text.

    Examples
    --------
    >>> typed_cells(["1", "", "3"])
    (Field('int64', index=True, nullable=True), [np.int64(1), None, np.int64(3)])
    >>> typed_cells(["007", "8"])
    (Field('string', index=True), ['007', '8'])
    """
    present = [value for value in values if value]
    if present and all(map(_WHOLE.fullmatch, present)):
        wholes = [int(value) for value in present]
        for dtype in ("i8", "u8"):
            about = np.iinfo(dtype)
            if about.min <= min(wholes) and max(wholes) <= about.max:
                return _numbers(dtype, int, values)
        return Field(str, index=True), values
    if present and all(map(_NUMBER.fullmatch, present)) and all(map(_is_exact, present)):
        return _numbers("f8", float, values)
    return Field(str, index=True), values


def _numbers(dtype: str, kind: Callable[[str], Any], values: Sequence[str]) -> tuple[Field, Sequence[Any]]:
    made = np.dtype(dtype).type
    return Field(dtype, index=True, nullable="" in values), [made(kind(value)) if value else None for value in values]


def _is_exact(value: str) -> bool:
    """Whether a float keeps every digit of a whole number; of others it keeps what it can."""
    if not _DIGITS.fullmatch(value):
        return True
    return len(value) <= 21 and int(value) == int(float(value))


def folder(path: Path, images: Sequence[Path], schema: Schema | None) -> TableImport:
    """Images of a folder, those of a class in a folder of its own, which is a partition.

    Raises
    ------
    SourceError
    """
    classes: dict[str, list[Path]] = {}
    for image in images:
        classes.setdefault(image.relative_to(path).parent.as_posix(), []).append(image)
    where, field = shown_text(str(path)), None if schema is None or "image" not in schema else schema["image"]
    stored, attrs = _stored(where, images, field)
    fields = {"label": Field(str, index=True), "path": Field(str, index=True), "image": stored.field}
    names = set(taken(list(fields), schema, where))

    def row(name: str, image: Path) -> dict[str, Any]:
        values: dict[str, Any] = {"label": name, "path": image.relative_to(path).as_posix()}
        values = {key: value for key, value in values.items() if key in names}
        return values | {"image": _value(stored, image)} if "image" in names else values

    def rows(name: str, images: Sequence[Path]) -> Callable[[], Rows]:
        return lambda: ([row(name, image)] for image in images)

    named: dict[str | int, Callable[[], Rows]] = {}
    for name, members in classes.items():
        named[name] = rows("" if name == "." else name, members)
    return TableImport(schema or Schema(fields), named, schema is None, attrs)


def _stored(
    where: str, images: Sequence[Path], field: Field | None, *, nullable: bool = False
) -> tuple[StoredImages, dict[str, Any]]:
    """Return how images become values, and the attributes that they share."""
    stills: list[Still] = []
    attrs: list[dict[str, Any]] = []
    for image in images:
        still, its = still_and_attrs(str(image))
        stills.append(still)
        attrs.append(attrs[-1] if attrs and attrs[-1] == its else its)
    paths = list(map(str, images))
    stored = StoredImages(where, dict(zip(map(shown_text, paths), stills, strict=True)), field, nullable=nullable)
    return stored, shared_attrs(where, paths, stills, attrs, numbers=stored.keeps_numbers)


def _value(stored: StoredImages, path: Path) -> bytes | np.ndarray:
    where = shown_text(str(path))
    with readable(where):
        data = path.read_bytes()
    return stored.value(where, data)


def table(
    path: Path, schema: Schema | None, key: str | None, follow_links: bool, max_decoded_bytes: int
) -> TableImport:
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
    stored, image_name = None, ""
    attrs: dict[str, Any] = {}
    if images is not None:
        files = [path.parent / value for value in columns[images] if value]
        if not follow_links:
            refuse_links_out(str(path.parent), [str(file) for file in files])
        image_name = "image" if "image" not in fields else f"{images}.image"
        field = None if schema is None or image_name not in schema else schema[image_name]
        stored, attrs = _stored(where, list(dict.fromkeys(files)), field, nullable="" in columns[images])
        fields[image_name] = stored.field
    names = taken(list(fields), schema, where, key=key)

    def row(i: int) -> dict[str, Any]:
        # Plain numbers, which every dtype takes that they fit.
        values = {name: _plain(typed[name][i]) for name in names if name != image_name}
        if image_name in names and images is not None and stored is not None:
            file = columns[images][i]
            values[image_name] = _value(stored, path.parent / file) if file else None
        return values

    def lazily(row_numbers: Sequence[int]) -> Callable[[], Rows]:
        return lambda: ([row(i)] for i in row_numbers)

    groups: dict[str | int, list[int]] = {}
    for i in range(row_count):
        groups.setdefault(ALL if key is None else plain_key(typed[key][i]), []).append(i)
    partitions = {value: lazily(row_numbers) for value, row_numbers in groups.items()}
    return TableImport(schema or Schema(fields), partitions, schema is None, attrs)


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
    present = [value for value in values if value]
    if not present or not all(map(is_image_name, present)):
        return False
    # One that is missing is an error when it is read, and no reason to take paths for text.
    return any((folder / name).is_file() for name in present[:_LOOKED_AT])
