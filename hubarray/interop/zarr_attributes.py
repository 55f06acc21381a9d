"""Zarr metadata beside the elements: attributes as xarray writes them, and names of axes."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.arrays.codecs.codecs import LITTLE_ENDIAN
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.interop.plain import plain_json
from hubarray.values.attributes import OF_THE_TYPE

DIMENSION_NAMES = "dimension_names"
_FILL = "_FillValue"
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def decoded_attributes(
    attributes: Mapping[str, Any], dtype: np.dtype[Any], *, keep_nan: bool = False
) -> dict[str, Any]:
    """Attributes as people write them: ``_FillValue`` of floats is a number, and NaN, which says nothing, left out.

    With ``keep_nan`` it is the word that JSON has for it, so that what xarray wrote comes back the same.

    Examples
    --------
    >>> decoded_attributes({"_FillValue": "AAAAAAAA+H8=", "units": "K"}, np.dtype("f4"))
    {'units': 'K'}
    >>> decoded_attributes({"_FillValue": "AAAAAAAA+H8="}, np.dtype("f4"), keep_nan=True)
    {'_FillValue': 'NaN'}
    >>> decoded_attributes({"_FillValue": "AAAAAAA4j8A="}, np.dtype("f4"))
    {'_FillValue': -999.0}
    """
    attrs = dict(attributes)
    value = attrs.get(_FILL)
    if dtype.kind == "f" and isinstance(value, (str, float)):
        number = value if isinstance(value, float) else _WORDS.get(value, _number(value))
        if number is not None and math.isnan(number) and not keep_nan:
            del attrs[_FILL]
        elif number is not None:
            attrs[_FILL] = plain_json(number)
    return attrs


def encoded_attributes(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """The inverse of :func:`decoded_attributes`, for readers that expect what xarray writes.

    Examples
    --------
    >>> encoded_attributes({"_FillValue": -999.0}, np.dtype("f4"))
    {'_FillValue': 'AAAAAAA4j8A='}
    """
    attrs = dict(attributes)
    value = attrs.get(_FILL)
    number = _WORDS.get(value) if isinstance(value, str) else value
    if dtype.kind == "f" and isinstance(number, (int, float)) and not isinstance(number, bool):
        attrs[_FILL] = base64.standard_b64encode(struct.pack("<d", float(number))).decode()
    return attrs


def number_attributes(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Attributes for readers who want numbers: the words that stand for NaN and infinity as these.

    Of floats, in the attributes that the CF conventions give numbers of the variable's type.

    Examples
    --------
    >>> number_attributes({"_FillValue": "NaN", "valid_range": [0.0, "Infinity"], "units": "NaN"}, np.dtype("f4"))
    {'_FillValue': nan, 'valid_range': [0.0, inf], 'units': 'NaN'}
    """
    if dtype.kind != "f":
        return dict(attributes)
    return {name: _as_numbers(value) if name in OF_THE_TYPE else value for name, value in attributes.items()}


def _as_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value


def _number(text: str) -> float | None:
    try:
        return float(struct.unpack("<d", base64.standard_b64decode(text))[0])
    except (binascii.Error, ValueError, struct.error):
        return None


def zarr_json_in_group(array: ArrayHandle) -> dict[str, Any]:
    """As :func:`zarr_json`, with a name for each axis: xarray wants names, and different ones for different arrays."""
    described = zarr_json(array)
    described[DIMENSION_NAMES] = [f"{array.key}_dim_{axis}" if dim is None else dim
                                  for axis, dim in enumerate(array.dims)]  # fmt: skip
    return described


def zarr_group_json(attributes: dict[str, Any], arrays: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The ``zarr.json`` of a group, with those of its arrays: one request opens it."""
    consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(arrays)}
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": attributes,
        "consolidated_metadata": consolidated,
    }


def zarr_json(array: ArrayHandle, attrs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The ``zarr.json`` of an array as readers of Zarr want it, its attributes, or others, as xarray writes them."""
    metadata = snapshot_of(array).metadata
    attributes = encoded_attributes(dict(array.attrs if attrs is None else attrs), metadata.dtype)
    # Before arrays had names of axes, an attribute stood for them.
    dim_names = attributes.get(DIMENSION_NAMES)
    names = metadata.dims or (
        dim_names if isinstance(dim_names, list) and len(dim_names) == len(metadata.shape) else None
    )
    described = metadata.to_json() | {"attributes": attributes}
    if metadata.dtype.names is not None:
        # Zarr 3.4 warns where the byte order of a structure is not said.
        described["codecs"] = [LITTLE_ENDIAN if codec == {"name": "bytes"} else codec for codec in described["codecs"]]
    return described if names is None else described | {DIMENSION_NAMES: list(names)}
