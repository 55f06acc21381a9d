"""How an array shows itself in a notebook."""

from __future__ import annotations

import html
import math

from hubarray import names
from hubarray.arrays.array import Array
from hubarray.errors import HubError
from hubarray.history import listing
from hubarray.history.record import Record
from hubarray.history.version import Version

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHOWN_VERSIONS = 8
_COUNTED_CHUNKS = 100_000


def human_bytes(count: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> human_bytes(1_234_567)
    '1.2 MB'
    """
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def stored_bytes(version: Version, record: Record) -> int:
    """What the chunks of a record take in the bucket; each chunk of a copy is counted too, though it is stored once."""
    return sum(int(refs["length"].sum()) for _, refs in version.present(record, batch_bytes=64 << 20))


def describe(array: Array) -> str:
    """A table of an array's description; costs a listing of the name's versions and manifest nodes, no data."""
    record = array._record()
    counted = math.prod(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)) <= _COUNTED_CHUNKS
    stored = human_bytes(stored_bytes(array._version, record)) if counted else "not counted: hubarray du counts it"
    try:
        there = [
            one.version for one in listing.versions_of(array.root.store, names.parse(f"{array.name}:{array.version}"))
        ]
    except HubError:
        there = [array.version]
    shown = ", ".join(there[:_SHOWN_VERSIONS]) + (", ..." if len(there) > _SHOWN_VERSIONS else "")
    rows = {
        "shape": str(array.shape),
        "dtype": str(array.dtype),
        "chunks": str(array.chunks),
        "in memory": human_bytes(array.nbytes),
        "in the bucket": stored,
        "commit": f"{array.commit}{' (frozen)' if array.frozen else ''}",
        "versions": shown,
        "root": array.root.url,
    }
    cells = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
        if value
    )
    return f"<table><caption>{html.escape(f'{array.name}:{array.version}')}</caption>{cells}</table>"
