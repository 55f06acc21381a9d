"""Ranges of index fields: which slabs a filter can pass over without a look at them. Pure.

``docs/FORMAT.md``, "Ranges", has the piece: a row for each slab, the least and the most value of each field in it. It
is ours, and not Parquet's statistics: those of a stranger's file end the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.tables.format.conditions import Clause, as_arrow_takes
from hubarray.tables.format.index_piece import NAT, index_schema
from hubarray.tables.format.schema import Schema

# Longer text is cut by nothing, so it has no range: a piece stays small.
_MAX_TEXT_BYTES = 256

_EXACT = 1 << 53

Range = tuple[Any, Any, bool]


def ranges_schema(schema: Schema) -> pa.Schema:
    """The columns of a ranges piece: of field *i* of the index ``i low``, ``i high`` and ``i loose``."""
    fields = []
    for i, field in enumerate(index_schema(schema)):
        fields += [pa.field(f"{i} low", field.type), pa.field(f"{i} high", field.type)]
        fields.append(pa.field(f"{i} loose", pa.bool_(), nullable=False))
    return pa.schema(fields)


def range_of(column: pa.ChunkedArray) -> Range:
    """The least value of a column, the most, and whether some values are in no order with them; None if unknown.

    Times are numbers of their unit: Python's have no nanoseconds.
    """
    loose = bool(column.null_count)
    if pa.types.is_boolean(column.type) or pa.types.is_binary(column.type):
        return None, None, True
    if pa.types.is_floating(column.type):
        values = column.drop_null().to_numpy()
        if not len(values) or np.isnan(values).any():
            return None, None, True
        return values.min().item(), values.max().item(), loose
    bounds = pc.min_max(_whole(column)).as_py()
    low, high = bounds["min"], bounds["max"]
    if pa.types.is_temporal(column.type) and low == NAT:
        # NaT of a field that is not nullable.
        return None, None, True
    if isinstance(low, str) and max(len(low.encode()), len(high.encode())) > _MAX_TEXT_BYTES:
        return None, None, True
    return low, high, loose


def ranges_table(slabs: Sequence[Sequence[Range]], schema: Schema) -> pa.Table:
    """The ranges piece of an append: of each slab the ranges of its index fields, in the order of the schema."""
    expected = ranges_schema(schema)
    columns = []
    for i in range(len(schema.index)):
        for part in range(3):
            kind = expected.field(3 * i + part).type
            columns.append(pa.array([slab[i][part] for slab in slabs], kind))
    return pa.table(columns, schema=expected)


def slabs_of_ranges(range_table: pa.Table, schema: Schema, clauses: Sequence[Sequence[Clause]]) -> list[int]:
    """The slabs that may have a row that passes.

    Parameters
    ----------
    range_table : pyarrow.Table
        A ranges piece.
    schema : Schema
    clauses : sequence of sequences of (field, operation, value)
        Same as in :func:`range_answer`.
    """
    names = {name: i for i, name in enumerate(schema.index)}
    asked = {name for clause in clauses for name, _, _ in clause if name in names}
    kinds = {name: range_table.schema.field(f"{names[name]} low").type for name in asked}
    comparable_clauses = [
        [comparable(condition, kinds.get(condition[0])) for condition in clause] for clause in clauses
    ]
    columns = {
        name: [_whole(range_table[f"{names[name]} {part}"]) for part in ("low", "high")]
        + [range_table[f"{names[name]} loose"]]
        for name in asked
    }
    lists = {name: [column.to_pylist() for column in three] for name, three in columns.items()}
    slab_numbers = []
    for slab in range(len(range_table)):
        ranges = {
            name: (low[slab], high[slab], loose[slab])
            for name, (low, high, loose) in lists.items()
            if low[slab] is not None and high[slab] is not None
        }
        if range_answer(comparable_clauses, ranges) is not False:
            slab_numbers.append(slab)
    return slab_numbers


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column


class _Unknown:
    """A value that nothing is compared with: the rows are looked at."""

    def __lt__(self, other: object) -> bool:
        raise TypeError

    __gt__ = __le__ = __ge__ = __lt__


def comparable(clause: Clause, kind: pa.DataType | None) -> Clause:
    """A clause with its value as the ranges of a column have it, so that Python compares them as Arrow would the rows.

    Times are numbers of their unit. Arrow casts the values of ``in`` to the column's type, and compares others in a
    type that both have. A value that would be compared otherwise is one of which nothing is known.
    """
    name, operation, value = clause
    if kind is None:
        return name, operation, _Unknown()
    try:
        if operation in ("in", "not in"):
            return name, operation, _values_of_in([as_arrow_takes(element, kind) for element in value], kind)
        value = as_arrow_takes(value, kind)
        if pa.types.is_temporal(kind):
            return name, operation, pa.scalar(value).cast(kind).value
        return name, operation, _plain_value(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return name, operation, _Unknown()


def _values_of_in(values: list[Any], kind: pa.DataType) -> list[Any]:
    if pa.types.is_integer(kind) and all(type(element) is int for element in values):
        return values
    return [_plain_value(element.cast(kind), kind) for element in pa.array(values)]


def _plain_value(value: Any, kind: pa.DataType) -> Any:
    """A value of Python's that compares with a column's as in Arrow.

    Raises
    ------
    TypeError
        There is none.
    """
    if isinstance(value, pa.Scalar):
        value = value.value if pa.types.is_temporal(kind) and value.is_valid else value.as_py()
    plain_type = str if pa.types.is_string(kind) else int
    if type(value) is plain_type and not pa.types.is_floating(kind):
        return value
    # Of whole numbers beyond 2**53 and floats, Arrow compares one that is rounded.
    if pa.types.is_floating(kind) and (type(value) is float or (type(value) is int and abs(value) <= _EXACT)):
        return value
    raise TypeError(f"{value!r} is not compared with {kind}")


def range_answer(clauses: Sequence[Sequence[Clause]], ranges: Mapping[str, Range]) -> bool | None:
    """The answer of some filters for rows of which only the ranges of fields are known.

    Parameters
    ----------
    clauses : sequence of sequences of (field, operation, value)
        Rows pass where all clauses of any of the sequences hold.
    ranges : mapping of str to (least, most, has_nulls)

    Returns
    -------
    True where all rows pass, False where none does, None where rows have to be looked at

    Examples
    --------
    >>> [range_answer([[("x", ">", 5)]], {"x": found}) for found in [(6, 9, False), (1, 5, False), (1, 9, False)]]
    [True, False, None]
    """
    answers = [_all(_clause(condition, ranges.get(condition[0])) for condition in clause) for clause in clauses]
    if True in answers:
        return True
    return False if all(answer is False for answer in answers) else None


def _all(answers: Any) -> bool | None:
    known = list(answers)
    if False in known:
        return False
    return True if all(answer is True for answer in known) else None


def _clause(clause: Clause, bounds: tuple[Any, Any, bool] | None) -> bool | None:
    if bounds is None:
        return None
    _, operation, value = clause
    low, high, has_nulls = bounds
    try:
        answer = _compared(operation, value, low, high)
    except TypeError:
        return None
    if has_nulls and (answer is True or operation in ("!=", "not in")):
        # A null passes no comparison but "not in", and NaN, which ranges do not tell of, "!=" too.
        return None
    return answer


def _compared(operation: str, value: Any, low: Any, high: Any) -> bool | None:
    if operation in ("=", "=="):
        return False if value < low or value > high else True if low == high == value else None
    if operation == "!=":
        return True if value < low or value > high else False if low == high == value else None
    if operation == "<":
        return True if high < value else False if low >= value else None
    if operation == "<=":
        return True if high <= value else False if low > value else None
    if operation == ">":
        return True if low > value else False if high <= value else None
    if operation == ">=":
        return True if low >= value else False if high < value else None
    inside = [element for element in value if low <= element <= high]
    if operation == "in":
        return False if not inside else True if low == high else None
    return True if not inside else False if low == high else None
