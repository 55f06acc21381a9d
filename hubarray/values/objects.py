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
        kinds = {type(one) for one in array.flat}
        if kinds == {str}:
            return array.astype(TEXT)
        # NumPy takes zeros at the end for padding.
        if kinds == {bytes} and not any(one.endswith(b"\0") for one in array.flat):
            width = max(1, *map(len, array.flat))
            return array.astype(f"S{width}")
    return array


def refuse_objects(where: str, array: Any) -> NoReturn:
    """Say that Python objects are never stored, and what to do with those that are there.

    Raises
    ------
    ConfigError
    """
    kinds = {type(one) for one in array.flat} if isinstance(array, np.ndarray) else set()
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
