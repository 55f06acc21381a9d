"""The service column of an index: row numbers, under a name that says of which table. Pure.

``hubarray:lab/drives:v1@3:<commit id>:on=<merge>l.log_id&on=<merge>l.frame&suffix=_a;`` and whatever pandas or polars
put behind it when a table was merged with itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from hubarray import names
from hubarray.blobs.ref import ID_TEXT
from hubarray.errors import ConfigError, InvalidNameError
from hubarray.names import Name
from hubarray.redaction import shown_text
from hubarray.tables.format.schema import SERVICE_PREFIX

_MAX_LETTERS = 16 << 10
# What pandas puts behind a name: any letters, but none that no name is shown with.
_SUFFIX = re.compile(r"[^\x00-\x1f\x7f;]{0,64}")
_MERGE = re.compile(r"[0-9a-f]{16}[lr]")

# A merge and the side of it that a table was on, and a field that it was merged on.
Link = tuple[str, str]


@dataclass(frozen=True)
class ServiceColumn:
    """The name of a service column.

    Attributes
    ----------
    table : Name
        With the number of the commit.
    id : str
        The id of the commit.
    on : tuple of (str, str)
        A merge, with the side of it that the table was on, and a field: rows of the other side's tables that it put
        beside the table's have the same values there. In the order of the merges; without a field where nothing is
        known of neighbours.
    suffix : str
        Follows the names of the table's fields that another table has, too.
    """

    table: Name
    id: str
    on: tuple[Link, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        said = [("on", f"{merge}.{field}") for merge, field in self.on]
        said += [("suffix", self.suffix)] if self.suffix else []
        return f"{SERVICE_PREFIX}{self.table}:{self.id}:{urlencode(said)};"

    def merged(self, on: Iterable[Link], *, suffix: str) -> ServiceColumn:
        """The column after a merge that linked it so."""
        known = (*self.on, *(name for name in on if name not in self.on))
        return replace(self, on=known, suffix=self.suffix + suffix)


def merge_id(keys: Iterable[str], *sides: Iterable[ServiceColumn]) -> str:
    """The name of a merge: the same for parts of the same indexes, so that what was merged of them can be joined."""
    said = [[f"{entry.table}:{entry.id}:{entry.suffix}" for entry in side] for side in sides]
    return _digest(repr([list(keys), *map(sorted, said)]))


def other_side(merge: str) -> str:
    """A merge as the tables of its other side have it."""
    return merge[:-1] + ("r" if merge[-1] == "l" else "l")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_service(column: Any) -> bool:
    """Whether a column's name is a service column's."""
    return isinstance(column, str) and column.startswith(SERVICE_PREFIX)


def parse(column: str) -> ServiceColumn:
    """A service column by its name, which may come from anywhere.

    Raises
    ------
    ConfigError
    """
    text, semicolon, suffix = column.removeprefix(SERVICE_PREFIX).rpartition(";")
    name, _, said = text.rpartition(":")
    name, _, commit_id = name.rpartition(":")
    try:
        table = names.parse(name, commit_allowed=True)
        pairs = parse_qsl(said, strict_parsing=True, max_num_fields=4096) if said else []
    except (InvalidNameError, ValueError):
        table, pairs = None, []
    whole = bool(semicolon) and len(column) <= _MAX_LETTERS and table is not None and table.commit is not None
    # "nearest", and fields without a merge, are said by older indexes, whose rows are read one by one.
    known = all(key in ("on", "suffix", "nearest") for key, _ in pairs)
    if table is None or not whole or not known or not ID_TEXT.fullmatch(commit_id) or not _SUFFIX.fullmatch(suffix):
        raise ConfigError(
            f"the column {shown_text(column)[:120]!r} is not a row number of a table; read the index again"
        )
    links = (value.partition(".")[::2] for key, value in pairs if key == "on")
    # A suffix of pandas is of both sides of one merge and not of the other's: links do not reach across.
    on = tuple(
        (_digest(merge[:-1] + suffix) + merge[-1] if suffix else merge, field)
        for merge, field in links
        if _MERGE.fullmatch(merge)
    )
    own = next((value for key, value in pairs if key == "suffix"), "")
    return ServiceColumn(table, commit_id, on, own + suffix)
