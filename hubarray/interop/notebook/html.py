"""How an array shows itself in a notebook."""

from __future__ import annotations

import base64
import html
import json
import math
from datetime import datetime

from hubarray import names
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.handle import ArrayHandle
from hubarray.errors import HubError
from hubarray.history.log import listing
from hubarray.interop.pictures import drawing, recognition
from hubarray.redaction import shown_text
from hubarray.values import packing

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHOWN_VERSIONS = 8
_LOOKED_AT = 16
_SHOWN_FACTS = 50
_SHOWN_LETTERS = 300
# Nothing but the text's own colour, so that light and dark themes look right.
STYLE = (
    "<style>.hubarray{font-size:.9em;line-height:1.5}.hubarray header{border-bottom:1px solid;padding:.2em 0}"
    ".hubarray header span{opacity:.7;margin-left:.5em}.hubarray table{border-collapse:collapse;background:none}"
    ".hubarray th{text-align:left;font-weight:normal;opacity:.7;padding:0 1em 0 0;background:none;vertical-align:top}"
    ".hubarray td{text-align:left;padding:0;background:none}.hubarray summary{cursor:pointer}</style>"
)
_COUNTED_CHUNKS = 100_000
_THUMBNAILS = 4
_THUMBNAIL_PIXELS = 96
_MAX_THUMBNAIL_BYTES = 4 << 20


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


def describe(array: ArrayHandle) -> str:
    """An array's description for notebooks, in the notebook's own colours.

    Costs a listing of the name's versions, a look at up to 16 of them, manifest nodes, and of images one chunk.
    """
    try:
        record = array.state().record
    except HubError as error:
        return f"<div class='hubarray'>{STYLE}<header>{_safe(repr(array))}</header>{_safe(str(error))}</div>"
    counted = math.prod(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)) <= _COUNTED_CHUNKS
    stored = human_bytes(array.stored_bytes()) if counted else "not counted: hubarray du counts it"
    state = "fixed at this commit" if array.fixed else "frozen" if record.head.frozen else "writable"
    head = record.head
    made = f"{head.number}, {datetime.fromisoformat(head.time):%Y-%m-%d %H:%M} UTC"
    facts = {
        "shape": str(array.shape),
        "dims": ", ".join(one or "-" for one in array.dims) if any(array.dims) else "",
        "dtype": str(array.dtype),
        "chunks": str(array.chunks),
        "codecs": ", ".join(one["name"] for one in array.codec) + (" (lossy)" if is_lossy(array.codec) else ""),
        "packed": packing.told(array.attrs, array.dtype),
        "fill value": str(array.fill_value),
        "in memory": human_bytes(array.nbytes),
        "in the bucket": stored,
        "last commit": f"{made}, {head.author}: {head.message}",
        "versions": ", ".join(_live_versions(array)),
        "root": array.root.url,
    }
    title = f"{array.name}:{array.version}@{record.head.number}"
    return (
        f"<div class='hubarray'>{STYLE}<header><b>hubarray.Array</b> {_safe(title)} "
        f"<span>{_safe(state)}</span></header>{_table(facts)}"
        f"{_folded('Tags', {tag: f'@{number}' for tag, number in sorted(record.tags.items())})}"
        f"{_folded('Attributes', {name: json.dumps(value) for name, value in record.attrs.items()})}"
        f"{thumbnails(array)}</div>"
    )


def thumbnails(array: ArrayHandle) -> str:
    """The first images, or those in the middle of a volume, of one chunk: at most one request.

    Empty where there are none, or none that small.
    """
    if array.ndim not in (2, 3, 4) or not array.size or array.dtype.kind not in "buif":
        return ""
    is_one = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    shape = array.shape if is_one else array.shape[1:]
    covered = array.chunks if is_one else array.chunks[1:]
    state = array.state()
    if any(c < n for c, n in zip(covered, shape, strict=True)) or state.metadata.chunk_bytes > _MAX_THUMBNAIL_BYTES:
        return ""
    if len(state.record.overlay) == 0 and state.record.manifest is None:
        return ""
    try:
        # The first slices of a volume are often empty.
        first = len(array) // 2 // array.chunks[0] * array.chunks[0] if array.ndim == 3 and not is_one else 0
        if not state.refs([(first // array.chunks[0], *(0,) * (array.ndim - 1))])["length"].any():
            return ""
        found = [array[...]] if is_one else list(array[first : first + min(_THUMBNAILS, array.chunks[0])])
        shown = [
            drawing.thumbnail(recognition.pixels(one, array.dims[-1]), _THUMBNAIL_PIXELS)
            for one in found
            if recognition.is_image(one)
        ]
    except HubError:
        return ""
    return "".join(
        f"<img src='data:image/png;base64,{base64.b64encode(one).decode()}' style='margin:.2em' alt=''>"
        for one in shown
    )


def _live_versions(array: ArrayHandle) -> list[str]:
    """The versions that exist, of those that are listed first."""
    own = names.parse(f"{array.name}:{array.version}")
    try:
        there = listing.versions_of(array.root.store, own)
        live = [one.version for one in there[:_LOOKED_AT] if one == own or _is_live(array, one)]
    except (HubError, OSError):
        return [array.version]
    return live[:_SHOWN_VERSIONS] + (["..."] if len(live) > _SHOWN_VERSIONS or len(there) > _LOOKED_AT else [])


def _is_live(array: ArrayHandle, name: names.Name) -> bool:
    try:
        return listing.is_live(array.root.store, name)
    except (HubError, OSError):
        return False


def _folded(title: str, facts: dict[str, str]) -> str:
    if not facts:
        return ""
    shown = dict(list(facts.items())[:_SHOWN_FACTS])
    return f"<details><summary>{title} ({len(facts)})</summary>{_table(shown)}</details>"


def _table(facts: dict[str, str]) -> str:
    rows = (f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts.items() if value)
    return f"<table>{''.join(rows)}</table>"


def _safe(text: str) -> str:
    shown = shown_text(text)
    return html.escape(shown if len(shown) <= _SHOWN_LETTERS else f"{shown[:_SHOWN_LETTERS]}...")
