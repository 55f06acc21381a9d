"""Something like an array that was found in a source, with what was said of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hubarray.shown import shown_text
from hubarray.values.attributes import plain_value


@dataclass(frozen=True)
class Found:
    """Something like an array.

    Attributes
    ----------
    array : Any
        With shape, dtype and slices.
    attrs : dict
        JSON values that came along.
    dims : tuple of (str or None), or None
    fill : scalar or None
        What stands for elements that were never written.
    """

    array: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    dims: tuple[str | None, ...] | None = None
    fill: Any = None


def json_attrs(where: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that JSON can hold: text, numbers, and arrays of them. The others are left out, with a warning."""
    found: dict[str, Any] = {}
    left_out = []
    for name, value in attributes.items():
        try:
            if str(name) in found:
                raise ValueError("is there twice")
            found[str(name)] = plain_value(value, text_of_bytes=True)
        except (TypeError, ValueError, RecursionError):
            left_out.append(str(name))
    if left_out:
        shown = shown_text(", ".join(left_out))[:400]
        warnings.warn(f"{where}: attributes of a type that is not stored are left out: {shown}", stacklevel=3)
    return found
