"""Rows of tables by their numbers: which columns there are, which groups have them, and their values.

The base of :class:`hubarray.RowLoader`, without its public methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.bounded_dict import BoundedDict
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.log.version import version_of
from hubarray.storage.url import Root, resolve
from hubarray.tables.format.index_column import ServiceColumn
from hubarray.tables.format.locations import SLAB_ROWS
from hubarray.tables.format.schema import PARTITION, Field, Group
from hubarray.tables.read import direct, known_roots, row_fetch
from hubarray.tables.read.alignment import Alignment
from hubarray.tables.read.arrow_reads import TextPieces, arrow_schema, arrow_table
from hubarray.tables.read.column_buffers import places as places_of
from hubarray.tables.read.columns import matching
from hubarray.tables.read.group_reads import GroupRead, fill_from_index, parts_of, plan_group_reads, split
from hubarray.tables.read.loader_columns import Column, name_columns
from hubarray.tables.read.row_fetch import Numbers, RowRequest
from hubarray.tables.read.windows import EveryRow, window
from hubarray.tables.snapshot.snapshot import TableSnapshot

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_ASKED = 64

Row = dict[str, Any]
# Memory for a column of a name, shape and dtype.
Empty = Callable[[str, tuple[int, ...], np.dtype[Any]], np.ndarray]


def empty_array(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Memory for a column."""
    return np.empty(shape, dtype)


