"""NumPy dtypes and fill values as Zarr v3 metadata writes them. Pure.

The names of plain numbers and the fill value encodings are those of the Zarr
v3 core specification; datetimes, fixed-length strings and structured types
follow zarr-python 3.1's extension names, as text of any length does (``string``, NumPy's StringDType), bfloat16 and
the float8 types TensorStore's.
Tests hold this against zarr-python and TensorStore.
"""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from hubarray import process
from hubarray.errors import ConfigError
from hubarray.redaction import named_type, shown_text, with_article
from hubarray.values.elements import Target, as_elements
from hubarray.values.foreign import TEXT

_PLAIN = {
    np.dtype(name): name
    for name in [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
}
_BY_NAME = {name: dtype for dtype, name in _PLAIN.items()}
# Of the package ml_dtypes, which NumPy takes for void types of one or two bytes.
_ML_NAMES = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
_TIME_KINDS = {"M": "numpy.datetime64", "m": "numpy.timedelta64"}
_TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as")
_SIZED_KINDS = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1)}


# An element is in memory whole, as the fill value too, whenever an array is opened.
MAX_ELEMENT_BYTES = 16 << 20

# Text of any length: hubarray.values.foreign.TEXT.
# What a text of any length is planned with; NumPy has 16 bytes of it in place, and the rest elsewhere.
_PLANNED_TEXT_BYTES = 64
# Of a chunk: each is an object of its own while it is decoded.
MAX_CHUNK_TEXTS = 1 << 22
MAX_FILL_TEXT_BYTES = 1024


class UnknownTypeError(ConfigError):
    """A data type or codec of a newer version, or of a package that is not there."""


@functools.cache
def ml_dtype(name: str) -> np.dtype[Any] | None:
    """A dtype of the package ml_dtypes by its name; None where it has no such, or is not there."""
    if name not in _ML_NAMES:
        return None
    try:
        with process.importing:
            import ml_dtypes
    except ImportError:
        return None
    scalar_type = getattr(ml_dtypes, name, None)
    return None if scalar_type is None else np.dtype(scalar_type)


