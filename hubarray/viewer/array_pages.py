"""Pictures, values and maps of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hubarray.arrays.codecs.dtypes import dtype_name, is_ml
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.handle import snapshot_of
from hubarray.errors import ConfigError
from hubarray.interop.pictures import colours, drawing
from hubarray.redaction import shown_text, shown_url
from hubarray.values import packing
from hubarray.viewer.cuts import (
    MAX_LEVEL,
    Axes,
    Look,
    TileCut,
    box,
    checked_axes,
    guessed_axes,
    looks,
    tile,
    top_level,
)
from hubarray.viewer.decode_slot import turn
from hubarray.viewer.handle_cache import Opened, title
from hubarray.viewer.parameters import Query
from hubarray.viewer.values import attributes, physical

_MAX_VALUES = 4096
_MIN_SIDE_LOOKED = 3
_MAX_LETTERS = 2000
_MAX_MAPPED_CHUNKS = 1 << 18
_MAP_SIDE = 256
_MAP_BATCH_BYTES = 8 << 20


def array(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about an array, and how it is most likely to be looked at."""
    opened_array = opened.array(query.text("name"), query.text("key", "", most=200))
    axes = guessed_axes(opened_array.shape, opened_array.dims, is_byte=_is_byte(opened_array))
    height, width = (1 if axis is None else opened_array.shape[axis] for axis in (axes.y, axes.x))
    return {
        "name": title(opened_array),
        "key": opened_array.key or "",
        "shape": list(opened_array.shape),
        "dtype": dtype_name(opened_array.dtype),
        "dims": [dim or "" for dim in opened_array.dims],
        "chunks": list(opened_array.chunks),
        "kind": _kind(opened_array.dtype),
        "codec": ", ".join(codec["name"] for codec in opened_array.codec)
        + (" (lossy)" if is_lossy(opened_array.codec) else "")
        + (", packed" if packing.is_packed(opened_array.attrs, opened_array.dtype) else ""),
        "fill": shown_text(str(opened_array.fill_value))[:200],
        "attrs": attributes(opened_array.attrs),
        "bytes": int(opened_array.nbytes),
        "axes": _axes_json(axes),
        "levels": top_level(height, width) + 1,
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


def require_numbers(array: Any) -> None:
    """Refuse what cannot be drawn before it is read.

    Raises
    ------
    ConfigError
    """
    if _kind(array.dtype) == "text":
        raise ConfigError(f"{title(array)}: is {dtype_name(array.dtype)}, which has no colours and no curve")


def asked_axes(array: Any, query: Query) -> tuple[Axes, list[int]]:
    """The axes that a page asks for, and the places along the others.

    Raises
    ------
    ConfigError
    """
    y, x, c = (query.integer(name, -1, 63, -1) for name in ("y", "x", "c"))
    at = query.integers("at", array.ndim)
    bands = query.integers("bands", 3, -1) if query.text("bands", "") else ()
    try:
        return checked_axes(y, x, c, array.shape, bands), at
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _cut(array: Any, axes: Axes, at: list[int], query: Query, *, coarse: bool) -> TileCut:
    try:
        return tile(
            array.shape, array.chunks, axes, at, level=query.integer("level", 0, MAX_LEVEL),
            row=query.integer("row", 0, 1 << 53), column=query.integer("column", 0, 1 << 53),
            itemsize=array.dtype.itemsize, coarse=coarse,
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None


def real_elements(array: Any, axes: Axes, cut: TileCut, part: str) -> np.ndarray:
    """Rows and columns, and channels if there are any, as numbers with an order.

    Raises
    ------
    HubError
    """
    require_numbers(array)
    try:
        real = colours.real_values(_read(array, cut), part)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if axes.y is None:
        real = real[np.newaxis]
    return real if axes.x is not None else real[np.newaxis]


def _is_byte(array: Any) -> bool:
    """Whether it is seen in the window from 0 to 255, as photographs are."""
    return bool(array.dtype == np.uint8) and not packing.is_packed(array.attrs, array.dtype)


def _read(array: Any, cut: TileCut) -> np.ndarray:
    with turn(math.prod(array.chunks) * array.dtype.itemsize):
        parts = [np.asarray(physical(array, array[key])).transpose(cut.order) for key in cut.keys]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, -1)


def picture(opened: Opened, query: Query) -> bytes:
    """A tile as PNG; as WebP or JPEG, which are smaller and not exact, where that is asked for."""
    array = opened.array(query.text("name"), query.text("key", "", most=200))
    part = query.choice("part", colours.PARTS, "abs")
    name = query.choice("map", colours.MAPS, "grey")
    axes, at = asked_axes(array, query)
    cut = _cut(array, axes, at, query, coarse=query.flag("coarse"))
    values = real_elements(array, axes, cut, part)
    low, high = query.number("low"), query.number("high")
    if low is None or high is None:
        low, high = colours.window_of(_coloured_channels(axes, values), is_byte=_is_byte(array))
    if axes.c is not None:
        alpha = array.dtype.kind == "b" or colours.has_alpha(values, array.dims[axes.c])
        pixels = colours.colours_of_channels(
            values, low, high, cut.picks, with_alpha=alpha and values.shape[-1] == 4 and not cut.picks
        )
    else:
        pixels = colours.coloured(values, low, high, name)
    return drawing.encoded(drawing.stretched(pixels, cut.step, cut.shape), query.choice("as", drawing.KINDS, "png"))


def window(opened: Opened, query: Query) -> dict[str, Any]:
    """The histogram of a picture, or of what is seen of it, and the window of values to begin with."""
    array = opened.array(query.text("name"), query.text("key", "", most=200))
    part, (axes, at) = query.choice("part", colours.PARTS, "abs"), asked_axes(array, query)
    within = _within(query)
    places = [at] if within is not None else [at, *_elsewhere(array.shape, axes, at)]
    try:
        cuts = [box(array.shape, array.chunks, axes, place, look, itemsize=array.dtype.itemsize, coarse=True)
                for place in places for look in looks(array.shape, axes, within)]  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None
    every = np.concatenate(
        [_coloured_channels(axes, real_elements(array, axes, cut, part)).reshape(-1) for cut in cuts]
    )
    counts, low, high = colours.histogram(every)
    as_it_is = _is_byte(array) and not query.flag("fit")
    is_photograph = as_it_is and axes.c is not None and not axes.bands
    shown_low, shown_high = (0.0, 255.0) if is_photograph else colours.window_of(every, is_byte=as_it_is)
    return {"counts": counts, "low": low, "high": high, "shown": [shown_low, shown_high]}


def _coloured_channels(axes: Axes, values: np.ndarray) -> np.ndarray:
    """Values that a window of contrast is made of: alpha, and a band that is not seen, are none."""
    return values[..., :3] if axes.c is not None and not axes.bands and values.shape[-1] == 4 else values


def _elsewhere(shape: tuple[int, ...], axes: Axes, at: list[int]) -> list[list[int]]:
    """The middle along the longest axis that is not seen: a volume's first picture is often empty."""
    hidden = [axis for axis in range(len(shape)) if axis not in (axes.y, axes.x, axes.c)]
    longest = max(hidden, key=lambda axis: shape[axis], default=None)
    if longest is None or shape[longest] < _MIN_SIDE_LOOKED:
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
    array = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = asked_axes(array, query)
    first = [query.integer("row", 0, 1 << 62, 0), query.integer("column", 0, 1 << 62, 0)]
    counts = [query.integer("rows", 1, 512, 1), query.integer("columns", 1, 512, 1)]
    if math.prod(counts) > _MAX_VALUES:
        raise ConfigError(f"{math.prod(counts):,} values, and {_MAX_VALUES:,} are shown at a time")
    spans = [(start, start + count) for start, count in zip(first, counts, strict=True)]
    samples = elements(array, axes, at, spans, coarse=False)
    if samples is None:
        raise ConfigError("these values are in too many chunks to read; select fewer")
    rows = samples.reshape(1, -1, *samples.shape[1:]) if axes.y is None else samples
    return {"rows": [[_shown(cell) for cell in row] for row in rows]}


def elements(
    array: Any, axes: Axes, at: Sequence[int], spans: Sequence[tuple[int, int]], *, coarse: bool
) -> np.ndarray | None:
    """All elements of a box of rows and columns, as far as it reaches; None where they are too much to read.

    Raises
    ------
    HubError
    """
    lengths = [1 if axis is None else array.shape[axis] for axis in (axes.y, axes.x)]
    within = tuple((min(begin, length), min(end, length)) for (begin, end), length in zip(spans, lengths, strict=True))
    try:
        cut = box(array.shape, array.chunks, axes, at, Look(within, 1), itemsize=array.dtype.itemsize, coarse=coarse)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if cut.step > 1:
        return None
    values = _read(array, cut)
    return values[..., [pick for pick in cut.picks if pick >= 0]] if cut.picks else values


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.shape:
        return " ".join(_shown(item) for item in value)
    text = shown_text(f"{value:.6g}" if isinstance(value, (float, complex, np.inexact)) else str(value))
    return text if len(text) <= _MAX_LETTERS else f"{text[:_MAX_LETTERS]}…"


def chunk_map(opened: Opened, query: Query) -> dict[str, Any]:
    """Stored bytes of the chunks of a picture, 0 for those that were never written; of many, sums of some side by side.

    Of so many stored chunks that they are not gone through for it, the first: ``partial``.
    """
    array = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = asked_axes(array, query)
    sides = [1 if axis is None else -(-array.shape[axis] // array.chunks[axis]) for axis in (axes.y, axes.x)]
    steps = [max(1, -(-side // _MAP_SIDE)) for side in sides]
    answer = {"steps": steps, "sides": sides, "chunks": list(array.chunks), "partial": False}
    if not array.size or not array.ndim:
        return {"rows": [], **answer}
    rows, columns = (-(-side // step) for side, step in zip(sides, steps, strict=True))
    fixed = np.array([min(place, n - 1) // chunk
                      for place, n, chunk in zip(at, array.shape, array.chunks, strict=True)])  # fmt: skip
    if axes.c is not None:
        fixed[axes.c] = 0
    state = snapshot_of(array)
    if max(steps) == 1:
        coords = np.tile(fixed, (rows, columns, 1))
        if axes.y is not None:
            coords[..., axes.y] = np.arange(rows)[:, None]
        if axes.x is not None:
            coords[..., axes.x] = np.arange(columns)
        lengths = state.refs([tuple(chunk_coords) for chunk_coords in coords.reshape(-1, array.ndim).tolist()])[
            "length"
        ]
        return {
            "rows": lengths.reshape(rows, columns).astype(int).tolist(),
            "written": int((lengths > 0).sum()),
            **answer,
        }
    sums, written, seen = np.zeros((rows, columns), np.int64), 0, 0
    others = [axis for axis in range(array.ndim) if axis not in (axes.y, axes.x)]
    for coords, refs in state.present(batch_bytes=_MAP_BATCH_BYTES):
        here = (coords[:, others] == fixed[others].astype(coords.dtype)).all(axis=1)
        places = [np.zeros(here.sum(), np.int64) if axis is None else coords[here, axis].astype(np.int64) // step
                  for axis, step in zip((axes.y, axes.x), steps, strict=True)]  # fmt: skip
        np.add.at(sums, tuple(places), refs["length"][here].astype(np.int64))
        written, seen = written + int(here.sum()), seen + len(coords)
        if seen > _MAX_MAPPED_CHUNKS:
            answer["partial"] = True
            break
    return {"rows": sums.tolist(), "written": written, **answer}
