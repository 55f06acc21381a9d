"""How Petastorm stores a tensor in a Parquet cell: scalars, `.npy`, `.npz`, JPEG and PNG.

The bytes are Petastorm's (0.4 to 0.13), so that either reads what the other wrote. What a cell says of its size is
checked before room is made for it, and nothing is unpickled.
"""

from __future__ import annotations

import ast
import io
import math
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Protocol

import numpy as np

from hubarray.arrays.codecs.foreign_dtypes import check_header
from hubarray.arrays.codecs.image_headers import image_header
from hubarray.errors import ConfigError, SourceError
from hubarray.readers.fields.spark_names import decimal_digits, spark_name
from hubarray.redaction import named_type, shown_text
from hubarray.tables.format.field_codecs import image_decoded, image_encoded
from hubarray.values.elements import Target, as_elements
from hubarray.values.foreign import is_missing, plain_array, single, unmasked

MAX_VALUE_BYTES = 1 << 30
_NPY_HEADER_BYTES = 1 << 16
_IMAGES = {"png": "png", "jpeg": "jpeg", "jpg": "jpeg"}
# The units of Spark's types of times.
_UNITS = {"TimestampType": "us", "TimestampNTZType": "us", "DateType": "D"}


class FieldType(Protocol):
    """The facts that a codec asks of a field: :class:`hubarray.petastorm.UnischemaField` has it."""

    @property
    def name(self) -> str:
        """The name of the field."""

    @property
    def numpy_dtype(self) -> Any:
        """The type of its values."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Their shape; None where it differs from row to row."""


