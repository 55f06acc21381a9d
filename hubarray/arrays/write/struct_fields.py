"""Fields of structured arrays by their names, read and written block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.write.assignment import broadcast
from hubarray.values.elements import Target, as_elements

FIELD_STEP_BYTES = 64 << 20


def names_fields(key: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an index is the name of a field, or a list of such, of a dtype that has fields."""
    named = isinstance(key, str) or (
        isinstance(key, list) and bool(key) and all(isinstance(field_name, str) for field_name in key)
    )
    return named and dtype.names is not None


def read_fields(shape: tuple[int, ...], dtype: np.dtype[Any], key: Any, read: Callable[[Any], Any]) -> np.ndarray:
    """A field, or some, of all elements; the others are held for 64 MiB of the array at a time.

    Parameters
    ----------
    shape, dtype
        Of the array.
    key : str or list of str
    read : callable
        Gives the elements of an index.

    Raises
    ------
    ValueError, KeyError
        NumPy's own, of names that are no fields.
    """
    out = np.empty(shape, np.zeros(0, dtype)[key].dtype)
    for rows in _blocks(shape, dtype):
        out[rows] = np.asarray(read(rows), dtype)[key]
    return out


def write_fields(
    metadata: ArrayMetadata,
    key: Any,
    value: Any,
    read: Callable[[Any], Any],
    write: Callable[[Any, np.ndarray], None],
) -> None:
    """Assign a field, or some, of all elements; as :func:`read_fields`, with ``write(index, elements)``."""
    shape, dtype = metadata.shape, metadata.dtype
    values = broadcast(as_elements(value, Target(np.zeros(0, dtype)[key].dtype, metadata.dims)), shape)
    for rows in _blocks(shape, dtype):
        elements = np.array(read(rows), dtype)
        elements[key] = values[rows]
        write(rows, elements)


def _blocks(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Any]:
    if not shape:
        yield ...
        return
    step = max(1, FIELD_STEP_BYTES // max(1, math.prod(shape[1:]) * dtype.itemsize))
    for first in range(0, shape[0], step):
        yield slice(first, min(first + step, shape[0]))
