"""Values on their way into an array: each is stored as it is, converted with its value kept, or refused. Pure.

``docs/values.md`` has the rules as a table. They hold for assignments, appends, transactions, workers, fields of
structures, fill values and imports alike, because all of these call :func:`as_elements`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from numbers import Number
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.redaction import named_type
from hubarray.values.casting import cast_with_losses
from hubarray.values.foreign import TEXT, is_missing, plain_array, refuse_units, single, unmasked
from hubarray.values.objects import ends_with_nul
from hubarray.values.packing import is_packed

_SHOWN_LETTERS = 60
_ZONE = re.compile(r"\d[ T]?(?:Z|[+-]\d\d:?\d\d)$")
_ZONED = "the value has times with a zone, and the zone would be lost; convert them to UTC without a zone first"
_OUR_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
_ONLY_TEXT = np.dtypes.StringDType(coerce=False)


@dataclass(frozen=True)
class Target:
    """The array, or part of one, that a value is written to.

    Attributes
    ----------
    dtype : dtype
    dims : tuple of (str or None), or None
        Names of the axes that the value has to fill, where they are known.
    attrs : mapping
        Of the array: those of CF say that it is packed.
    """

    dtype: np.dtype[Any]
    dims: tuple[str | None, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


def as_elements(value: Any, target: Target) -> np.ndarray:
    """Return a value as an array that can be cast to the target's dtype without inventing anything.

    Python's numbers and lists get the target's dtype at once, range checked. Arrays keep theirs, and are cast when they
    are placed.

    Raises
    ------
    ConfigError
        Something of it is masked or missing where the dtype has no missing value; floats are written to a packed array;
        its axes have other names than the target's; or it is a number or a time where text is stored.
    ValueError, TypeError, OverflowError
        NumPy's own, for what it would not assign; and for text that is longer than the dtype holds.
    """
    dtype = target.dtype
    kind = type(value)
    if kind is np.ndarray and value.dtype == dtype and dtype.kind in "biufcmMSUV":
        return value
    value = aligned(single(value), target.dims)
    values = plain_array(value)
    if values is None:
        value = unmasked(value)
    if dtype.kind == "T":
        return _texts(value if values is None else values)
    if is_packed(target.attrs, dtype):
        _refuse_packed(value if values is None else values, target.attrs)
    return _of_python(value, dtype) if values is None else _castable(values, dtype)


def _of_python(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers and lists of Python in a dtype."""
    # NumPy makes text and truth of anything, and drops the zone of a time.
    wide = _wide(dtype, "SUbmM")
    try:
        if wide is not None:
            _check_objects(value, wide, dtype)
        array = np.asarray(value, dtype)
        if dtype.kind in "iufc" and isinstance(value, (list, tuple)):
            # NumPy counts times that are in a list.
            _castable(np.asarray(value), dtype)
        return array
    except ConfigError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                f"{error}; rows of different shapes belong into a table: hub.table_writer, whose fields may be ragged"
            ) from None
        # If it is for something that is missing, it is stored where the dtype has it.
        each = _wide(dtype, "biufcmM")
        converted = None if each is None else _check_objects(value, each, dtype)
        if converted is not None and converted.dtype == dtype:
            return converted
        raise


def _wide(dtype: np.dtype[Any], kinds: str) -> np.dtype[Any] | None:
    """A dtype that keeps objects where another is of some kinds; None where it has none of them."""
    if dtype.names is not None:
        wide = [(name, _wide(dtype[name], kinds) or dtype[name]) for name in dtype.names]
        return np.dtype(wide) if np.dtype(wide) != dtype else None
    if dtype.subdtype is not None:
        inner = _wide(dtype.base, kinds)
        return None if inner is None else np.dtype((inner, dtype.shape))
    return np.dtype(object) if dtype.kind in kinds else None


