"""Arrays of Python objects: what of them is text or bytes, and what cannot be stored. Pure."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from hubarray.errors import ConfigError
from hubarray.values.foreign import TEXT

_SHOWN_KINDS = 5


def plain_objects(array: Any) -> Any:
    """Objects that are text as NumPy's StringDType, byte strings as wide as the widest, and all else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> plain_objects(np.array(["a", "bcd"], object)).dtype, plain_objects(np.array([b"a", b"bcd"], object)).dtype
    (StringDType(), dtype('S3'))
    """
    if isinstance(array, np.ndarray) and array.dtype == object and array.size:
        kinds = {type(item) for item in array.flat}
        if kinds == {str}:
            return array.astype(TEXT)
        # NumPy takes zeros at the end for padding.
        if kinds == {bytes} and not ends_with_nul(array):
            width = max(1, *map(len, array.flat))
            return array.astype(f"S{width}")
    return array


def ends_with_nul(objects: np.ndarray) -> bool:
    """Return whether some text or bytes end with NUL, which NumPy takes for padding where their size is fixed."""
    return any(
        item.endswith("\0") if isinstance(item, str) else item.endswith(b"\0")
        for item in objects.flat
        if isinstance(item, (str, bytes))
    )


def plain_list(values: Any) -> np.ndarray:
    """Python's own values as NumPy has them, but no text of what is none.

    Raises
    ------
    ConfigError
        Some are text and some are not, or are bytes that end with NUL, which NumPy takes for padding.

    Examples
    --------
    >>> plain_list([1, 2.5]), plain_list(["a", "b\\0"])
    (array([1. , 2.5]), array(['a', 'b\\x00'], dtype=StringDType()))
    """
    objects = np.asarray(values)
    if objects.dtype.kind not in "SU":
        return objects
    each = np.asarray(values, object)
    kinds = {str if isinstance(item, str) else type(item) for item in each.flat}
    if len(kinds) > 1 or not kinds <= {str, bytes, np.bytes_}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ConfigError(
            f"text and other things ({names}) in one list: give all of it one type, or of tuples make an array of "
            "structures: np.array(rows, dtype=[('name', 'U8'), ...])"
        )
    if ends_with_nul(each):
        if kinds != {str}:
            raise ConfigError(
                "bytes that end with NUL, which NumPy takes for padding: store them in a table's field of bytes"
            )
        return each.astype(TEXT)
    return objects.astype(f"{objects.dtype.kind}1") if objects.dtype.itemsize == 0 else objects


def refuse_objects(where: str, array: Any) -> NoReturn:
    """Say that Python objects are never stored, and what to do with those that are there.

    Raises
    ------
    ConfigError
    """
    kinds = {type(item) for item in array.flat} if isinstance(array, np.ndarray) else set()
    if kinds and kinds <= {np.ndarray, list, tuple}:
        raise ConfigError(
            f"{where}: rows of different shapes belong into a table: hub.table_writer, whose fields may be ragged; or "
            "pad them to one shape"
        )
    names = sorted(kind.__name__ for kind in kinds)[:_SHOWN_KINDS]
    what = f" ({', '.join(names)})" if names else ", or text of variable length"
    raise ConfigError(
        f"{where}: holds Python objects{what}, which are never stored; give it a plain dtype first: text with "
        "astype(str), times of a zone with .dt.tz_convert(None), what is missing with fillna(...)"
    )
