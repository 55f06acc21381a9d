"""Descriptions that were checked before: records are opened again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from hubarray.bounded_dict import BoundedDict
from hubarray.history.records.long_descriptions import LongDescription
from hubarray.history.records.record import Record

_MAX_REMEMBERED = 256

T = TypeVar("T")


class Descriptions(Generic[T]):
    """The checked descriptions of records, by their digests, or by the nodes that have them.

    Parameters
    ----------
    read : callable
        Checks and decodes the description of a record.
    max_remembered : int
    """

    def __init__(self, read: Callable[[Record], T], *, max_remembered: int = _MAX_REMEMBERED) -> None:
        self._read = read
        self._known: dict[str, T] = BoundedDict(max_remembered)

    def of(self, record: Record) -> T:
        """A record's description; a record that is not written yet has no digest, and is read each time."""
        key = _key(record)
        known = self._known.get(key)
        if known is None:
            known = self._read(record)
            if key:
                self._known[key] = known
        return known

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()


def _key(record: Record) -> str:
    """A key that no other description has; empty where there is none."""
    if record.digest and isinstance(record.described, LongDescription):
        # Many commits have the same.
        node = record.described.node
        return f"{record.head.kind} {record.grid} {node.key} {node.digest.hex()}"
    return record.digest
