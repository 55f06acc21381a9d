"""Positions in an index, as callers give them. Pure."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from hubarray.errors import ConfigError


def position_of(given: Any, rows: int) -> int:
    """Return a position in an index of ``rows`` rows. Negative ones count from the end.

    Raises
    ------
    ConfigError, IndexError
    """
    try:
        at = operator.index(given)
    except TypeError:
        raise ConfigError(f"a position is a whole number, not {given!r}"[:200]) from None
    if not -rows <= at < rows:
        raise IndexError(f"position {at} of an index of {rows:,} rows")
    return at % rows


def positions_of(given: Any, rows: int) -> np.ndarray:
    """Return positions in an index as int64. Negative ones count from the end.

    Raises
    ------
    ConfigError, IndexError
    """
    if isinstance(given, range):
        low, high = (min(given[0], given[-1]), max(given[0], given[-1])) if given else (0, -1)
        # Looked at before it is spread out, which may be more than memory.
        if low < -rows or high >= rows:
            raise IndexError(f"positions {low} to {high} of an index of {rows:,} rows")
        found = np.arange(given.start, given.stop, given.step, dtype=np.int64)
        return found if low >= 0 else np.where(found < 0, found + rows, found)
    try:
        found = np.asarray(given if isinstance(given, np.ndarray) else list(given))
    except (TypeError, ValueError):
        raise ConfigError(f"positions are whole numbers, such as range(32), not {given!r}"[:200]) from None
    if not found.size:
        return np.zeros(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ConfigError("positions are whole numbers, such as range(32) or an integer array")
    low, high = int(found.min()), int(found.max())
    if low < -rows or high >= rows:
        raise IndexError(f"positions {low} to {high} of an index of {rows:,} rows")
    wanted = found.astype(np.int64)
    if low < 0:
        wanted[wanted < 0] += rows
    return wanted
