"""Sources of epochs: arrays, tables, Parquet and Petastorm datasets, all by these words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from hubarray.readers.fields.unischema import Unischema

# Values of a field, one a row: an array whose first axis is the row, or a list where they are ragged, text or null.
Column = np.ndarray | list[Any]
Columns = Mapping[str, Column]


class SegmentedRows(NamedTuple):
    """Rows by stretches that no window leaves.

    Attributes
    ----------
    bounds : ndarray of int64
        Where each stretch begins, and the number of all rows.
    order : ndarray of int64, or None
        The rows, stretch after stretch and rising in each; None where they lie so.
    """

    bounds: np.ndarray
    order: np.ndarray | None = None


class Source(Protocol):
    """Rows that epochs are read from.

    A source is pinned: to a commit, or to files as they are when it is opened. It pickles, and reads in any thread.

    Attributes
    ----------
    where : str
        For messages, fit to be shown.
    schema : Unischema
    rows : int
    row_bytes : float
        About what a row takes in memory.
    chunk_rows : int
        Rows that are cheapest read together, where all such runs are equally long.
    unit_bounds : ndarray of int64, or None
        The first row of each run that is cheapest read together, and the number of all rows; None where
        ``chunk_rows`` says it.
    """

    where: str
    schema: Unischema
    rows: int
    row_bytes: float
    chunk_rows: int
    unit_bounds: np.ndarray | None

    def identity(self) -> str:
        """Text that is equal where the rows are, in order and value: commits, or files with their sizes and times."""

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Some columns of some rows, in the order that the rows are given in.

        Parameters
        ----------
        rows : ndarray of int64
        columns : sequence of str

        Raises
        ------
        HubError
            The source is damaged or changed; what and where is named.
        """


def where_of(source: Source, rows: np.ndarray) -> str:
    """The file and row group of some rows, or the name, for messages."""
    describe = getattr(source, "where_of", None)
    return str(describe(int(rows[0])) if describe is not None and len(rows) else source.where)


@contextmanager
def users_function(source: Source, rows: np.ndarray) -> Iterator[None]:
    """Run a function of the user's; what it raises says of which rows it was."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in a function that was given to the reader, for rows of {where_of(source, rows)}")
        raise


def taken(column: Column, rows: Any) -> Column:
    """Some rows of a column: a mask, numbers or a slice of them."""
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(rows, slice):
        return column[rows]
    chosen = np.asarray(rows)
    return [column[i] for i in (np.flatnonzero(chosen) if chosen.dtype == bool else chosen).tolist()]


def joined(parts: Sequence[Column]) -> Column:
    """Columns, one after the other: an array if all are arrays of equal rows."""
    if len(parts) == 1:
        return parts[0]
    alike = {(part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts}
    if len(alike) == 1 and None not in alike:
        return np.concatenate([np.asarray(part) for part in parts])
    return [value for part in parts for value in part]


def row_values(column: Column) -> list[Any]:
    """The values of a column one by one: NumPy's scalars, or views of rows."""
    return list(column)
