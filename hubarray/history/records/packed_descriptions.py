"""Long descriptions, packed: of a thousand arrays most of the JSON repeats itself. Pure."""

from __future__ import annotations

import base64
import functools
import zlib
from typing import Any

from hubarray.errors import CorruptDataError
from hubarray.history.records.json_fields import Fields, parse_json

# What is shorter stays JSON that people and other programs read.
PACKED_FROM_BYTES = 64 << 10
# What is still longer when it is packed is a node of its own, so that a commit that leaves it alone is short.
NODE_FROM_BYTES = 64 << 10
MAX_DESCRIPTION_BYTES = 8 << 20
# Of the ten thousand arrays that a dataset may have: what is parsed takes many times as much as its text.
MAX_DESCRIPTION_VALUES = 600_000


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
        body.refuse(name, "is no base64")
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
        raise _no_description(where, "is no zlib stream") from None
    if len(plain) > MAX_DESCRIPTION_BYTES:
        raise _no_description(where, f"holds more than the {MAX_DESCRIPTION_BYTES:,} bytes that a description may have")
    if not stream.eof or stream.unused_data:
        raise _no_description(where, "is cut short, or goes on behind its end")
    if sum(map(plain.count, (b",", b"[", b"{"))) > MAX_DESCRIPTION_VALUES:
        raise _no_description(where, f"holds more than {MAX_DESCRIPTION_VALUES:,} values")
    found = parse_json(plain, where)
    if not isinstance(found, dict):
        raise _no_description(where, "holds no object")
    return found


def _no_description(where: str, what: str) -> CorruptDataError:
    return CorruptDataError(f"{where}: {what}; whoever wrote it did not follow the format: restore it from a copy")