class FieldCodec:
    """Base class of the codecs of a :class:`hubarray.petastorm.UnischemaField`."""

    def encode(self, field: FieldType, value: Any) -> Any:
        """The cell of a value.

        Raises
        ------
        ConfigError
            The value is not of the field's dtype and shape.
        """
        raise NotImplementedError

    def decode(self, field: FieldType, stored: Any) -> Any:
        """The value of a cell.

        Raises
        ------
        SourceError
            The bytes are damaged, or say another dtype or shape than the field.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The codec as new datasets keep it."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldCodec) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self.to_json().items()))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.to_json().items() if name != "codec")
        return f"{type(self).__name__}({options})"


class ScalarCodec(FieldCodec):
    """A number, text, bytes or Decimal, as a cell of its own type.

    Parameters
    ----------
    spark_type : pyspark.sql.types.DataType or str, optional
        The type of the column in Spark, or the name of its class, such as ``"DecimalType(10,2)"``. The default fits the
        dtype of the field. It says the unit of times that have none, and how many digits decimals have.

    Raises
    ------
    ConfigError
        Decimals with this number of digits cannot be stored.
    """

    def __init__(self, spark_type: Any = None) -> None:
        self.spark_type = spark_type
        self._spark_name = spark_name(spark_type)

    def encode(self, field: FieldType, value: Any) -> Any:
        """The value as it is stored."""
        if field.shape:
            raise ConfigError(f"field {field.name!r}: ScalarCodec is for single values, and the shape is {field.shape}")
        if isinstance(value, np.ndarray) and value.ndim:
            raise ConfigError(f"field {field.name!r}: is a single value, and this one has shape {value.shape}")
        try:
            if field.numpy_dtype is Decimal:
                return _decimal(value, *decimal_digits(self._spark_name))
            cell = _single(cell_dtype(field.numpy_dtype, self._spark_name), value)
            # To Spark a time without a zone is one of the computer's own.
            is_utc = isinstance(cell, datetime) and is_moment(field.numpy_dtype, self._spark_name)
            return cell.replace(tzinfo=UTC) if is_utc else cell
        except (ValueError, TypeError, ArithmeticError) as error:
            dtype_name = str(self) if field.numpy_dtype is Decimal else str(np.dtype(field.numpy_dtype))
            shown = shown_text(repr(value))[:80]
            raise ConfigError(f"field {field.name!r}: {shown} cannot be stored as {dtype_name}: {error}") from None

    def decode(self, field: FieldType, stored: Any) -> Any:
        """The value that was stored."""
        return scalar(field, stored)

    def to_json(self) -> dict[str, Any]:
        """The codec as new datasets keep it."""
        return {"codec": "scalar"} | ({} if self._spark_name is None else {"spark_type": self._spark_name})


def cell_dtype(numpy_dtype: Any, spark_type: str | None) -> np.dtype[Any]:
    """The dtype of a scalar's cells: times are in the unit that a type of Spark has.

    Examples
    --------
    >>> cell_dtype(np.datetime64, "TimestampType")
    dtype('<M8[us]')
    """
    dtype = np.dtype(numpy_dtype)
    unit = _UNITS.get(spark_type or "") if dtype.kind == "M" else None
    return dtype if unit is None else np.dtype(f"M8[{unit}]")


def is_moment(numpy_dtype: Any, spark_type: str | None) -> bool:
    """Whether a scalar's cells are times of UTC, and not of wherever a clock hangs."""
    return spark_type == "TimestampType" and np.dtype(numpy_dtype).kind == "M"


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Return a value as a decimal with this number of digits, without losing any."""
    value = single(unmasked(value))
    number = Decimal(value.item() if isinstance(value, np.generic) else value)
    if not number.is_finite():
        raise ValueError("it is not finite")
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return number.quantize(Decimal(1).scaleb(-scale), context=exact)
    except (Inexact, InvalidOperation):
        raise ValueError(f"the type has {precision} digits, {scale} of them after the point") from None


def _single(dtype: np.dtype[Any], value: Any) -> Any:
    """A value as Python's objects, which Arrow takes: nothing is rounded, and nothing wraps around."""
    value = single(unmasked(value))
    if dtype.kind in "mM":
        # Of nanoseconds an integer, which Arrow counts in the column's own unit.
        return as_elements(value, Target(dtype)).astype(dtype).item()
    plain = plain_array(value)
    value = value if plain is None else plain.item()
    if dtype.kind == "U":
        if not isinstance(value, str):
            raise TypeError(f"it is {named_type(value)}, but text is expected")
        value.encode()
        return str(value)
    if dtype.kind == "S":
        return value.encode() if isinstance(value, str) else bytes(memoryview(value))
    if is_missing(value) and dtype.kind != "f":
        raise ValueError("it is missing")
    if dtype.kind == "b":
        if not isinstance(value, (bool, int, float)) or value in (math.inf, -math.inf):
            raise TypeError(f"it is {named_type(value)}, but a bool is expected")
        return bool(value)
    if dtype.kind == "f":
        return float(value)
    whole = int(value)
    if whole != value and not isinstance(value, str):
        raise ValueError("it is not whole")
    if not np.iinfo(dtype).min <= whole <= np.iinfo(dtype).max:
        raise ValueError("it is beyond its range")
    return whole


class NdarrayCodec(FieldCodec):
    """An array as a `.npy` file in the cell (numpy.lib.format)."""

    def encode(self, field: FieldType, value: Any) -> bytes:
        """The value as it is stored."""
        value = _check(field, value)
        out = io.BytesIO()
        np.save(out, value, allow_pickle=False)
        return out.getvalue()

    def decode(self, field: FieldType, stored: Any) -> Any:
        """The value that was stored."""
        return _conforming(field, _npy(field, io.BytesIO(_bytes(field, stored)), len(stored)))

    def to_json(self) -> dict[str, Any]:
        """The codec as new datasets keep it."""
        return {"codec": "ndarray"}


class CompressedNdarrayCodec(FieldCodec):
    """An array as a `.npz` file in the cell: zlib over `.npy`."""

    def encode(self, field: FieldType, value: Any) -> bytes:
        """The value as it is stored."""
        value = _check(field, value)
        out = io.BytesIO()
        np.savez_compressed(out, arr=value)
        return out.getvalue()

    def decode(self, field: FieldType, stored: Any) -> Any:
        """The value that was stored."""
        try:
            with zipfile.ZipFile(io.BytesIO(_bytes(field, stored))) as file:
                (inside,) = file.infolist()
                if inside.filename != "arr.npy" or inside.file_size > MAX_VALUE_BYTES:
                    raise ValueError(f"has {inside.filename[:80]!r} of {inside.file_size:,} bytes")
                with file.open(inside) as plain:
                    value = _npy(field, plain, inside.file_size)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError, RuntimeError) as error:
            raise _damaged(field, error) from None
        except Exception as error:
            if type(error).__module__ in ("zlib", "_lzma"):
                raise _damaged(field, error) from None
            raise
        return _conforming(field, value)

    def to_json(self) -> dict[str, Any]:
        """The codec as new datasets keep it."""
        return {"codec": "compressed_ndarray"}