def _check_objects(value: Any, wide: np.dtype[Any], dtype: np.dtype[Any]) -> np.ndarray | None:
    """Python's values, each for itself, as :func:`_castable` has them; None of lists of different lengths."""
    objects = np.asarray(value, wide)
    if wide.names is None:
        for item in objects.flat:
            refuse_units(item)
            # These are left to NumPy, which refuses them.
            if isinstance(item, (list, tuple)):
                return None
    return _castable(objects, dtype)


def _castable(values: np.ndarray, dtype: np.dtype[Any], where: str = "") -> np.ndarray:
    """Values that a cast to a dtype would not change into something else, as they are or converted already."""
    if dtype.names is not None:
        if values.dtype.names is not None:
            for name, theirs in zip(dtype.names, values.dtype.names, strict=False):
                _castable(values[theirs], dtype[name].base, f" in the field {name!r}")
        return values
    kind, theirs = dtype.kind, values.dtype.kind
    if kind in "SU":
        _check_text(values, dtype, where)
    elif theirs == "O":
        return _of_objects(values, dtype, where)
    elif kind in "biu" and theirs in "fc" and values.size:
        if not np.isfinite(values).all():
            raise ConfigError(
                f"the value has NaN or infinity{where}, which {dtype} cannot hold: fill it first, such as with "
                "np.nan_to_num, or store floats"
            )
    elif kind in "biufc" and theirs in "mM":
        raise TypeError(
            f"{values.dtype} is not stored as {dtype} by itself{where}: the array does not know the unit or the "
            "starting point. Convert it, such as with .astype('datetime64[D]').astype(int), or as the array's "
            "attributes units and calendar say; xarray's to_zarr(append_dim=...) does that"
        )
    elif kind in "mM" and theirs in "mM" and kind != theirs:
        raise TypeError(f"{values.dtype} is not stored as {dtype}{where}: a duration is not a time")
    elif kind in "mM" and kind == theirs and values.dtype != dtype:
        _check_range(values, dtype, where)
    elif kind == "M" and theirs in "SUT" and any(_ZONE.search(item) for item in values.astype(str).flat):
        raise ConfigError(_ZONED)
    return values


def _time_kind(item: Any) -> str:
    """The kind of NumPy's time that an object is; nothing of all others."""
    if isinstance(item, (np.datetime64, date)):
        return "M"
    return "m" if isinstance(item, (np.timedelta64, timedelta)) else ""


def _of_objects(values: np.ndarray, dtype: np.dtype[Any], where: str) -> np.ndarray:
    """An array of Python objects as numbers or times; missing ones are NaN and NaT where the dtype has them."""
    missing = np.fromiter((is_missing(item) for item in values.flat), bool, values.size).reshape(values.shape)
    if missing.any():
        if dtype.kind not in "fcmM":
            raise ConfigError(
                f"the value has a missing value{where}, such as None or NaN, which {dtype} cannot hold: fill it first, "
                "such as with fillna(...), or store floats"
            )
        values = values.copy()
        values[missing] = np.nan if dtype.kind in "fc" else np.datetime64("NaT") if dtype.kind == "M" else None
    if dtype.kind == "b":
        if not all(isinstance(item, (bool, np.bool_, int, np.integer, float)) for item in values.flat):
            raise ConfigError(
                f"the value has more than bools and numbers{where}, and the array holds {dtype}: convert it, such as "
                "with .astype(bool)"
            )
        if any(isinstance(item, float) and math.isinf(item) for item in values.flat):
            raise ConfigError(f"the value has infinity{where}, which {dtype} cannot hold")
    for item in values.flat:
        kind = _time_kind(item)
        if kind and dtype.kind in "biufcmM" and kind != dtype.kind:
            raise TypeError(f"the value has {named_type(item)}{where}, which is not stored as {dtype} by itself")
    if dtype.kind == "V":
        return values
    if any(
        getattr(item, "tzinfo", None) is not None or (isinstance(item, str) and _ZONE.search(item))
        for item in values.flat
    ):
        raise ConfigError(_ZONED)
    if any(getattr(item, "calendar", "standard") not in _OUR_CALENDARS for item in values.flat):
        raise ConfigError(
            "the value has times of another calendar, which NumPy does not have: store them as numbers with the "
            "attributes units and calendar, as xarray does"
        )
    if dtype.kind == "m" and missing.any():
        times = np.full(values.shape, np.timedelta64("NaT"), dtype)
        times[~missing] = values[~missing].astype(dtype)
        return times
    return values.astype(dtype)


