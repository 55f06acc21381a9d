"""Variables of xarray as CF encodes them: packed numbers, times as numbers; nothing lost that a dtype cannot hold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from hubarray.errors import ConfigError
from hubarray.values.foreign import TEXT, refuse_units
from hubarray.values.objects import ends_with_nul

# What decides the values that are stored, and how they are cut.
_ENCODINGS = frozenset(
    ("dtype", "scale_factor", "add_offset", "_FillValue", "missing_value", "units", "calendar", "_Unsigned", "chunks")
)
_NAT = np.iinfo("i8").min


def encoded(
    source: xr.Dataset, encoding: Mapping[Any, Mapping[str, Any]]
) -> tuple[dict[Any, xr.Variable], dict[Any, Any]]:
    """Return the variables and attributes of a dataset as a file would have them.

    Parameters
    ----------
    source : xarray.Dataset
    encoding : mapping of str to mapping
        What replaces the encoding of some variables.

    Raises
    ------
    ConfigError
        A variable cannot be encoded without loss. Of Dask's blocks it is raised when they are computed.
    """
    for key, variable in source.variables.items():
        _check_variable(key, variable)
    for key in encoding:
        if key not in source.variables:
            raise ConfigError(f"encoding: there is no variable {key!r}")
    if encoding:
        source = source.copy()
        for key, how in encoding.items():
            unknown = sorted(set(how) - _ENCODINGS)
            if unknown:
                raise ConfigError(
                    f"encoding: {key!r} has {unknown[0]!r}, which is not known here; there are "
                    f"{', '.join(sorted(_ENCODINGS))}; compression is codec="
                )
            source[key].encoding = {name: value for name, value in how.items() if name != "chunks"}
    variables, attributes = xr.conventions.encode_dataset_coordinates(source)
    try:
        encoded_variables, attributes = xr.conventions.cf_encoder(variables, attributes)
    except (TypeError, ValueError, OverflowError) as error:
        noted = " ".join([str(error), *getattr(error, "__notes__", ())])
        raise ConfigError(f"the dataset cannot be encoded as CF asks: {noted}") from error
    for key, variable in encoded_variables.items():
        if key in variables:
            encoded_variables[key] = variable = _without_loss(key, variables[key], variable)
        if variable.dtype.hasobject or variable.dtype.kind == "T":
            encoded_variables[key] = xr.Variable(
                variable.dims, _text(key, np.asarray(variable.data)), variable.attrs, variable.encoding
            )
    return encoded_variables, attributes


def _text(key: Any, values: np.ndarray) -> np.ndarray:
    """Text of any length as NumPy's StringDType, and byte strings as long as the longest; numbers as numbers.

    Missing values become what the backends of xarray write: empty text, or NaN.
    """
    plain = values.reshape(-1).tolist()
    missing = pd.isnull(values.reshape(-1).astype(object)).tolist()
    kinds = {type(value) for value, gone in zip(plain, missing, strict=True) if not gone}
    if any(missing) and kinds in ({str}, {bytes}):
        warnings.warn(f"{key}: missing text is stored as empty text, as by xarray's own backends", stacklevel=2)
    if kinds == {str} or not plain:
        filled = ["" if gone else value for value, gone in zip(plain, missing, strict=True)]
        return np.array(filled, TEXT).reshape(values.shape)
    if kinds == {bytes}:
        filled = [b"" if gone else value for value, gone in zip(plain, missing, strict=True)]
        return np.array(filled, f"S{max([1, *map(len, filled)])}").reshape(values.shape)
    if kinds <= {int, float}:
        filled = [np.nan if gone else value for value, gone in zip(plain, missing, strict=True)]
        return np.array(filled, "f8").reshape(values.shape)
    raise ConfigError(f"{key!r}: holds objects that are not all text; fill what is missing, or give it a dtype")


# What a variable holds; its public name would read what is still in a file.
_HELD = "_data"


def _check_variable(key: Any, variable: xr.Variable) -> None:
    """Refuse what encoding would change: units, bytes that end with NUL, and dtypes that NumPy does not have."""
    held = getattr(variable, _HELD, None)
    try:
        refuse_units(held)
        dtype = np.dtype(variable.dtype)
    except TypeError:
        raise ConfigError(
            f"{key!r} is of {variable.dtype}, which NumPy does not have; convert it first, such as with astype"
        ) from None
    except ConfigError as error:
        raise ConfigError(f"{key!r}: {error}") from None
    if dtype.kind == "O" and isinstance(held, np.ndarray):
        texts = np.array([item for item in held.flat if isinstance(item, bytes)], object)
        if ends_with_nul(texts):
            raise ConfigError(f"{key!r} has bytes that end with NUL, which NumPy takes for padding")


def _without_loss(key: Any, source: xr.Variable, encoded: xr.Variable) -> xr.Variable:
    """An encoded variable, that refuses to become anything in which numbers are others, or what is missing is a number.

    xarray rounds to the dtype of the encoding, and takes what is beyond its range modulo it.
    """
    # Attributes that are there before are those of counts, which nothing packs again.
    kind, packed = source.dtype.kind, "scale_factor" in source.encoding or "add_offset" in source.encoding
    smaller = encoded.dtype.itemsize < source.dtype.itemsize
    narrows = encoded.dtype.kind in "iu" or (encoded.dtype.kind == "f" and smaller)
    same = encoded.dtype == (np.dtype("i8") if kind in "Mm" else source.dtype) and not packed
    if kind not in "iufMm" or not narrows or same:
        return encoded
    wide = np.dtype("i8") if kind in "Mm" else source.dtype if kind in "iu" and not packed else np.dtype("f8")
    encoding = {**source.encoding, **(encoded.attrs if kind in "Mm" else {})}
    names = ("units", "calendar") if kind in "Mm" else ("scale_factor", "add_offset")
    again = source.copy(deep=False)
    again.encoding = {"dtype": wide} | {name: encoding[name] for name in names if name in encoding}
    unrounded = xr.conventions.encode_cf_variable(again, name=key)
    is_unsigned = str(encoded.attrs.get("_Unsigned")).lower() == "true"
    holds = np.dtype(f"u{encoded.dtype.itemsize}") if is_unsigned and encoded.dtype.kind == "i" else encoded.dtype
    marks = [name for name in ("_FillValue", "missing_value") if name in encoded.attrs and name not in source.attrs]
    missing = [encoded.attrs[name] for name in marks]
    check = partial(_checked, key=key, holds=holds, missing=missing, nat=_NAT if kind in "Mm" else None)
    if hasattr(encoded.data, "dask"):
        import dask.array as da

        return encoded.copy(data=da.map_blocks(check, encoded.data, unrounded.data, dtype=encoded.dtype))
    return encoded.copy(data=check(np.asarray(encoded.data), np.asarray(unrounded.data)))


def _checked(
    encoded: np.ndarray, unrounded: np.ndarray, *, key: Any, holds: np.dtype[Any], missing: list[Any], nat: int | None
) -> np.ndarray:
    gone = np.isnan(unrounded) if unrounded.dtype.kind == "f" else unrounded == nat
    if holds.kind == "f":
        lost = np.isinf(encoded) & np.isfinite(unrounded)
    else:
        info = np.iinfo(holds)
        rounded = np.around(unrounded)
        lost = ~gone & ((rounded < info.min) | (rounded > info.max))
        if not missing and gone.any():
            raise ConfigError(
                f"{key!r} has missing values, and {holds} has none: give its encoding a '_FillValue', or a dtype of "
                "floats"
            )
    if lost.any():
        raise ConfigError(
            f"{key!r} has {unrounded[lost].flat[0]}, as it would be encoded, and {holds} does not hold that: give its "
            "encoding another dtype, 'scale_factor' or 'add_offset'"
        )
    if missing and holds.kind in "iu" and (np.isin(encoded, np.hstack(missing)) & ~gone).any():
        raise ConfigError(
            f"{key!r} has values that would be encoded as its '_FillValue', and be missing when they are read: give "
            "its encoding another one"
        )
    return encoded
