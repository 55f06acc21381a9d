"""A source that a table is imported from: a schema, and for each partition what gives its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hubarray.progress import announce
from hubarray.redaction import shown_text
from hubarray.tables.format.schema import Schema

ALL = "all"
"""The key of what is one partition as a whole."""

Rows = Iterable[Any]


@dataclass(frozen=True)
class TableImport:
    """A source that was opened.

    Attributes
    ----------
    schema : Schema
    partitions : mapping of key to callable
        Gives what :meth:`hubarray.PartitionWriter.extend` takes.
    guessed : bool
        Whether the schema was, from what is there.
    attrs : mapping
        Attributes for the table.
    """

    schema: Schema
    partitions: Mapping[str | int, Callable[[], Rows]]
    guessed: bool
    attrs: Mapping[str, Any] = field(default_factory=dict)


def taken(columns: Collection[str], schema: Schema | None, where: str, *, key: str | None = None) -> list[str]:
    """The columns that a given schema knows; the others are left out, and said, but for the one that is the key."""
    if schema is None:
        return list(columns)
    others = [name for name in columns if name not in schema and name != key]
    if others:
        shown = ", ".join(repr(shown_text(name)) for name in others[:10])
        announce(f"{where}: the schema has no {shown}{' and more' if len(others) > 10 else ''}; left out")
    return [name for name in columns if name in schema]
