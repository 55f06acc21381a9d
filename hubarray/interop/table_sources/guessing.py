"""Fields for the columns of Arrow and pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.arrow_types import class_names, plain_type
from hubarray.errors import ConfigError
from hubarray.progress import announce
from hubarray.tables.format.schema import PARTITION, Field, Schema
from hubarray.values.attributes import checked_attrs


def guessed_schema(columns: Iterable[pa.Field]) -> Schema:
    """A schema for columns of Arrow.

    Raises
    ------
    ConfigError
    """
    fields = {}
    for column in columns:
        if column.name == PARTITION:
            raise ConfigError(f"a column {PARTITION!r} is the index's own; rename it, and give key= its new name")
        fields[column.name] = guessed_field(column)
    return Schema(fields)


_BINARY = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary
)  # fmt: skip


def guessed_field(column: pa.Field) -> Field:
    """Numbers, times and text are fields of the index, lists are arrays.

    Raises
    ------
    ConfigError
    """
    kind = values_type(plain_type(column))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Field(str, index=True, nullable=column.nullable)
    if any(is_kind(kind) for is_kind in _BINARY):
        return Field(bytes, nullable=column.nullable)
    shape: list[int | None] = []
    # PyArrow writes the permutation also where it changes nothing.
    if isinstance(kind, pa.FixedShapeTensorType) and list(kind.permutation or []) in ([], list(range(len(kind.shape)))):
        shape, kind = list(kind.shape), kind.value_type
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = "ms" if kind.unit == "s" else kind.unit
        dtype: Any = f"{'M8' if pa.types.is_timestamp(kind) else 'm8'}[{unit}]"
    elif pa.types.is_date(kind):
        dtype = "M8[ms]"
    else:
        try:
            dtype = np.dtype(kind.to_pandas_dtype())
        except (NotImplementedError, TypeError):
            # pandas's extensions, such as periods, name types that NumPy has not.
            dtype = np.dtype(object)
        if dtype.kind not in "biuf":
            raise ConfigError(
                f"column {column.name!r}: {column.type} has no field that it could be; cast it to what has one "
                "(numbers, text, bytes, times, and lists of numbers), or leave it out with schema="
            )
    return Field(dtype, shape, index=not shape, nullable=column.nullable)


def class_attrs(where: str, metadata: Any, fields: Iterable[str]) -> dict[str, Any]:
    """The attribute for names of classes that the metadata of a file or a frame says; what none holds is left out."""
    known = set(fields)
    classes = {name: names for name, names in class_names(metadata).items() if name in known}
    try:
        checked_attrs({"class_names": classes})
    except ConfigError as error:
        announce(f"{where}: names of classes are left out: {error.args[0]}")
        return {}
    return {"class_names": classes} if classes else {}


def values_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, of a dictionary too."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
