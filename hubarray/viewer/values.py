"""Values as pages take them: a line of text, an image, points in space, numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.pictures import drawing, images
from hubarray.shown import shown_text

_MOST_CELL_LETTERS = 400
_MOST_NUMBERS = 4000
_MOST_POINTS = 200_000


def cell(value: Any) -> Any:
    """A value as a cell of a list: a number, a truth, nothing, or a line of text."""
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


def about(name: str, value: Any) -> dict[str, Any]:
    """A value opened whole: how it is looked at, and its numbers where they are few."""
    found: dict[str, Any] = {"name": name, "text": cell(value)}
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


def picture(value: np.ndarray, side: int) -> bytes:
    """A PNG of an image, or of points from above.

    Raises
    ------
    ConfigError
        The value is neither.
    """
    if images.is_image(value):
        return drawing.thumbnail(images.small_pixels(value, side), side)
    if images.is_cloud(value):
        return drawing.png(images.from_above(images.cloud(value, _MOST_POINTS), side))
    raise ConfigError("this value is no image")


def points(value: np.ndarray) -> bytes:
    """Points as float32, four each.

    Raises
    ------
    ConfigError
        The value is no list of points.
    """
    if not images.is_cloud(value):
        raise ConfigError("this value is no list of points")
    return images.cloud(value, _MOST_POINTS).tobytes()