def _check_range(values: np.ndarray, dtype: np.dtype[Any], where: str) -> None:
    """Refuse times beyond the range of a finer unit, where NumPy wraps around. A coarser unit drops precision."""
    try:
        is_finer = np.promote_types(values.dtype, dtype) == dtype
    except TypeError:
        return
    except OverflowError:
        raise ConfigError(
            f"the value has times{where} of {values.dtype}, which NumPy does not convert to {dtype}: convert them to a "
            "unit in between first"
        ) from None
    if is_finer and cast_with_losses(values, dtype)[1].any():
        raise ConfigError(f"the value has times{where} beyond the range of {dtype}: choose a coarser unit")


def _texts(value: Any) -> np.ndarray:
    """Text of any length, and nothing else: NumPy would write None as "None", and bytes as their ASCII."""
    values = value
    if isinstance(values, np.ndarray) and values.dtype.kind not in "TUO":
        raise TypeError(f"text is expected, not {values.dtype}: convert it, such as with .astype(str)")
    if isinstance(values, np.ndarray) and hasattr(values.dtype, "na_object"):
        # NumPy would write what stands for a missing one as text.
        values = values.astype(object)
    try:
        return np.asarray(values, _ONLY_TEXT).astype(TEXT)
    except UnicodeEncodeError:
        raise ValueError("text with half a surrogate pair is not Unicode, and is not stored") from None
    except ValueError:
        raise TypeError(
            "text is expected, but some values are not text; fill missing values and convert the rest"
        ) from None


def _check_text(values: np.ndarray, dtype: np.dtype[Any], where: str) -> None:
    """Refuse values that are not text, and text that NumPy would cut: too long, or with NUL at its end."""
    if not values.size:
        return
    theirs = values.dtype.kind
    if theirs in "TO" and (theirs == "O" or hasattr(values.dtype, "na_object")):
        values = values.astype(object)
        other = next((item for item in values.flat if not isinstance(item, (str, bytes))), None)
        if other is not None or not all(isinstance(item, (str, bytes)) for item in values.flat):
            what = "a missing value" if is_missing(other) else named_type(other)
            how = "fill it first" if is_missing(other) else "convert it, such as with .astype(str)"
            raise ConfigError(f"the value has {what}{where}, and {dtype.str[1:]} holds text: {how}")
    elif theirs not in "SUT":
        raise ConfigError(
            f"the value has {values.dtype}{where}, and {dtype.str[1:]} holds text: convert it, such as with "
            ".astype(str)"
        )
    if theirs in "TO" and ends_with_nul(values):
        raise ConfigError(
            f"the value has text that ends with NUL{where}, which {dtype.str[1:]} would lose: store text as str, and "
            "bytes in a table's field of bytes"
        )
    if not _is_ascii(values, "S" if dtype.kind == "U" else "U"):
        raise ConfigError(
            f"the value has {'bytes' if dtype.kind == 'U' else 'text'}{where} with letters that are not ASCII, and "
            f"{dtype.str[1:]} is stored: convert it, such as with np.strings.{'de' if dtype.kind == 'U' else 'en'}code"
            "(x, 'utf-8')"
        )
    held = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if theirs == dtype.kind and values.dtype.itemsize <= dtype.itemsize:
        return
    if theirs in "SUT":
        lengths = np.strings.str_len(values)
    else:
        lengths = np.fromiter(map(len, values.flat), np.intp, values.size)
    widest = int(lengths.max())
    if widest > held:
        what = str(values.flat[int(lengths.argmax())])
        shown = what if len(what) <= _SHOWN_LETTERS else f"{what[:_SHOWN_LETTERS]}..."
        raise ValueError(
            f"text of {widest} characters{where} does not fit {dtype.str[1:]}, which holds {held}, and is not cut: "
            f"{shown!r}; to widen it, write a new version: hub.store(a[...].astype('{dtype.kind}{widest}'), ...)"
        )


