"""A Unischema as Petastorm's pickle of it, so that Petastorm reads what hubarray writes.

Nothing is pickled: the opcodes that Petastorm's own pickles have are written one by one, for names of classes and plain
values alone. Opcodes: ``Lib/pickletools.py`` of CPython, protocol 2. State of the classes: ``petastorm/unischema.py``
and ``petastorm/codecs.py`` of Petastorm 0.4 to 0.13.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.cell_codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    FieldCodec,
    ScalarCodec,
)
from hubarray.readers.fields.spark_names import decimal_digits
from hubarray.readers.fields.spark_types import spark_type_name
from hubarray.readers.fields.unischema import Unischema, UnischemaField


class _Class(NamedTuple):
    """A class or a function, by its module and name."""

    module: str
    name: str


class _Made(NamedTuple):
    """An object of a class: what it is made of, and its attributes."""

    kind: _Class
    arguments: tuple[Any, ...] = ()
    attributes: Mapping[str, Any] | None = None


class _Ordered(NamedTuple):
    """An OrderedDict."""

    items: Mapping[str, Any]


def pickled_unischema(schema: Unischema) -> bytes:
    """The pickle of a schema that Petastorm reads.

    Raises
    ------
    ConfigError
        A field is of a type that Petastorm does not know: Spark, or NumPy by itself, has no such type.
    """
    name = vars(schema)["_name"]
    fields = {field.name: _field(field) for field in schema.fields.values()}
    whole = _Made(
        _Class("petastorm.unischema", "Unischema"), (), {"_name": name, "_fields": _Ordered(fields), **fields}
    )
    return b"\x80\x02" + _opcodes(whole) + b"."


def _field(field: UnischemaField) -> _Made:
    shape = tuple(None if n is None else int(n) for n in field.shape)
    arguments = (field.name, _numpy_type(field.numpy_dtype), shape, _codec(field), bool(field.nullable))
    return _Made(_Class("petastorm.unischema", "UnischemaField"), arguments)


def _numpy_type(kind: Any) -> _Class:
    if kind is Decimal:
        return _Class("decimal", "Decimal")
    dtype = np.dtype(kind)
    # Older releases of NumPy know these by no other name.
    named = {"b": "bool_", "U": "str_", "S": "bytes_", "M": "datetime64", "m": "timedelta64", "O": "object_"}
    name = named.get(dtype.kind, dtype.name)
    if not hasattr(np, name):
        raise ConfigError(f"NumPy itself has no {name}")
    return _Class("numpy", name)


def _codec(field: UnischemaField) -> _Made | None:
    codec: FieldCodec | None = field.codec
    if codec is None and field.shape:
        return None
    module = "petastorm.codecs"
    if codec is None or isinstance(codec, ScalarCodec):
        return _Made(_Class(module, "ScalarCodec"), (), {"_spark_type": _spark_type(spark_type_name(field))})
    if isinstance(codec, CompressedImageCodec):
        attributes = {"_image_codec": f".{codec.image_codec}", "_quality": codec.quality}
        return _Made(_Class(module, "CompressedImageCodec"), (), attributes)
    named = "CompressedNdarrayCodec" if isinstance(codec, CompressedNdarrayCodec) else "NdarrayCodec"
    return _Made(_Class(module, named), (), {})


def _spark_type(name: str) -> _Made:
    kind, _, digits = name.partition("(")
    # A type of later releases, which reading does not ask for.
    kind = "TimestampType" if kind == "TimestampNTZType" else kind
    if kind != "DecimalType":
        return _Made(_Class("pyspark.sql.types", kind), (), {})
    precision, scale = decimal_digits(name if digits else None)
    attributes = {"precision": precision, "scale": scale, "hasPrecisionInfo": True}
    return _Made(_Class("pyspark.sql.types", kind), (), attributes)


def _opcodes(value: Any) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        size = max(1, (value.bit_length() + 8) // 8)
        return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)
    if isinstance(value, str):
        text = value.encode()
        return b"X" + struct.pack("<I", len(text)) + text
    if isinstance(value, _Class):
        return b"c" + value.module.encode() + b"\n" + value.name.encode() + b"\n"
    if isinstance(value, _Made):
        made = _opcodes(value.kind) + _opcodes(value.arguments) + b"\x81"
        return made + (_opcodes(dict(value.attributes)) + b"b" if value.attributes else b"")
    if isinstance(value, _Ordered):
        return _opcodes(_Class("collections", "OrderedDict")) + b")R" + _items(value.items)
    if isinstance(value, dict):
        return b"}" + _items(value)
    return b"(" + _joined(value) + b"t"


def _items(items: Mapping[str, Any]) -> bytes:
    return b"(" + _joined([part for item in items.items() for part in item]) + b"u"


def _joined(values: Sequence[Any]) -> bytes:
    return b"".join(map(_opcodes, values))
