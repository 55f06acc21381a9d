"""Rows of tables: a page of them, one whole, their pictures and their points."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.pictures import drawing, images
from hubarray.shown import shown_text
from hubarray.viewer.opened import Opened, title
from hubarray.viewer.parameters import Query
from hubarray.viewer.row_filters import filters_of, index_names, line_of

MOST_ROWS = 200
_MOST_FIELDS = 500
_LIGHT_BYTES = 4 << 10
_MOST_CELL_LETTERS = 400
_MOST_NUMBERS = 4000
_MOST_POINTS = 200_000
_HELD_CHOICES = 8
_MOST_SORTED = 5_000_000


class Choices:
    """Rows that were filtered or sorted: loaders of them, a few kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str, str, bool], Any] = OrderedDict()

    def loader(self, table: Any, query: Query) -> Any:
        """The loader of the rows that a page asks for.

        Raises
        ------
        HubError
        """
        text, sort, descending = query.text("filter", "").strip(), query.text("sort", "", most=200), query.flag("down")
        if not text and not sort:
            return table.loader()
        key = (title(table), text, sort, descending)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = _chosen(table, text, sort, descending)
        with self._lock:
            self._held[key] = found
            while len(self._held) > _HELD_CHOICES:
                self._held.popitem(last=False)
        return found


def _chosen(table: Any, text: str, sort: str, descending: bool) -> Any:
    from hubarray.tabling import row_loader

    known = index_names(table)
    clauses = filters_of(table, text) if text else None
    if sort and sort not in known:
        raise ConfigError(f"rows are sorted by a field of the index: {', '.join(known) or 'there is none'}")
    index = table.index([sort] if sort else known[:1], clauses, as_="arrow")
    if sort:
        if len(index) > _MOST_SORTED:
            raise ConfigError(f"{len(index):,} rows, and up to {_MOST_SORTED:,} are sorted; filter them first")
        index = index.sort_by([(sort, "descending" if descending else "ascending")])
    return row_loader(index, table.root)


def table(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about a table: its fields, and how many rows."""
    found = opened.table(query.text("name"))
    fields = [
        {
            "name": name, "dtype": str(field.dtype or field.kind), "index": field.index,
            "shape": ["?" if one is None else one for one in field.shape],
            "codec": "" if field.codec is None else field.codec["name"], "light": _is_light(found, field),
        }
        for name, field in _fields(found)[:_MOST_FIELDS]
    ]  # fmt: skip
    return {
        "name": title(found), "rows": len(found), "fields": fields, "attrs": dict(found.attrs),
        "partitions": found.partition_count, "bytes": int(found.nbytes), "index": index_names(found),
    }  # fmt: skip


def _fields(table: Any) -> list[tuple[str, Any]]:
    return [(name, table.schema[name]) for name in table.schema]


def _is_light(table: Any, field: Any) -> bool:
    """Whether a row's value is so small that it is read for every row on a page: of text, as far as averages tell."""
    if field.dtype is None:
        (state,) = table.loader().tables()
        sizes = [state.group_row_bytes(group) for group in table.schema.groups if group in field.groups]
        return field.index or not sizes or min(sizes) <= _LIGHT_BYTES
    return field.codec is None and field.row_bytes is not None and field.row_bytes <= _LIGHT_BYTES


def rows(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """A page of rows: light fields as text, of the others their names alone."""
    found = opened.table(query.text("name"))
    loader = choices.loader(found, query)
    first = query.integer("first", 0, 1 << 53, 0)
    count = query.integer("count", 1, MOST_ROWS, 50)
    end = min(len(loader), first + count)
    light = [name for name, field in _fields(found) if _is_light(found, field)][:_MOST_FIELDS]
    positions = range(first, max(first, end))
    read = loader.get_batch(positions, light) if light and len(positions) else [{} for _ in positions]
    text, sort, descending = query.text("filter", "").strip(), query.text("sort", "", most=200), query.flag("down")
    return {
        "total": len(loader),
        "first": first,
        "line": line_of(found, text, sort, descending),
        "rows": [{name: _cell(value) for name, value in one.items()} for one in read],
    }


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, np.bool_)):
        return value if value is None else bool(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value):,} bytes"
    if isinstance(value, np.ndarray) and value.shape:
        text = np.array2string(value, threshold=12, edgeitems=3, precision=4, separator=", ")
        return shown_text(" ".join(text.split()))[:_MOST_CELL_LETTERS]
    item = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(item, int) and abs(item) < 1 << 53:
        return item
    if isinstance(item, float) and math.isfinite(item):
        return item
    return shown_text(str(value)[:_MOST_CELL_LETTERS])[:_MOST_CELL_LETTERS]


