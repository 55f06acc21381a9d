"""Tables as a kind of version; see :class:`hubarray.api.registry.Kind`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.redaction import counted
from hubarray.tables.damage import affected, unreadable
from hubarray.tables.format.metadata import metadata_of
from hubarray.tables.handle import TableHandle, field_text
from hubarray.tables.index.diff import TableDiff, diff_tables, same_rows

__all__ = [
    "BORN_FROZEN", "affected", "check", "diff", "facts", "logical_bytes", "merge", "require_compactable",
    "same_state", "summary", "unreadable",
]  # fmt: skip

Side = tuple[Version, Record]

BORN_FROZEN = True


def check(record: Record) -> None:
    """Whether it describes a table."""
    metadata_of(record)


def diff(before: Side, after: Side, *, elements: bool, on: Sequence[str] | None) -> TableDiff:
    """Rows that were added, removed and changed, by their position in the partition or by ``on``, and which columns."""
    return diff_tables(before, after, on)


def same_state(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits hold the same rows."""
    if (old.head.generation, old.description, old.attrs) != (new.head.generation, new.description, new.attrs):
        return False
    return same_rows(version, old, new)


def summary(handle: TableHandle) -> tuple[str, str]:
    """Rows and fields."""
    return counted(len(handle), "row"), counted(len(handle.schema), "field")


def facts(handle: TableHandle) -> dict[str, Any]:
    """The schema, and what the rows take."""
    fields = {name: field_text(handle.schema, name) for name in handle.schema}
    return {"rows": len(handle), "partitions": handle.partition_count, "fields": fields, "stored_bytes": handle.nbytes}


def logical_bytes(record: Record) -> int:
    """Bytes of the blocks that its rows are in."""
    return sum(metadata_of(record).stored_bytes.values())


def require_compactable(version: Version) -> NoReturn:
    """A table's blocks stay where they are."""
    raise ConfigError(
        f"{version.name}: is a table; hub.write_index(index, name, move=True) writes its blocks next to each other"
    )


def merge(version: Version, record: Record, on_conflict: str | None) -> NoReturn:
    """Tables are not merged by history."""
    raise ConfigError(
        f"{version.name}: is a table, whose versions are not merged; hub.join joins indexes, and hub.write_index "
        "publishes the result"
    )
