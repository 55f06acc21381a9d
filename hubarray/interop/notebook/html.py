"""How arrays, datasets and tables show themselves in notebooks."""

from __future__ import annotations

import base64
import html
import itertools
import json
import math
from datetime import datetime

import numpy as np

from hubarray import names
from hubarray.arrays.codecs.dtypes import dtype_name
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import HubError
from hubarray.history.log import listing
from hubarray.interop.pictures import drawing, recognition
from hubarray.redaction import counted, shown_text
from hubarray.tables.handle import TableHandle
from hubarray.values import packing

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHOWN_VERSIONS = 8
_LOOKED_AT = 16
_SHOWN_FACTS = 50
_SHOWN_ARRAYS = 50
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
_MAX_CHUNK_BYTES = 4 << 20
_MAX_ROWS_BYTES = 8 << 20


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


def describe_array(array: ArrayHandle) -> str:
    """Describe an array in HTML, in the notebook's own colours.

    Costs a listing of the name's versions, a look at up to 16 of them, manifest nodes, and of images one chunk.
    """
    try:
        record = snapshot_of(array).record
    except HubError as error:
        return _failed(repr(array), error)
    counted = math.prod(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)) <= _COUNTED_CHUNKS
    stored = human_bytes(array.stored_bytes()) if counted else "not counted: hubarray du counts it"
    state = "fixed at this commit" if array.fixed else "frozen" if record.head.frozen else "writable"
    head = record.head
    made = f"{head.number}, {datetime.fromisoformat(head.time):%Y-%m-%d %H:%M} UTC"
    facts = {
        "shape": str(array.shape),
        "dims": ", ".join(dim or "-" for dim in array.dims) if any(array.dims) else "",
        "dtype": str(array.dtype),
        "chunks": str(array.chunks),
        "codecs": ", ".join(codec["name"] for codec in array.codec) + (" (lossy)" if is_lossy(array.codec) else ""),
        "packed": packing.described(array.attrs, array.dtype),
        "fill value": str(array.fill_value),
        "in memory": human_bytes(array.nbytes),
        "in the bucket": stored,
        "last commit": f"{made}, {head.author}: {head.message}",
        "versions": ", ".join(_live_versions(array)),
        "root": array.root.url,
    }
    title = f"{array.name}:{array.version}@{record.head.number}"
    tags = {tag: f"@{number}" for tag, number in sorted(record.tags.items())}
    attrs = {name: json.dumps(value) for name, value in record.attrs.items()}
    folded = _folded("Tags", tags) + _folded("Attributes", attrs)
    return _described("Array", title, state, f"{_table(facts)}{folded}{thumbnails(array)}")


def describe_dataset(dataset: DatasetHandle) -> str:
    """Describe a dataset in HTML. Costs one request for the images that are shown, if there are any."""
    try:
        arrays, attrs, dims = dataset.arrays, dict(dataset.attrs), dataset.dims
    except HubError as error:
        return _failed("hubarray.Dataset", error)
    facts = {
        "dimensions": ", ".join(f"{dim}: {length:,}" for dim, length in dims.items()),
        "in memory": human_bytes(dataset.nbytes),
        "commit": str(dataset.commit),
        "root": dataset.root.url,
        **{f"attribute {name}": str(value) for name, value in list(attrs.items())[:_SHOWN_FACTS]},
    }
    shown = list(arrays.items())[:_SHOWN_ARRAYS]
    listed = _table({name: f"{dtype_name(array.dtype)} {array.shape}" for name, array in shown})
    more = f"and {len(arrays) - len(shown):,} more" if len(arrays) > len(shown) else ""
    title = counted(len(arrays), "array").capitalize()
    likely = (
        array
        for _, array in shown
        if any(recognition.may_be_image(shape, array.dtype.kind) for shape in (array.shape, array.shape[1:]))
    )
    images = "".join(map(thumbnails, itertools.islice(likely, 1)))
    return _described(
        "Dataset",
        f"{dataset.name}:{dataset.version}",
        "frozen" if dataset.frozen else "writable",
        f"{_table(facts)}<details open><summary>{title}</summary>{listed}{more}</details>{images}",
    )


