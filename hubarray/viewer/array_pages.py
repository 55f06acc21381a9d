"""Pictures, values and maps of arrays."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import Any

import numpy as np

from hubarray.arrays.dtypes import dtype_name, is_ml
from hubarray.arrays.image_codecs import is_lossy
from hubarray.errors import ConfigError
from hubarray.interop.pictures import colours, drawing
from hubarray.shown import shown_text, shown_url
from hubarray.viewer.cuts import (
    MAX_LEVEL,
    MOST_DECODED_BYTES,
    Axes,
    Cut,
    Look,
    box,
    checked_axes,
    guessed_axes,
    looks,
    python_line,
    tile,
    top_level,
)
from hubarray.viewer.opened import Opened, title
from hubarray.viewer.parameters import Query

_MOST_VALUES = 4096
_MOST_POINTS = 1 << 20
_LINE_POINTS = 2000
_MOST_CURVES = 8
_LEAST_SIDE_LOOKED = 3
_MOST_LETTERS = 2000
_MOST_MAPPED_CHUNKS = 1 << 18
_MAP_SIDE = 256
_HEAVY_BYTES = 128 << 20
_heavy = threading.Lock()


def array(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about an array, and how it is most likely to be looked at."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    axes = guessed_axes(found.shape, found.dims, is_byte=found.dtype == np.uint8)
    at = [0] * found.ndim
    height, width = (1 if axis is None else found.shape[axis] for axis in (axes.y, axes.x))
    return {
        "name": title(found),
        "key": found.key or "",
        "shape": list(found.shape),
        "dtype": dtype_name(found.dtype),
        "dims": [one or "" for one in found.dims],
        "chunks": list(found.chunks),
        "kind": _kind(found.dtype),
        "codec": ", ".join(one["name"] for one in found.codec) + (" (lossy)" if is_lossy(found.codec) else ""),
        "fill": shown_text(str(found.fill_value))[:200],
        "attrs": dict(found.attrs),
        "bytes": int(found.nbytes),
        "axes": _axes_json(axes),
        "levels": top_level(height, width) + 1,
        "line": python_line(title(found), axes, at, found.key),
        "maps": list(colours.MAPS),
        "root": shown_url(opened.root.url),
    }


def _kind(dtype: np.dtype[Any]) -> str:
    """The kind of drawing that a dtype allows: of numbers, of complex ones, or nothing but text."""
    if dtype.kind == "c":
        return "complex"
    is_small_float = dtype.kind == "V" and dtype.names is None and is_ml(dtype)
    return "number" if dtype.kind in "biufmM" or is_small_float else "text"


def _axes_json(axes: Axes) -> list[int]:
    return [-1 if axis is None else axis for axis in (axes.y, axes.x, axes.c)]


def _require_numbers(found: Any) -> None:
    """Refuse what cannot be drawn before it is read."""
    if _kind(found.dtype) == "text":
        raise ConfigError(f"{title(found)}: is {dtype_name(found.dtype)}, which has no colours and no curve")


def _asked(found: Any, query: Query) -> tuple[Axes, list[int]]:
    y, x, c = (query.integer(one, -1, 63, -1) for one in ("y", "x", "c"))
    at = query.integers("at", found.ndim)
    try:
        return checked_axes(y, x, c, found.shape), at
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _cut(found: Any, query: Query, *, coarse: bool) -> Cut:
    axes, at = _asked(found, query)
    try:
        return tile(
            found.shape, found.chunks, axes, at, level=query.integer("level", 0, MAX_LEVEL),
            row=query.integer("row", 0, 1 << 53), column=query.integer("column", 0, 1 << 53),
            itemsize=found.dtype.itemsize, coarse=coarse,
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _read(found: Any, cut: Cut, part: str) -> np.ndarray:
    """Rows and columns, and channels if there are any, as numbers with an order."""
    _require_numbers(found)
    # One at a time of what is decoded in large pieces: memory is for one of them.
    with _heavy if math.prod(found.chunks) * found.dtype.itemsize > _HEAVY_BYTES else contextlib.nullcontext():
        values = np.asarray(found[cut.key]).transpose(cut.order)
    try:
        real = colours.real_values(values, part)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    while real.ndim < 2:
        real = real[np.newaxis]
    return real


def picture(opened: Opened, query: Query) -> bytes:
    """A tile as PNG."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    part = query.choice("part", colours.PARTS, "abs")
    name = query.choice("map", colours.MAPS, "grey")
    cut = _cut(found, query, coarse=query.flag("coarse"))
    values = _read(found, cut, part)
    low, high = query.number("low"), query.number("high")
    if low is None or high is None:
        low, high = colours.window_of(values, is_byte=found.dtype == np.uint8)
    if values.ndim > 2:
        pixels = colours.colours_of_channels(values, low, high)
    else:
        pixels = colours.coloured(values, low, high, name)
    return drawing.png(drawing.stretched(pixels, cut.step, cut.shape))


