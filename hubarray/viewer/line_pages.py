"""Curves along an axis of an array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.pictures import colours
from hubarray.viewer.array_pages import asked_axes, require_numbers
from hubarray.viewer.cuts import Axes, Look, box
from hubarray.viewer.decode_slot import turn
from hubarray.viewer.handle_cache import Opened
from hubarray.viewer.parameters import Query
from hubarray.viewer.thinning import thinned, width_of
from hubarray.viewer.values import physical

# All of so many bytes is looked at; of more, so many elements.
_MAX_BYTES = 256 << 20
_MAX_POINTS = 1 << 20
_PIECE_ELEMENTS = 1 << 22
_MAX_CURVES = 8


def line(opened: Opened, query: Query) -> dict[str, Any]:
    """A curve along one axis: of many elements the least and the most of each stretch.

    Of very many elements, or elements in very many chunks, only every ``step``-th is read.
    """
    array = opened.array(query.text("name"), query.text("key", "", most=200))
    axes, at = asked_axes(array, query)
    if axes.x is None:
        raise ConfigError("a curve needs an axis")
    length = array.shape[axes.x]
    first = query.integer("first", 0, max(0, length - 1), 0)
    end = query.integer("end", first + 1 if length else 0, max(1, length), max(1, length))
    each = query.integer("each", -1, array.ndim - 1, -1)
    if each == axes.x:
        raise ConfigError("curves side by side are of two different axes")
    require_numbers(array)
    side = range(at[each], min(array.shape[each], at[each] + _MAX_CURVES)) if each >= 0 else range(0)
    count, along = end - first, Axes(None, axes.x)
    scale = 1 if count * max(1, len(side)) * array.dtype.itemsize <= _MAX_BYTES else -(-count // _MAX_POINTS)
    try:
        cut = box(array.shape, array.chunks, along, [0] * array.ndim, Look(((0, 1), (first, end)), scale),
                  itemsize=array.dtype.itemsize, coarse=each >= 0)  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None
    step = cut.step * scale
    for axis, size in enumerate(array.shape):
        if axis != axes.x and not at[axis] < size:
            raise ConfigError(f"axis {axis} has {size:,} elements, and there is no {at[axis]:,}")
    width = width_of(-(-count // step))
    # Whole stretches at a time, so that memory is for some of them.
    piece = step * width * max(1, _PIECE_ELEMENTS // width)
    places: list[int] = []
    drawn: dict[str, list[float | None]] = {}
    for begin in range(first, max(end, first + 1), piece):
        with turn(math.prod(array.chunks) * array.dtype.itemsize):
            curves = _curves(array, axes.x, at, slice(begin, min(begin + piece, end), step), each, side)
        more, points = thinned(curves, begin, step, width)
        places += more
        for name, values in points.items():
            drawn.setdefault(name, []).extend(values)
    return {
        "x": places, "curves": drawn, "length": length, "step": step,
        "of": array.shape[each] if each >= 0 else len(drawn),
    }  # fmt: skip


def _curves(array: Any, along: int, at: Sequence[int], part: slice, each: int, side: range) -> dict[str, np.ndarray]:
    """A part of the curves, as numbers with an order."""
    parts: dict[str, np.ndarray] = {}
    for which in side or [None]:
        key = tuple(part if axis == along else which if axis == each and which is not None else at[axis]
                    for axis in range(array.ndim))  # fmt: skip
        read, name = np.asarray(physical(array, array[key])), "" if which is None else f"{which}"
        if read.dtype.kind == "c":
            parts |= {f"{name} real".strip(): read.real, f"{name} imag".strip(): read.imag}
        else:
            parts[name or "value"] = read
    try:
        return {name: colours.real_values(np.ascontiguousarray(curve), "abs") for name, curve in parts.items()}
    except ValueError as error:
        raise ConfigError(str(error)) from None
