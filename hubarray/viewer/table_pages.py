"""Rows of tables: a page of them, one whole, their pictures and their points."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.pictures import recognition
from hubarray.viewer import values
from hubarray.viewer.decode_slot import turn
from hubarray.viewer.handle_cache import Opened, title
from hubarray.viewer.parameters import Query
from hubarray.viewer.row_filters import filters_of, index_names, line_of
from hubarray.viewer.values import attributes

MAX_ROWS = 200
MAX_FIELDS = 500
_LIGHT_BYTES = 4 << 10
_HELD_CHOICES = 8
_MAX_SORTED = 5_000_000
_MAX_LISTED_BYTES = 16 << 20
# Pixels to the bytes of a JPEG.
_UNPACKED_TIMES = 12


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
        rows = _chosen(table, text, sort, descending)
        with self._lock:
            self._held[key] = rows
            while len(self._held) > _HELD_CHOICES:
                self._held.popitem(last=False)
        return rows


def _chosen(table: Any, text: str, sort: str, descending: bool) -> Any:
    from hubarray.api.tables import row_loader

    known = index_names(table)
    if sort and sort not in known:
        raise ConfigError(f"rows are sorted by a field of the index: {', '.join(known) or 'there is none'}")
    with _of_fitting_values():
        clauses = filters_of(table, text) if text else None
        index = table.index([sort] if sort else known[:1], clauses, as_="arrow")
    if sort:
        if len(index) > _MAX_SORTED:
            raise ConfigError(f"{len(index):,} rows, and up to {_MAX_SORTED:,} are sorted; filter them first")
        index = index.sort_by([(sort, "descending" if descending else "ascending")])
    return row_loader(index, table.root)


@contextlib.contextmanager
def _of_fitting_values() -> Iterator[None]:
    """Errors of Arrow about values with another type than their field become errors of the filter."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ConfigError(f"the filter compares with a value that its field cannot have: {error}"[:300]) from None


