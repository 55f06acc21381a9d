"""Where two commits of a version differ: chunks by their refs, and of a picture the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import hubarray as hub
from hubarray.errors import ConfigError
from hubarray.shown import shown_text
from hubarray.viewer.array_pages import asked_axes, elements, require_numbers
from hubarray.viewer.opened import Opened
from hubarray.viewer.parameters import Query

_MOST_REGIONS = 1000


def changes(opened: Opened, query: Query) -> dict[str, Any]:
    """Where two commits differ, chunk by chunk, by refs alone."""
    one, two = query.text("one"), query.text("two")
    key = query.text("key", "", most=200)
    found: Any = hub.diff(one, two, root=opened.root)
    if key:
        if key in found.added:
            return {"regions": [], "text": f"{key} was added", "bytes": 0}
        if key in found.dropped:
            return {"regions": [], "text": f"{key} was dropped", "bytes": 0}
        found = found.changed.get(key)
    regions = [
        [[part.start or 0, part.stop] for part in region] for region in getattr(found, "regions", ())[:_MOST_REGIONS]
    ]
    if not found:
        text = "No difference"
    elif hasattr(found, "shapes"):
        before, after = found.shapes
        text = "" if before == after else f"The shape was {before}, and is {after}"
    else:
        text = shown_text(str(found))[:5000]
    return {"regions": regions, "text": text, "bytes": int(getattr(found, "bytes", 0))}


def differing(opened: Opened, query: Query) -> dict[str, Any]:
    """The least box of rows and columns that has all elements of a region in which two commits differ.

    The region is one that :func:`changes` tells, in a picture. Of one that is too large to be read for this, nothing
    is told.
    """
    key = query.text("key", "", most=200)
    arrays = [opened.array(query.text(one), key) for one in ("one", "two")]
    first = arrays[0]
    axes, at = asked_axes(first, query)
    top, bottom, left, right = query.integers("view", 4, 0, 1 << 53)
    if arrays[1].ndim != first.ndim or arrays[1].dtype != first.dtype:
        raise ConfigError("arrays of different dtypes, or numbers of axes, differ everywhere")
    require_numbers(first)
    read = [elements(one, axes, at, ((top, bottom), (left, right)), coarse=True) for one in arrays]
    if read[0] is None or read[1] is None or read[0].shape != read[1].shape:
        return {"box": None, "elements": None}
    differs = _differ(read[0], read[1])
    if axes.y is None:
        differs = differs[np.newaxis]
    flat = np.asarray(differs.any(axis=2)) if differs.ndim > 2 else differs
    if not flat.any():
        return {"box": None, "elements": 0}
    spans = [np.flatnonzero(one) for one in (flat.any(axis=1), flat.any(axis=0))]
    corner = (0 if axes.y is None else top, left)
    return {
        "box": [[begin + int(one[0]), begin + int(one[-1]) + 1] for begin, one in zip(corner, spans, strict=True)],
        "elements": int(differs.sum()),
    }


def _differ(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Which elements differ; what is no number on both sides does not."""
    return np.asarray((one != two) & ((one == one) | (two == two)))
