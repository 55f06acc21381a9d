"""pyarrow's filters as predicates, and what of them is known before rows are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.predicates import PredicateBase
from hubarray.readers.source import Column
from hubarray.readers.unischema import Unischema

Clause = tuple[str, str, Any]
_OPERATIONS = ("=", "==", "!=", "<", ">", "<=", ">=", "in", "not in")


class FilterPredicate(PredicateBase):
    """Rows that pyarrow's filters let through.

    Parameters
    ----------
    filters : list of tuple, list of lists of tuple, or pyarrow.compute.Expression
        As of :func:`pyarrow.parquet.read_table`.
    schema : Unischema
    """

    def __init__(self, filters: Any, schema: Unischema) -> None:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        self.clauses: list[list[Clause]] | None = None
        if isinstance(filters, pc.Expression):
            # An expression does not tell its fields; its text does, and maybe more than those.
            words = set(re.findall(r"[^\s()\[\],\"'<>=!]+", str(filters)))
            self._fields = {name for name in schema.fields if name in words or name in str(filters)}
            self._expression = filters
            return
        self.clauses = _clauses(filters)
        self._fields = {name for some in self.clauses for name, _, _ in some}
        for name in self._fields:
            if name not in schema.fields:
                raise ConfigError(f"filters: there is no field {name!r}; there are {', '.join(schema.fields)}"[:400])
        try:
            self._expression = pq.filters_to_expression(filters)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"filters: {str(error)[:200]}") from None

    def get_fields(self) -> set[str]:
        """The fields it looks at."""
        return set(self._fields)

    def do_include(self, values: Any) -> Any:
        """Whether it lets a row pass."""
        names = list(values.columns) if hasattr(values, "columns") else list(values)
        columns = {name: values[name].tolist() if hasattr(values, "columns") else [values[name]] for name in names}
        found = self.mask(columns, len(next(iter(columns.values()), [])))
        return found if hasattr(values, "columns") else bool(found[0])

    def mask(self, columns: Mapping[str, Column], rows: int) -> np.ndarray:
        """Which rows pass.

        Raises
        ------
        ConfigError
            A value cannot be compared with a column.
        """
        import pyarrow as pa

        named: dict[str, pa.Array] = {}
        try:
            named = {name: pa.array(_plain(column)) for name, column in columns.items()}
            table = pa.table(named | {"__row": pa.array(np.arange(rows))})
            kept = table.filter(self._expression)["__row"].to_numpy()
        except (pa.ArrowException, TypeError) as error:
            types = ", ".join(f"{name!r} is {column.type}" for name, column in named.items()) or "no field"
            raise ConfigError(f"filters: a value cannot be compared ({types}): {str(error)[:200]}"[:400]) from None
        found = np.zeros(rows, bool)
        found[kept] = True
        return found


def _plain(column: Column) -> Any:
    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else list(column)
    return [value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
            for value in column]  # fmt: skip


def _clauses(filters: Any) -> list[list[Clause]]:
    listed = isinstance(filters, (list, tuple)) and bool(filters)
    if not listed or not all(isinstance(one, (list, tuple)) for one in filters):
        raise ConfigError("filters: give a list such as [('label', '=', 3)], or a pyarrow expression")
    some = [list(filters)] if isinstance(filters[0], tuple) else [list(one) for one in filters]
    for clauses in some:
        for one in clauses:
            if not (isinstance(one, tuple) and len(one) == 3 and one[1] in _OPERATIONS):
                raise ConfigError(f"filters: {one!r} is not (field, one of {', '.join(_OPERATIONS)}, value)"[:300])
    return some


def range_answer(clauses: Sequence[Sequence[Clause]], ranges: Mapping[str, tuple[Any, Any, bool]]) -> bool | None:
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
    answers = [_all(_clause(one, ranges.get(one[0])) for one in some) for some in clauses]
    if True in answers:
        return True
    return False if all(one is False for one in answers) else None


def _all(answers: Any) -> bool | None:
    known = list(answers)
    if False in known:
        return False
    return True if all(one is True for one in known) else None


def _clause(clause: Clause, found: tuple[Any, Any, bool] | None) -> bool | None:
    if found is None:
        return None
    _, operation, value = clause
    low, high, has_nulls = found
    try:
        answer = _compared(operation, value, low, high)
    except TypeError:
        return None
    # A null passes no comparison.
    return None if answer is True and has_nulls else answer


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
    inside = [one for one in value if low <= one <= high]
    if operation == "in":
        return False if not inside else True if low == high else None
    return True if not inside else False if low == high else None