def table(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about a table: its fields, and how many rows."""
    handle = opened.table(query.text("name"))
    fields = [
        {
            "name": name, "dtype": str(field.dtype or field.kind), "index": field.index,
            "shape": ["?" if length is None else length for length in field.shape],
            "codec": "" if field.codec is None else field.codec["name"], "light": _is_light(handle, name, field),
            "picture": _has_picture(name, field),
        }
        for name, field in _fields(handle)[:MAX_FIELDS]
    ]  # fmt: skip
    return {
        "name": title(handle), "rows": len(handle), "fields": fields, "attrs": attributes(handle.attrs),
        "partitions": handle.partition_count, "bytes": int(handle.nbytes), "index": index_names(handle),
    }  # fmt: skip


def _fields(table: Any) -> list[tuple[str, Any]]:
    return [(name, table.schema[name]) for name in table.schema]


def _has_picture(name: str, field: Any) -> bool:
    """Whether rows are listed with a picture of this field rather than with its numbers."""
    if field.dtype is None:
        return False
    shape, kind = field.shape, field.dtype.kind
    return recognition.may_be_image(shape, kind) or recognition.may_be_cloud(name, shape, kind)


def _is_light(table: Any, name: str, field: Any) -> bool:
    """Whether a row's value is so small that it is read for every row on a page.

    For fields without a fixed size, the averages of the groups decide. Packed values may have any size.
    """
    if field.codec is not None:
        return False
    if field.row_bytes is not None:
        return bool(field.row_bytes <= _LIGHT_BYTES)
    (state,) = table.loader().tables()
    sizes = [state.group_row_bytes(group) for group in table.schema.groups_of(name)]
    return field.index or not sizes or min(sizes) <= _LIGHT_BYTES


def rows(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """A page of rows: light fields as text; pictures are asked for one by one."""
    table = opened.table(query.text("name"))
    loader = choices.loader(table, query)
    first = query.integer("first", 0, 1 << 53, 0)
    count = query.integer("count", 1, MAX_ROWS, 50)
    end = min(len(loader), first + count)
    light = [name for name, field in _fields(table) if _is_light(table, name, field) and not _has_picture(name, field)]
    light = light[:MAX_FIELDS]
    positions = range(first, max(first, end))
    # Averages tell what is small; a few rows of it may be large all the same, and are asked for one by one.
    large = _large_fields(table, loader, positions, light)
    light = [name for name in light if name not in large]
    read = loader.get_batch(positions, light) if light and len(positions) else [{} for _ in positions]
    text, sort, descending = query.text("filter", "").strip(), query.text("sort", "", most=200), query.flag("down")
    return {
        "total": len(loader),
        "first": first,
        "large": sorted(large),
        "line": line_of(table, text, sort, descending),
        "rows": [{name: values.cell(value) for name, value in row.items()} for row in read],
    }


def _large_fields(table: Any, loader: Any, positions: range, names: list[str]) -> set[str]:
    """Fields of groups of which some rows have more bytes than are read for a list."""
    (state,) = loader.tables()
    fields = [(name, table.schema[name]) for name in names if not table.schema[name].index]
    groups = {group for name, field in fields if field.row_bytes is None for group in table.schema.groups_of(name)}
    if not groups or not len(positions):
        return set()
    numbers = loader.at(np.arange(positions.start, positions.stop)).numbers[0]
    large = set()
    for group in groups:
        stored = sum(_stored_bytes(state, append, slab, group, numbers[where] - begin)
                     for append, slab, begin, where in state.slabs_of(numbers))  # fmt: skip
        if stored > _MAX_LISTED_BYTES:
            large.add(group)
    return {name for name in names if large.intersection(table.schema.groups_of(name))}


def _stored_bytes(state: Any, append: Any, slab: int, group: str, within: np.ndarray) -> int:
    """Stored bytes of the blocks that some rows of a slab are in."""
    location = state.locations(append, slab, group)[within]
    _, first = np.unique(location[["chunk", "offset"]], return_index=True)
    return int(location["length"][first].astype(np.int64).sum())


def row_bytes(table: Any, name: str) -> float:
    """Bytes of a field in a row: what its shape says, else its group's average."""
    field = table.schema[name]
    if field.dtype is not None and None not in field.shape:
        return float(math.prod(field.shape) * field.dtype.itemsize)
    return group_row_bytes(table, name) * (1 if field.codec is None else _UNPACKED_TIMES)


def group_row_bytes(table: Any, name: str) -> float:
    """Stored bytes of a row in the smallest group that has a field, on average."""
    (state,) = table.loader().tables()
    return min((state.group_row_bytes(group) for group in table.schema.groups_of(name)), default=0.0)


def curve(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """Return a scalar field over the rows from a start, with a step.

    Over time where the index has times that do not go back, else over the rows' places.
    """
    table = opened.table(query.text("name"))
    loader = choices.loader(table, query)
    field = query.text("field", most=300)
    if (
        field not in table.schema
        or table.schema[field].shape
        or (table.schema[field].dtype is None or table.schema[field].dtype.kind not in "biufmM")
    ):
        raise ConfigError("a curve is of a field that is one number a row")
    first = query.integer("first", 0, 1 << 53, 0)
    count = min(query.integer("count", 1, 100_000, 1000), max(0, len(loader) - first))
    positions = range(first, first + count, max(1, count // 1000))
    times = next((name for name in index_names(table) if _is_time(table.schema[name]) and name != field), None)
    columns = [field] if times is None else [field, times]
    with turn(len(positions) * group_row_bytes(table, field)):
        read = loader.get_columns(positions, columns) if count > 0 else {field: []}
    numbers = [math.nan if value is None else float(np.asarray(value).astype("f8")) for value in read[field]]
    answer: dict[str, Any] = {"x": list(positions), "rows": list(positions), "of": "", "why": ""}
    answer["y"] = [number if math.isfinite(number) else None for number in numbers]
    seconds = _seconds(read[times]) if times in read else None
    if seconds is None:
        return answer | {"why": "" if times is None else f"{times} decreases from one row to the next, or is missing"}
    return answer | {"x": seconds, "of": times}


def _is_time(field: Any) -> bool:
    return field.dtype is not None and field.dtype.kind == "M"


def _seconds(times: Any) -> list[float] | None:
    """Times as seconds since 1970; None where some are missing or go back."""
    if any(time is None for time in times):
        return None
    moments = np.asarray(times, "M8[us]")
    if np.isnat(moments).any() or (np.diff(moments) < np.timedelta64(0)).any():
        return None
    seconds: list[float] = (moments.astype("i8") / 1e6).tolist()
    return seconds
