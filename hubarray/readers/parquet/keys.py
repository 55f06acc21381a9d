"""Values in the names of folders, ``name=value``, as Hive and Spark write them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.readers.fields.cell_codecs import scalar
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.redaction import shown_text

NULL_KEY = "__HIVE_DEFAULT_PARTITION__"
_BOOLS = {"true": True, "false": False, "1": True, "0": False}
# What comes back from text as it was.
_KINDS = "iubfUM"


def key_value(field: UnischemaField, text: str) -> Any:
    """The value that a folder's name says.

    Raises
    ------
    SourceError
    """
    kind = None if field.numpy_dtype is Decimal else np.dtype(field.numpy_dtype)
    if kind is not None and kind.kind == "b":
        if text.lower() not in _BOOLS:
            raise SourceError(f"field {field.name!r}: a folder is named {shown_text(text)[:80]!r}, which is not a bool")
        return np.bool_(_BOOLS[text.lower()])
    if kind is not None and kind.kind == "M":
        try:
            return np.datetime64(text).astype(kind)
        except ValueError:
            raise SourceError(
                f"field {field.name!r}: a folder is named {shown_text(text)[:80]!r}, which is not a time"
            ) from None
    return scalar(field, text)


def folder_of(schema: Unischema, names: Sequence[str], values: Sequence[Any]) -> str:
    """The folders that rows of some values go into.

    Raises
    ------
    ConfigError
        A value would be read back as another.
    """
    folders = []
    for name, value in zip(names, values, strict=True):
        if value == NULL_KEY:
            raise ConfigError(f"field {name!r}: {NULL_KEY!r} stands for a null in the names of folders")
        if isinstance(value, datetime) and value.tzinfo is not None:
            # Times of folders are in UTC, and do not say so.
            value = value.astimezone(UTC).replace(tzinfo=None)
        if type(value) is int and schema.fields[name].numpy_dtype is not Decimal:
            value = _as_time(schema.fields[name], value)
        try:
            folders.append(f"{quote(name, safe='')}={NULL_KEY if value is None else quote(str(value), safe='')}")
        except UnicodeEncodeError:
            raise ConfigError(
                f"field {name!r}: {shown_text(repr(value))[:80]} is not text that can be encoded"
            ) from None
    return "/".join(folders)


def _as_time(field: UnischemaField, value: int) -> Any:
    """A number of nanoseconds, which Python has no times of, as the time that it is."""
    dtype = np.dtype(field.numpy_dtype)
    if dtype.kind != "M":
        return value
    unit: Any = np.datetime_data(dtype)[0]
    return np.datetime64(value, "ns" if unit == "generic" else unit)


def check_keys(schema: Unischema, names: Sequence[str]) -> None:
    """Refuse fields whose values do not come back from the names of folders.

    Raises
    ------
    ConfigError
    """
    for name in names:
        field = schema.fields[name]
        comes_back = field.numpy_dtype is Decimal or np.dtype(field.numpy_dtype).kind in _KINDS
        if not name or field.shape or not comes_back:
            raise ConfigError(
                f"partition_by: {name!r} is not one text, number, bool or time per row, and other values do not "
                "survive as names of folders"
            )
