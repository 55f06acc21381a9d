"""Values as pages take them: a line of text, an image, points in space, numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.pictures import colours, drawing, recognition
from hubarray.redaction import shown_text
from hubarray.values import packing
from hubarray.viewer.thinning import plain, thinned

_MAX_CELL_LETTERS, _MAX_CELL_NUMBERS = 400, 8
# Of boxes, four each.
_MAX_NUMBERS, _MAX_LABELS = 4000, 1000
MAX_SIDE = 2048
_TIMES = " \u00d7 "
_MIN_CURVE, _MAX_CURVES = 8, 8
_SHOWN_ROWS, _SHOWN_COLUMNS = 40, 16
_MAX_POINTS = 200_000


def physical(array: Any, read: Any) -> Any:
    """Elements of an array as they are seen: of a packed one the values that its counts stand for."""
    attrs = array.attrs
    return packing.decoded(np.asarray(read), attrs)[()] if packing.is_packed(attrs, array.dtype) else read


def cell(value: Any) -> Any:
    """A value as a cell of a list: a number, a truth, nothing, or a line of text."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return value if value is None else bool(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value):,} bytes"
    if isinstance(value, np.ndarray) and value.size > _MAX_CELL_NUMBERS:
        return f"{_TIMES.join(map(str, value.shape))} {value.dtype}"
    if isinstance(value, np.ndarray) and value.shape:
        text = np.array2string(value, threshold=12, edgeitems=3, precision=4, separator=", ")
        return shown_text(" ".join(text.split()))[:_MAX_CELL_LETTERS]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    item = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, (np.float16, np.float32)):
        # As few digits as tell it from its neighbours, which are further apart than those of a double.
        item = float(str(value))
    if isinstance(item, int) and abs(item) < 1 << 53:
        return item
    if isinstance(item, float) and math.isfinite(item):
        return item
    return shown_text(str(value)[:_MAX_CELL_LETTERS])[:_MAX_CELL_LETTERS]


def attributes(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as a browser reads them: numbers that its doubles do not hold, and NaN, are text."""
    return {name: _attribute(value) for name, value in mapping.items()}


def _attribute(value: Any) -> Any:
    if isinstance(value, dict):
        return attributes(value)
    if isinstance(value, list):
        return [_attribute(item) for item in value]
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if (is_whole and abs(value) > 1 << 53) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def about(name: str, value: Any) -> dict[str, Any]:
    """Return a whole value: how to show it, and its numbers, as far as they are shown."""
    entry: dict[str, Any] = {"name": name, "text": cell(value)}
    if not isinstance(value, np.ndarray) or not value.shape:
        return entry
    entry["shape"], entry["dtype"] = list(value.shape), str(value.dtype)
    if recognition.is_image(value):
        return entry | {"is": "image"}
    if recognition.is_cloud(name, value):
        return entry | {"is": "cloud"}
    if recognition.are_boxes(name, value.shape) and value.dtype.kind in "iuf":
        return entry | {"is": "boxes", "numbers": plain(value.reshape(-1)[:_MAX_NUMBERS])}
    if recognition.are_labels(name, value):
        entry["labels"] = [cell(label) for label in value[:_MAX_LABELS]]
    if value.dtype.kind in "TSUO":
        return entry | {"is": "values", "rows": _first_rows(value if value.ndim > 1 else value[:, np.newaxis], cell)}
    try:
        real = {
            part: colours.real_values(value, part)
            for part in (("real", "imag") if value.dtype.kind == "c" else ("abs",))
        }
    except ValueError:
        return entry
    curves = _curves(real)
    if curves:
        places, drawn = thinned(curves)
        return entry | {"is": "curves", "x": places, "curves": drawn}
    return entry | {"is": "values", "rows": _first_rows(value, _number)}


def overlaid(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values as :func:`about` tells them, each image with the names of what is drawn over it."""
    every = [cell["name"] for cell in cells if cell.get("is") == "image"]
    boxes = [cell["name"] for cell in cells if cell.get("is") == "boxes"]
    labels = [cell["name"] for cell in cells if "labels" in cell]
    texts = [cell["name"] for cell in cells if "shape" not in cell and cell.get("text") is not None]
    captions = [name for name in texts if recognition.is_label(name)]
    for cell in cells:
        if cell.get("is") == "image":
            cell["over"] = {kind: recognition.belonging(cell["name"], names_of_kind, every) for kind, names_of_kind in
                           (("boxes", boxes), ("labels", labels), ("captions", captions))}  # fmt: skip
    return cells


def _curves(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The curves that numbers are seen as: one, or a few beside each other; none where they are few or many."""
    first_part = next(iter(parts.values()))
    if first_part.ndim == 1 and len(first_part) > _MIN_CURVE:
        return {"value": first_part} if len(parts) == 1 else parts
    if (
        first_part.ndim == 2
        and 0 < first_part.shape[1] <= _MAX_CURVES
        and len(first_part) > 2 * _MIN_CURVE
        and len(parts) == 1
    ):
        return {f"{column}": first_part[:, column] for column in range(first_part.shape[1])}
    return {}


def _first_rows(value: np.ndarray, shown: Callable[[Any], Any]) -> list[list[Any]]:
    flat = value.reshape(1, -1) if value.ndim == 1 else value.reshape(-1, value.shape[-1]) if value.size else value[:0]
    return [[shown(item) for item in row[:_SHOWN_COLUMNS]] for row in flat[:_SHOWN_ROWS]]


def _number(value: Any) -> Any:
    return cell(value) if np.asarray(value).dtype.kind in "buif" else shown_text(str(value))[:_MAX_CELL_LETTERS]


def picture(name: str, value: np.ndarray, side: int) -> bytes:
    """A PNG of an image, or of points from above.

    Raises
    ------
    ConfigError
        The value is neither.
    """
    if recognition.is_image(value):
        return drawing.thumbnail(recognition.small_pixels(value, side), side)
    if recognition.is_cloud(name, value):
        return drawing.png(recognition.from_above(recognition.cloud(value, _MAX_POINTS), side))
    raise ConfigError("this value is not an image")


def points(name: str, value: np.ndarray) -> bytes:
    """Points as float32, four each.

    Raises
    ------
    ConfigError
        The value is not a list of points.
    """
    if not recognition.is_cloud(name, value):
        raise ConfigError("this value is not a list of points")
    return recognition.cloud(value, _MAX_POINTS).tobytes()
