"""Values of a row, checked against their field before they are stored. Pure."""

from __future__ import annotations

import reprlib
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from hubarray.arrays.codecs.image_headers import check_image
from hubarray.arrays.codecs.text_codec import has_text, is_text
from hubarray.errors import ConfigError
from hubarray.redaction import named_type, shown_text
from hubarray.tables.format.block_encoding import Image
from hubarray.tables.format.field_codecs import check_size, image_decoded
from hubarray.tables.format.schema import Field
from hubarray.values.casting import cast_with_losses, may_be_kept
from hubarray.values.foreign import plain_array, single, unmasked
from hubarray.values.objects import ends_with_nul


def checked(field: Field, value: Any, *, decodes_images: bool = False) -> Any:
    """Return a value as :func:`hubarray.tables.format.block_encoding.encode` takes it: array, bytes, image or None.

    Numbers and times are accepted if the field's dtype holds them exactly. Bytes of a JPEG or PNG that has the field's
    dtype and shape are returned unchanged.

    Raises
    ------
    ConfigError
        It is not of the field's type or shape, or None where the field is not nullable.
    """
    value = single(unmasked(value))
    if value is None or type(value).__name__ == "NAType":
        # pandas' null, too.
        if not field.nullable:
            raise ConfigError("is None, and the field is not nullable")
        return None
    if field.kind == "string":
        return _text(value)
    if field.kind == "bytes":
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise ConfigError(f"is {named_type(value)}, but bytes are expected")
        return bytes(value)
    if field.is_image and isinstance(value, (bytes, bytearray, memoryview)):
        return _given_image(field, bytes(value), decodes=decodes_images)
    array = _array(field, value)
    _check_shape(field, array.shape)
    if field.is_image:
        assert field.codec is not None
        try:
            check_size(field.codec, array.shape)
        except ValueError as error:
            raise ConfigError(str(error)) from None
    if has_text(array.dtype) and not is_text(array):
        raise ConfigError("has code points beyond U+10FFFF; such bytes are not text; store them as V")
    if field.index and field.nullable and array.dtype.kind in "mM" and np.isnat(array):
        # As in pandas and Arrow, which the index is for.
        return None
    return array


def checked_column(field: Field, values: Any, *, decodes_images: bool = False) -> tuple[Any, ConfigError | None]:
    """Return the values of a field up to the first that cannot be stored, and the reason.

    An array of all values stays one where blocks are made of it as it is: numbers of a fixed size that may not be null.
    The caller may change what was given.
    """
    try:
        values = unmasked(values)
    except ConfigError as error:
        return [], error
    if isinstance(values, np.ndarray) and _stays_whole(field, values):
        return values.copy(), None
    checked_values: list[Any] = []
    if field.kind == "string" and {*map(type, values)} <= {str}:
        try:
            return [value.encode() for value in values], None
        except UnicodeEncodeError:
            checked_values = []
    for value in values:
        try:
            stored = checked(field, value, decodes_images=decodes_images)
        except ConfigError as error:
            return checked_values, error
        checked_values.append(stored.copy() if isinstance(stored, np.ndarray) else stored)
    return checked_values, None


def spelled(dtype: np.dtype[Any]) -> Any:
    """A dtype as somebody would write it: the name that NumPy gives to text and structures is not read again."""
    return dtype.name if dtype.kind in "biufcmM" else dtype.str if dtype.names is None else dtype.descr


def _stays_whole(field: Field, values: np.ndarray) -> bool:
    if field.ragged or field.nullable or field.is_image or field.dtype is None or field.dtype.kind not in "biufcmM":
        return False
    return values.dtype == field.dtype and values.shape[1:] == field.shape and values.flags.c_contiguous


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ConfigError(f"is {named_type(value)}, but text is expected")
    try:
        return str(value).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"is not Unicode text: {error.reason} at letter {error.start}") from None


def _given_image(field: Field, data: bytes, *, decodes: bool) -> Image:
    assert field.codec is not None
    assert field.dtype is not None
    try:
        shape, dtype = check_image(field.codec["name"], data)
    except ValueError as error:
        raise ConfigError(f"{error}; give a {field.codec['name']} image, or an array of its elements") from None
    if dtype != field.dtype.name:
        raise ConfigError(f"is an image of {dtype}, but {field.dtype.name} is expected")
    _check_shape(field, shape)
    if decodes:
        try:
            image_decoded(field.codec, data, shape, field.dtype)
        except ValueError as error:
            raise ConfigError(f"is an image that cannot be decoded: {error}") from None
    return Image(data, shape)


