"""Values as JSON has them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.redaction import shown_text
from hubarray.values.attributes import checked_attrs, plain_value

log = logging.getLogger("hubarray.interop")


def plain_json(value: Any) -> Any:
    """The value with words for what JSON has no numbers for, as in Zarr's fill values, and pairs for complex numbers.

    Examples
    --------
    >>> plain_json({"fill": float("nan"), "range": (0.0, float("inf"))})
    {'fill': 'NaN', 'range': [0.0, 'Infinity']}
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return [plain_json(value.real), plain_json(value.imag)]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Mapping):
        return {str(key): plain_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(inner) for inner in value]
    return value


def fitting_attrs(where: str, own: Mapping[str, Any], new: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the attributes of a source that fit beside the given ones. A warning names what is left out.

    Raises
    ------
    ConfigError
        Those that were given do not fit.
    """
    named = {str(name): plain_value(value, text_of_bytes=True) for name, value in own.items()}
    for name in sorted(named, key=lambda key_name: len(json.dumps(named[key_name])), reverse=True):
        try:
            return checked_attrs(named | dict(new or {}))
        except ConfigError:
            log.warning("%s: its attribute %s is too large, and left out", where, shown_text(name))
            del named[name]
    return checked_attrs(new)
