"""Filters as lists of conditions: checked, and with values as Arrow compares them. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubarray.errors import ConfigError

OPERATIONS = ("=", "==", "!=", "<", ">", "<=", ">=", "in", "not in")
_ARROW_UNITS = ("s", "ms", "us", "ns")

Clause = tuple[str, str, Any]


def checked(filters: Any) -> list[list[Clause]]:
    """The conditions in disjunctive normal form: rows pass where all of any of the lists hold.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> checked([("camera", "==", "front")])
    [[('camera', '==', 'front')]]
    """
    if isinstance(filters, tuple) and filters and isinstance(filters[0], str):
        raise ConfigError(f"filters={filters!r}: conditions are in a list: [{filters!r}]"[:400])
    if not isinstance(filters, (list, tuple)) or not all(isinstance(clause, (list, tuple)) for clause in filters):
        raise ConfigError(
            f"filters={str(filters)[:200]!r}: give a list of conditions, such as [('label', '=', 3)], a list of such "
            "lists, or a pyarrow expression"
        )
    alternatives = (
        [list(filters)] if filters and isinstance(filters[0], tuple) else [list(clause) for clause in filters]
    )
    for clauses in alternatives:
        if not clauses and filters:
            raise ConfigError("filters: one of the lists has no condition, which every row passes; leave it out")
        for clause in clauses:
            _check(clause)
    return [[_with_lists(clause) for clause in clauses] for clauses in alternatives]


def _with_lists(clause: Sequence[Any]) -> Clause:
    """A clause whose values can be gone through again, whatever they came as."""
    field, operation, value = clause
    return field, operation, list(value) if operation in ("in", "not in") else value


def _check(clause: Any) -> None:
    fits = isinstance(clause, (list, tuple)) and len(clause) == 3 and isinstance(clause[0], str)
    if not fits or clause[1] not in OPERATIONS:
        raise ConfigError(f"filters: {clause!r} is not (field, one of {', '.join(OPERATIONS)}, value)"[:400])
    field, operation, value = clause
    if operation in ("in", "not in") and (isinstance(value, (str, bytes)) or not hasattr(value, "__iter__")):
        raise ConfigError(f"filters: {clause!r}: {operation!r} takes a list of values: {field!r}, [{value!r}]"[:400])


def arrow_expression(clauses: Sequence[Sequence[Clause]], kinds: Mapping[str, pa.DataType | None]) -> pc.Expression:
    """An expression of conditions on columns of some types.

    Whole numbers get the column's type, of which Arrow knows none beyond 63 bits by itself; a number that a column of
    whole numbers cannot have is compared all the same. Times with a zone are their moment in UTC.

    Raises
    ------
    ValueError, TypeError, OverflowError, pyarrow.ArrowException
    """
    import pyarrow.parquet as pq

    return pq.filters_to_expression([[_typed(clause, kinds.get(clause[0])) for clause in group] for group in clauses])


def _typed(clause: Clause, kind: pa.DataType | None) -> Clause:
    field, operation, value = clause
    whole = kind if kind is not None and pa.types.is_integer(kind) else None
    if operation in ("in", "not in"):
        values = [as_arrow_takes(item, kind) for item in value]
        if whole is not None and all(type(number) is int for number in values):
            return field, operation, pa.array([number for number in values if _fits(number, whole)], whole)
        if kind is not None and pa.types.is_floating(kind):
            values = [float(number) if type(number) is int else number for number in values]
        return field, operation, values
    value = as_arrow_takes(value, kind)
    if whole is None or type(value) is not int:
        return field, operation, value
    if _fits(value, whole):
        return field, operation, pa.scalar(value, whole)
    least = pa.scalar(int(np.iinfo(whole.to_pandas_dtype()).min), whole)
    passes = operation == "!=" or operation.startswith("<" if value > 0 else ">")
    return field, ">=" if passes else "<", least


def _fits(value: int, kind: pa.DataType) -> bool:
    about = np.iinfo(kind.to_pandas_dtype())
    return bool(about.min <= value <= about.max)


def as_arrow_takes(value: Any, kind: pa.DataType | None) -> Any:
    """A value as Arrow takes it: Python's own numbers, no zones where the column has none, and no hours of NumPy's."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        zoned = kind is None or not pa.types.is_timestamp(kind) or kind.tz is not None
        return value if zoned else value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, np.datetime64):
        unit = np.datetime_data(value.dtype)[0]
        if unit in _ARROW_UNITS:
            return value
        return value.item() if unit == "D" else value.astype("M8[s]")
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufUS" else value
