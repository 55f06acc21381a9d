"""Descriptions that are too long for a record: a separate node, which is read when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.packed_descriptions import inflated
from hubarray.storage.base import Buffer

MAX_DESCRIPTION_NODE_BYTES = 9 << 20
"""A description's zlib stream: values that cannot be compressed take more than they have."""


@dataclass(frozen=True)
class LongDescription:
    """The description that a node has.

    Attributes
    ----------
    node : NodeRef
    load : callable or None
        Gives the node's verified bytes. A record that was only decoded has none.
    where : callable or None
        How errors name a key.
    """

    node: NodeRef
    load: Callable[[NodeRef], Buffer] | None = field(default=None, compare=False, repr=False)
    where: Callable[[str], str] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def value(self) -> dict[str, Any]:
        """The description; the first time it costs a request, or none where a cache has the node.

        Raises
        ------
        CorruptDataError
            It is gone, altered, or no description; the node's key is named.
        """
        if self.load is None or self.where is None:
            raise TypeError("nobody said how to load it")
        return inflated(bytes(self.load(self.node)), self.where(self.node.key))

    @property
    def is_read(self) -> bool:
        """Whether :attr:`value` costs nothing."""
        return "value" in self.__dict__

    def loaded_by(self, load: Callable[[NodeRef], Buffer], where: Callable[[str], str]) -> LongDescription:
        """The same, which can be read."""
        return replace(self, load=load, where=where)

    @classmethod
    def of(cls, node: NodeRef, value: dict[str, Any]) -> LongDescription:
        """One that was just written, and need not be read."""
        made = cls(node)
        made.__dict__["value"] = value
        return made
