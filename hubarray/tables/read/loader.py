"""The row loader: rows, batches, windows and columns of an index, as NumPy, PyTorch or TensorFlow values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hubarray.blobs.pools import pools
from hubarray.errors import ConfigError
from hubarray.extras import needed
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
    """Rows by their position in an index: :class:`hubarray.RowLoader` without the methods for other packages."""

    def at(self, positions: np.ndarray) -> Self:
        """Return a loader of the given positions, in their order."""
        chosen = [(column, np.asarray(numbers[positions], np.int64)) for column, numbers in self._numbers]
        return type(self)(chosen, sorted(self._index_names), self._root)

    def get_row(
        self, pos: int, columns: str | Sequence[str] | None = None, *, encoded: bool = False, as_: str = "numpy"
    ) -> Row:
        """Read one row, at one request per column group, and one more for locations that are not in memory yet.

        Parameters
        ----------
        pos : int
            Position in the index.
        columns : str or sequence of str, optional
            Names or patterns such as ``"camera.*"``. The default is all, including those of the index.
        encoded : bool
            Return images as the stored bytes of their JPEG or PNG files.
        as_ : "numpy", "torch" or "tensorflow"

        Returns
        -------
        dict
            Exactly these columns, as arrays, NumPy scalars, text or bytes. A null is None, and so are the columns of a
            joined table that has no such row. Values are the stored ones, even if you have changed the index.

        Raises
        ------
        ConfigError, IndexError, CorruptDataError, StorageError
        """
        names, picks = self._chosen(columns)
        at = position_of(pos, len(self))
        row_numbers = [numbers[at : at + 1] for _, numbers in self._numbers]
        return self._converted(self._read(row_numbers, names, picks, 1, encoded), as_)[0]

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
        """Read rows around a row, in the stored order of its partition, even if the index is filtered.

        In a joined index, the columns of each table follow the partition of that table. Rows of a group in one chunk
        file cost one request.

        Parameters
        ----------
        pos : int
            Position in the index of the row at offset 0.
        columns
            Same as in :meth:`get_row`.
        offsets : iterable of int
        pad : None, "edge" or "null"
            What to return beyond the edge of the partition: an error, the nearest row, or a row of None.
        encoded, as_
            Same as in :meth:`get_row`.

        Raises
        ------
        ConfigError
            A row is beyond the edge, or the rows of the tables do not line up there.
        """
        names, picks = self._chosen(columns)
        window_offsets = checked_offsets(offsets)
        at = position_of(pos, len(self))
        windows = self._windows(at, window_offsets, pad, names, picks)
        return self._converted(self._read(windows, names, picks, len(window_offsets), encoded), as_)

    def get_batch(
        self,
        positions: Positions,
        columns: str | Sequence[str] | None = None,
        *,
        encoded: bool = False,
        as_: str = "numpy",
    ) -> list[Row]:
        """Read rows in the order of their positions, in parallel, with one request for neighbors."""
        names, picks = self._chosen(columns)
        self._require_pieces()
        at = positions_of(positions, len(self))
        row_numbers = [numbers[at] for _, numbers in self._numbers]
        return self._converted(self._read(row_numbers, names, picks, len(at), encoded), as_)

    def iter_rows(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        positions: Positions | None = None,
        encoded: bool = False,
        as_: str = "numpy",
    ) -> Iterator[Row]:
        """Iterate over the rows of all or some positions. About 64 MiB are read ahead."""
        names, picks = self._chosen(columns)
        self._require_pieces()
        at = EveryRow(len(self)) if positions is None else positions_of(positions, len(self))

        def read(begin: int, count: int) -> list[Row]:
            positions = at[begin : begin + count]
            return self._read(
                [numbers[positions] for _, numbers in self._numbers], names, picks, len(positions), encoded
            )

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
    ) -> Iterator[Any]:
        """Iterate over columns of successive rows, like :meth:`get_columns`, for a scan. 16 MiB are read ahead.

        Parameters
        ----------
        columns
            Same as in :meth:`get_row`.
        rows : int, optional
            Rows at a time; about 8 MiB by default. Successive results may share memory.
        positions : sequence of int, optional
            All positions by default.
        as_ : "numpy", "arrow", "torch" or "tensorflow"
            Same as in :meth:`get_columns`.

        Yields
        ------
        dict of str to column, or pyarrow.Table
        """
        _, picks = self._chosen(columns)
        self._require_pieces()
        at = EveryRow(len(self)) if positions is None else positions_of(positions, len(self))
        if rows is not None and (not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < 1):
            raise ConfigError(f"rows={rows!r}: give a number above 0")

        def read(begin: int, end: int) -> Any:
            return self._columns_as(at[begin:end], columns, as_)

        yield from scan(read, len(at), row_bytes=self._row_bytes(picks), step_rows=None if rows is None else int(rows))

    def get_columns(
        self, positions: Positions, columns: str | Sequence[str] | None = None, *, as_: str = "numpy"
    ) -> Any:
        """Read columns of rows. Blocks of several small rows are read as vectors.

        Parameters
        ----------
        positions : sequence of int
        columns
            Same as in :meth:`get_row`.
        as_ : "numpy", "arrow", "torch" or "tensorflow"
            Arrow is faster for short texts, because it does not make Python strings.

        Returns
        -------
        dict of str to column, or pyarrow.Table
            Arrays with a row per first index, or lists if values are ragged, text or null. In a table of Arrow, arrays
            are lists within lists, of fixed size where the dimension is known, and images are the stored bytes of their
            JPEG or PNG files. NaT is null.

        Raises
        ------
        ConfigError
            Arrow cannot hold a dtype or a value.
        """
        return self._columns_as(positions_of(positions, len(self)), columns, as_)

    def read_columns(
        self, positions: Positions, columns: str | Sequence[str] | None = None, *, empty: Empty | None = None
    ) -> Row:
        """Read columns like :meth:`get_columns`, into arrays that ``empty(name, shape, dtype)`` returns."""
        return self._columns_at(positions_of(positions, len(self)), columns, empty or empty_array)

    def __repr__(self) -> str:
        return f"RowLoader({len(self):,} rows of {', '.join(str(column.table) for column, _ in self._numbers)})"

    def _columns_as(self, at: np.ndarray, columns: str | Sequence[str] | None, as_: str) -> Any:
        if as_ == "arrow":
            return self._arrow_at(at, columns)
        return self._converted([self._columns_at(at, columns, empty_array)], as_)[0]

    def _converted(self, rows: list[Row], as_: str) -> list[Any]:
        if as_ == "numpy":
            return rows

        convert = converter(as_)
        return [{name: convert(value) for name, value in row.items()} for row in rows]


def loader_of(index: Any, root: Root | None) -> RowLoaderHandle:
    """Return a loader of an index.

    Raises
    ------
    ConfigError
        The index has no service column.
    """
    numbers, names = row_numbers(index)
    return RowLoaderHandle(numbers, names, root)


def _bytes_of(row: Row) -> int:
    return sum(int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)
               for value in row.values())  # fmt: skip


def converter(kind: str) -> Callable[[Any], Any]:
    """The function that makes a value a tensor.

    Raises
    ------
    ConfigError, MissingPackageError
    """
    if kind == "torch":
        torch = needed("torch", extra="torch", why="as_='torch'")
        return lambda value: _torch(torch, value)
    if kind == "tensorflow":
        tf = needed("tensorflow", extra="tensorflow", why="as_='tensorflow'")
        return lambda value: _tensorflow(tf, value)
    raise ConfigError(f"as_={kind!r}: give 'numpy', 'torch' or 'tensorflow', or 'arrow' for columns")


def _torch(torch: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_torch(torch, item) for item in value]
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufc":
        return value
    array = np.asarray(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _tensorflow(tf: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_tensorflow(tf, item) for item in value]
    if isinstance(value, (str, bytes)):
        return tf.constant(value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufcSU":
        return value
    return tf.constant(value)
