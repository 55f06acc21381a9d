"""Types as strangers write them, looked at before NumPy parses them. Pure.

NumPy divides by the number behind a slash in the unit of a time, ``<M8[ns/0]``,
and the process ends; nobody writes such units.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

_MAX_LETTERS = 64
# A type string within a header of .npy, whose field names may have slashes.
_DIVIDED = re.compile(r"""['"][<>|=]?(?:[mM]8|datetime64|timedelta64)\[[^\]'"]*/""")


def dtype_of(text: str) -> np.dtype[Any]:
    """The dtype that a text names.

    Raises
    ------
    ValueError, TypeError

    Examples
    --------
    >>> dtype_of("<M8[ns]")
    dtype('<M8[ns]')
    """
    if "/" in text or len(text) > _MAX_LETTERS:
        raise ValueError(f"there is no dtype {text[:_MAX_LETTERS]!r}")
    try:
        return np.dtype(text)
    except OverflowError:
        raise ValueError(f"there is no dtype {text!r}") from None


def check_header(text: str) -> None:
    """Refuse the header of a ``.npy`` file with a unit that ends the process.

    Raises
    ------
    ValueError
    """
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        # Whoever parses it says why; of Python 2's numbers, NumPy can.
        header = None
        if _DIVIDED.search(text):
            raise ValueError("has a time whose unit is divided") from None
    if isinstance(header, dict) and _is_divided(header.get("descr")):
        raise ValueError("has a time whose unit is divided")


def _is_divided(described: Any) -> bool:
    if isinstance(described, str):
        return "/" in described
    if isinstance(described, dict):
        return any(map(_is_divided, described.get("formats", ())))
    if isinstance(described, list):
        return any(isinstance(field, tuple) and len(field) > 1 and _is_divided(field[1]) for field in described)
    return isinstance(described, tuple) and bool(described) and _is_divided(described[0])
