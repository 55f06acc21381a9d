"""Long descriptions: compressed in the record, or in a node of their own, which is read when it is needed."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hubarray.errors import CorruptDataError
from hubarray.history.records.json_fields import Fields, parse_json
from hubarray.history.records.manifest import NodeRef
from hubarray.storage.base import Buffer

# What is shorter stays JSON that people and other programs read.
PACKED_FROM_BYTES = 64 << 10
# What is still longer when it is packed is a node of its own, so that a commit that leaves it alone is short.
NODE_FROM_BYTES = 64 << 10
MAX_DESCRIPTION_BYTES = 8 << 20
# Of the ten thousand arrays that a dataset may have: what is parsed takes many times as much as its text.
MAX_DESCRIPTION_VALUES = 600_000
MAX_DESCRIPTION_NODE_BYTES = 9 << 20
"""A description's zlib stream: values that cannot be compressed take more than they have."""


def pack(text: str) -> str:
    """JSON in ASCII as base64 of a zlib stream.

    Examples
    --------
    >>> unpack(Fields({"array_zlib": pack('{"shape":[3]}')}, "a record"), "array_zlib")
    {'shape': [3]}
    """
    return base64.standard_b64encode(deflated(text)).decode("ascii")


# Whether it is to be a node shows only when it is compressed; what stays in the record is then wanted again.
@functools.lru_cache(maxsize=1)
def deflated(text: str) -> bytes:
    """JSON in ASCII as a zlib stream."""
    return zlib.compress(text.encode("ascii"), 6)


def unpack(body: Fields, name: str) -> dict[str, Any]:
    """Return the object that a field of an untrusted record has packed.

    Raises
    ------
    CorruptDataError
    """
    try:
        packed = base64.b64decode(body.text(name), validate=True)
    except ValueError:
        body.refuse(name, "is not base64")
    return inflated(packed, f"{body.where}: its field {name!r}")


def inflated(packed: bytes, where: str) -> dict[str, Any]:
    """Return the object in an untrusted zlib stream.

    Parameters
    ----------
    packed : bytes
    where : str
        How errors name it.

    Raises
    ------
    CorruptDataError
    """
    stream = zlib.decompressobj()
    try:
        # One byte more than there may be, so that the end is reached.
        plain = stream.decompress(packed, MAX_DESCRIPTION_BYTES + 1)
    except zlib.error:
        raise _no_description(where, "is not a zlib stream") from None
    if len(plain) > MAX_DESCRIPTION_BYTES:
        raise _no_description(where, f"holds more than the {MAX_DESCRIPTION_BYTES:,} bytes that a description may have")
    if not stream.eof or stream.unused_data:
        raise _no_description(where, "is cut short, or continues after its end")
    if sum(map(plain.count, (b",", b"[", b"{"))) > MAX_DESCRIPTION_VALUES:
        raise _no_description(where, f"holds more than {MAX_DESCRIPTION_VALUES:,} values")
    parsed = parse_json(plain, where)
    if not isinstance(parsed, dict):
        raise _no_description(where, "is not an object")
    return parsed


def _no_description(where: str, what: str) -> CorruptDataError:
    return CorruptDataError(f"{where}: {what}; its writer did not follow the format; restore it from a copy")


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
            raise TypeError("this description was decoded without a way to load it")
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
