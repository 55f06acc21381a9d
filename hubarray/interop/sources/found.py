"""Something like an array that was found in a source, with what was said of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hubarray.redaction import shown_text
from hubarray.values import packing
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
        The value of elements that were never written.
    """

    array: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    dims: tuple[str | None, ...] | None = None
    fill: Any = None


def common_attrs(what: str, every: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes that all parts of a source share; warn of those that differ, by name, and drop them.

    Parameters
    ----------
    what : str
        What the parts are, for the warning, such as ``"scan.tif: its pages"``.
    every : iterable of mapping
        The attributes of each part. Mappings among them are compared key by key.

    Examples
    --------
    >>> common_attrs("tiles", [{"crs": 4326, "tiff": {"Software": "a"}}, {"crs": 4326, "tiff": {"Software": "a"}}])
    {'crs': 4326, 'tiff': {'Software': 'a'}}
    """
    shared: dict[tuple[str, ...], Any] = {}
    differing: dict[tuple[str, ...], None] = {}
    for i, attributes in enumerate(every):
        flat = {path: value for name, attribute in attributes.items() for path, value in _below(name, attribute)}
        if not i:
            shared = dict(flat)
        # Compare as text, in which NaN equals NaN.
        odd = [path for path in {**shared, **flat} if path not in shared or repr(flat.get(path)) != repr(shared[path])]
        if any(path[0] in packing.ATTRIBUTES for path in odd):
            # A scale without its offset or fill value would decode to wrong numbers.
            odd += [path for path in shared if path[0] in (*packing.ATTRIBUTES, "units") and path not in odd]
        for path in odd:
            shared.pop(path, None)
            differing[path] = None
    if differing:
        shown = shown_text(", ".join(map(".".join, differing)))[:400]
        warnings.warn(f"{what} differ in attributes, which are left out: {shown}", stacklevel=6)
    flattened: dict[str, Any] = {}
    for path, value in shared.items():
        if len(path) == 1:
            flattened[path[0]] = value
        else:
            flattened.setdefault(path[0], {})[path[1]] = value
    return flattened


def _below(name: str, value: Any) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        return [((name, str(inner)), leaf) for inner, leaf in value.items()]
    return [((name,), value)]


def json_attrs(where: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that JSON can hold: text, numbers, and arrays of them. The others are left out, with a warning."""
    attrs: dict[str, Any] = {}
    left_out = []
    for name, value in attributes.items():
        try:
            if str(name) in attrs:
                raise ValueError("is there twice")
            attrs[str(name)] = plain_value(value, text_of_bytes=True)
        except (TypeError, ValueError, RecursionError):
            left_out.append(str(name))
    if left_out:
        shown = shown_text(", ".join(left_out))[:400]
        warnings.warn(f"{where}: attributes of a type that is not stored are left out: {shown}", stacklevel=3)
    return attrs
