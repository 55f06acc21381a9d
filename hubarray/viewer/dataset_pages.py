"""Datasets: which arrays there are, and which of them share samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hubarray.arrays.codecs.dtypes import dtype_name
from hubarray.errors import ConfigError, HubError
from hubarray.redaction import shown_text, with_article
from hubarray.viewer import values
from hubarray.viewer.decode_slot import turn
from hubarray.viewer.handle_cache import Opened, title
from hubarray.viewer.parameters import Query
from hubarray.viewer.values import MAX_SIDE, attributes, physical

_MAX_ARRAYS = 10_000
_MAX_VALUES = 48
_MAX_SAMPLE_BYTES = 64 << 20


def dataset(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about a dataset."""
    opened_dataset = _opened(opened, query)
    arrays = [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": dtype_name(array.dtype),
            "dims": [dim or "" for dim in array.dims],
        }
        for name, array in list(opened_dataset.arrays.items())[:_MAX_ARRAYS]
    ]
    try:
        samples = opened_dataset.samples()
    except ConfigError:
        samples = []
    rows = len(opened_dataset[samples[0]]) if samples else 0
    return {
        "name": title(opened_dataset),
        "arrays": arrays,
        "samples": samples,
        "rows": rows,
        "attrs": attributes(opened_dataset.attrs),
    }


def _sample(dataset: Any, key: str, at: int) -> Any:
    array = dataset[key]
    if not array.ndim or not 0 <= at < len(array):
        raise ConfigError(f"{key}: there is no sample {at:,}")
    if math.prod(array.shape[1:]) * array.dtype.itemsize > _MAX_SAMPLE_BYTES:
        raise ConfigError(f"{key}: a sample is larger than {_MAX_SAMPLE_BYTES >> 20} MiB; look at the array itself")
    with turn(math.prod(array.chunks) * array.dtype.itemsize):
        return physical(array, array[at])


def sample(opened: Opened, query: Query) -> dict[str, Any]:
    """One sample: a value of each array that begins with the dimension they share."""
    dataset = _opened(opened, query)
    at = query.integer("row", 0, 1 << 53, 0)
    try:
        every = dataset.samples()
    except ConfigError:
        every = []
    first = query.integer("first", 0, _MAX_ARRAYS, 0)
    names = every[first : first + _MAX_VALUES]
    cells = []
    for name in names:
        try:
            cells.append(values.about(name, _sample(dataset, name, at)))
        except HubError as error:
            # The others are there all the same.
            cells.append({"name": name, "text": shown_text(str(error)), "is": "broken"})
    broken = any(cell.get("is") == "broken" for cell in cells)
    return {"row": at, "broken": broken, "values": values.overlaid(cells), "first": first, "total": len(every)}


def image(opened: Opened, query: Query) -> bytes:
    """One array's sample as PNG."""
    key, value = _asked(opened, query)
    return values.picture(key, value, query.integer("side", 16, MAX_SIDE, 512))


def points(opened: Opened, query: Query) -> bytes:
    """One array's sample as points."""
    return values.points(*_asked(opened, query))


def _asked(opened: Opened, query: Query) -> tuple[str, np.ndarray]:
    dataset, key = _opened(opened, query), query.text("field", most=300)
    if key not in dataset:
        raise ConfigError("there is no such array")
    return key, np.asarray(_sample(dataset, key, query.integer("row", 0, 1 << 53, 0)))


def _opened(opened: Opened, query: Query) -> Any:
    dataset = opened.handle(query.text("name"))
    if dataset.kind != "dataset":
        raise ConfigError(f"{title(dataset)}: is {with_article(dataset.kind)} and no dataset")
    return dataset
