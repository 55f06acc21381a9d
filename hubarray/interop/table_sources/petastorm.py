"""Petastorm datasets as tables: fields by their Unischema, a partition a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.interop.table_sources.base import Rows, TableImport, taken
from hubarray.readers.fields.cell_codecs import CompressedImageCodec, ScalarCodec, cell_dtype
from hubarray.readers.fields.source import row_values
from hubarray.readers.fields.spark_names import spark_name
from hubarray.readers.fields.unischema import UnischemaField
from hubarray.readers.parquet.source import ParquetSource
from hubarray.tables.format.schema import Field, Schema


def opened(source: ParquetSource, given_schema: Schema | None) -> TableImport:
    """A dataset, a partition a file.

    Numbers, times and text are fields of the index; images that are PNG or JPEG stay as they are stored; decimals are
    text.

    Raises
    ------
    ConfigError
        A field is of a dtype that tables have not.
    """
    names = taken(list(source.schema.fields), given_schema, source.where)
    fields = {
        name: given_schema[name] if given_schema else _field(source, source.schema.fields[name]) for name in names
    }
    units: dict[int, list[int]] = {}
    for unit, (file, _) in enumerate(source.units):
        units.setdefault(file, []).append(unit)

    def rows(row_groups: Sequence[int]) -> Callable[[], Rows]:
        return lambda: (_rows(source, unit, fields) for unit in row_groups)

    keys = {file: source.files[file].relative.removesuffix(".parquet") for file in units}
    partitions: dict[str | int, Callable[[], Rows]] = {
        keys[file]: rows(file_units) for file, file_units in units.items()
    }
    return TableImport(given_schema or Schema(fields), partitions, False)


def _field(source: ParquetSource, field: UnischemaField) -> Field:
    dtype: Any = np.dtype("U") if field.numpy_dtype is Decimal else np.dtype(field.numpy_dtype)
    if _is_image(field):
        assert isinstance(field.codec, CompressedImageCodec)
        return Field("u1", (None, None, 3), codec=field.codec.image_codec, nullable=field.nullable)
    if dtype.kind == "M" and np.datetime_data(dtype)[0] == "generic":
        codec = field.codec
        unit = cell_dtype(dtype, spark_name(codec.spark_type) if isinstance(codec, ScalarCodec) else None)
        # The index has no days.
        dtype = np.dtype("M8[ms]" if unit == np.dtype("M8[D]") else "M8[us]")
    if dtype.kind in "US":
        if not field.shape:
            return Field(str if dtype.kind == "U" else bytes, index=dtype.kind == "U", nullable=field.nullable)
        dtype = np.dtype(f"{dtype.kind}{_longest(source, field.name)}")
    if dtype.kind not in "biufcMmUS":
        raise ConfigError(f"{source.where}: field {field.name!r} is of {dtype}, which tables do not have")
    indexed = not field.shape and dtype.kind in "biufmM"
    return Field(dtype, tuple(field.shape), index=indexed, nullable=field.nullable)


def _is_image(field: UnischemaField) -> bool:
    return isinstance(field.codec, CompressedImageCodec) and field.numpy_dtype is np.uint8 and (
        len(field.shape) == 3 and field.shape[2] == 3
    )  # fmt: skip


def _longest(source: ParquetSource, name: str) -> int:
    """The most characters of an element of a field of arrays of text."""
    most = 1
    bounds = source.unit_bounds
    assert bounds is not None
    for unit in range(len(source.units)):
        column = source.read(np.arange(bounds[unit], bounds[unit + 1]), [name])[name]
        for value in row_values(column):
            if value is not None:
                most = max(
                    [most, *(len(element) for element in np.asarray(value).ravel().tolist() if element is not None)]
                )
    return most


def _rows(source: ParquetSource, unit: int, fields: Mapping[str, Field]) -> list[dict[str, Any]]:
    bounds = source.unit_bounds
    assert bounds is not None
    images = [name for name in fields if _is_image(source.schema.fields[name])]
    others = [name for name in fields if name not in images]
    columns: dict[str, Sequence[Any]] = {}
    for name, column in source.read(np.arange(bounds[unit], bounds[unit + 1]), others).items():
        columns[name] = [_value(cell, fields[name]) for cell in row_values(column)]
    columns |= source.stored(unit, images)
    return [dict(zip(fields, row, strict=True)) for row in zip(*(columns[name] for name in fields), strict=True)]


def _value(value: Any, field: Field) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if value is not None and field.shape and field.dtype is not None and field.dtype.kind in "US":
        return np.asarray(value).astype(field.dtype)
    if isinstance(value, np.number) and value.dtype != field.dtype:
        # Plain numbers, which every dtype takes that they fit.
        return value.item()
    return value