def _is_whole(item: Any) -> bool:
    return isinstance(item, (int, np.integer, np.bool_))


def _is_ascii(values: np.ndarray, kind: str) -> bool:
    """Whether what is of one kind, bytes or text, is ASCII, so that it is the same in the other."""
    theirs = values.dtype.kind
    if theirs == kind and theirs in "SU":
        native = np.ascontiguousarray(values, values.dtype.newbyteorder("=")).reshape(-1)
        return not (native.view("u1" if theirs == "S" else "u4") > 127).any()
    if theirs in "SU":
        return True
    one_type = bytes if kind == "S" else str
    return all(item.isascii() for item in values.flat if isinstance(item, one_type))


def _refuse_packed(value: Any, attrs: Mapping[str, Any]) -> None:
    """Refuse physical values where counts are stored: a cast would take 285.5 for the count 285."""
    values = np.asarray(value)
    if values.dtype.kind in "fc" or (
        values.dtype.kind == "O"
        and any(isinstance(item, (float, Number)) and not _is_whole(item) for item in values.flat)
    ):
        scale, offset = attrs.get("scale_factor", 1), attrs.get("add_offset", 0)
        fill = attrs.get("_FillValue", attrs.get("missing_value"))
        counts = f"np.round((value - {offset!r}) / {scale!r})"
        line = f"np.where(np.isnan(value), {fill!r}, {counts})" if fill is not None else counts
        raise ConfigError(
            "floats are not written to a packed array, which holds counts: its attributes say that a value is "
            f"count * {scale!r} + {offset!r}. Write counts = {line}; a[...] = counts.astype(a.dtype)"
        )


def aligned(value: Any, dims: Sequence[str | None] | None) -> Any:
    """Return a value with named axes, such as one of xarray, with its axes in the order of the target.

    Raises
    ------
    ConfigError
        It has an axis that the target does not have.
    """
    theirs = getattr(value, "dims", None)
    if (
        not isinstance(theirs, tuple)
        or dims is None
        or not hasattr(value, "transpose")
        or isinstance(value, np.ndarray)
    ):
        return value
    named = [dim for dim in dims if dim is not None]
    own = [dim for dim in theirs if not str(dim).startswith("dim_")]
    if not named or not own or tuple(theirs) == tuple(dims)[len(dims) - len(theirs) :]:
        return value
    if len(named) < len(dims) or len(own) < len(theirs):
        # Only some axes have names: those that do have to be where they are.
        places = zip(reversed(theirs), reversed(dims), strict=False)
        if len(theirs) <= len(dims) and all(b is None or str(a).startswith("dim_") or a == b for a, b in places):
            return value
    elif set(theirs) <= set(named):
        ordered = value.transpose(*[dim for dim in dims if dim in theirs])
        missing = [i for i, dim in enumerate(dims) if dim not in theirs]
        # What the value lacks is broadcast: an axis of one.
        values = plain_array(ordered)
        assert values is not None
        for axis in missing:
            values = np.expand_dims(values, axis)
        return values
    raise ConfigError(
        f"the value has the dimensions {', '.join(map(repr, theirs))}, and {', '.join(map(repr, dims))} are written: "
        "rename them, such as with .rename(...), or assign its .values to write it by position"
    )
