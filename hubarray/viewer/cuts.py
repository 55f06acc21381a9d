"""Pictures of arrays as arithmetic: which axes are rows and columns, and which elements a tile is made of. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TILE_PIXELS = 256
MAX_LEVEL = 56
# What a tile may touch: past that it is made of fewer elements, evenly.
MAX_CHUNKS = 1024
MAX_DECODED_BYTES = 384 << 20
COARSE_CHUNKS = 64
COARSE_DECODED_BYTES = 32 << 20
_ROW_NAMES = ("y", "lat", "latitude", "row", "height")
_COLUMN_NAMES = ("x", "lon", "longitude", "column", "width")
_CHANNEL_NAMES = ("c", "channel", "channels", "rgb", "band")
_CHANNELS = (3, 4)
_COLOURS = 3
# Channels that lie evenly are read at once, unless far more lie between them than are wanted.
_MAX_BETWEEN = 8


@dataclass(frozen=True)
class Axes:
    """Which axes of an array a picture has; None for those that it has not.

    Attributes
    ----------
    y, x : int or None
        Rows and columns.
    c : int or None
        Channels.
    bands : tuple of int
        Which channels are red, green and blue, -1 for none. Without any the axis has three or four elements, and they
        are the colours, the fourth alpha.
    """

    y: int | None
    x: int | None
    c: int | None = None
    bands: tuple[int, ...] = ()


def guessed_axes(shape: Sequence[int], dims: Sequence[str | None], *, is_byte: bool) -> Axes:
    """The axes that people most likely want to see.

    Examples
    --------
    >>> guessed_axes((100, 480, 640, 3), (None,) * 4, is_byte=True) == Axes(y=1, x=2, c=3)
    True
    >>> guessed_axes((64, 512, 512), ("z", "y", "x"), is_byte=False) == Axes(y=1, x=2)
    True
    >>> guessed_axes((1000,), (None,), is_byte=False) == Axes(y=None, x=0)
    True
    >>> guessed_axes((2, 3, 480, 640), (None, "channel", None, None), is_byte=True) == Axes(y=2, x=3, c=1)
    True
    """
    named = {str(name).lower(): axis for axis, name in enumerate(dims) if name is not None}
    by_name = [next((named[name] for name in dim_names if name in named), None)
               for dim_names in (_ROW_NAMES, _COLUMN_NAMES, _CHANNEL_NAMES)]  # fmt: skip
    y, x, c = by_name
    if c is not None and shape[c] not in _CHANNELS:
        c = None
    if c is None and is_byte and len(shape) > 2 and shape[-1] in _CHANNELS and len(shape) - 1 not in (y, x):
        c = len(shape) - 1
    rest = [axis for axis in range(len(shape)) if axis not in (y, x, c)]
    if x is None and rest:
        x = rest.pop()
    if y is None and rest:
        y = rest.pop()
    return Axes(y, x, c)


def checked_axes(y: int, x: int, c: int, shape: Sequence[int], bands: Sequence[int] = ()) -> Axes:
    """Axes and bands as a page asks for them, -1 for none.

    Raises
    ------
    ValueError
    """
    image_axes = [axis for axis in (y, x, c) if axis >= 0]
    if len(set(image_axes)) != len(image_axes) or any(axis >= len(shape) for axis in image_axes):
        raise ValueError(f"the axes {y}, {x} and {c} are not different axes of a shape of {len(shape)}")
    if y >= 0 > x:
        raise ValueError("rows without columns")
    if bands:
        if c < 0 or len(bands) != _COLOURS or max(bands) < 0 or not all(-1 <= band < shape[c] for band in bands):
            raise ValueError(f"bands {list(bands)}: give three channels of an axis, for red, green and blue")
    elif c >= 0 and shape[c] not in _CHANNELS:
        raise ValueError(f"axis {c} has {shape[c]:,} elements: say with bands= which are red, green and blue")
    rows, columns, colours = (None if axis < 0 else axis for axis in (y, x, c))
    return Axes(rows, columns, colours, tuple(bands))


def top_level(height: int, width: int) -> int:
    """The level at which all is one tile: each has half of the rows and columns of the one before."""
    return max(0, math.ceil(math.log2(max(height, width, 1) / TILE_PIXELS)))


@dataclass(frozen=True)
class Look:
    """A box of rows and columns with a step."""

    spans: tuple[tuple[int, int], ...]
    scale: int


def looks(shape: Sequence[int], axes: Axes, within: Sequence[tuple[int, int]] | None = None) -> list[Look]:
    """The boxes that tell how bright a picture, or a part of it, is: few elements of all of it, and its middle.

    Examples
    --------
    >>> looks((1000, 1000), Axes(0, 1))
    [Look(spans=((0, 1000), (0, 1000)), scale=4), Look(spans=((372, 628), (372, 628)), scale=1)]
    """
    lengths = [1 if axis is None else shape[axis] for axis in (axes.y, axes.x)]
    bounds = [(0, length) for length in lengths] if within is None else within
    spans = [(min(first, length - 1), min(end, length)) for (first, end), length in zip(bounds, lengths, strict=True)]
    spans = [(first, max(first + 1, end)) for first, end in spans]
    level = top_level(*(end - first for first, end in spans))
    levels = [Look(tuple(spans), 1 << level)]
    if level:
        middles = [(first + end) // 2 for first, end in spans]
        half = TILE_PIXELS // 2
        levels.append(Look(tuple((max(first, middle - half), min(end, middle + half))
                                for middle, (first, end) in zip(middles, spans, strict=True)), 1))  # fmt: skip
    return levels


@dataclass(frozen=True)
class Channels:
    """How the channels of a picture are read.

    Attributes
    ----------
    parts : tuple of slice
        What is read of the axis, one after the other.
    picks : tuple of int
        Which of what is read is red, green and blue, -1 for none; empty where all of it is shown as it is.
    """

    parts: tuple[slice, ...]
    picks: tuple[int, ...] = ()


def channels(axes: Axes, shape: Sequence[int]) -> Channels:
    """The channels of a picture with a channel axis.

    Examples
    --------
    >>> channels(Axes(0, 1, 2, (4, 2, -1)), (9, 9, 7))
    Channels(parts=(slice(2, 5, 2),), picks=(1, 0, -1))
    >>> channels(Axes(0, 1, 2, (0, 1, 99)), (9, 9, 100)).parts
    (slice(0, 1, 1), slice(1, 2, 1), slice(99, 100, 1))
    """
    if axes.c is None:
        raise ValueError("there are no channels")
    if not axes.bands:
        return Channels((slice(0, shape[axes.c]),))
    used = sorted({band for band in axes.bands if band >= 0})
    step = math.gcd(*(band - used[0] for band in used)) or 1
    if (used[-1] - used[0]) // step < _MAX_BETWEEN:
        parts: tuple[slice, ...] = (slice(used[0], used[-1] + 1, step),)
        places = {band: (band - used[0]) // step for band in used}
    else:
        parts = tuple(slice(band, band + 1, 1) for band in used)
        places = {band: place for place, band in enumerate(used)}
    return Channels(parts, tuple(places.get(band, -1) for band in axes.bands))


@dataclass(frozen=True)
class TileCut:
    """The elements that a tile is made of.

    Attributes
    ----------
    keys : tuple of tuple of int or slice
        What the array is read by: several where channels are read one by one.
    order : tuple of int
        How the axes of what is read become rows, columns, channels.
    step : int
        The step between elements.
    shape : (int, int)
        Rows and columns of the tile in full.
    picks : tuple of int
        As :class:`Channels` has them.
    """

    keys: tuple[tuple[int | slice, ...], ...]
    order: tuple[int, ...]
    step: int
    shape: tuple[int, int]
    picks: tuple[int, ...] = ()


def tile(
    shape: Sequence[int], chunks: Sequence[int], axes: Axes, at: Sequence[int], *, level: int, row: int, column: int,
    itemsize: int, coarse: bool,
) -> TileCut:  # fmt: skip
    """The cut of one tile.

    Parameters
    ----------
    shape, chunks : sequence of int
    axes : Axes
    at : sequence of int
        Which element of the axes that are not shown.
    level : int
        Every ``2 ** level`` elements are a pixel.
    row, column : int
        Of the tile.
    itemsize : int
    coarse : bool
        A first look, of a few chunks.

    Raises
    ------
    ValueError
        The tile does not exist.

    Examples
    --------
    >>> cut = tile((9, 1000, 1000), (1, 100, 100), Axes(1, 2), (4, 0, 0), level=1, row=0, column=1, itemsize=1,
    ...            coarse=False)
    >>> cut.keys, cut.shape
    (((4, slice(0, 512, 2), slice(512, 1000, 2)),), (256, 244))
    """
    scale = 1 << level
    spans = (_span(shape, axes.y, row, scale), _span(shape, axes.x, column, scale))
    return box(shape, chunks, axes, at, Look(spans, scale), itemsize=itemsize, coarse=coarse)


def box(
    shape: Sequence[int], chunks: Sequence[int], axes: Axes, at: Sequence[int], look: Look, *, itemsize: int,
    coarse: bool,
) -> TileCut:  # fmt: skip
    """The cut of a box of rows and columns; as :func:`tile`."""
    spans, scale = look.spans, look.scale
    step = scale
    max_chunks, max_bytes = (COARSE_CHUNKS, COARSE_DECODED_BYTES) if coarse else (MAX_CHUNKS, MAX_DECODED_BYTES)
    colours = channels(axes, shape) if axes.c is not None else Channels((slice(0, 1),))
    deep = 1 if axes.c is None else _crossed(colours.parts, chunks[axes.c])
    most = max(1, min(max_chunks, max_bytes // max(1, math.prod(chunks) * itemsize)) // deep)
    while _touched(spans, (axes.y, axes.x), chunks, step) > most:
        step *= 2
    shown = {axes.y: spans[0], axes.x: spans[1]}
    keys = tuple(tuple(_part(axis, shape, axes, at, shown, step, part) for axis in range(len(shape)))
                 for part in colours.parts)  # fmt: skip
    shown_axes = [axis for axis in range(len(shape)) if axis in shown or axis == axes.c]
    order = tuple(shown_axes.index(axis) for axis in (axes.y, axes.x, axes.c) if axis is not None)
    height, width = (-(-(end - first) // scale) for first, end in spans)
    return TileCut(keys, order, step // scale, (height, width), colours.picks)


def _part(
    axis: int, shape: Sequence[int], axes: Axes, at: Sequence[int], shown: Mapping[int | None, tuple[int, int]],
    step: int, channel: slice,
) -> int | slice:  # fmt: skip
    if axis in shown:
        first, end = shown[axis]
        return slice(first, end, step)
    if axis == axes.c:
        return channel
    if not at[axis] < shape[axis]:
        raise ValueError(f"axis {axis} has {shape[axis]:,} elements, and there is no {at[axis]:,}")
    return at[axis]


def _crossed(parts: Sequence[slice], chunk: int) -> int:
    """How many chunks some parts of an axis lie in, at least one."""
    return max(1, sum(min(len(range(part.stop)[part]), -(-part.stop // chunk) - part.start // chunk) for part in parts))


def _span(shape: Sequence[int], axis: int | None, number: int, scale: int) -> tuple[int, int]:
    length = 1 if axis is None else shape[axis]
    first = number * TILE_PIXELS * scale
    if first >= length:
        raise ValueError(f"there is no tile {number} along an axis of {length:,}")
    return first, min(length, first + TILE_PIXELS * scale)


def _touched(spans: Sequence[tuple[int, int]], axes: Sequence[int | None], chunks: Sequence[int], step: int) -> int:
    """How many chunks a strided box touches, at most."""
    counts = []
    for (first, end), axis in zip(spans, axes, strict=True):
        chunk = 1 if axis is None else chunks[axis]
        pixels = -(-(end - first) // step)
        counts.append(min(pixels, -(-end // chunk) - first // chunk))
    return math.prod(counts)
