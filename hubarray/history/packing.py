"""Long descriptions in a record, packed: of a thousand arrays most of the JSON repeats itself. Pure."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from hubarray.history.fields import Fields, parse_json

# What is shorter stays JSON that people and other programs read.
PACKED_FROM_BYTES = 64 << 10
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
    return base64.standard_b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def unpack(body: Fields, name: str) -> dict[str, Any]:
    """The object that a field of a record has packed, of whoever's making.

    Raises
    ------
    CorruptDataError
    """
    stream = zlib.decompressobj()
    try:
        packed = base64.b64decode(body.text(name), validate=True)
        # One byte more than there may be, so that the end is reached.
        plain = stream.decompress(packed, MAX_DESCRIPTION_BYTES + 1)
    except (ValueError, zlib.error):
        body.refuse(name, "is no base64 of a zlib stream")
    if len(plain) > MAX_DESCRIPTION_BYTES:
        body.refuse(name, f"holds more than the {MAX_DESCRIPTION_BYTES:,} bytes that a description may have")
    if not stream.eof or stream.unused_data:
        body.refuse(name, "is cut short, or goes on behind its end")
    if sum(map(plain.count, (b",", b"[", b"{"))) > MAX_DESCRIPTION_VALUES:
        body.refuse(name, f"holds more than {MAX_DESCRIPTION_VALUES:,} values")
    found = parse_json(plain, f"{body.where}: its field {name!r}")
    if not isinstance(found, dict):
        body.refuse(name, "holds no object")
    return found
