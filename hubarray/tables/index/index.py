"""The index of a table, as Arrow and as a DataFrame: the fields that can be queried, and a number for every row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.blobs.scheduling import run_all
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.tables.format import conditions, locations
from hubarray.tables.format.conditions import Clause
from hubarray.tables.format.index_column import ServiceColumn
from hubarray.tables.format.index_piece import arrow_schema, nat_as_null
from hubarray.tables.format.metadata import AppendEntry
from hubarray.tables.format.schema import PARTITION
from hubarray.tables.format.statistics import slabs_of_ranges
from hubarray.tables.read.columns import matching
from hubarray.tables.snapshot.snapshot import TableSnapshot

if TYPE_CHECKING:
    import pandas as pd

_PIECE_BYTES = 4 << 20
_ROW = "hubarray row"

Filters = Any


def service_column(table: TableSnapshot) -> ServiceColumn:
    """The service column of a table's index."""
    head = table.record.head
    return ServiceColumn(table.version.name.at(head.number), head.id)


def read(table: TableSnapshot, columns: Sequence[str] | str | None = None, filters: Filters = None) -> pa.Table:
    """The index as an Arrow table: partition and fields, then the service column.

    Reads a piece of each slab, in parallel; with ``filters`` of those that may have a row that passes, as the list of
    partitions and the ranges say, which are read first. In each piece, the columns of the filters are decoded first,
    and the others only if a row is left.

    Parameters
    ----------
    table : TableSnapshot
    columns : sequence of str, optional
        Names or globs.
    filters : list of tuples, list of lists of tuples, or pyarrow.compute.Expression
        Same as in ``pyarrow.parquet.read_table``.

    Raises
    ------
    ConfigError, CorruptDataError, StorageError
    """
    schema = arrow_schema(table.metadata.schema, table.metadata.key_type)
    names = matching(columns, schema.names)
    clauses = None if filters is None or isinstance(filters, pc.Expression) else conditions.checked(filters)
    expression = _expression(filters if clauses is None else clauses, schema)
    pieces: dict[tuple[int, int], pa.Table] = {}
    table.require_pieces()

    # What decides is decoded first. Nothing asks Arrow for statistics: those of a hostile piece end the process.
    deciding = schema.names if not clauses else _columns_of(clauses, schema.names)

    def piece(append: AppendEntry, slab: int) -> None:
        first = append.first_row + slab * locations.SLAB_ROWS
        numbers = np.arange(first, first + append.slab_rows(slab), dtype=np.int64)
        if expression is None:
            # Without a column the piece would not say how many rows it has.
            part = _with_nulls(table.index(append, slab, names or [PARTITION]))
        else:
            part = _with_nulls(table.index(append, slab, deciding))
            row = pa.field(_ROW, pa.int64())
            filtered = _matching_rows(part.append_column(row, pa.array(numbers)), expression)
            if not len(filtered):
                return
            part = _with_nulls(table.index(append, slab, names or [PARTITION])).take(pa.array(filtered - first))
            numbers = filtered
        pieces[append.first_row, slab] = part.append_column(_number_field(table), pa.array(numbers)).select(
            [*names, str(service_column(table))]
        )

    slabs = [(append, slab) for append in table.metadata.appends for slab in _slabs(table, append, clauses)]
    run_all((_PIECE_BYTES, partial(piece, append, slab)) for append, slab in slabs)
    empty = pa.schema([*(schema.field(name) for name in names), _number_field(table)]).empty_table()
    parts = [pieces[key] for key in sorted(pieces)]
    return pa.concat_tables([empty, *parts]).unify_dictionaries().combine_chunks()


def _with_nulls(part: pa.Table) -> pa.Table:
    """A piece whose NaT is null, as everywhere in Arrow."""
    return pa.table([nat_as_null(column) for column in part.columns], schema=part.schema)


def _matching_rows(part: pa.Table, expression: pc.Expression) -> np.ndarray:
    try:
        row_numbers: np.ndarray = part.filter(expression)[_ROW].to_numpy()
    except pa.ArrowException as error:
        # Arrow compares whole numbers with floats as floats, and refuses those that have no float.
        types = ", ".join(f"{name!r} is {part.schema.field(name).type}" for name in part.column_names if name != _ROW)
        raise ConfigError(
            f"filters: a value cannot be compared with a column ({types}): {str(error)[:200]}; give values of its type"
        ) from None
    return row_numbers


def _number_field(table: TableSnapshot) -> pa.Field:
    return pa.field(str(service_column(table)), pa.int64(), nullable=False)


