"""Where two commits of a version differ: chunks by their refs, and of a picture the elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hubarray.api import catalog
from hubarray.errors import ConfigError
from hubarray.redaction import shown_text
from hubarray.viewer.array_pages import asked_axes, elements, require_numbers
from hubarray.viewer.cuts import COARSE_CHUNKS, COARSE_DECODED_BYTES
from hubarray.viewer.handle_cache import Opened
from hubarray.viewer.parameters import Query

_MAX_REGIONS = 1000
_MAX_LETTERS = 5000


def changes(opened: Opened, query: Query) -> dict[str, Any]:
    """Where two commits differ, chunk by chunk, by refs alone."""
    first, second = query.text("one"), query.text("two")
    key = query.text("key", "", most=200)
    difference: Any = catalog.diff(first, second, root=opened.root)
    if key and hasattr(difference, "new_columns"):
        return {"regions": [], "text": _of_column(difference, key, opened, second), "bytes": 0}
    if key and not hasattr(difference, "dropped"):
        raise ConfigError(f"{first}: is not a dataset, so it has no array {shown_text(key)[:80]!r}")
    if key:
        if key in difference.added:
            return {"regions": [], "text": f"{key} was added", "bytes": 0}
        if key in difference.dropped:
            return {"regions": [], "text": f"{key} was dropped", "bytes": 0}
        difference = difference.changed.get(key)
    regions = [
        [[part.start or 0, part.stop] for part in region]
        for region in getattr(difference, "regions", ())[:_MAX_REGIONS]
    ]
    if not difference:
        text = "No difference"
    elif hasattr(difference, "shapes"):
        before, after = difference.shapes
        text = "" if before == after else f"The shape was {before}, and is {after}"
    else:
        text = "\n".join(map(shown_text, str(difference).splitlines()))[:_MAX_LETTERS]
    return {"regions": regions, "text": text, "bytes": int(getattr(difference, "bytes", 0))}


def _of_column(difference: Any, key: str, opened: Opened, name: str) -> str:
    """In how many rows a column of two tables differs.

    Raises
    ------
    ConfigError
        Neither has it.
    """
    if key in difference.new_columns or key in difference.dropped_columns:
        return f"{shown_text(key)} was {'added' if key in difference.new_columns else 'dropped'}"
    if key not in difference.columns and key not in catalog.load(name, root=opened.root).schema:
        raise ConfigError(f"{name}: has no column {shown_text(key)[:80]!r}")
    count = difference.columns.get(key, 0)
    return f"{shown_text(key)} differs in {count:,} rows" if count else "No difference"


def differing(opened: Opened, query: Query) -> dict[str, Any]:
    """The least box of rows and columns that has all elements of a region in which two commits differ.

    The region is one that :func:`changes` tells, in a picture. Nothing is shown for one that is too large to read.
    """
    key = query.text("key", "", most=200)
    arrays = [opened.array(query.text(parameter), key) for parameter in ("one", "two")]
    first = arrays[0]
    axes, at = asked_axes(first, query)
    top, bottom, left, right = query.integers("view", 4, 0, 1 << 53)
    if arrays[1].ndim != first.ndim or arrays[1].dtype != first.dtype:
        raise ConfigError("arrays of different dtypes, or numbers of axes, differ everywhere")
    require_numbers(first)
    read = [elements(array, axes, at, ((top, bottom), (left, right)), coarse=True) for array in arrays]
    if read[0] is None or read[1] is None or read[0].shape != read[1].shape:
        return {"box": None, "elements": None}
    differs = _differ(read[0], read[1])
    if axes.y is None:
        differs = differs[np.newaxis]
    flat = np.asarray(differs.any(axis=2)) if differs.ndim > 2 else differs
    if not flat.any():
        return {"box": None, "elements": 0}
    spans = [np.flatnonzero(is_changed) for is_changed in (flat.any(axis=1), flat.any(axis=0))]
    corner = (0 if axes.y is None else top, left)
    return {
        "box": [[begin + int(span[0]), begin + int(span[-1]) + 1] for begin, span in zip(corner, spans, strict=True)],
        "elements": int(differs.sum()),
    }


def first_difference(opened: Opened, query: Query) -> dict[str, Any]:
    """The place of the first element in which a region of :func:`changes` differs; none where it is too large."""
    key = query.text("key", "", most=200)
    arrays = [opened.array(query.text(parameter), key) for parameter in ("one", "two")]
    ndim = arrays[0].ndim
    flat = query.integers("region", 2 * ndim, 0, 1 << 62)
    region = [slice(first, end) for first, end in zip(flat[::2], flat[1::2], strict=True)]
    if any(array.ndim != ndim or array.dtype != arrays[0].dtype for array in arrays):
        return {"at": None}
    for array in arrays:
        touched = math.prod(max(0, -(-min(part.stop, n) // chunk) - part.start // chunk)
                            for part, n, chunk in zip(region, array.shape, array.chunks, strict=True))  # fmt: skip
        if touched > COARSE_CHUNKS or touched * math.prod(array.chunks) * array.dtype.itemsize > COARSE_DECODED_BYTES:
            return {"at": None}
    require_numbers(arrays[0])
    read = [np.asarray(array[tuple(region)]) for array in arrays]
    both = tuple(slice(0, min(pair)) for pair in zip(*(image.shape for image in read), strict=True))
    places = np.argwhere(_differ(read[0][both], read[1][both]))
    if len(places):
        return {"at": [part.start + int(place) for part, place in zip(region, places[0], strict=True)]}
    # Rows that one has and the other has not.
    more = [part.start + min(a, b) if a != b else part.start
            for part, a, b in zip(region, *(image.shape for image in read), strict=True)]  # fmt: skip
    return {"at": more}


def _differ(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the mask of elements that differ. NaN on both sides does not differ."""
    return np.asarray((first != second) & ((first == first) | (second == second)))