def window(opened: Opened, query: Query) -> dict[str, Any]:
    """The histogram of a picture, or of what is seen of it, and the window of values to begin with."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    part, (axes, at) = query.choice("part", colours.PARTS, "abs"), _asked(found, query)
    within = _within(query)
    places = [at] if within is not None else [at, *_elsewhere(found.shape, axes, at)]
    try:
        cuts = [box(found.shape, found.chunks, axes, place, look, itemsize=found.dtype.itemsize, coarse=True)
                for place in places for look in looks(found.shape, axes, within)]  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None
    every = np.concatenate([_read(found, cut, part).reshape(-1) for cut in cuts])
    counts, low, high = colours.histogram(every)
    shown_low, shown_high = colours.window_of(every, is_byte=found.dtype == np.uint8)
    return {"counts": counts, "low": low, "high": high, "shown": [shown_low, shown_high]}


def _elsewhere(shape: tuple[int, ...], axes: Axes, at: list[int]) -> list[list[int]]:
    """The middle along the longest axis that is not seen: a volume's first picture is often empty."""
    hidden = [axis for axis in range(len(shape)) if axis not in (axes.y, axes.x, axes.c)]
    longest = max(hidden, key=lambda axis: shape[axis], default=None)
    if longest is None or shape[longest] < _LEAST_SIDE_LOOKED:
        return []
    return [[shape[axis] // 2 if axis == longest else place for axis, place in enumerate(at)]]


def _within(query: Query) -> list[tuple[int, int]] | None:
    """The rows and columns that are in sight; None for all."""
    if not query.text("view", ""):
        return None
    top, bottom, left, right = query.integers("view", 4, 0, 1 << 62)
    return [(top, bottom), (left, right)]


def values(opened: Opened, query: Query) -> dict[str, Any]:
    """Some elements as text: of a box of rows and columns."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = _asked(found, query)
    first = [query.integer("row", 0, 1 << 62, 0), query.integer("column", 0, 1 << 62, 0)]
    counts = [query.integer("rows", 1, 512, 1), query.integer("columns", 1, 512, 1)]
    if math.prod(counts) > _MOST_VALUES:
        raise ConfigError(f"{math.prod(counts):,} values, and {_MOST_VALUES:,} are shown at a time")
    key: list[Any] = []
    for axis, length in enumerate(found.shape):
        if axis in (axes.y, axes.x):
            which = (axes.y, axes.x).index(axis)
            key.append(slice(first[which], min(length, first[which] + counts[which])))
        elif axis == axes.c:
            key.append(slice(None))
        elif at[axis] < length:
            key.append(at[axis])
        else:
            raise ConfigError(f"axis {axis} has {length:,} elements, and there is no {at[axis]:,}")
    touched = math.prod(
        len(range(part.start // c, -(-part.stop // c))) if isinstance(part, slice) and part.stop is not None else 1
        for part, c in zip(key, found.chunks, strict=True)
    )
    if touched * math.prod(found.chunks) * found.dtype.itemsize > MOST_DECODED_BYTES and touched > 1:
        raise ConfigError(f"these values are in {touched:,} chunks, which is too much to read for them; take fewer")
    read = np.asarray(found[tuple(key)])
    kept = [axis for axis in range(found.ndim) if axis in (axes.y, axes.x, axes.c)]
    read = read.transpose([kept.index(axis) for axis in (axes.y, axes.x, axes.c) if axis is not None])
    rows = read.reshape(1, -1, *read.shape[2:]) if axes.y is None else read
    return {"rows": [[_shown(one) for one in row] for row in rows]}


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.shape:
        return " ".join(_shown(one) for one in value)
    text = shown_text(f"{value:.6g}" if isinstance(value, (float, complex, np.inexact)) else str(value))
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def line(opened: Opened, query: Query) -> dict[str, Any]:
    """A curve along one axis: of many elements the least and the most of each stretch."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = _asked(found, query)
    if axes.x is None:
        raise ConfigError("a curve needs an axis")
    length = found.shape[axes.x]
    first = query.integer("first", 0, max(0, length - 1), 0)
    end = query.integer("end", first + 1 if length else 0, max(1, length), max(1, length))
    each = query.integer("each", -1, found.ndim - 1, -1)
    if each == axes.x:
        raise ConfigError("curves side by side are of two different axes")
    _require_numbers(found)
    look = Look(((0, 1), (first, end)), max(1, -(-(end - first) // _MOST_POINTS)))
    along = Axes(None, axes.x)
    zeros = [0] * found.ndim
    cut = box(found.shape, found.chunks, along, zeros, look, itemsize=found.dtype.itemsize, coarse=each >= 0)
    step = cut.step * look.scale
    for axis, size in enumerate(found.shape):
        if axis != axes.x and not at[axis] < size:
            raise ConfigError(f"axis {axis} has {size:,} elements, and there is no {at[axis]:,}")
    side = range(at[each], min(found.shape[each], at[each] + _MOST_CURVES)) if each >= 0 else range(0)
    parts: dict[str, np.ndarray] = {}
    for which in side or [None]:
        key = tuple(slice(first, end, step) if axis == axes.x else which if axis == each and which is not None
                    else at[axis] for axis in range(found.ndim))  # fmt: skip
        read, name = np.asarray(found[key]), "" if which is None else f"{which}"
        if read.dtype.kind == "c":
            parts |= {f"{name} real".strip(): read.real, f"{name} imag".strip(): read.imag}
        else:
            parts[name or "value"] = read
    try:
        curves = {name: colours.real_values(np.ascontiguousarray(one), "abs") for name, one in parts.items()}
    except ValueError as error:
        raise ConfigError(str(error)) from None
    places, drawn = _thinned(curves, first, step)
    return {"x": places, "curves": drawn, "length": length}


def _thinned(curves: dict[str, np.ndarray], first: int, step: int) -> tuple[list[int], dict[str, list[float | None]]]:
    """Curves as pairs of the least and the most of each stretch, so that no peak is lost."""
    count = len(next(iter(curves.values())))
    width = max(1, -(-count // (_LINE_POINTS // 2)))
    if width == 1:
        return [first + step * i for i in range(count)], {name: _plain(one) for name, one in curves.items()}
    begins = np.arange(0, count, width)
    drawn = {}
    for name, one in curves.items():
        both = np.stack([np.minimum.reduceat(one, begins), np.maximum.reduceat(one, begins)], -1)
        # In the order in which they come, so that what falls is drawn as falling.
        falls = np.array([np.argmax(some) < np.argmin(some) for some in np.split(one, begins[1:])])
        both[falls] = both[falls][:, ::-1]
        drawn[name] = _plain(both.reshape(-1))
    ends = np.minimum(begins + width - 1, count - 1)
    return (first + step * np.stack([begins, ends], -1).reshape(-1)).tolist(), drawn


def _plain(values: np.ndarray) -> list[float | None]:
    return [one if math.isfinite(one) else None for one in values.astype("f8").tolist()]


def chunk_map(opened: Opened, query: Query) -> dict[str, Any]:
    """Stored bytes of the chunks of a picture, 0 for those that were never written; of many a coarser map."""
    found = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = _asked(found, query)
    sides = [1 if axis is None else -(-found.shape[axis] // found.chunks[axis]) for axis in (axes.y, axes.x)]
    steps = [max(1, -(-side // _MAP_SIDE)) for side in sides]
    rows, columns = (np.arange(0, side, step) for side, step in zip(sides, steps, strict=True))
    if len(rows) * len(columns) > _MOST_MAPPED_CHUNKS or not found.size or not found.ndim:
        return {"rows": [], "steps": steps, "sides": sides, "chunks": list(found.chunks)}
    coords = np.zeros((len(rows), len(columns), found.ndim), np.int64)
    for axis in range(found.ndim):
        if axis == axes.y:
            coords[..., axis] = rows[:, None]
        elif axis == axes.x:
            coords[..., axis] = columns[None, :]
        elif axis != axes.c:
            coords[..., axis] = min(at[axis], found.shape[axis] - 1) // found.chunks[axis]
    state = found.state()
    lengths = state.refs([tuple(one) for one in coords.reshape(-1, found.ndim).tolist()])["length"]
    return {
        "rows": lengths.reshape(len(rows), len(columns)).astype(int).tolist(), "steps": steps, "sides": sides,
        "chunks": list(found.chunks),
    }  # fmt: skip
