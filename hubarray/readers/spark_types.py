"""Spark's types for the cells that field codecs make."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.field_codecs import ScalarCodec

if TYPE_CHECKING:
    from hubarray.readers.unischema import Unischema, UnischemaField

# Spark has no unsigned numbers: each goes into the next larger signed one.
_BY_DTYPE = {
    "bool": "BooleanType", "int8": "ByteType", "uint8": "ShortType", "int16": "ShortType", "uint16": "IntegerType",
    "int32": "IntegerType", "uint32": "LongType", "int64": "LongType", "float16": "FloatType", "float32": "FloatType",
    "float64": "DoubleType",
}  # fmt: skip
_NAMES = frozenset(
    ["BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType", "StringType",
     "BinaryType", "DateType", "TimestampType", "TimestampNTZType", "DecimalType"]
)  # fmt: skip


def spark_schema(schema: Unischema) -> Any:
    """The StructType of encoded rows.

    Raises
    ------
    ConfigError
        A field has no codec and no Spark type.
    """
    from pyspark.sql import types

    fields = [types.StructField(field.name, _type(types, field), field.nullable) for field in schema.fields.values()]
    return types.StructType(fields)


def _type(types: Any, field: UnischemaField) -> Any:
    codec = field.codec
    if codec is not None and not isinstance(codec, ScalarCodec):
        return types.BinaryType()
    if isinstance(codec, ScalarCodec) and codec.spark_type is not None:
        given = codec.spark_type
        return getattr(types, given)() if isinstance(given, str) and given in _NAMES else given
    if field.shape:
        raise ConfigError(f"field {field.name!r}: an array needs a codec, such as hub.NdarrayCodec()")
    if field.numpy_dtype is Decimal:
        return types.DecimalType(38, 18)
    dtype = np.dtype(field.numpy_dtype)
    if dtype.kind == "U":
        return types.StringType()
    if dtype.kind == "S":
        return types.BinaryType()
    if dtype.kind == "M":
        return types.DateType() if dtype == np.dtype("M8[D]") else types.TimestampNTZType()
    if dtype.name not in _BY_DTYPE:
        raise ConfigError(f"field {field.name!r}: Spark has no type for {dtype}; give hub.ScalarCodec(a Spark type)")
    return getattr(types, _BY_DTYPE[dtype.name])()
