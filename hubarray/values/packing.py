"""Packed arrays of the CF conventions: integers that stand for numbers by ``scale_factor``, ``add_offset``, fill. Pure.

Source: CF conventions 1.11, section 8.1, and xarray's CFScaleOffsetCoder, whose results these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError

_SCALES = ("scale_factor", "add_offset")
_FILLS = ("_FillValue", "missing_value")
# rioxarray's names for one scale and one offset per band, which CF does not have.
_OF_BANDS = ("scales", "offsets")
# The attributes that together say how to decode counts.
ATTRIBUTES = (*_SCALES, *_FILLS, *_OF_BANDS)
_MAX_BITS = 1024
_HALF = 2


def is_packed(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """Return whether an array holds counts that attributes of CF say how to decode.

    Examples
    --------
    >>> is_packed({"scale_factor": 0.5}, np.dtype("i2")), is_packed({"units": "K"}, np.dtype("i2"))
    (True, False)
    """
    if dtype.kind not in "iu" or not attrs or any(name in attrs for name in _OF_BANDS):
        return False
    return any(_number(attrs.get(name)) is not None for name in (*_SCALES, *_FILLS))


def decoded_dtype(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the physical values, as xarray has it: of few bytes only where nothing is computed."""
    if not is_packed(attrs, dtype):
        return dtype
    is_computed = any(_number(attrs.get(name)) is not None for name in _SCALES)
    return np.dtype("f4" if dtype.itemsize <= _HALF and not is_computed else "f8")


def decoded(counts: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Return the physical values of counts; NaN where the fill value stands.

    Examples
    --------
    >>> decoded(np.array([1, -999], "i2"), {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999})
    array([10.5,  nan])
    """
    dtype = decoded_dtype(attrs, counts.dtype)
    if dtype == counts.dtype:
        return counts
    missing = _missing(counts, attrs)
    kind = {"true": "u", "false": "i"}.get(str(attrs.get("_Unsigned")).lower())
    if kind is not None:
        counts = counts.view(f"{kind}{counts.dtype.itemsize}")
        missing |= _missing(counts, attrs)
    values = counts.astype(dtype)
    scale, offset = (_number(attrs.get(name)) for name in _SCALES)
    with np.errstate(over="ignore", invalid="ignore"):
        if scale is not None:
            values *= dtype.type(scale)
        if offset is not None:
            values += dtype.type(offset)
    values[missing] = np.nan
    return values


def _missing(counts: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Where the counts are one of those that stand for a missing value."""
    limits = np.iinfo(counts.dtype)
    attributes = {
        int(number)
        for name in _FILLS
        for number in _numbers(attrs.get(name))
        if number == number and abs(number) < np.inf and number == int(number)
    }
    fills = [number for number in attributes if limits.min <= number <= limits.max]
    return np.isin(counts, np.array(fills, counts.dtype))


def _numbers(value: Any) -> list[Any]:
    several = value if isinstance(value, list) else [value]
    return [item for item in several if _number(item) is not None]


def _number(value: Any) -> float | int | None:
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    # A whole number beyond all floats decodes nothing.
    return value if isinstance(value, float) or value.bit_length() < _MAX_BITS else None


def described(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> str:
    """Return how the counts of a packed array are decoded, for people; nothing of an array that is not packed.

    Examples
    --------
    >>> described({"scale_factor": 0.5, "_FillValue": -9}, np.dtype("i2"))
    'scale_factor 0.5, _FillValue -9'
    """
    if not is_packed(attrs, dtype):
        return ""
    return ", ".join(f"{name} {attrs[name]}" for name in (*_SCALES, *_FILLS) if name in attrs)


def require_packed(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    """Refuse to decode an array that holds what it says.

    Raises
    ------
    ConfigError
    """
    several = [name for name in _OF_BANDS if name in attrs]
    if several:
        raise ConfigError(
            f"decoded needs one scale for the whole array, and the attribute {several[0]} has one per band. Apply it "
            "to the bands you read."
        )
    if not is_packed(attrs, dtype):
        raise ConfigError(
            "only packed arrays have decoded values: integers with the attributes scale_factor, add_offset or "
            "_FillValue"
        )