class RowReads:
    """Reads of one or several tables, of whose rows an index has the numbers.

    Parameters
    ----------
    numbers : sequence of (ServiceColumn, Numbers or EveryRow)
        The row of each table at each position, -1 for none.
    names : sequence of str
        The other columns of the index.
    root : Root, optional
        Where the tables are, if not where they were read from.
    """

    def __init__(
        self, numbers: Sequence[tuple[ServiceColumn, Numbers | EveryRow]], names: Sequence[str], root: Root | None
    ) -> None:
        self._numbers = list(numbers)
        self._index_names = frozenset(names)
        self._root = root
        self._tables: list[TableSnapshot] | None = None
        self._columns: dict[str, Column] = {}
        self._ambiguous: dict[str, str] = {}
        self._picks: dict[tuple[str, ...], list[GroupRead]] = {}
        self._asked: dict[Any, tuple[list[str], list[GroupRead]]] = BoundedDict(_MAX_ASKED)
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
        """Return the row of each table at each position, -1 for none."""
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

    def suffix(self, table: int) -> str:
        """The suffix of a table's names that clash."""
        return self._numbers[table][0].suffix

    def foreign_columns(self) -> list[str]:
        """The columns of the index that belong to none of its tables, because you have added them."""
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

    def _fields_of(self, column: Column) -> list[Field]:
        return [self.tables()[i].metadata.schema[column.field] for i in column.tables]

    def _common_field(self, name: str) -> Field:
        fields = self._fields_of(self._columns[name])
        if len({(field.kind, field.dtype, field.shape, field.is_image) for field in fields}) > 1:
            types = " and ".join(map(str, fields))
            raise ConfigError(f"column {name!r}: its tables have {types}; leave it out, or read it as NumPy")
        return fields[0]

    def _arrow_at(self, at: np.ndarray, columns: str | Sequence[str] | None) -> pa.Table:
        names, picks = self._chosen(columns)
        fields = {name: self._common_field(name) for name in names}
        schema = arrow_schema(fields)
        in_index = {name for pick in picks if pick.group is None for name in pick.names}
        row_numbers = [numbers[at] for _, numbers in self._numbers]
        out: Row = {}
        for name, field in fields.items():
            if field.kind != "fixed" and name not in in_index:
                out[name] = TextPieces()
            elif field.is_image:
                out[name] = [None] * len(at)
            else:
                out[name] = self._empty(name, row_numbers, len(at), empty_array)
        self._fill_columns(row_numbers, picks, out, encoded=True)
        return arrow_table(fields, schema, out, len(at))

    def _columns_at(self, at: np.ndarray, columns: str | Sequence[str] | None, empty: Empty) -> Row:
        names, picks = self._chosen(columns)
        row_numbers = [numbers[at] for _, numbers in self._numbers]
        out: Row = {name: self._empty(name, row_numbers, len(at), empty) for name in names}
        self._fill_columns(row_numbers, picks, out)
        return out

    def _fill_columns(
        self, row_numbers: Sequence[Numbers], picks: Sequence[GroupRead], out: Row, *, encoded: bool = False
    ) -> None:
        filled = {name: np.zeros(len(row_numbers[0]), bool) for name in out}
        self._fill(row_numbers, picks, out=out, rows_out=None, filled=filled, encoded=encoded)
        for name, is_filled in filled.items():
            # A block that a published index left out is null, whatever its field says.
            if isinstance(out[name], np.ndarray) and not is_filled.all():
                out[name] = [value if has else None for value, has in zip(out[name], is_filled, strict=True)]

    def are_exclusive(self, table_numbers: Sequence[int]) -> bool:
        """Whether no row is of two of some tables."""
        present = np.zeros(len(self), np.int64)
        for i in table_numbers:
            present += self._numbers[i][1] >= 0
        return not (present > 1).any()

    def check_columns(self, columns: str | Sequence[str] | None) -> list[str]:
        """The names that columns mean; ConfigError if they are not the loader's."""
        return list(self._chosen(columns)[0])

    def tables(self) -> list[TableSnapshot]:
        """The tables, each at its commit; opened when they are first needed."""
        if self._tables is None:
            tables = [_opened(column, self._root) for column, _ in self._numbers]
            for table, (column, numbers) in zip(tables, self._numbers, strict=True):
                if len(numbers) and (numbers.max() >= table.metadata.rows or numbers.min() < -1):
                    raise ConfigError(
                        f"{column.table}: the index has a row that the table does not have; read the index again"
                    )
            named = [(column, table.metadata.schema) for table, (column, _) in zip(tables, self._numbers, strict=True)]
            self._columns, self._ambiguous = name_columns(named, self._index_names, self.are_exclusive)
            self._tables = tables
        return self._tables

    def _chosen(self, columns: str | Sequence[str] | None) -> tuple[list[str], list[GroupRead]]:
        asked = tuple(columns) if isinstance(columns, list) else columns
        try:
            return self._asked[asked]
        except (KeyError, TypeError):
            chosen = self._choose(columns)
        if asked is None or isinstance(asked, (str, tuple)):
            self._asked[asked] = chosen
        return chosen

    def _choose(self, columns: str | Sequence[str] | None) -> tuple[list[str], list[GroupRead]]:
        tables = self.tables()
        names = matching(columns, [*self._columns, *self._ambiguous])
        for name in names:
            if name in self._ambiguous:
                raise ConfigError(
                    f"columns: {name!r} is in {self._ambiguous[name]}; merge them with hub.join(..., suffixes=...), "
                    "or leave it out"
                )
        key = tuple(names)
        picks = self._picks.get(key)
        if picks is None:
            by_table: dict[int, list[Column]] = {}
            for name in names:
                for i in self._columns[name].tables:
                    by_table.setdefault(i, []).append(self._columns[name])
            picks = [
                pick
                for i, columns_of_table in by_table.items()
                for pick in plan_group_reads(i, tables[i], columns_of_table)
            ]
            self._picks[key] = picks
        return names, picks

    def _read(
        self,
        row_numbers: Sequence[Numbers],
        names: Sequence[str],
        picks: Sequence[GroupRead],
        count: int,
        encoded: bool,
    ) -> list[Row]:
        out: list[Row] = [dict.fromkeys(names) for _ in range(count)]
        is_only = sum(pick.group is not None for pick in picks) == 1
        planned = []
        for pick in picks:
            group = pick.group
            if group is None or not self._is_direct(pick, group, count, is_only):
                planned.append(pick)
                continue
            blocks = direct.read_few(self.tables()[pick.table], group, row_numbers[pick.table].tolist())
            for row, block in zip(out, blocks, strict=True):
                if block is not None:
                    values = block.row(0, pick.fields, encoded=encoded)
                    for field, name in zip(pick.fields, pick.names, strict=True):
                        row[name] = values[field]
        if planned:
            self._fill(row_numbers, planned, out=None, rows_out=out, encoded=encoded)
        return out

    def _is_direct(self, pick: GroupRead, group: Group, count: int, is_only: bool) -> bool:
        """Whether a few rows are read without a plan: each in a block of its own, which is decoded in no time.

        Requests of several groups to a remote root are better made in parallel, and so is decoding.
        """
        return (
            group.rows_per_block == 1
            and not pick.is_shared
            and count <= direct.MAX_ROWS
            and (count == 1 or not group.has_codec)
            and (is_only or not self.tables()[pick.table].fetcher.remote)
        )

    def _fill(
        self,
        row_numbers: Sequence[Numbers],
        picks: Sequence[GroupRead],
        *,
        out: Row | None,
        rows_out: list[Row] | None,
        filled: Mapping[str, np.ndarray] = MappingProxyType({}),
        encoded: bool = False,
    ) -> None:
        """Read what picks say, into columns or into rows; of a column that several tables have, the first counts."""
        tables = self.tables()
        requests: list[RowRequest] = []
        for pick in picks:
            parts = [
                part for part in parts_of(pick, self._columns, row_numbers) if part.mask is None or part.mask.any()
            ]
            if not parts:
                continue
            if pick.group is None:
                for part in parts:
                    fill_from_index(part, row_numbers[pick.table], tables[pick.table], out, rows_out, filled)
                continue
            takes = []
            at = None
            for part in parts:
                if rows_out is not None:
                    take = row_fetch.values_into(rows_out, part.fields, part.names, pick.group, encoded=encoded)
                else:
                    assert out is not None
                    images = {name for name, field in pick.group.fields if encoded and field.is_image}
                    take = row_fetch.columns_into(out, part.fields, part.names, filled, encoded=images)
                    if len(parts) == 1 and part.mask is None:
                        at = places_of(pick.group, out, part.fields, part.names, filled)
                takes.append((take, part.mask))
            numbers, places = row_numbers[pick.table], None
            masks = [part.mask for part in parts if part.mask is not None]
            if len(masks) == len(parts):
                places = np.flatnonzero(np.logical_or.reduce(masks))
                numbers = numbers[places]
            single = takes[0][0] if len(takes) == 1 and places is None else partial(split, takes, places)
            requests.append(
                RowRequest(tables[pick.table], pick.group, numbers, single, copies=out is not None, places=at)
            )
        row_fetch.read(requests)

    def _windows(
        self, at: int, offsets: np.ndarray, pad: str | None, names: Sequence[str], picks: Sequence[GroupRead]
    ) -> list[Numbers]:
        tables = self.tables()
        # Of a column that several tables have, the first with the row counts.
        having_row = [i for i in range(len(tables)) if self._numbers[i][1][at] >= 0]
        firsts = (next((i for i in self._columns[name].tables if i in having_row), None) for name in names)
        used = sorted({i for i in firsts if i is not None})
        row_numbers: list[Numbers] = [np.full(len(offsets), -1, np.int64) for _ in tables]
        for i in used:
            row = int(self._numbers[i][1][at])
            if row >= 0:
                first, end = tables[i].partition_of(row)
                where = f"row {at}, which is row {row} of {self._numbers[i][0].table}"
                row_numbers[i] = window(row, first, end, offsets, pad=pad, where=where)
        # One that has no row in the window, being past its edge there, may have had some beside the others'.
        having = used if any((row_numbers[i] >= 0).any() for i in used) else []
        if having and offsets.any():
            for name in names:
                for i in self._columns[name].tables:
                    if not set(self._columns[name].tables) & set(having_row):
                        self._alignment().require_never_merged(i, having, at)
        if len(having) > 1:
            self._alignment().require(having, row_numbers, at)
        return row_numbers

    def _alignment(self) -> Alignment:
        if self._aligned is None:
            self._aligned = Alignment([column for column, _ in self._numbers], self.tables(), self.are_exclusive)
        return self._aligned

    def _empty(self, name: str, row_numbers: Sequence[Numbers], count: int, empty: Empty) -> Any:
        column = self._columns[name]
        field, *others = self._fields_of(column)
        alike = all(
            (other.dtype, other.shape, other.nullable) == (field.dtype, field.shape, False)
            for other in [field, *others]
        )
        if (
            field.ragged
            or not alike
            or (count and reduce(np.maximum, [row_numbers[i] for i in column.tables]).min() < 0)
        ):
            return [None] * count
        assert field.dtype is not None
        return empty(name, (count, *(n or 0 for n in field.shape)), field.dtype)

    def _row_bytes(self, picks: Sequence[GroupRead]) -> float:
        tables = self.tables()
        sizes = [tables[pick.table].group_row_bytes(pick.group.name) for pick in picks if pick.group is not None]
        return sum(sizes) + 64.0


def _opened(column: ServiceColumn, root: Root | None) -> TableSnapshot:
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
    return TableSnapshot.of(version_of(where, column.table), record)