class CompressedImageCodec(FieldCodec):
    """An image of 8 bits as JPEG, or of 8 or 16 bits as PNG; grey, or RGB.

    Parameters
    ----------
    image_codec : "png", "jpeg"
    quality : int
        Of JPEG, 1 to 100.
    """

    def __init__(self, image_codec: str = "png", quality: int = 80) -> None:
        kind = _IMAGES.get(str(image_codec).lstrip("."))
        if kind is None:
            raise ConfigError(f"image_codec={image_codec!r}: give 'png' or 'jpeg'")
        if not 1 <= quality <= 100:
            raise ConfigError(f"quality={quality!r}: is 1 to 100")
        self.image_codec, self.quality = kind, quality

    def encode(self, field: FieldType, value: Any) -> bytes:
        """The value as it is stored."""
        value = _check(field, value)
        if value.dtype not in ((np.uint8,) if self.image_codec == "jpeg" else (np.uint8, np.uint16)):
            raise ConfigError(f"field {field.name!r}: {self.image_codec} has no images of {value.dtype}")
        return image_encoded(self._codec(), value)

    def decode(self, field: FieldType, stored: Any) -> Any:
        """The value that was stored."""
        data = _bytes(field, stored)
        try:
            shape, dtype = image_header(self.image_codec, data)
            if math.prod(shape) * np.dtype(dtype).itemsize > MAX_VALUE_BYTES:
                raise ValueError(f"has the shape {shape}, more than is read")
            value = image_decoded(self._codec(), data, shape, np.dtype(dtype))
        except ValueError as error:
            raise _damaged(field, error) from None
        if len(field.shape) == 3 and field.shape[-1] == 1 and value.ndim == 2:
            value = value[:, :, None]
        return _conforming(field, value)

    def _codec(self) -> dict[str, Any]:
        return {"name": self.image_codec, "quality": self.quality}

    def to_json(self) -> dict[str, Any]:
        """The codec as new datasets keep it."""
        return {"codec": "compressed_image", "image_codec": self.image_codec, "quality": self.quality}


def codec_from_json(text: Any) -> FieldCodec:
    """The codec that some JSON says.

    Raises
    ------
    ValueError
    """
    if not isinstance(text, Mapping):
        raise ValueError("a codec is an object")
    kind = text.get("codec")
    if kind == "scalar":
        spark_type = text.get("spark_type")
        if spark_type is not None and not isinstance(spark_type, str):
            raise ValueError("spark_type is a name")
        return ScalarCodec(spark_type)
    if kind == "ndarray":
        return NdarrayCodec()
    if kind == "compressed_ndarray":
        return CompressedNdarrayCodec()
    if kind == "compressed_image" and isinstance(text.get("quality"), int):
        return CompressedImageCodec(str(text.get("image_codec")), text["quality"])
    raise ValueError(f"there is no codec {str(kind)[:80]!r}")


def scalar(field: FieldType, stored: Any) -> Any:
    """A value of a cell, of the field's own type."""
    kind = field.numpy_dtype
    try:
        if kind is Decimal:
            return stored if isinstance(stored, Decimal) else Decimal(stored)
        dtype = np.dtype(kind)
        if dtype.kind == "U":
            return stored.decode() if isinstance(stored, bytes) else str(stored)
        if dtype.kind == "S":
            if not isinstance(stored, (str, bytes)):
                raise TypeError(f"is {named_type(stored)}, but bytes are expected")
            return stored.encode() if isinstance(stored, str) else stored
        if dtype.kind == "O":
            return stored
        return dtype.type(stored)
    except (ValueError, TypeError, OverflowError, ArithmeticError, UnicodeDecodeError) as error:
        raise _damaged(field, error) from None


