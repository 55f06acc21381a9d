"""pyarrow's filters as predicates, and what of them is known before rows are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.predicates import PredicateBase, VectorPredicate, mask_of
from hubarray.readers.fields.source import Column, taken
from hubarray.readers.fields.unischema import Unischema, UnischemaField, no_field
from hubarray.tables.format import conditions
from hubarray.tables.format.conditions import Clause, as_arrow_takes
from hubarray.tables.format.statistics import comparable


class FilterPredicate(VectorPredicate):
    """Rows that pyarrow's filters let through.

    Parameters
    ----------
    filters : list of tuple, list of lists of tuple, or pyarrow.compute.Expression
        Same as in :func:`pyarrow.parquet.read_table`.
    schema : Unischema
    """

    def __init__(self, filters: Any, schema: Unischema) -> None:
        import pyarrow.compute as pc

        self.clauses: list[list[Clause]] | None = None
        self._types = {name: kind for name, field in schema.fields.items() if (kind := _arrow_type(field)) is not None}
        if isinstance(filters, pc.Expression):
            # An expression does not tell its fields; its text does, and maybe more than those.
            words = set(re.findall(r"[^\s()\[\],\"'<>=!]+", str(filters)))
            self._fields = {name for name in schema.fields if name in words or name in str(filters)}
            self._expression = filters
            return
        self.clauses = conditions.checked(filters)
        if not self.clauses:
            raise ConfigError("filters: the list is empty; leave filters out, or give [('label', '=', 3)]")
        self._fields = {name for clause in self.clauses for name, _, _ in clause}
        for name in self._fields:
            if name not in schema.fields:
                raise no_field(schema, name, "filters")
        try:
            self._expression = conditions.arrow_expression(self.clauses, self._types)
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError(f"filters: {str(error)[:200]}") from None

    def range_clauses(self) -> list[list[Clause]] | None:
        """The clauses, with values that compare with Parquet's statistics as they do with rows; None if unknown."""
        if self.clauses is None:
            return None
        return [[self._for_ranges(condition) for condition in clause] for clause in self.clauses]

    def _for_ranges(self, clause: Clause) -> Clause:
        import pyarrow as pa

        kind = self._types.get(clause[0])
        numbers = kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        return comparable(clause, kind) if numbers else clause

    def get_fields(self) -> set[str]:
        """The fields it looks at."""
        return set(self._fields)

    def do_include(self, values: Any) -> Any:
        """Whether it lets a row pass."""
        return bool(self.mask({name: [value] for name, value in values.items()}, 1)[0])

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool = False) -> np.ndarray:
        """Which rows pass.

        Raises
        ------
        ConfigError
            A value cannot be compared with a column.
        """
        import pyarrow as pa

        named: dict[str, pa.Array] = {}
        try:
            named = {name: self._array(name, column) for name, column in columns.items()}
            number = "row" + "_" * max(map(len, named), default=0)
            table = pa.table(named | {number: pa.array(np.arange(rows))})
            kept_rows = table.filter(self._expression)[number].to_numpy()
        except (pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as error:
            types = ", ".join(f"{name!r} is {column.type}" for name, column in named.items()) or "no field"
            raise ConfigError(f"filters: a value cannot be compared ({types}): {str(error)[:200]}"[:400]) from None
        row_mask = np.zeros(rows, bool)
        row_mask[kept_rows] = True
        return row_mask

    def _array(self, name: str, column: Column) -> Any:
        import pyarrow as pa

        kind = self._types.get(name)
        # Arrow takes Python's integers to have a sign, and nulls alone to have no type: the schema says both.
        column_values = pa.array(_plain(column), kind if kind is not None and pa.types.is_integer(kind) else None)
        return column_values.cast(kind) if column_values.type == pa.null() and kind is not None else column_values


class FilteredPredicate(VectorPredicate):
    """Rows that filters let through, and of these those that a predicate includes: it is asked for no others."""

    def __init__(self, filters: PredicateBase, predicate: PredicateBase) -> None:
        self._filters, self._predicate = filters, predicate

    def get_fields(self) -> set[str]:
        """The fields they look at."""
        return self._filters.get_fields() | self._predicate.get_fields()

    def mask(self, columns: Mapping[str, Column], rows: int, *, batched: bool) -> np.ndarray:
        """Which rows pass both."""
        asked = {name: columns[name] for name in sorted(self._filters.get_fields())}
        row_mask = mask_of(self._filters, asked, rows, batched=batched)
        if not row_mask.any():
            return row_mask
        rest = {name: taken(columns[name], row_mask) for name in sorted(self._predicate.get_fields())}
        row_mask[row_mask] = mask_of(self._predicate, rest, int(row_mask.sum()), batched=batched)
        return row_mask


def _arrow_type(field: UnischemaField) -> Any:
    import pyarrow as pa

    if field.shape:
        return None
    if field.numpy_dtype is Decimal:
        return pa.decimal128(38, 18)
    kind = np.dtype(field.numpy_dtype)
    if kind.kind == "U":
        return pa.string()
    if kind.kind == "S":
        return pa.binary()
    if kind == np.dtype("M8[D]"):
        return pa.date32()
    timed = kind.kind in "mM" and np.datetime_data(kind)[0] in ("s", "ms", "us", "ns")
    return pa.from_numpy_dtype(kind) if kind.kind in "biuf" or timed else None


def _plain(column: Column) -> Any:
    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else list(column)
    return [_plain_value(value) for value in column]


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return as_arrow_takes(value, None)
    return value.item() if isinstance(value, np.generic) else value
