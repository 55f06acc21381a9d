"""The row loader: rows, batches, windows and columns of whatever an index was filtered, sorted and merged to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hubarray.blobs.pools import pools
from hubarray.errors import ConfigError
from hubarray.storage.url import Root
from hubarray.tables.read.index_rows import row_numbers
from hubarray.tables.read.positions import position_of, positions_of
from hubarray.tables.read.row_reads import Empty, Row, RowReads, empty_array
from hubarray.tables.read.scan import scan
from hubarray.tables.read.windows import EveryRow, checked_offsets

AHEAD_BYTES = 64 << 20
MAX_AHEAD_ROWS = 1024
_FIRST_ROWS = 4

Positions = Sequence[int] | npt.NDArray[np.int64] | range


class RowLoaderHandle(RowReads):
    """Rows by their position in an index; :class:`hubarray.RowLoader` without the methods for other packages."""

    def at(self, positions: np.ndarray) -> Self:
        """A loader of some positions of this one, in their order."""
        chosen = [(column, np.asarray(numbers[positions], np.int64)) for column, numbers in self._numbers]
        return type(self)(chosen, sorted(self._index_names), self._root)

    def get_row(
        self, pos: int, columns: str | Sequence[str] | None = None, *, encoded: bool = False, as_: str = "numpy"
    ) -> Row:
        """One row: one request a column group, and one more at the first touch of a slab's locations.

        Parameters
        ----------
        pos : int
            Position in the index.
        columns : str or sequence of str, optional
            Names or patterns such as ``"camera.*"``; all by default, those of the index too.
        encoded : bool
            Images as the bytes of the JPEG or PNG that is stored, for whoever decodes them elsewhere.
        as_ : "numpy", "torch" or "tensorflow"

        Returns
        -------
        dict
            Of exactly these columns: arrays, NumPy's scalars, text, bytes; None for a null, and for the columns of a
            table that has no row here. The values are those that are stored, whatever became of the index.

        Raises
        ------
        ConfigError, IndexError, CorruptDataError, StorageError
        """
        names, picks = self._chosen(columns)
        at = position_of(pos, len(self))
        found = [numbers[at : at + 1] for _, numbers in self._numbers]
        return self._converted(self._read(found, names, picks, 1, encoded), as_)[0]

    def get_rows(
        self,
        pos: int,
        columns: str | Sequence[str] | None = None,
        *,
        offsets: Iterable[int] = range(-10, 0),
        pad: str | None = None,
        encoded: bool = False,
        as_: str = "numpy",
    ) -> list[Row]:
        """Rows before and after one, in the stored sequence of its partition, whatever the index was filtered to.

        Of a merged index each table's columns follow that table's partition. Ten rows of a group that lie in one chunk
        file are one request.

        Parameters
        ----------
        pos : int
            Position in the index of the row that offset 0 means.
        columns
            As of :meth:`get_row`.
        offsets : iterable of int
        pad : None, "edge" or "null"
            What stands for a row past the partition's edge: an error, the nearest row, or a row of None.
        encoded, as_
            As of :meth:`get_row`.

        Raises
        ------
        ConfigError
            A row is past the edge, or the tables' rows do not line up there.
        """
        names, picks = self._chosen(columns)
        wanted = checked_offsets(offsets)
        at = position_of(pos, len(self))
        found = self._windows(at, wanted, pad, names, picks)
        return self._converted(self._read(found, names, picks, len(wanted), encoded), as_)

    def get_batch(
        self,
        positions: Positions,
        columns: str | Sequence[str] | None = None,
        *,
        encoded: bool = False,
        as_: str = "numpy",
    ) -> list[Row]:
        """Rows in the order of their positions: fetched in parallel, neighbours by one request."""
        names, picks = self._chosen(columns)
        self._require_pieces()
        at = positions_of(positions, len(self))
        found = [numbers[at] for _, numbers in self._numbers]
        return self._converted(self._read(found, names, picks, len(at), encoded), as_)

    def iter_rows(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        positions: Positions | None = None,
        encoded: bool = False,
        as_: str = "numpy",
    ) -> Iterator[Row]:
        """Rows one after the other, of all positions or of some; about 64 MiB are read ahead."""
        names, picks = self._chosen(columns)
        self._require_pieces()
        at = EveryRow(len(self)) if positions is None else positions_of(positions, len(self))

        def read(begin: int, count: int) -> list[Row]:
            some = at[begin : begin + count]
            return self._read([numbers[some] for _, numbers in self._numbers], names, picks, len(some), encoded)

        # What a row takes in memory is known when some were read: the stored bytes of an image tell little.
        count = max(1, min(_FIRST_ROWS, int(AHEAD_BYTES / 2 / max(1.0, self._row_bytes(picks)))))
        ahead: Future[list[Row]] | None = None
        begin, process_id = 0, os.getpid()
        while begin < len(at):
            if ahead is not None and os.getpid() == process_id:
                current = ahead.result()
            else:
                # In a forked child nobody works on what its parent had begun to read.
                current, process_id = read(begin, count), os.getpid()
            begin += len(current)
            row_bytes = max(1.0, sum(map(_bytes_of, current)) / len(current))
            count = max(1, min(MAX_AHEAD_ROWS, 4 * len(current), int(AHEAD_BYTES / 2 / row_bytes)))
            ahead = pools.ahead.submit(partial(read, begin, count)) if begin < len(at) else None
            current.reverse()
            while current:
                yield from self._converted([current.pop()], as_)

    def iter_columns(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        rows: int | None = None,
        positions: Positions | None = None,
        as_: str = "numpy",
    ) -> Iterator[dict[str, Any]]:
        """Columns of some rows after the other, as of :meth:`get_columns`, for a scan; 16 MiB are read ahead.

        Parameters
        ----------
        columns
            As of :meth:`get_row`.
        rows : int, optional
            How many at a time: slices of memory that some of them share. By default about 8 MiB of them.
        positions : sequence of int, optional
            All by default.
        as_ : "numpy", "torch" or "tensorflow"

        Yields
        ------
        dict of str to column
        """
        _, picks = self._chosen(columns)
        self._require_pieces()
        at = EveryRow(len(self)) if positions is None else positions_of(positions, len(self))
        if rows is not None and (not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < 1):
            raise ConfigError(f"rows={rows!r}: give a number above 0")

        def read(begin: int, end: int) -> Row:
            return self._columns_at(at[begin:end], columns, empty_array)

        for found in scan(
            read, len(at), row_bytes=self._row_bytes(picks), step_rows=None if rows is None else int(rows)
        ):
            yield self._converted([found], as_)[0]

    def get_columns(
        self, positions: Positions, columns: str | Sequence[str] | None = None, *, as_: str = "numpy"
    ) -> dict[str, Any]:
        """Columns of some rows: one array each, a row its first axis; lists where values are ragged, text or null.

        Blocks of several small rows are read as vectors.
        """
        return self._converted([self.read_columns(positions, columns)], as_)[0]

    def read_columns(
        self, positions: Positions, columns: str | Sequence[str] | None = None, *, empty: Empty | None = None
    ) -> Row:
        """As :meth:`get_columns`, of NumPy values in memory that ``empty(name, shape, dtype)`` gives."""
        return self._columns_at(positions_of(positions, len(self)), columns, empty or empty_array)

    def __repr__(self) -> str:
        return f"RowLoader({len(self):,} rows of {', '.join(str(column.table) for column, _ in self._numbers)})"

    def _converted(self, found: list[Row], as_: str) -> list[Any]:
        if as_ == "numpy":
            return found
        from hubarray.tables.read.frameworks import converter

        convert = converter(as_)
        return [{name: convert(value) for name, value in row.items()} for row in found]


def loader_of(index: Any, root: Root | None) -> RowLoaderHandle:
    """A loader of an index.

    Raises
    ------
    ConfigError
        It has no service column.
    """
    numbers, names = row_numbers(index)
    return RowLoaderHandle(numbers, names, root)


def _bytes_of(row: Row) -> int:
    return sum(int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)
               for value in row.values())  # fmt: skip