def describe_table(table: TableHandle) -> str:
    """Describe a table in HTML. Costs one request for rows of its first image field, if it has one."""
    try:
        facts = {
            "rows": f"{len(table):,}",
            "stored": human_bytes(table.nbytes),
            "commit": str(table.commit),
            "root": table.root.url,
            **{f"attribute {name}": str(value) for name, value in list(table.attrs.items())[:_SHOWN_FACTS]},
        }
    except HubError as error:
        return _failed("hubarray.Table", error)
    lines = repr(table).splitlines()[1:]
    fields = "".join(f"<tr><td><code>{_safe(line.strip())}</code></td></tr>" for line in lines)
    return _described(
        "Table",
        f"{table.name}:{table.version}",
        "frozen" if table.frozen else "growing",
        f"{_table(facts)}<details open><summary>Fields ({len(table.schema)})</summary><table>{fields}</table></details>"
        f"{_table_thumbnails(table)}",
    )


def _described(kind: str, title: str, state: str, body: str) -> str:
    header = f"<header><b>hubarray.{kind}</b> {_safe(title)} <span>{_safe(state)}</span></header>"
    return f"<div class='hubarray'>{STYLE}{header}{body}</div>"


def _failed(title: str, error: Exception) -> str:
    return f"<div class='hubarray'>{STYLE}<header>{_safe(title)}</header>{_safe(str(error))}</div>"


def thumbnails(array: ArrayHandle) -> str:
    """The first images, or those in the middle of a volume, of one chunk: at most one request.

    Empty where there are none, or none that small.
    """
    if array.ndim not in (2, 3, 4) or not array.size or array.dtype.kind not in "buif":
        return ""
    is_one = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    shape = array.shape if is_one else array.shape[1:]
    covered = array.chunks if is_one else array.chunks[1:]
    state = snapshot_of(array)
    if any(c < n for c, n in zip(covered, shape, strict=True)) or state.metadata.chunk_bytes > _MAX_CHUNK_BYTES:
        return ""
    if len(state.record.overlay) == 0 and state.record.manifest is None:
        return ""
    try:
        # The first slices of a volume are often empty.
        first = len(array) // 2 // array.chunks[0] * array.chunks[0] if array.ndim == 3 and not is_one else 0
        if not state.refs([(first // array.chunks[0], *(0,) * (array.ndim - 1))])["length"].any():
            return ""
        samples = [array[...]] if is_one else list(array[first : first + min(_THUMBNAILS, array.chunks[0])])
        return "".join(_thumbnail(image, array.dims[-1]) for image in samples if recognition.is_image(image))
    except HubError:
        return ""


def _table_thumbnails(table: TableHandle) -> str:
    name = next((field for field in table.schema if table.schema[field].is_image), None)
    if name is None or not len(table) or _THUMBNAILS * table.nbytes / len(table) > _MAX_ROWS_BYTES:
        return ""
    try:
        # The first rows, which lie side by side.
        rows = table.loader().get_batch(range(min(_THUMBNAILS, len(table))), [name])
        return "".join(_thumbnail(row[name]) for row in rows if row[name] is not None)
    except HubError:
        return ""


def _thumbnail(image: np.ndarray, last_dim: str | None = None) -> str:
    data = base64.b64encode(drawing.thumbnail(recognition.pixels(image, last_dim), _THUMBNAIL_PIXELS)).decode()
    return f"<img src='data:image/png;base64,{data}' style='margin:.2em' alt=''>"


def _live_versions(array: ArrayHandle) -> list[str]:
    """The versions that exist, of those that are listed first."""
    own = names.parse(f"{array.name}:{array.version}")
    try:
        versions = listing.versions_of(array.root.store, own)
        live = [version.version for version in versions[:_LOOKED_AT] if version == own or _is_live(array, version)]
    except (HubError, OSError):
        return [array.version]
    return live[:_SHOWN_VERSIONS] + (["..."] if len(live) > _SHOWN_VERSIONS or len(versions) > _LOOKED_AT else [])


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
