"""The row loader: rows, batches, windows and columns of whatever an index was filtered, sorted and merged to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from hubarray.arrays.adapters import needed_adapter
from hubarray.blobs.pools import pools
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.version import version_of
from hubarray.storage.url import Root, resolve
from hubarray.tables import direct, known_roots, rows
from hubarray.tables.alignment import Alignment
from hubarray.tables.columns import matching
from hubarray.tables.in_place import places as places_of
from hubarray.tables.index_rows import row_numbers
from hubarray.tables.loader_columns import Column, name_columns
from hubarray.tables.locations import SLAB_ROWS
from hubarray.tables.picks import Pick, fill_from_index, parts_of, picks_of, split
from hubarray.tables.positions import position_of, positions_of
from hubarray.tables.rows import Numbers, Wanted
from hubarray.tables.scan import scan
from hubarray.tables.schema import PARTITION
from hubarray.tables.service_column import ServiceColumn
from hubarray.tables.state import TableState
from hubarray.tables.windows import EveryRow, checked_offsets, window

AHEAD_BYTES = 64 << 20
MAX_AHEAD_ROWS = 1024
_FIRST_ROWS = 4
_MOST_ASKED = 64

Row = dict[str, Any]
Positions = Sequence[int] | npt.NDArray[np.int64] | range
# Memory for a column of a name, shape and dtype.
Empty = Callable[[str, tuple[int, ...], np.dtype[Any]], np.ndarray]


def _empty_array(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return np.empty(shape, dtype)


class RowLoader:
    """Rows of one or several tables, by their position in an index: made by :func:`hubarray.row_loader`.

    Positions count from 0, and from the end where they are negative. A loader is pinned to the commits that its index
    was read from, pickles, survives forks, and may be used by several threads at once.
    """

    def __init__(
        self, numbers: Sequence[tuple[ServiceColumn, Numbers | EveryRow]], names: Sequence[str], root: Root | None
    ) -> None:
        self._numbers = list(numbers)
        self._index_names = frozenset(names)
        self._root = root
        self._tables: list[TableState] | None = None
        self._columns: dict[str, Column] = {}
        self._ambiguous: dict[str, str] = {}
        self._picks: dict[tuple[str, ...], list[Pick]] = {}
        self._asked: dict[Any, tuple[list[str], list[Pick]]] = {}
        self._aligned: Alignment | None = None

    def __len__(self) -> int:
        return len(self._numbers[0][1])

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order of the tables and their schemas."""
        self.tables()
        return list(self._columns)

    @property
    def numbers(self) -> list[Numbers]:
        """Of each table the row that stands at each position, -1 where it has none."""
        self._require_pieces()
        return [np.asarray(numbers, np.int64) for _, numbers in self._numbers]

    @property
    def selections(self) -> list[Numbers | EveryRow]:
        """As :attr:`numbers`, where all rows of a table are not written out."""
        self._require_pieces()
        return [numbers for _, numbers in self._numbers]

    def _require_pieces(self) -> None:
        """Look for the slabs of tables of which all rows are meant: what a record says may be more than memory."""
        if len(self) > SLAB_ROWS:
            for table, (_, numbers) in zip(self.tables(), self._numbers, strict=True):
                if isinstance(numbers, EveryRow):
                    table.require_pieces()

    def at(self, positions: np.ndarray) -> RowLoader:
        """A loader of some positions of this one, in their order."""
        chosen = [(column, np.asarray(numbers[positions], np.int64)) for column, numbers in self._numbers]
        return RowLoader(chosen, sorted(self._index_names), self._root)

    def suffix(self, table: int) -> str:
        """The suffix of a table's names that clash."""
        return self._numbers[table][0].suffix

    def foreign_columns(self) -> list[str]:
        """The columns of the index that are of none of its tables: whoever added them has them alone."""
        self.tables()
        known = {*self._columns, *self._ambiguous}
        # pandas gives a second partition a suffix.
        return sorted(name for name in self._index_names if name not in known and not name.startswith(PARTITION))

    def every_column(self) -> list[Column]:
        """Each column: the field and the tables behind it."""
        self.tables()
        return list(self._columns.values())

    def column(self, name: str) -> Column:
        """The field and the tables behind a column."""
        self.tables()
        return self._columns[name]

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
            return self._columns_at(at[begin:end], columns, _empty_array)

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
        return self._columns_at(positions_of(positions, len(self)), columns, empty or _empty_array)

    def _columns_at(self, at: np.ndarray, columns: str | Sequence[str] | None, empty: Empty) -> Row:
        names, picks = self._chosen(columns)
        found = [numbers[at] for _, numbers in self._numbers]
        out: Row = {name: self._empty(name, found, len(at), empty) for name in names}
        filled = {name: np.zeros(len(at), bool) for name in names}
        self._fill(found, picks, out=out, rows_out=None, filled=filled)
        for name, there in filled.items():
            # A block that a published index left out is null, whatever its field says.
            if isinstance(out[name], np.ndarray) and not there.all():
                out[name] = [value if has else None for value, has in zip(out[name], there, strict=True)]
        return out

    def to_pytorch(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        transform: Callable[[Row], Any] | None = None,
        iterable: bool = False,
        **options: Any,
    ) -> Any:
        """A dataset for PyTorch: by index, where a batch is one parallel fetch, or a stream of epochs.

        Parameters
        ----------
        columns
            As of :meth:`get_row`.
        transform : callable, optional
            Makes a sample of a row of NumPy values; what it returns becomes tensors. Where samples are of different
            shapes DataLoader needs a ``collate_fn`` that says how a batch is made of them.
        iterable : bool
            A stream that reads ahead, in an order of its own for each epoch: ``dataset.loader(num_workers=2)``. A batch
            is a dictionary of columns: tensors, and lists where rows have shapes of their own, of text and of nulls.
        **options
            Of streams: ``batch_size``, ``shuffle``, ``seed`` and the others of :meth:`hubarray.Array.to_pytorch`.

        Returns
        -------
        torch.utils.data.Dataset

        Raises
        ------
        ConfigError, MissingPackageError
        """
        return needed_adapter("table_to_pytorch", "torch")(
            self, columns, transform=transform, iterable=iterable, **options
        )

    def to_tensorflow(self, columns: str | Sequence[str] | None = None, **options: Any) -> Any:
        """A ``tf.data.Dataset`` of these rows: dictionaries of columns, by row or by batch.

        Parameters
        ----------
        columns
            As of :meth:`get_row`; without nulls.
        **options
            Those of :meth:`hubarray.Array.to_tensorflow`. Of a batch, columns whose rows have shapes of their own are
            ragged tensors.

        Returns
        -------
        tf.data.Dataset

        Raises
        ------
        ConfigError, MissingPackageError
        """
        return needed_adapter("table_to_tensorflow", "tensorflow")(self, columns, **options)

    def are_exclusive(self, some: Sequence[int]) -> bool:
        """Whether no row is of two of some tables."""
        present = np.zeros(len(self), np.int64)
        for i in some:
            present += self._numbers[i][1] >= 0
        return not (present > 1).any()

    def check_columns(self, columns: str | Sequence[str] | None) -> list[str]:
        """The names that columns mean; ConfigError if they are not the loader's."""
        return list(self._chosen(columns)[0])

    def tables(self) -> list[TableState]:
        """The tables, each at its commit; opened when they are first needed."""
        if self._tables is None:
            tables = [_opened(column, self._root) for column, _ in self._numbers]
            for table, (column, numbers) in zip(tables, self._numbers, strict=True):
                if len(numbers) and (numbers.max() >= table.metadata.rows or numbers.min() < -1):
                    raise ConfigError(f"{column.table}: the index has a row that the table has not; read it again")
            named = [(column, table.metadata.schema) for table, (column, _) in zip(tables, self._numbers, strict=True)]
            self._columns, self._ambiguous = name_columns(named, self._index_names, self.are_exclusive)
            self._tables = tables
        return self._tables

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process knows no roots of commits that were looked at here.
        roots = [(column.id, known_roots.of(column.id)) for column, _ in self._numbers]
        return _remade, (self._numbers, sorted(self._index_names), self._root, roots)

    def __repr__(self) -> str:
        return f"RowLoader({len(self):,} rows of {', '.join(str(column.table) for column, _ in self._numbers)})"

    def _chosen(self, columns: str | Sequence[str] | None) -> tuple[list[str], list[Pick]]:
        asked = tuple(columns) if isinstance(columns, list) else columns
        try:
            return self._asked[asked]
        except (KeyError, TypeError):
            chosen = self._choose(columns)
        if asked is None or isinstance(asked, (str, tuple)):
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            self._asked[asked] = chosen
        return chosen

    def _choose(self, columns: str | Sequence[str] | None) -> tuple[list[str], list[Pick]]:
        tables = self.tables()
        names = matching(columns, [*self._columns, *self._ambiguous])
        for name in names:
            if name in self._ambiguous:
                raise ConfigError(
                    f"columns: {name!r} is in {self._ambiguous[name]}; merge them with hub.merge(..., suffixes=...), "
                    "or leave it out"
                )
        key = tuple(names)
        picks = self._picks.get(key)
        if picks is None:
            by_table: dict[int, list[Column]] = {}
            for name in names:
                for i in self._columns[name].tables:
                    by_table.setdefault(i, []).append(self._columns[name])
            picks = [pick for i, some in by_table.items() for pick in picks_of(i, tables[i], some)]
            self._picks[key] = picks
        return names, picks

    def _read(
        self, found: Sequence[Numbers], names: Sequence[str], picks: Sequence[Pick], count: int, encoded: bool
    ) -> list[Row]:
        out: list[Row] = [dict.fromkeys(names) for _ in range(count)]
        is_only = sum(pick.group is not None for pick in picks) == 1
        rest = [pick for pick in picks if not self._at_hand(pick, found, out, encoded, is_only)]
        if rest:
            self._fill(found, rest, out=None, rows_out=out, encoded=encoded)
        return out

    def _at_hand(self, pick: Pick, found: Sequence[Numbers], out: list[Row], encoded: bool, is_only: bool) -> bool:
        """Whether a pick's values for a few rows could be read at once; then they are set."""
        if pick.group is None or pick.is_shared or len(out) > direct.MOST_ROWS:
            return False
        numbers = found[pick.table].tolist()
        blocks = direct.blocks_at_hand(self.tables()[pick.table], pick.group, numbers, is_only=is_only)
        if blocks is None:
            return False
        for row, block in zip(out, blocks, strict=True):
            if block is not None:
                values = block.row(0, pick.fields, encoded=encoded)
                for field, name in zip(pick.fields, pick.names, strict=True):
                    row[name] = values[field]
        return True

    def _fill(
        self,
        found: Sequence[Numbers],
        picks: Sequence[Pick],
        *,
        out: Row | None,
        rows_out: list[Row] | None,
        filled: Mapping[str, np.ndarray] = MappingProxyType({}),
        encoded: bool = False,
    ) -> None:
        """Read what picks say, into columns or into rows; of a column that several tables have, the first counts."""
        tables = self.tables()
        wanted: list[Wanted] = []
        for pick in picks:
            parts = [part for part in parts_of(pick, self._columns, found) if part.mask is None or part.mask.any()]
            if not parts:
                continue
            if pick.group is None:
                for part in parts:
                    fill_from_index(part, found[pick.table], tables[pick.table], out, rows_out, filled)
                continue
            takes = []
            at = None
            for part in parts:
                if rows_out is not None:
                    take = rows.values_into(rows_out, part.fields, part.names, pick.group, encoded=encoded)
                else:
                    assert out is not None
                    take = rows.columns_into(out, part.fields, part.names, filled)
                    if len(parts) == 1 and part.mask is None:
                        at = places_of(pick.group, out, part.fields, part.names, filled)
                takes.append((take, part.mask))
            numbers, places = found[pick.table], None
            masks = [part.mask for part in parts if part.mask is not None]
            if len(masks) == len(parts):
                places = np.flatnonzero(np.logical_or.reduce(masks))
                numbers = numbers[places]
            single = takes[0][0] if len(takes) == 1 and places is None else partial(split, takes, places)
            wanted.append(Wanted(tables[pick.table], pick.group, numbers, single, copies=out is not None, places=at))
        rows.read(wanted)

    def _windows(
        self, at: int, offsets: np.ndarray, pad: str | None, names: Sequence[str], picks: Sequence[Pick]
    ) -> list[Numbers]:
        tables = self.tables()
        # Of a column that several tables have, the first with the row counts.
        having_row = [i for i in range(len(tables)) if self._numbers[i][1][at] >= 0]
        firsts = (next((i for i in self._columns[name].tables if i in having_row), None) for name in names)
        used = sorted({i for i in firsts if i is not None})
        found: list[Numbers] = [np.full(len(offsets), -1, np.int64) for _ in tables]
        for i in used:
            row = int(self._numbers[i][1][at])
            if row >= 0:
                first, end = tables[i].partition_of(row)
                where = f"row {at}, which is row {row} of {self._numbers[i][0].table}"
                found[i] = window(row, first, end, offsets, pad=pad, where=where)
        having = [i for i in used if (found[i] >= 0).any()]
        if having and offsets.any():
            for name in names:
                for i in self._columns[name].tables:
                    if not set(self._columns[name].tables) & set(having_row):
                        self._alignment().require_never_merged(i, having, at)
        if len(having) > 1:
            self._alignment().require(having, found, at)
        return found

    def _alignment(self) -> Alignment:
        if self._aligned is None:
            self._aligned = Alignment([column for column, _ in self._numbers], self.tables(), self.are_exclusive)
        return self._aligned

    def _empty(self, name: str, found: Sequence[Numbers], count: int, empty: Empty) -> Any:
        column = self._columns[name]
        field, *others = (self.tables()[i].metadata.schema[column.field] for i in column.tables)
        alike = all(
            (one.dtype, one.shape, one.nullable) == (field.dtype, field.shape, False) for one in [field, *others]
        )
        if field.ragged or not alike or (count and reduce(np.maximum, [found[i] for i in column.tables]).min() < 0):
            return [None] * count
        assert field.dtype is not None
        return empty(name, (count, *(n or 0 for n in field.shape)), field.dtype)

    def _row_bytes(self, picks: Sequence[Pick]) -> float:
        tables = self.tables()
        sizes = [tables[pick.table].group_row_bytes(pick.group.name) for pick in picks if pick.group is not None]
        return sum(sizes) + 64.0

    def _converted(self, found: list[Row], as_: str) -> list[Any]:
        if as_ == "numpy":
            return found
        from hubarray.tables.frameworks import converter

        convert = converter(as_)
        return [{name: convert(value) for name, value in row.items()} for row in found]


def loader_of(index: Any, root: Root | None) -> RowLoader:
    """A loader of an index.

    Raises
    ------
    ConfigError
        It has no service column.
    """
    numbers, names = row_numbers(index)
    return RowLoader(numbers, names, root)


def _remade(
    numbers: Sequence[tuple[ServiceColumn, Numbers | EveryRow]],
    names: Sequence[str],
    root: Root | None,
    roots: Sequence[tuple[str, Root | None]],
) -> RowLoader:
    for commit, where in roots:
        if where is not None:
            known_roots.note(commit, where)
    return RowLoader(numbers, names, root)


def _opened(column: ServiceColumn, root: Root | None) -> TableState:
    where = root or known_roots.of(column.id) or resolve(None)
    assert column.table.commit is not None
    try:
        record = version_of(where, column.table).cached(column.table.commit)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}. The index is of {column.table}: give the root that it is under, root=..."
        ) from None
    if record.head.id != column.id:
        raise ConflictError(f"{column.table}: was deleted and made again since the index was read; read it again")
    return TableState.of(version_of(where, column.table), record)


def _bytes_of(row: Row) -> int:
    return sum(int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)
               for value in row.values())  # fmt: skip
