"""Reading what can be read of damaged rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubarray.errors import CorruptDataError, NotFoundError, SourceError
from hubarray.readers.fields.source import Column, Source, joined

# An outage is none.
DAMAGE = (SourceError, NotFoundError, CorruptDataError)


def damaged_among(rows: np.ndarray, error: Exception) -> np.ndarray:
    """Which of some rows an error says are damaged."""
    damaged: range | None = getattr(error, "damaged_rows", None)
    return np.zeros(len(rows), bool) if damaged is None else (rows >= damaged.start) & (rows < damaged.stop)


def read_around(source: Source, rows: np.ndarray, columns: Sequence[str]) -> tuple[np.ndarray, dict[str, Column]]:
    """Some columns of the rows that can be read, and a mask of which they are.

    Where nothing says which are damaged, halves are tried, until single rows are left out.
    """
    if not len(rows):
        return np.zeros(0, bool), {name: [] for name in columns}
    try:
        return np.ones(len(rows), bool), dict(source.read(rows, columns))
    except DAMAGE as error:
        gone = damaged_among(rows, error)
    if gone.any():
        is_readable = ~gone
        is_readable[~gone], columns_read = read_around(source, rows[~gone], columns)
        return is_readable, columns_read
    if len(rows) == 1:
        return np.zeros(1, bool), {name: [] for name in columns}
    middle = len(rows) // 2
    parts = [read_around(source, half, columns) for half in (rows[:middle], rows[middle:])]
    readable = [read for is_readable, read in parts if is_readable.any()] or [parts[0][1]]
    return np.concatenate([is_readable for is_readable, _ in parts]), {
        name: joined([read[name] for read in readable]) for name in columns
    }
