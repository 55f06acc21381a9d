"""Filters of rows: the conditions that a page asks for, as a table's index takes them, and as Python writes them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.redaction import shown_text
from hubarray.tables.format.schema import PARTITION
from hubarray.viewer.expressions import Clause, clauses_of
from hubarray.viewer.handle_cache import title

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda field, values: field.isin(values), "not in": lambda field, values: ~field.isin(values),
    "is null": lambda field, _: field.is_null(), "is valid": lambda field, _: field.is_valid(),
    "is nan": lambda field, _: field.is_nan(),
}  # fmt: skip


def index_names(table: Any) -> list[str]:
    """The fields that rows are filtered and sorted by."""
    return [name for name in table.schema if table.schema[name].index]


def filters_of(table: Any, text: str) -> Any:
    """The conditions of a filter as the index takes them: lists of clauses, or an expression of Arrow's for nulls.

    Raises
    ------
    ConfigError
    """
    typed = _typed_clauses(table, text)
    if not _speaks_of_nulls(typed):
        return typed
    import pyarrow.compute as pc

    every = (
        functools.reduce(operator.and_, [_COMPARED[how](pc.field(name), value) for name, how, value in clauses])
        for clauses in typed
    )
    return functools.reduce(operator.or_, every)


def line_of(table: Any, text: str, sort: str, descending: bool) -> str:
    """The Python that gives the rows of a page."""
    name = title(table)
    if not text and not sort:
        return f'hub.load("{name}").loader()'
    typed = _typed_clauses(table, text) if text else []
    filters = f", filters={_written(typed)}" if text else ""
    index = f'hub.read_index("{name}"{filters})'
    if sort:
        index += f".sort_values({sort!r}{', ascending=False' if descending else ''}, kind='stable')"
    needed = "import pyarrow.compute as pc; " if _speaks_of_nulls(typed) else ""
    return f"{needed}hub.row_loader({index})"


def _written(typed: list[list[Clause]]) -> str:
    if not _speaks_of_nulls(typed):
        return repr(typed)
    written = {
        "in": "{}.isin({!r})",
        "not in": "~{}.isin({!r})",
        "is null": "{}.is_null()",
        "is valid": "{}.is_valid()",
        "is nan": "{}.is_nan()",
    }
    every = (
        " & ".join(
            f"({written.get(how, '{} ' + how + ' {!r}').format(f'pc.field({name!r})', value)})"
            for name, how, value in clauses
        )
        for clauses in typed
    )
    return " | ".join(f"({clause_text})" for clause_text in every)


def _speaks_of_nulls(clauses: list[list[Clause]]) -> bool:
    return any(how in ("is null", "is valid", "is nan") for alternative in clauses for _, how, _ in alternative)


def _typed_clauses(table: Any, text: str) -> list[list[Clause]]:
    known = {**{name: table.schema[name] for name in index_names(table)}, PARTITION: None}
    typed = [[_typed(known, condition) for condition in clause] for clause in clauses_of(text)]
    # What has no NaN is not asked for it.
    possible = [
        clauses
        for clauses in typed
        if not any(how == "is nan" and not _has_nan(known[name]) for name, how, _ in clauses)
    ]
    return [clauses for i, clauses in enumerate(possible) if clauses not in possible[:i]]


def _has_nan(field: Any) -> bool:
    return field is not None and field.dtype is not None and field.dtype.kind == "f"


def _typed(known: Mapping[str, Any], clause: Clause) -> Clause:
    """A clause whose value is of its field's type: times are written as text."""
    name, how, value = clause
    if name not in known:
        raise ConfigError(
            f"there is no {shown_text(name)[:80]!r} to filter by; the fields of the index are {', '.join(known)}"[:300]
        )
    field = known[name]
    if field is None or how.startswith("is "):
        return clause
    values = value if isinstance(value, list) else [value]
    kind = "" if field.dtype is None else field.dtype.kind
    if kind == "M" and all(isinstance(value, str) for value in values):
        try:
            values = [np.datetime64(value, "us") for value in values]
        except ValueError:
            raise ConfigError(f"{name} is a time: write it such as '2026-11-26T12:00'") from None
    elif kind and kind in "iuf" and not all(isinstance(value, (int, float)) for value in values):
        raise ConfigError(f"{name} is a number, and is compared with numbers")
    elif field.kind == "string" and not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{name} is text, and is compared with text: {name} == 'a'")
    elif kind == "b" and not all(isinstance(value, bool) for value in values):
        raise ConfigError(f"{name} is true or false")
    return name, how, values if isinstance(value, list) else values[0]