def is_ml(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a float of the package ml_dtypes."""
    return dtype.itemsize <= 2 and dtype.name in _ML_NAMES


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that can be stored, in little-endian order and without padding.

    Raises
    ------
    ConfigError
        Objects (they would need pickle), text that may be missing, long
        doubles, subarray fields, and types without a size.

    Examples
    --------
    >>> checked_dtype(">i4")
    dtype('int32')
    """
    if dtype is str or (isinstance(dtype, str) and dtype in ("str", "string")):
        return TEXT
    if isinstance(dtype, str) and dtype in _ML_NAMES:
        dtype = ml_dtype(dtype) or _refuse_ml(dtype)
    try:
        dtype = np.dtype(dtype)
    except TypeError as error:
        raise ConfigError(f"dtype: {error}") from None
    if is_ml(dtype):
        return dtype
    if dtype.kind == "T":
        if hasattr(dtype, "na_object"):
            raise ConfigError(f"dtype {dtype}: text that may be missing cannot be stored; fill it, or make a table")
        return TEXT
    if dtype.kind == "V" and dtype.type is not np.void:
        raise ConfigError(
            f"dtype {dtype} cannot be stored: it is a type of {dtype.type.__module__}, and Zarr has no name for it"
        )
    if dtype.hasobject:
        raise ConfigError(
            f"dtype {dtype}: Python objects cannot be stored, because that would need pickle, which runs code when "
            "it is read; for text give dtype=str"
        )
    if dtype.subdtype is not None:
        raise ConfigError(f"dtype {dtype}: subarray types cannot be stored; add the dimensions to the shape instead")
    if dtype.itemsize > MAX_ELEMENT_BYTES:
        raise ConfigError(
            f"dtype {str(dtype)[:80]}: an element of {dtype.itemsize:,} bytes is more than the {MAX_ELEMENT_BYTES:,} "
            "that one may have; add a dimension instead"
        )
    if dtype.names is not None:
        return _checked_structure(dtype)
    if dtype.kind in "SUV" and dtype.itemsize == 0:
        raise ConfigError(f"dtype {dtype.str!r} has no size; give one, such as '{dtype.kind}32'")
    if dtype.kind in "Mm" and np.datetime_data(dtype)[0] == "generic":
        raise ConfigError(f"dtype {dtype} has no unit; give one, such as '{dtype.kind}8[ns]'")
    little = np.dtype(dtype.newbyteorder("<").str)
    if little not in _PLAIN and dtype.kind not in "MmSUV":
        raise ConfigError(f"dtype {dtype} cannot be stored: Zarr has no name for it")
    return little


def _refuse_ml(name: str) -> NoReturn:
    raise ConfigError(f"dtype {name!r} needs the package ml_dtypes, which is not installed: pip install ml_dtypes")


def _checked_structure(dtype: np.dtype[Any]) -> np.dtype[Any]:
    fields = []
    for name in dtype.names or ():
        inner = dtype[name]
        if inner.subdtype is not None or inner.names is not None or inner.kind == "T" or is_ml(inner):
            raise ConfigError(
                f"dtype field {name!r} is {inner}: fields have to be scalars, because Zarr's structured type has no "
                "nested or subarray fields; make it an array of its own"
            )
        fields.append((name, checked_dtype(inner)))
    if not fields:
        raise ConfigError("dtype: a structured type needs at least one field")
    return np.dtype(fields)


def planned_bytes(dtype: np.dtype[Any]) -> int:
    """Bytes of an element, where chunks, batches and windows are planned: of text of any length a guess."""
    return _PLANNED_TEXT_BYTES if dtype.kind == "T" else dtype.itemsize


def check_texts(chunks: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Refuse chunks of too many texts.

    Raises
    ------
    ConfigError
    """
    if dtype.kind == "T" and math.prod(chunks) > MAX_CHUNK_TEXTS:
        raise ConfigError(f"chunks {tuple(chunks)}: a chunk has at most {MAX_CHUNK_TEXTS:,} texts of any length")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """A dtype as people read it.

    Examples
    --------
    >>> dtype_name(np.dtype("<f4")), dtype_name(TEXT)
    ('float32', 'string')
    """
    return "string" if dtype.kind == "T" else str(dtype)


def fill_bytes(fill: np.ndarray) -> bytes:
    """Bytes that tell fill values of one dtype apart, bit for bit."""
    return str(fill).encode() if fill.dtype.kind == "T" else fill.tobytes()


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Zarr v3 ``data_type`` of a checked dtype."""
    if dtype.kind == "T":
        return "string"
    if dtype in _PLAIN:
        return _PLAIN[dtype]
    if is_ml(dtype):
        return dtype.name
    if dtype.names is not None:
        fields = [[name, dtype_to_json(dtype[name])] for name in dtype.names]
        return {"name": "structured", "configuration": {"fields": fields}}
    if dtype.kind in _TIME_KINDS:
        unit, count = np.datetime_data(dtype)
        return {"name": _TIME_KINDS[dtype.kind], "configuration": {"unit": unit, "scale_factor": count}}
    name = next(name for name, (kind, _) in _SIZED_KINDS.items() if kind == dtype.kind)
    return {"name": name, "configuration": {"length_bytes": dtype.itemsize}}


def dtype_from_json(data_type: Any) -> np.dtype[Any]:
    """The inverse of :func:`dtype_to_json`, for untrusted JSON.

    Raises
    ------
    UnknownTypeError
        A type that this version does not know.
    ValueError, TypeError, KeyError
        One that it knows, described as it cannot be.
    """
    if data_type == "string":
        return TEXT
    if isinstance(data_type, str) and (known := _BY_NAME.get(data_type) or ml_dtype(data_type)):
        return known
    if isinstance(data_type, dict):
        name, configuration = data_type.get("name"), data_type.get("configuration", {})
        if name in ("structured", "struct"):
            fields = [(field, dtype_from_json(inner)) for field, inner in map(_field, configuration["fields"])]
            if any(inner.names is not None for _, inner in fields):
                raise ValueError("a field has fields itself")
            return _of_size(np.dtype(fields))
        for kind, time_name in _TIME_KINDS.items():
            if name == time_name:
                scale, unit = configuration["scale_factor"], configuration["unit"]
                if type(scale) is not int or not 1 <= scale < 1 << 31 or unit not in _TIME_UNITS:
                    raise ValueError(f"{time_name} has no such unit")
                return np.dtype(f"<{kind}8[{scale}{unit}]")
        if name in _SIZED_KINDS:
            kind, character_bytes = _SIZED_KINDS[name]
            count, rest = divmod(configuration["length_bytes"], character_bytes)
            if type(count) is not int or rest or not 1 <= count * character_bytes < 1 << 31:
                raise ValueError(f"{name} has no such length")
            return _of_size(np.dtype(f"<{kind}{count}"))
    raise UnknownTypeError(f"data type {shown_text(str(data_type))[:200]} is not known to this version of hubarray")


def _field(described: Any) -> tuple[Any, Any]:
    """Return name and type of a field: a pair of the type ``structured``, or a mapping of ``struct`` (Zarr 3.4)."""
    if isinstance(described, dict):
        return described["name"], described["data_type"]
    name, data_type = described
    return name, data_type


def _of_size(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.itemsize > MAX_ELEMENT_BYTES:
        raise ValueError(f"an element has {dtype.itemsize:,} bytes, more than {MAX_ELEMENT_BYTES:,}")
    return dtype


def fill_to_json(fill: np.ndarray) -> Any:
    """Zarr v3 ``fill_value`` of a 0-d array; keeps every bit, signs of zero and NaN payloads too."""
    dtype = fill.dtype
    if is_ml(dtype):
        return _float_to_json(fill.reshape(1))
    if dtype.names is not None or dtype.kind == "V":
        return base64.standard_b64encode(fill.tobytes()).decode("ascii")
    if dtype.kind == "S":
        return base64.standard_b64encode(fill.item()).decode("ascii")
    if dtype.kind in "UT":
        return str(fill)
    if dtype.kind in "Mm":
        return int(fill.view("<i8"))
    if dtype.kind == "b":
        return bool(fill)
    if dtype.kind in "iu":
        return int(fill)
    if dtype.kind == "c":
        parts = fill.reshape(1).view(f"<f{dtype.itemsize // 2}")
        return [_float_to_json(parts[0:1]), _float_to_json(parts[1:2])]
    return _float_to_json(fill.reshape(1))


def fill_from_json(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """The inverse of :func:`fill_to_json`, for untrusted JSON. Return a read-only 0-d array.

    Raises
    ------
    ValueError, TypeError, OverflowError
        The JSON is not a fill value of this type.
    """
    if is_ml(dtype):
        fill = _float_from_json(value, dtype).reshape(())
    elif dtype.names is not None and isinstance(value, dict):
        if set(value) != set(dtype.names):
            raise ValueError("the fill value has other fields than the type")
        fill = np.zeros((), dtype)
        for name in dtype.names:
            fill[name] = fill_from_json(value[name], dtype[name])
    elif dtype.names is not None or dtype.kind == "V":
        fill = np.frombuffer(base64.standard_b64decode(value), dtype).reshape(()).copy()
    elif dtype.kind == "S":
        fill = np.array(base64.standard_b64decode(value), dtype)
    elif dtype.kind in "Mm":
        fill = np.array(_of_kind(value, int), "<i8").view(dtype)
    elif dtype.kind == "c":
        part = np.dtype(f"<f{dtype.itemsize // 2}")
        real, imaginary = value
        fill = np.concatenate([_float_from_json(piece, part) for piece in (real, imaginary)]).view(dtype).reshape(())
    elif dtype.kind == "f":
        fill = _float_from_json(value, dtype).reshape(())
    else:
        fill = np.array(_of_kind(value, {"b": bool, "U": str, "T": str}.get(dtype.kind, int)), dtype)
    fill.setflags(write=False)
    return fill


def _of_kind(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{with_article(kind.__name__)} is expected, not {named_type(value)}")
    return value


def checked_fill(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A fill value of the array's dtype, as an assignment would convert it; None is 0, as in Zarr.

    Raises
    ------
    ConfigError
        It is not one element, or cannot be converted without changing it into another value.
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value == 0):
        return np.zeros((), dtype)
    if dtype.kind == "T":
        if not isinstance(value, str) or len(value.encode(errors="replace")) > MAX_FILL_TEXT_BYTES:
            raise ConfigError(f"fill_value {str(value)[:80]!r} is not text of up to {MAX_FILL_TEXT_BYTES:,} bytes")
        return np.array(value, dtype)
    try:
        elements = as_elements(value, Target(dtype))
        fill = elements.astype(dtype)
    except ConfigError as error:
        raise ConfigError(f"fill_value {str(value)[:80]!r}: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"fill_value {value!r} is not {with_article(str(dtype))}: {error}") from None
    if fill.shape != ():
        raise ConfigError(f"fill_value is one element, not an array of shape {fill.shape}")
    if isinstance(value, (int, float, complex)):
        # Python's numbers have the array's dtype already.
        elements = np.asarray(value)
    changed = dtype.kind in "biu" and elements.dtype.kind in "biuf" and fill != elements
    if dtype.kind in "fc" and elements.dtype.kind in "iufc":
        changed = bool(np.isfinite(elements)) and not np.isfinite(fill)
    elif dtype.kind in "mM" and elements.dtype.kind == dtype.kind:
        changed = not np.isnat(elements) and fill.astype(elements.dtype) != elements
    if changed:
        raise ConfigError(f"fill_value {value!r} does not fit into {dtype}")
    return fill


def _float_to_json(element: np.ndarray) -> Any:
    number = float(element[0])
    if math.isnan(number):
        bits = element.view(f"<u{element.dtype.itemsize}")[0]
        canonical = np.array([np.nan], element.dtype).view(f"<u{element.dtype.itemsize}")[0]
        return "NaN" if bits == canonical else f"0x{int(bits):0{2 * element.dtype.itemsize}x}"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _float_from_json(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(value, str) and value.startswith("0x"):
        return np.array([int(value, 16)], f"<u{dtype.itemsize}").view(dtype)
    return np.array([float(value)], dtype)
