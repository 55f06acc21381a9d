"""How a dataset shows itself in a notebook: its arrays and dimensions, and its first images."""

from __future__ import annotations

import html

from hubarray.arrays.codecs.dtypes import dtype_name
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import HubError
from hubarray.interop.notebook.html import STYLE, human_bytes, thumbnails
from hubarray.interop.pictures import recognition
from hubarray.redaction import several, shown_text

_SHOWN_ARRAYS = 50
_SHOWN_LETTERS = 200


def describe(dataset: DatasetHandle) -> str:
    """A dataset's description for notebooks. Costs one request for the images that are shown, if there are any."""
    try:
        arrays, attrs, dims = dataset.arrays, dict(dataset.attrs), dataset.dims
    except HubError as error:
        return f"<div class='hubarray'>{STYLE}<header>hubarray.Dataset</header>{_safe(str(error))}</div>"
    facts = {
        "dimensions": ", ".join(f"{dim}: {length:,}" for dim, length in dims.items()),
        "in memory": human_bytes(dataset.nbytes),
        "commit": str(dataset.commit),
        "root": dataset.root.url,
        **{f"attribute {name}": str(value) for name, value in list(attrs.items())[:_SHOWN_ARRAYS]},
    }
    rows = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts.items() if value)
    listed = "".join(
        f"<tr><th>{_safe(name)}</th><td>{_safe(dtype_name(one.dtype))} {_safe(str(one.shape))}</td></tr>"
        for name, one in list(arrays.items())[:_SHOWN_ARRAYS]
    )
    more = len(arrays) - _SHOWN_ARRAYS
    return (
        f"<div class='hubarray'>{STYLE}<header><b>hubarray.Dataset</b> {_safe(f'{dataset.name}:{dataset.version}')} "
        f"<span>{'frozen' if dataset.frozen else 'writable'}</span></header><table>{rows}</table>"
        f"<details open><summary>{several(len(arrays), 'array').capitalize()}</summary><table>{listed}</table>"
        f"{f'and {more:,} more' if more > 0 else ''}</details>{_images(dataset)}</div>"
    )


def _images(dataset: DatasetHandle) -> str:
    """The first images of the first array that has some, of those that are listed."""
    among = list(dataset.arrays.values())[:_SHOWN_ARRAYS]
    likely = [
        one
        for one in among
        if any(recognition.may_be_image(shape, one.dtype.kind) for shape in (one.shape, one.shape[1:]))
    ]
    return next(filter(None, map(thumbnails, likely[:1])), "")


def _safe(text: str) -> str:
    shown = shown_text(text)
    return html.escape(shown if len(shown) <= _SHOWN_LETTERS else f"{shown[:_SHOWN_LETTERS]}...")
