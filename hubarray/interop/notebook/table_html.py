"""How a table shows itself in a notebook: its fields, and thumbnails of its first images."""

from __future__ import annotations

import base64
import html
from typing import Any

import numpy as np

from hubarray.errors import HubError
from hubarray.interop.notebook.html import STYLE, human_bytes
from hubarray.redaction import shown_text
from hubarray.tables.handle import TableHandle

_SHOWN_FIELDS = 40
_THUMBNAILS = 4
_THUMBNAIL_PIXELS = 96
_MAX_THUMBNAIL_BYTES = 8 << 20
_SHOWN_LETTERS = 200


def describe(table: TableHandle) -> str:
    """A table's description for notebooks. Costs one request for rows of its first image field, if it has one."""
    try:
        facts = {
            "rows": f"{len(table):,}",
            "stored": human_bytes(table.nbytes),
            "commit": str(table.commit),
            "root": table.root.url,
            **{f"attribute {name}": str(value) for name, value in list(table.attrs.items())[:_SHOWN_FIELDS]},
        }
    except HubError as error:
        return f"<div class='hubarray'>{STYLE}<header>hubarray.Table</header>{_safe(str(error))}</div>"
    state = "frozen" if table.frozen else "growing"
    rows = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts.items())
    lines = repr(table).splitlines()[1:]
    fields = "".join(f"<tr><td><code>{_safe(line.strip())}</code></td></tr>" for line in lines)
    return (
        f"<div class='hubarray'>{STYLE}<header><b>hubarray.Table</b> {_safe(f'{table.name}:{table.version}')} "
        f"<span>{state}</span></header><table>{rows}</table>"
        f"<details open><summary>Fields ({len(table.schema)})</summary><table>{fields}</table></details>"
        f"{_thumbnails(table)}</div>"
    )


def _thumbnails(table: TableHandle) -> str:
    name = next((one for one in table.schema if table.schema[one].is_image), None)
    if name is None or not len(table) or _THUMBNAILS * table.nbytes / len(table) > _MAX_THUMBNAIL_BYTES:
        return ""
    try:
        from imagecodecs import png_encode

        # The first ones, which lie side by side.
        rows = table.loader().get_batch(range(min(_THUMBNAILS, len(table))), [name])
        return "".join(_thumbnail(png_encode, row[name]) for row in rows if row[name] is not None)
    except (HubError, ImportError):
        return ""


def _thumbnail(encode: Any, image: np.ndarray) -> str:
    step = max(1, -(-max(image.shape[:2]) // _THUMBNAIL_PIXELS))
    small = np.ascontiguousarray(image[::step, ::step])
    data = base64.b64encode(encode(small)).decode()
    return f"<img src='data:image/png;base64,{data}' style='margin:.2em' alt=''>"


def _safe(text: str) -> str:
    shown = shown_text(text)
    return html.escape(shown if len(shown) <= _SHOWN_LETTERS else f"{shown[:_SHOWN_LETTERS]}...")