def _expression(filters: pc.Expression | list[list[Clause]] | None, schema: pa.Schema) -> pc.Expression | None:
    if filters is None or (isinstance(filters, list) and not filters):
        return None
    try:
        expression = filters
        if isinstance(filters, list):
            for name in (name for clause in filters for name, _, _ in clause):
                if name not in schema.names:
                    raise ConfigError(
                        f"filters: the index has no field {name!r}; it has {', '.join(schema.names)}"[:400]
                    )
            expression = conditions.arrow_expression(
                filters, {field.name: _values_type(field.type) for field in schema}
            )
        schema.empty_table().filter(expression)
        return expression
    except ConfigError:
        raise
    except (TypeError, ValueError, IndexError, KeyError, OverflowError, pa.ArrowException) as error:
        raise ConfigError(
            f"filters={filters!r}: {str(error).partition(chr(10))[0]}; conditions are such as [('log_id', '==', 'a')], "
            "or lists of such lists, with values of the columns' types: a time is a datetime, and no text"
        ) from None


def _values_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _columns_of(clauses: list[list[Clause]], names: Sequence[str]) -> list[str]:
    """The columns that filters speak of."""
    used = {name for clause in clauses for name, _, _ in clause}
    return [name for name in names if name in used]


def _slabs(table: TableSnapshot, append: AppendEntry, clauses: list[list[Clause]] | None) -> list[int]:
    """The slabs of an append that may have a row that the filters allow, by its partitions and its ranges."""
    if not clauses:
        return list(range(append.slabs))
    allowed = _slabs_of_partitions(table, append, clauses)
    indexed = {name for clause in clauses for name, _, _ in clause} - {PARTITION}
    if not append.has_ranges or not indexed or len(allowed) < 2:
        return allowed
    matching = set(slabs_of_ranges(table.ranges(append), table.metadata.schema, clauses))
    return [slab for slab in allowed if slab in matching]


def _slabs_of_partitions(table: TableSnapshot, append: AppendEntry, clauses: list[list[Clause]]) -> list[int]:
    """The slabs of an append that may have a row of a partition that the filters allow."""
    every = list(range(append.slabs))
    of_partitions = [[condition for condition in clause if condition[0] == PARTITION] for clause in clauses]
    if not all(of_partitions):
        return every
    listed = table.partitions(append)
    allowed = listed.filter(conditions.arrow_expression(of_partitions, {PARTITION: listed[PARTITION].type}))
    firsts, rows = (allowed[name].to_numpy() for name in ("first_row", "rows"))
    columns: set[int] = set()
    for first, count in zip(firsts.tolist(), rows.tolist(), strict=True):
        if count:
            columns.update(range(first // locations.SLAB_ROWS, (first + count - 1) // locations.SLAB_ROWS + 1))
    return sorted(columns)


def to_pandas(index: pa.Table) -> pd.DataFrame:
    """An index as a DataFrame: text and bytes backed by Arrow, nullable numbers as pandas has them."""
    import pandas as pd

    nullable = {
        pa.bool_(): pd.BooleanDtype(),
        **{getattr(pa, f"{kind}{bits}")(): getattr(pd, f"{name}{bits}Dtype")()
           for kind, name in (("int", "Int"), ("uint", "UInt")) for bits in (8, 16, 32, 64)},
        pa.float32(): pd.Float32Dtype(), pa.float64(): pd.Float64Dtype(),
    }  # fmt: skip
    columns: dict[str, Any] = {}
    for name, field in zip(index.column_names, index.schema, strict=True):
        column = index[name]
        if pa.types.is_string(field.type):
            columns[name] = pd.array(column, dtype=pd.StringDtype("pyarrow"))
        elif pa.types.is_binary(field.type):
            columns[name] = pd.array(column, dtype=pd.ArrowDtype(field.type))
        elif field.nullable and field.type in nullable:
            columns[name] = nullable[field.type].__from_arrow__(column)
        else:
            columns[name] = column.to_pandas()
    return pd.DataFrame(columns, copy=False)


def as_kind(index: pa.Table, kind: str) -> Any:
    """An index as ``"pandas"``, ``"arrow"`` or ``"polars"``."""
    if kind == "arrow":
        return index
    if kind == "pandas":
        return to_pandas(index)
    if kind != "polars":
        raise ConfigError(f"as_={kind!r}: give 'pandas', 'arrow' or 'polars'")
    return needed("polars", extra="polars", why="as_='polars'").from_arrow(index)
