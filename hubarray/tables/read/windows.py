"""Windows: the rows before and after a row, within its partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.errors import ConfigError

PADS = (None, "edge", "null")
MAX_OFFSETS = 1 << 20
MAX_OFFSET = 1 << 61

Rows = npt.NDArray[np.int64]


class EveryRow:
    """The numbers 0 to ``rows - 1``, as an array that takes no memory."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, at: Any) -> Any:
        """A number, or an array of those at a slice or at positions that are in range."""
        return np.arange(*at.indices(self._rows)) if isinstance(at, slice) else at

    def __ge__(self, other: int) -> npt.NDArray[np.bool_]:
        """Which are at least so large."""
        return np.arange(self._rows) >= other

    def __array__(self, dtype: Any = None, copy: Any = None) -> Rows:
        return np.arange(self._rows, dtype=np.int64)

    def min(self) -> int:
        """The smallest."""
        return 0

    def max(self) -> int:
        """The largest."""
        return self._rows - 1


def checked_offsets(offsets: Iterable[int]) -> Rows:
    """Offsets as an array.

    Raises
    ------
    ConfigError
    """
    try:
        if isinstance(offsets, range) and len(offsets) > MAX_OFFSETS:
            raise ValueError("too many")
        array = np.array(list(offsets) if not isinstance(offsets, (range, np.ndarray)) else offsets)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(0, object)
    if (
        array.ndim != 1
        or array.dtype.kind not in "iu"
        or not 0 < len(array) <= MAX_OFFSETS
        or (int(array.max()) > MAX_OFFSET or int(array.min()) < -MAX_OFFSET)
    ):
        raise ConfigError(f"offsets={offsets!r}: give one or more whole numbers, such as range(-10, 0)"[:300])
    return array.astype(np.int64)


def window(row: int, first: int, end: int, offsets: Rows, *, pad: str | None, where: str) -> Rows:
    """The numbers of a window's rows; -1 for one that is padded with nulls.

    Parameters
    ----------
    row : int
        The row that offset 0 means.
    first, end : int
        The rows of its partition.
    offsets : array of int64
    pad : None, "edge" or "null"
        Past the partition's edge: an error, its nearest row, or none.
    where : str
        How the error names the row.

    Raises
    ------
    ConfigError
    """
    if pad not in PADS:
        raise ConfigError(f"pad={pad!r}: give 'edge' for the nearest row, 'null' for none, or None for an error")
    window_rows = row + offsets
    outside = (window_rows < first) | (window_rows >= end)
    if not outside.any():
        return window_rows
    if pad is None:
        worst = int(offsets[outside][0])
        raise ConfigError(
            f"{where}: its partition has {row - first} rows before it and {end - 1 - row} after it, so none is at "
            f"offset {worst}; give pad='edge' or pad='null', or filter such rows out"
        )
    return np.clip(window_rows, first, end - 1) if pad == "edge" else np.where(outside, -1, window_rows)
