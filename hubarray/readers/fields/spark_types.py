"""Spark's types for the cells that codecs make."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.cell_codecs import ScalarCodec
from hubarray.readers.fields.spark_names import decimal_digits, spark_name

if TYPE_CHECKING:
    from hubarray.readers.fields.unischema import Unischema, UnischemaField

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
    spark_type = codec.spark_type if isinstance(codec, ScalarCodec) else None
    if spark_type is not None and not isinstance(spark_type, str):
        return spark_type
    name = spark_type_name(field)
    if name.startswith("DecimalType("):
        return types.DecimalType(*decimal_digits(name))
    return getattr(types, name)() if name in _NAMES else name


def spark_type_name(field: UnischemaField) -> str:
    """The name of the type that a field's cells have in Spark, such as ``"LongType"`` or ``"DecimalType(38,18)"``.

    Raises
    ------
    ConfigError
        There is none.
    """
    codec = field.codec
    if codec is not None and not isinstance(codec, ScalarCodec):
        return "BinaryType"
    type_name = None if codec is None else spark_name(codec.spark_type)
    if type_name is not None:
        return type_name
    if field.shape:
        raise ConfigError(f"field {field.name!r}: an array needs a codec, such as hub.petastorm.NdarrayCodec()")
    if field.numpy_dtype is Decimal:
        return "DecimalType({},{})".format(*decimal_digits(None))
    dtype = np.dtype(field.numpy_dtype)
    if dtype.kind in "USM":
        is_date = dtype == np.dtype("M8[D]")
        return {"U": "StringType", "S": "BinaryType", "M": "DateType" if is_date else "TimestampNTZType"}[dtype.kind]
    if dtype.name not in _BY_DTYPE:
        raise ConfigError(
            f"field {field.name!r}: Spark has no type for {dtype}; give hub.petastorm.ScalarCodec(a Spark type)"
        )
    return _BY_DTYPE[dtype.name]
