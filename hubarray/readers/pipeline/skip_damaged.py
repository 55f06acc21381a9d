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
    some: range | None = getattr(error, "damaged_rows", None)
    return np.zeros(len(rows), bool) if some is None else (rows >= some.start) & (rows < some.stop)


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
        kept = ~gone
        kept[~gone], found = read_around(source, rows[~gone], columns)
        return kept, found
    if len(rows) == 1:
        return np.zeros(1, bool), {name: [] for name in columns}
    middle = len(rows) // 2
    parts = [read_around(source, some, columns) for some in (rows[:middle], rows[middle:])]
    readable = [found for kept, found in parts if kept.any()] or [parts[0][1]]
    return np.concatenate([kept for kept, _ in parts]), {
        name: joined([found[name] for found in readable]) for name in columns
    }
