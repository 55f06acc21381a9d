"""Arrays that are read together, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hubarray.arrays.array import Array
from hubarray.errors import ConfigError


def columns(arrays: Sequence[Any]) -> list[Array]:
    """Snapshots of arrays of equal length: each stays at the commit it has now.

    Raises
    ------
    ConfigError
        Something is no array, has no rows, or has more or fewer than the first one.
    """
    for one in arrays:
        if not isinstance(one, Array):
            raise ConfigError(f"{type(one).__name__}: only hubarray's arrays are read together; store it first")
    pinned = [one.snapshot() for one in arrays]
    for one in pinned:
        if not one.shape:
            raise ConfigError(f"{one.name}:{one.version}: has no axes, so it has no samples")
        if len(one) != len(pinned[0]):
            told = ", ".join(f"{each.name}:{each.version} has {len(each)}" for each in pinned)
            raise ConfigError(f"arrays that are read together need equally many rows: {told}")
    return pinned


def row_bytes(arrays: Sequence[Array]) -> int:
    """Bytes of one row of all arrays."""
    return sum(one.nbytes // max(1, len(one)) for one in arrays)


def check_options(batch_size: Any, seed: Any, buffer_bytes: Any) -> None:
    """Refuse what is no batch size, seed or buffer.

    Raises
    ------
    ConfigError
    """
    if batch_size is not None and not (_is_whole(batch_size) and batch_size >= 1):
        raise ConfigError(f"batch_size={batch_size!r}: give a number of rows above 0, or None for single samples")
    if seed is not None and not (_is_whole(seed) and 0 <= seed < 1 << 63):
        raise ConfigError(f"seed={seed!r}: give a whole number from 0 on, of at most 63 bits")
    if not (_is_whole(buffer_bytes) and buffer_bytes >= 1):
        raise ConfigError(f"buffer_bytes={buffer_bytes!r}: give a number of bytes above 0")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
