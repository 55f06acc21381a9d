"""Whether the keys of a merge are what the tables' rows have: else they do not say which neighbours belong together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.blobs.scheduling import run_all
from hubarray.errors import ConfigError
from hubarray.tables.format.casts import arrow_batches
from hubarray.tables.format.index_column import is_service
from hubarray.tables.format.metadata import AppendEntry
from hubarray.tables.format.schema import PARTITION
from hubarray.tables.read.alignment import comparable
from hubarray.tables.read.loader import RowLoaderHandle, loader_of
from hubarray.tables.read.row_fetch import Numbers
from hubarray.tables.snapshot.snapshot import TableSnapshot

if TYPE_CHECKING:
    import pandas as pd

_NOT_COMPARABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)
# Of an index piece, about.
_PIECE_BYTES = 4 << 20


def tables_with_keys(frame: pd.DataFrame, keys: Sequence[str]) -> set[str]:
    """The service columns of tables that have all keys as index fields, with the values that an index says.

    A column may have been changed, or be of another table. Reads these fields of the rows, of pieces that the caches
    have since the index was read.

    Raises
    ------
    CorruptDataError, NotFoundError, StorageError
    """
    loader = loader_of(frame, None)
    tables, numbers = loader.tables(), loader.numbers
    names = [name for name in frame.columns if is_service(name)]
    indexed = [i for i, table in enumerate(tables) if {*keys} <= {*table.metadata.schema.index, PARTITION}]
    if not indexed:
        return set()
    try:
        columns = {key: comparable(pa.array(frame[key], from_pandas=True)) for key in keys}
    except _NOT_COMPARABLE:
        # Whatever pandas can merge on: it is not what a table has.
        return set()
    return {names[i] for i in indexed if _are_stored(tables[i], numbers[i], columns)}


def refuse_edited(index: Any, loader: RowLoaderHandle) -> None:
    """Refuse an index whose columns have other values than its rows: it is published as the rows are stored.

    Raises
    ------
    ConfigError
        The column is named.
    """
    frame = index if hasattr(index, "iloc") else arrow_batches(index).read_all()
    column_names = set(frame.columns if hasattr(frame, "iloc") else frame.column_names)
    tables, numbers = loader.tables(), loader.numbers
    for name in loader.columns:
        if name not in column_names:
            continue
        column = loader.column(name)
        try:
            values = comparable(pa.array(frame[name], from_pandas=True) if hasattr(frame, "iloc") else frame[name])
        except _NOT_COMPARABLE:
            values = None
        seen = np.zeros(len(loader), bool)
        for i in column.tables:
            if column.field not in tables[i].metadata.schema.index:
                continue
            of_table = np.where(seen, -1, numbers[i])
            if values is None or not _are_stored(tables[i], of_table, {column.field: values}):
                raise ConfigError(
                    f"the column {name!r} of the index has other values than the rows, which are published as they are "
                    "stored. Write the new values as a table of their own, with hub.table_writer, and join it; or "
                    "drop the column"
                )
            seen |= numbers[i] >= 0


def _are_stored(table: TableSnapshot, numbers: Numbers, columns: dict[str, pa.Array]) -> bool:
    row_numbers = np.flatnonzero(numbers >= 0)
    numbers = numbers[row_numbers]
    differ: list[bool] = []

    def look(append: AppendEntry, slab: int, first: int, inside: Numbers) -> None:
        given_values = pa.array(row_numbers[inside])
        fields = [key for key in columns if key != PARTITION]
        if not differ:
            places = pa.array(numbers[inside] - first)
            stored = dict(zip(fields, table.index_columns(append, slab, fields), strict=True))
            taken = {key: column.take(places) for key, column in stored.items()}
            if PARTITION in columns:
                taken[PARTITION] = _partitions(table, append, numbers[inside])
            if not all(_equal(comparable(taken[key]), column.take(given_values)) for key, column in columns.items()):
                differ.append(True)

    run_all((_PIECE_BYTES, partial(look, *run)) for run in table.slabs_of(numbers))
    return not differ


def _partitions(table: TableSnapshot, append: AppendEntry, numbers: Numbers) -> pa.Array:
    """The partition of each of an append's rows."""
    listed = table.partitions(append)
    ends = np.cumsum(listed["rows"].to_numpy()) + append.first_row
    return listed[PARTITION].combine_chunks().take(pa.array(np.searchsorted(ends, numbers, side="right")))


def _equal(stored: pa.Array, values: pa.Array) -> bool:
    """Whether values are the same, and distinct in one type where they are in the other."""
    try:
        # Arrow does not compare halves.
        stored, values = (
            array.cast(pa.float32()) if pa.types.is_float16(array.type) else array for array in (stored, values)
        )
        same = pc.and_(pc.equal(stored.cast(values.type), values), pc.equal(stored, values.cast(stored.type)))
    except _NOT_COMPARABLE:
        return False
    both_missing = pc.and_(stored.is_null(), values.is_null())
    return pc.all(pc.or_(pc.fill_null(same, False), both_missing)).as_py() is not False
