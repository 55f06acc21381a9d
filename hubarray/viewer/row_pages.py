"""One row of a table: its values, their pictures and their points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, HubError
from hubarray.redaction import shown_text
from hubarray.viewer import values
from hubarray.viewer.decode_slot import turn
from hubarray.viewer.handle_cache import Opened
from hubarray.viewer.parameters import Query
from hubarray.viewer.table_pages import MAX_FIELDS, Choices, row_bytes

_LOT_BYTES, _MAX_ROW_BYTES = 64 << 20, 256 << 20


def row(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """One row whole, or one field of it: its values, and of images and points what they are.

    Values are read by some at a time, and past some bytes the others are named alone.
    """
    table = opened.table(query.text("name"))
    loader = choices.loader(table, query)
    at, alone = query.integer("row", 0, 1 << 53), query.text("field", "", most=300)
    if at >= len(loader):
        raise ConfigError(f"there is no row {at:,}: there are {len(loader):,}")
    if alone and alone not in table.schema:
        raise ConfigError(f"there is no field {shown_text(alone)[:80]!r}")
    names = [alone] if alone else list(table.schema)[:MAX_FIELDS]
    cells: dict[str, Any] = {}
    read_bytes = 0
    for lot, expected in _lots(table, names):
        if read_bytes > _MAX_ROW_BYTES:
            break
        with turn(expected):
            for name, value in _values_of(loader, at, lot, cells).items():
                cells[name] = values.about(name, value)
                read_bytes += _bytes_of(value)
    late = {"text": f"not read: the values before it have over {_MAX_ROW_BYTES >> 20} MiB", "is": "late"}
    return {
        "row": at, "total": len(loader), "number": int(loader.at(np.array([at])).numbers[0][0]),
        "broken": any(cell.get("is") == "broken" for cell in cells.values()),
        "values": values.overlaid([cells.get(name, {"name": name, **late}) for name in names]),
    }  # fmt: skip


def _values_of(loader: Any, at: int, names: list[str], cells: dict[str, Any]) -> dict[str, Any]:
    """Some fields of a row; of those that are broken, why, and the others all the same."""
    try:
        return dict(loader.get_row(at, names))
    except HubError:
        row: dict[str, Any] = {}
    for name in names:
        try:
            row |= loader.get_row(at, [name])
        except HubError as error:
            cells[name] = {"name": name, "text": shown_text(str(error)), "is": "broken"}
    return row


def _lots(table: Any, names: list[str]) -> Iterator[tuple[list[str], float]]:
    """Fields that are read together, and how many bytes a row of them has, as far as averages tell."""
    lot: list[str] = []
    expected = 0.0
    for name in names:
        has = row_bytes(table, name)
        if lot and expected + has > _LOT_BYTES:
            yield lot, expected
            lot, expected = [], 0.0
        lot, expected = [*lot, name], expected + has
    yield lot, expected


def cell(opened: Opened, choices: Choices, query: Query) -> dict[str, Any]:
    """One value as a list of rows has it, of a field that is not read for all of them at once."""
    return {"value": values.cell(_value(opened, choices, query))}


def image(opened: Opened, choices: Choices, query: Query) -> bytes:
    """A field of a row as PNG, whole or small."""
    side = query.integer("side", 16, values.MAX_SIDE, 96)
    return values.picture(query.text("field"), _array(opened, choices, query), side)


def points(opened: Opened, choices: Choices, query: Query) -> bytes:
    """A field of a row as points: float32, four each."""
    return values.points(query.text("field"), _array(opened, choices, query))


def _value(opened: Opened, choices: Choices, query: Query) -> Any:
    table = opened.table(query.text("name"))
    loader = choices.loader(table, query)
    at, field = query.integer("row", 0, 1 << 53), query.text("field", most=300)
    if at >= len(loader) or field not in table.schema:
        raise ConfigError(f"there is no field {shown_text(field)[:80]!r} in row {at:,}")
    with turn(row_bytes(table, field)):
        return loader.get_row(at, [field])[field]


def _array(opened: Opened, choices: Choices, query: Query) -> np.ndarray:
    value = _value(opened, choices, query)
    if not isinstance(value, np.ndarray):
        raise ConfigError(f"{query.text('field')}: row {query.text('row')} has no picture of it")
    return value


def _bytes_of(value: Any) -> int:
    return int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)
