"""Fields of structured arrays by their names, read block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hubarray.arrays.array import Array

BLOCK_BYTES = 64 << 20


def names_fields(key: Any) -> bool:
    """Whether an index is the name of a field, or a list of such."""
    return isinstance(key, str) or (isinstance(key, list) and bool(key) and all(isinstance(one, str) for one in key))


def read_fields(array: Array, key: Any) -> np.ndarray:
    """A field, or some, of all elements of one commit; the others are held for 64 MiB of the array at a time.

    Raises
    ------
    ValueError, KeyError
        NumPy's own, of names that are no fields.
    """
    dtype = np.zeros(0, array.dtype)[key].dtype
    if not array.shape:
        return np.asarray(np.asarray(array)[key])
    out = np.empty(array.shape, dtype)
    rows = max(1, BLOCK_BYTES // max(1, array.nbytes // max(1, len(array))))
    for first in range(0, len(array), rows):
        out[first : first + rows] = array._rows(slice(first, first + rows))[key]
    return out