def _check(field: FieldType, value: Any) -> np.ndarray:
    try:
        value = unmasked(value)
    except ConfigError as error:
        raise ConfigError(f"field {field.name!r}: {error}") from None
    if not isinstance(value, np.ndarray):
        raise ConfigError(f"field {field.name!r}: takes a NumPy array, not {named_type(value)}")
    expected = np.dtype(field.numpy_dtype)
    if value.dtype != expected and not (expected.kind in "US" and value.dtype.kind == expected.kind):
        raise ConfigError(f"field {field.name!r}: is of {expected}, and the array of {value.dtype}")
    if not shape_fits(field.shape, value.shape):
        raise ConfigError(f"field {field.name!r}: has shape {field.shape}, and the array {value.shape}")
    return value


def shape_fits(declared: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array's shape is one that a field with unknown dimensions allows."""
    return len(declared) == len(shape) and all(n in (None, m) for n, m in zip(declared, shape, strict=True))


def _conforming(field: FieldType, value: np.ndarray) -> np.ndarray:
    expected = np.dtype(field.numpy_dtype)
    if value.dtype != expected and not (expected.kind in "US" and value.dtype.kind == expected.kind):
        raise _damaged(field, ValueError(f"is of {value.dtype}, and the schema says {expected}"))
    if not shape_fits(field.shape, value.shape):
        raise _damaged(field, ValueError(f"has shape {value.shape}, and the schema says {field.shape}"))
    return value


def _npy(field: FieldType, file: Any, size: int) -> np.ndarray:
    """The array of a `.npy` file; its header is read before room is made for what it says."""
    try:
        begin = file.read(10)
        if begin[:6] != b"\x93NUMPY" or begin[6] not in (1, 2, 3):
            raise ValueError("is not a .npy file")
        length = int.from_bytes(begin[8:10], "little")
        if begin[6] > 1:
            length = int.from_bytes(begin[8:10] + file.read(2), "little")
        if length > min(size, _NPY_HEADER_BYTES):
            raise ValueError("has a header that is too long")
        text = file.read(length).decode("utf-8")
        check_header(text)
        header = ast.literal_eval(text)
        dtype, shape, fortran = np.dtype(header["descr"]), header["shape"], header["fortran_order"]
        counts = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
        if dtype.hasobject or not counts:
            raise ValueError("holds Python objects, or has an impossible shape")
        size_bytes = math.prod(shape) * dtype.itemsize
        if not dtype.itemsize and math.prod(shape) > size:
            raise ValueError(f"declares {math.prod(shape):,} values that take no bytes")
        if size_bytes > min(size, MAX_VALUE_BYTES):
            raise ValueError(f"declares {size_bytes:,} bytes and has {size:,}")
        left = size - len(begin) - (2 if begin[6] > 1 else 0) - length
        if size_bytes != left:
            raise ValueError(f"declares {size_bytes:,} bytes and has {left:,}")
        data = bytearray(size_bytes)
        view, at = memoryview(data), 0
        while at < size_bytes:
            piece = file.read(size_bytes - at)
            if not piece:
                raise ValueError("is cut short")
            view[at : at + len(piece)] = piece
            at += len(piece)
        value: np.ndarray = np.frombuffer(data, dtype) if dtype.itemsize else np.zeros(math.prod(shape), dtype)
        return value.reshape(shape, order="F" if fortran else "C")
    except (
        ValueError, KeyError, TypeError, SyntaxError, MemoryError, RecursionError, IndexError, OverflowError
    ) as error:  # fmt: skip
        raise _damaged(field, error) from None


def _bytes(field: FieldType, stored: Any) -> bytes:
    if not isinstance(stored, (bytes, bytearray, memoryview)):
        raise _damaged(field, ValueError(f"the cell holds {named_type(stored)}, but bytes are expected"))
    return bytes(stored)


def _damaged(field: FieldType, error: Exception) -> SourceError:
    return SourceError(f"field {field.name!r}: {str(error)[:200]}")