def refuse_losses(values: np.ndarray, lost: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Refuse values of which some are not the same in the field's dtype.

    Raises
    ------
    ConfigError
    """
    if lost.any():
        worst = values[lost].flat[0]
        raise ConfigError(f"has {worst!r}, which {dtype} cannot hold; cast it before, .astype({spelled(dtype)!r})")


def _array(field: Field, value: Any) -> np.ndarray:
    dtype = field.dtype
    assert dtype is not None
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        shorter = array.dtype.kind == dtype.kind in "SU" and array.dtype.itemsize <= dtype.itemsize
        if not shorter and array.dtype.newbyteorder("=") != dtype.newbyteorder("="):
            if not may_be_kept(array.dtype, dtype):
                raise ConfigError(
                    f"is of dtype {array.dtype}, but {dtype} is expected; cast it, .astype({spelled(dtype)!r})"
                )
            array, lost = cast_with_losses(array, dtype)
            refuse_losses(np.asarray(value), lost, dtype)
        return np.ascontiguousarray(array, dtype).reshape(array.shape)
    if isinstance(value, (datetime, date, timedelta)) and dtype.kind in "mM":
        return _moment(dtype, value)
    if dtype.kind == "V" and not field.shape and isinstance(value, (bytes, tuple)):
        return _void(dtype, value)
    if field.shape and not isinstance(value, (list, tuple)) and not hasattr(value, "__array__"):
        raise ConfigError(f"is {named_type(value)}, but an array of shape {field.shape} is expected")
    if isinstance(value, (list, tuple)) and not len(value) and field.shape and field.shape[0] is None:
        # An empty list does not say how long its lists would be.
        return np.zeros([0, *(n or 0 for n in field.shape[1:])], dtype)
    if not isinstance(value, (list, tuple)):
        plain = plain_array(value)
        if plain is not None and plain.dtype != object:
            return _array(field, plain if plain.ndim else plain[()])
        value = value if plain is None else plain
    if dtype.kind in "SU":
        refuse_nul(np.asarray(value, object), dtype)
    try:
        numbers = np.asarray(value)
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"cannot be stored as {dtype}: {error}") from None
    if not _survives(numbers, array):
        raise _misfit(value, dtype)
    return np.ascontiguousarray(array).reshape(array.shape)


def _misfit(value: Any, dtype: np.dtype[Any]) -> ConfigError:
    shown = shown_text(reprlib.repr(value))[:80]
    return ConfigError(f"{shown} does not fit {dtype}; convert it, or give the field a dtype that holds it")


def refuse_nul(objects: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Refuse text and bytes whose end would be lost where their size is fixed.

    Raises
    ------
    ConfigError
    """
    if ends_with_nul(objects):
        raise ConfigError(
            f"has text that ends with NUL, which {dtype.str[1:]} would lose; a field of str or bytes keeps it"
        )


def _moment(dtype: np.dtype[Any], value: datetime | date | timedelta) -> np.ndarray:
    """A time of Python or pandas in the field's unit, if it has no part that the unit lacks."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        # The moment, as columns of frames and Arrow mean it.
        value = value.astimezone(UTC).replace(tzinfo=None)
    try:
        # A Timestamp of pandas has nanoseconds that a datetime has not.
        exact = np.asarray(getattr(value, "to_numpy", lambda: value)())
        if exact.dtype == object:
            exact = np.asarray(value, f"{'m' if isinstance(value, timedelta) else 'M'}8[us]")
        array = exact.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"cannot be stored as {dtype}: {error}") from None
    if array.dtype.kind != exact.dtype.kind or not (np.isnat(exact) or array.astype(exact.dtype) == exact):
        raise _misfit(value, dtype)
    return array


def _void(dtype: np.dtype[Any], value: bytes | tuple[Any, ...]) -> np.ndarray:
    """Bytes of a field of raw bytes, or the values of one of structures."""
    if isinstance(value, bytes) and dtype.names is None:
        if len(value) != dtype.itemsize:
            raise ConfigError(f"has {len(value)} bytes, but {dtype.itemsize} are expected")
        return np.frombuffer(value, dtype).reshape(()).copy()
    try:
        array = np.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"cannot be stored as {dtype}: {error}") from None
    if array.ndim or array.tolist() != value:
        raise _misfit(value, dtype)
    return array


def _survives(original: np.ndarray, array: np.ndarray) -> bool:
    """Whether Python's numbers are the same in the field's dtype; floats are rounded to its precision."""
    kinds = original.dtype.kind, array.dtype.kind
    if kinds[0] in "USO":
        return kinds[0] == kinds[1] and bool((array == original).all())
    if kinds[0] in "fc" and kinds[1] in "fc":
        return bool((np.isfinite(array) | ~np.isfinite(original)).all())
    if original.dtype == array.dtype or not may_be_kept(original.dtype, array.dtype):
        return kinds[0] == kinds[1]
    if kinds[0] in "iu" and kinds[1] in "iu":
        return bool((array == original).all())
    return not cast_with_losses(original, array.dtype)[1].any()


def _check_shape(field: Field, shape: tuple[int, ...]) -> None:
    fits = len(shape) == len(field.shape)
    if not fits or any(length not in (None, n) for length, n in zip(field.shape, shape, strict=True)):
        raise ConfigError(f"has the shape {shape}, but {field.shape} is expected")
