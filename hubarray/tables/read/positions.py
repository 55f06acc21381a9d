"""Positions in an index, as callers give them. Pure."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from hubarray.errors import ConfigError


def position_of(position: Any, rows: int) -> int:
    """Return a position in an index of ``rows`` rows. Negative ones count from the end.

    Raises
    ------
    ConfigError, IndexError
    """
    try:
        at = operator.index(position)
    except TypeError:
        raise ConfigError(f"a position is a whole number, not {position!r}"[:200]) from None
    if not -rows <= at < rows:
        raise IndexError(f"position {at} is out of range for an index with {rows:,} rows")
    return at % rows


def positions_of(positions: Any, rows: int) -> np.ndarray:
    """Return positions in an index as int64. Negative ones count from the end.

    Raises
    ------
    ConfigError, IndexError
    """
    if isinstance(positions, range):
        low, high = (min(positions[0], positions[-1]), max(positions[0], positions[-1])) if positions else (0, -1)
        # Looked at before it is spread out, which may be more than memory.
        if low < -rows or high >= rows:
            raise IndexError(f"positions {low} to {high} are out of range for an index with {rows:,} rows")
        array = np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
        return array if low >= 0 else np.where(array < 0, array + rows, array)
    try:
        array = np.asarray(positions if isinstance(positions, np.ndarray) else list(positions))
    except (TypeError, ValueError):
        raise ConfigError(f"positions are whole numbers, such as range(32), not {positions!r}"[:200]) from None
    if not array.size:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError("positions are whole numbers, such as range(32) or an integer array")
    low, high = int(array.min()), int(array.max())
    if low < -rows or high >= rows:
        raise IndexError(f"positions {low} to {high} are out of range for an index with {rows:,} rows")
    integers = array.astype(np.int64)
    if low < 0:
        integers[integers < 0] += rows
    return integers
