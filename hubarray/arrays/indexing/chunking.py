"""Choosing and checking chunk shapes. Pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from hubarray.errors import ConfigError
from hubarray.redaction import counted

GROUP_BYTES = 256 << 10
WHOLE_SAMPLE_BYTES = 1 << 20
MAX_CHUNK_BYTES = (1 << 31) - (1 << 20)
MAX_ARRAY_BYTES = (1 << 63) - 1


def checked_shape(shape: Any, itemsize: int) -> tuple[int, ...]:
    """A shape as NumPy takes them, small enough that every offset is an int64.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> checked_shape(5, 8), checked_shape([2, 3], 8)
    ((5,), (2, 3))
    """
    if getattr(shape, "ndim", 0):
        raise ConfigError(
            "shape is a number or a tuple of them, not an array; to store values: hub.store(values, name)"
        )
    axes = shape if isinstance(shape, Iterable) and not isinstance(shape, (str, bytes)) else (shape,)
    try:
        lengths = tuple(operator.index(length) for length in axes)
    except TypeError:
        unknown = any(length is None for length in axes)
        more = "; rows of unequal lengths belong into a table: hub.table_writer" if unknown else ""
        raise ConfigError(f"shape {shape!r}: lengths are whole numbers{more}") from None
    if any(length < 0 for length in lengths):
        raise ConfigError(f"shape {lengths}: lengths are 0 or more")
    if len(lengths) > 64:
        raise ConfigError(f"shape of {len(lengths)} axes: NumPy has at most 64")
    if math.prod(max(1, length) for length in lengths) * itemsize > MAX_ARRAY_BYTES:
        raise ConfigError(f"shape {lengths} with {itemsize} bytes an element is beyond int64")
    return lengths


def auto_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Chunks by the size of a sample, ``a[i]``.

    Samples under 256 KiB are grouped up to that; samples up to 1 MiB are chunks; larger ones are split evenly along
    their leading axes. Packs combine small chunks into large requests, so large chunks are not necessary.

    Examples
    --------
    >>> auto_chunks((100_000, 512, 512, 3), 1), auto_chunks((1000,), 8), auto_chunks((9, 4096, 4096), 4)
    ((1, 512, 512, 3), (32768,), (1, 64, 4096))
    """
    if not shape:
        return ()
    lengths = [max(1, length) for length in shape]
    sample_bytes = math.prod(lengths[1:]) * itemsize
    if sample_bytes < GROUP_BYTES:
        return (GROUP_BYTES // sample_bytes, *lengths[1:])
    chunks = [1, *lengths[1:]]
    for axis in range(1, len(chunks)):
        size = math.prod(chunks[1:]) * itemsize
        if size <= WHOLE_SAMPLE_BYTES:
            break
        parts = min(chunks[axis], -(-size // WHOLE_SAMPLE_BYTES))
        chunks[axis] = -(-chunks[axis] // parts)
    return tuple(chunks)


def cube_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Chunks of about equal length along every axis, up to 1 MiB: for volumes that are read in boxes and cuts.

    Examples
    --------
    >>> cube_chunks((512, 512, 512), 4), cube_chunks((0, 2048, 2048), 1), cube_chunks((1000, 8), 8)
    ((64, 64, 64), (98, 103, 103), (1000, 8))
    """
    lengths = [max(1, length) for length in shape]
    if lengths and shape[0] == 0:
        # It will grow: as if it were as long as the others.
        lengths[0] = max(lengths)
    sides = list(lengths)
    while math.prod(sides) * itemsize > WHOLE_SAMPLE_BYTES:
        longest = sides.index(max(sides))
        # The axis is cut into one part more than it is, so that its chunks stay of about equal length.
        parts = -(-lengths[longest] // sides[longest]) + 1
        sides[longest] = min(sides[longest] - 1, -(-lengths[longest] // parts))
    return tuple(sides)


def checked_chunks(chunks: Any, shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """A chunk shape for an array: ``"auto"``, ``"cube"``, one length for every axis, or one an axis.

    Raises
    ------
    ConfigError
        A wrong number of axes, lengths below 1, or a chunk of 2 GiB or more.
    """
    if isinstance(chunks, str):
        if chunks not in ("auto", "cube"):
            raise ConfigError(f"chunks {chunks!r}: give 'auto', 'cube' or one length per axis")
        return (auto_chunks if chunks == "auto" else cube_chunks)(shape, itemsize)
    axes = chunks if isinstance(chunks, Iterable) else (chunks,) * len(shape)
    try:
        lengths = tuple(operator.index(length) for length in axes)
    except TypeError:
        raise ConfigError(f"chunks {chunks!r}: lengths are whole numbers") from None
    if len(lengths) != len(shape):
        raise ConfigError(
            f"chunks {lengths} have {counted(len(lengths), 'axis', plural='axes')} and the shape {tuple(shape)} has "
            f"{len(shape)}"
        )
    if any(length < 1 for length in lengths):
        raise ConfigError(f"chunks {lengths}: lengths are 1 or more")
    if math.prod(lengths) * itemsize > MAX_CHUNK_BYTES:
        raise ConfigError(f"chunks {lengths} make chunks of 2 GiB or more; choose smaller ones, about 1 MiB")
    return lengths
