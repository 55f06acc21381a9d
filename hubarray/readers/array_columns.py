"""Arrays that are read together, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import blake3
import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.errors import ConfigError
from hubarray.values import packing


class ChosenRows:
    """Some rows of an array, in their order, as if they were all of it.

    Parameters
    ----------
    array : Array
        At a fixed commit.
    positions : range or 1-d array of intp
        Of the rows in the array.

    Attributes
    ----------
    array : Array
    positions : range or 1-d array of intp
    """

    def __init__(self, array: ArrayHandle, positions: range | np.ndarray) -> None:
        self.array = array
        self.positions = positions
        self.name, self.version, self.key = array.name, array.version, array.key
        self.dtype, self.chunks = array.dtype, array.chunks
        encoded = repr(positions).encode() if isinstance(positions, range) else positions.tobytes()
        # What a stream's state is compared with: another choice of rows is another source.
        self.commit = f"{array.commit} {blake3.blake3(encoded).hexdigest()[:16]}"
        self.shape = (len(positions), *array.shape[1:])
        self.nbytes = len(positions) * (array.nbytes // max(1, len(array)))

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: Any) -> Any:
        return self.array[self._in_array(rows)]

    def read_rows(self, rows: np.ndarray | slice, out: np.ndarray | None = None) -> np.ndarray:
        """As :meth:`hubarray.Array.read_rows`, of the chosen rows."""
        return self.array.read_rows(self._in_array(rows), out)

    def _in_array(self, rows: Any) -> Any:
        if isinstance(self.positions, range):
            if isinstance(rows, slice):
                part = self.positions[rows]
                return slice(part.start, part.stop if part.stop >= 0 else None, part.step)
            whole = np.asarray(rows)
            if ((whole < -len(self)) | (whole >= len(self))).any():
                raise IndexError(f"row {rows} of {len(self)} chosen rows")
            row_numbers = self.positions.start + self.positions.step * (whole % max(1, len(self)))
            return int(row_numbers) if np.ndim(rows) == 0 else row_numbers
        return self.positions[rows]


class DecodedRows:
    """The rows of a packed array, as the values that its counts stand for; see :mod:`hubarray.values.packing`.

    Parameters
    ----------
    array : Array
        At a fixed commit.
    attrs : mapping
        That say how it is packed.
    """

    def __init__(self, array: ArrayHandle, attrs: Mapping[str, Any]) -> None:
        self.array, self._attrs = array, attrs
        self.name, self.version, self.key = array.name, array.version, array.key
        self.shape, self.chunks = array.shape, array.chunks
        self.dtype = packing.decoded_dtype(attrs, array.dtype)
        # What a stream's state is compared with: the counts are another source.
        self.commit = f"{array.commit} decoded"
        self.nbytes = array.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> Any:
        return packing.decoded(np.asarray(self.array[rows]), self._attrs)[()]

    def read_rows(self, rows: np.ndarray | slice, out: np.ndarray | None = None) -> np.ndarray:
        """As :meth:`hubarray.Array.read_rows`, of the values."""
        decoded = packing.decoded(self.array.read_rows(rows), self._attrs)
        if out is None:
            return decoded
        out[...] = decoded
        return out

    def decoded_rows(self) -> DecodedRows:
        """Itself: it stays at its commit."""
        return self


def is_column(value: Any) -> bool:
    """Whether something is an array, or the values of a packed one, ``a.decoded``."""
    return isinstance(value, ArrayHandle) or hasattr(value, "decoded_rows")


def columns(arrays: Sequence[Any], rows: Any = None) -> list[Any]:
    """Snapshots of arrays of equal length, or of some of their rows: each stays at the commit it has now.

    Raises
    ------
    ConfigError
        A value is not an array, has no rows, or has another number of rows than the first; or ``rows`` is not a
        selection.
    """
    for array in arrays:
        if not is_column(array):
            raise ConfigError(f"{type(array).__name__}: only hubarray's arrays are read together; store it first")
    pinned = [array.snapshot() if isinstance(array, ArrayHandle) else array.decoded_rows() for array in arrays]
    for column in pinned:
        if not column.shape:
            raise ConfigError(f"{shown_array(column)}: has no axes, so it has no samples")
        if len(column) != len(pinned[0]):
            lengths = ", ".join(f"{shown_array(each)} has {len(each)}" for each in pinned)
            raise ConfigError(f"arrays that are read together need the same number of rows: {lengths}")
    if rows is None:
        return pinned
    positions = _positions(rows, len(pinned[0]))
    return [ChosenRows(column, positions) for column in pinned]


def shown_array(array: ArrayHandle) -> str:
    """The name of an array, for messages: of one of a dataset both names."""
    named = f"{array.name}:{array.version}"
    return named if array.key is None else f"{array.key!r} of {named}"


def _positions(rows: Any, length: int) -> range | np.ndarray:
    # A part of hub.split, or what hub.balanced drew.
    rows = getattr(rows, "positions", rows)
    if rows is None:
        return range(length)
    if isinstance(rows, slice):
        return range(*rows.indices(length))
    chosen = np.asarray(rows)
    if chosen.dtype == bool and chosen.shape == (length,):
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ConfigError(
            f"rows= takes a slice, a mask of {length} rows, a list of row numbers, or a part of hub.split"
        )
    if chosen.size and not (-length <= int(chosen.min()) and int(chosen.max()) < length):
        outside = int(chosen.max()) if int(chosen.max()) >= length else int(chosen.min())
        raise ConfigError(f"rows=: there is no row {outside}, as there are {length} rows")
    numbers: np.ndarray = chosen.astype(np.intp) % max(1, length)
    return numbers


def row_bytes(arrays: Sequence[Any]) -> int:
    """Bytes of one row of all arrays."""
    return sum(array.nbytes // max(1, len(array)) for array in arrays)


def check_options(batch_size: Any, seed: Any, buffer_bytes: Any) -> None:
    """Refuse an invalid batch size, seed or buffer.

    Raises
    ------
    ConfigError
    """
    if batch_size is not None and not (_is_whole(batch_size) and batch_size >= 1):
        raise ConfigError(f"batch_size={batch_size!r}: give a number of rows above 0, or None for single samples")
    if seed is not None and not (_is_whole(seed) and 0 <= seed < 1 << 63):
        raise ConfigError(f"seed={seed!r}: give a whole number from 0 on, of at most 63 bits")
    if not (_is_whole(buffer_bytes) and buffer_bytes >= 1):
        raise ConfigError(f"buffer_bytes={buffer_bytes!r}: give a number of bytes above 0")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
