"""Attributes: what becomes one, and how it leaves for formats with types of their own. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.history.records.json_fields import MAX_DEPTH, NUMBER_KEY, is_deep, numbers_to_json
from hubarray.history.records.record import MAX_ATTRS_BYTES
from hubarray.redaction import named_type
from hubarray.values.foreign import refuse_units, unmasked

_MAX_DEPTH = MAX_DEPTH - 8
# Python makes no text of longer ones.
_MAX_INT_BITS = 14_000


def checked_attrs(attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return attributes as they are stored and come back: text, bools, whole numbers, floats, None, lists, mappings.

    Scalars and small arrays of NumPy become Python's numbers and lists; NaN and infinities stay numbers.

    Raises
    ------
    ConfigError
        A key is not a string, two keys would become one, a value has another type, or all together exceed 64 KiB.
    """
    if attrs is not None and not isinstance(attrs, Mapping):
        raise ConfigError(f"attrs is a mapping of strings to JSON values, not {type(attrs).__name__}")
    if attrs is not None and len(attrs) > MAX_ATTRS_BYTES:
        raise ConfigError(
            f"attrs are {len(attrs)}, and {MAX_ATTRS_BYTES} bytes are allowed; keep large things in arrays"
        )
    attrs = dict(attrs or {})
    wrong = [key for key in attrs if not isinstance(key, str)]
    if wrong:
        raise ConfigError(f"attrs: keys are strings, not {wrong[0]!r}")
    if is_deep(attrs, _MAX_DEPTH):
        raise ConfigError(f"attrs are nested more than {_MAX_DEPTH} deep; keep such things in arrays")
    attributes = {}
    for name, value in attrs.items():
        try:
            attributes[name] = plain_value(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"attrs: {name!r}: values are what JSON holds: {error}") from None
    size = len(json.dumps(numbers_to_json(attributes)))
    if size > MAX_ATTRS_BYTES:
        raise ConfigError(f"attrs take {size} bytes and {MAX_ATTRS_BYTES} are allowed; keep large things in arrays")
    return attributes


def plain_value(value: Any, *, text_of_bytes: bool = False) -> Any:
    """Return an attribute's value in Python's own types.

    Parameters
    ----------
    value
    text_of_bytes : bool
        Whether byte strings are text, as in the files of HDF5.

    Raises
    ------
    TypeError
        It is of a type that attributes do not have, such as a time.
    ValueError
        Two keys of a mapping would become one.

    Examples
    --------
    >>> plain_value({"limit": np.float32("nan"), "range": (np.int8(0), 5)})
    {'limit': nan, 'range': [0, 5]}
    """
    if isinstance(value, int) and not isinstance(value, np.generic) and value.bit_length() > _MAX_INT_BITS:
        raise ValueError("an integer of thousands of digits is not one of them; store it as text")
    size = (
        value.size if isinstance(value, np.ndarray) else len(value) if isinstance(value, (list, tuple, Mapping)) else 0
    )
    if size > MAX_ATTRS_BYTES:
        raise ValueError(f"more than {MAX_ATTRS_BYTES} elements are not one of them; store large values in arrays")
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        str(value).encode()
        return str(value)
    if isinstance(value, (bytes, np.bytes_)) and text_of_bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return (bool if isinstance(value, bool) else int if isinstance(value, int) else float)(value)
    value = unmasked(value)
    refuse_units(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_array(value, text_of_bytes)
    if isinstance(value, Mapping):
        return _of_mapping(value, text_of_bytes)
    if isinstance(value, (list, tuple)):
        return [plain_value(item, text_of_bytes=text_of_bytes) for item in value]
    if type(value).__module__.partition(".")[0] not in ("datetime", "builtins") and hasattr(value, "tolist"):
        return plain_value(value.tolist(), text_of_bytes=text_of_bytes)
    raise TypeError(f"{named_type(value)} is not one of them{_hint(value)}")


def _of_array(value: Any, text_of_bytes: bool) -> Any:
    kind = value.dtype.kind
    if value.dtype == np.longdouble and value.dtype != np.float64:
        # Python has no such float.
        plain_floats = value.astype("f8")
        if not ((plain_floats == value) | (value != value)).all():
            raise TypeError(f"{value.dtype} has more digits than are stored; convert it, float(value)")
        value = plain_floats
    if kind in "mM":
        raise TypeError(f"{value.dtype} is not one of them; store it as text, such as str(value)")
    if kind in "biufU" or (kind == "S" and text_of_bytes) or kind in "TO":
        plain = value.tolist()
        return plain if kind in "biu" else plain_value(plain, text_of_bytes=text_of_bytes)
    raise TypeError(f"{value.dtype} is not one of them")


def _of_mapping(value: Mapping[Any, Any], text_of_bytes: bool) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for key, item in value.items():
        if not (key is None or isinstance(key, (str, int, float, bool))):
            raise TypeError(f"a key of a mapping is text, and not {named_type(key)}")
        name = key if isinstance(key, str) else json.dumps(key)
        if name in attributes:
            raise ValueError(f"two keys of a mapping would both become {name!r}")
        if name == NUMBER_KEY:
            raise ValueError(f"the key {NUMBER_KEY!r} is the format's own")
        attributes[name] = plain_value(item, text_of_bytes=text_of_bytes)
    return attributes


def _hint(value: Any) -> str:
    return "; store it as text, such as value.isoformat()" if hasattr(value, "isoformat") else ""


# CF conventions 1.11, Appendix A: attributes whose type is that of the variable.
OF_THE_TYPE = frozenset(
    (
        "_FillValue",
        "missing_value",
        "valid_min",
        "valid_max",
        "valid_range",
        "actual_range",
        "flag_values",
        "flag_masks",
    )
)


def has_type(value: Any) -> bool:
    """Return whether files with types have one for an attribute: text without NUL, whole numbers of 64 bits, floats.

    A list has one type, and unsigned numbers beyond 63 bits and negative ones have no common type.

    Examples
    --------
    >>> has_type([2**64 - 1, 0]), has_type([2**64 - 1, -1]), has_type("a\\0b"), has_type([1, 0.5])
    (True, False, False, False)
    """
    several = value if isinstance(value, list) else [value]
    kinds = {type(item) for item in several}
    if kinds == {int}:
        least, most = min(several), max(several)
        return (least >= -(1 << 63) and most < 1 << 63) or (least >= 0 and most < 1 << 64)
    return kinds == {float} or (kinds == {str} and not any("\0" in item for item in several))


def typed_value(name: str, value: Any, dtype: np.dtype[Any] | None) -> Any:
    """Return an attribute as a file with types has it: those of CF that are of the variable's type get that.

    Examples
    --------
    >>> typed_value("flag_values", [0, 1], np.dtype("i1")).dtype, typed_value("units", "K", np.dtype("i1"))
    (dtype('int8'), 'K')
    """
    if name not in OF_THE_TYPE or dtype is None or dtype.kind not in "iuf":
        return value
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in several):
        return value
    with np.errstate(all="ignore"):
        cast = np.asarray(value).astype(dtype)
    same = (cast == np.asarray(value)) | (cast != cast)
    return cast if same.all() or dtype.kind == "f" else value