def row(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """One row whole: its values, and of images and points what they are."""
    found = opened.table(query.text("name"))
    loader = choices.loader(found, query)
    at = query.integer("row", 0, 1 << 53)
    if at >= len(loader):
        raise ConfigError(f"there is no row {at:,}: there are {len(loader):,}")
    values = loader.get_row(at)
    about = [_about(name, value) for name, value in list(values.items())[:_MOST_FIELDS]]
    return {"row": at, "total": len(loader), "number": int(loader.at(np.array([at])).numbers[0][0]), "values": about}


def _about(name: str, value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "text": _cell(value)}
    if isinstance(value, np.ndarray) and value.shape:
        found["shape"], found["dtype"] = list(value.shape), str(value.dtype)
        if images.is_image(value):
            found["is"] = "image"
        elif images.is_cloud(value) and not images.are_boxes(name, value):
            found["is"] = "cloud"
        elif value.dtype.kind in "buif" and value.size <= _MOST_NUMBERS:
            found["is"] = "boxes" if images.are_boxes(name, value) else "numbers"
            found["numbers"] = [one if math.isfinite(one) else None for one in value.astype("f8").reshape(-1).tolist()]
    return found


def _field_value(opened: Opened, choices: Choices, query: Query) -> np.ndarray:
    found = opened.table(query.text("name"))
    loader = choices.loader(found, query)
    at, field = query.integer("row", 0, 1 << 53), query.text("field", most=300)
    if at >= len(loader) or field not in found.schema:
        raise ConfigError(f"there is no field {shown_text(field)[:80]!r} in row {at:,}")
    value = loader.get_row(at, [field])[field]
    if not isinstance(value, np.ndarray):
        raise ConfigError(f"{field}: row {at:,} has no picture of it")
    return value


def image(opened: Opened, choices: Choices, query: Query) -> bytes:
    """A field of a row as PNG, whole or small."""
    side = query.integer("side", 16, 4096, 96)
    value = _field_value(opened, choices, query)
    if not images.is_image(value):
        raise ConfigError("this value is no image")
    return drawing.thumbnail(images.small_pixels(value, side), side)


def points(opened: Opened, choices: Choices, query: Query) -> bytes:
    """A field of a row as points: float32, four each."""
    value = _field_value(opened, choices, query)
    if not images.is_cloud(value):
        raise ConfigError("this value is no list of points")
    return images.cloud(value, _MOST_POINTS).tobytes()


def curve(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """A scalar field over the rows from one on, thinned by taking every so many."""
    found = opened.table(query.text("name"))
    loader = choices.loader(found, query)
    field = query.text("field", most=300)
    if (
        field not in found.schema
        or found.schema[field].shape
        or (found.schema[field].dtype is None or found.schema[field].dtype.kind not in "biufmM")
    ):
        raise ConfigError("a curve is of a field that is one number a row")
    first = query.integer("first", 0, 1 << 53, 0)
    count = min(query.integer("count", 1, 100_000, 1000), max(0, len(loader) - first))
    positions = range(first, first + count, max(1, count // 1000))
    read = loader.get_columns(positions, [field])[field] if count > 0 else []
    numbers = [math.nan if one is None else float(np.asarray(one).astype("f8")) for one in read]
    return {"x": list(positions), "y": [one if math.isfinite(one) else None for one in numbers]}
