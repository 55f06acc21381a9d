"""Arrays as a source: one column an array, a row of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.datasets.handle import DatasetHandle
from hubarray.readers.array_columns import ChosenRows, columns, row_bytes
from hubarray.readers.fields.source import Columns
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.readers.pipeline.groups import BUFFERS, RowReader

VALUE = "value"


class ArraySource:
    """Arrays of equal length, read together by row; each stays at the commit it had. See :class:`Source`.

    Parameters
    ----------
    arrays : mapping of str to Array
        The column that each is; of a single array ``value``.
    rows : optional
        A slice, a mask or the numbers of the rows that are meant.
    keep : bool
        Read everything once, when rows are first asked for, and keep it.

    Attributes
    ----------
    buffers : int
        Of memory, that are used again and again.
    """

    unit_bounds: np.ndarray | None = None

    def __init__(self, arrays: Mapping[str, ArrayHandle], rows: Any = None, *, keep: bool = False) -> None:
        self._names = list(arrays)
        self._arrays = columns(list(arrays.values()), rows)
        self.where = ", ".join(dict.fromkeys(f"{array.name}:{array.version}" for array in self._arrays))
        self.rows = len(self._arrays[0])
        self.row_bytes = float(row_bytes(self._arrays))
        self.chunk_rows = self._arrays[0].chunks[0]
        fields = [
            UnischemaField(name, np.str_ if array.dtype.kind == "T" else array.dtype, array.shape[1:])
            for name, array in zip(self._names, self._arrays, strict=True)
        ]  # fmt: skip
        self.schema = Unischema("arrays", fields)
        self._readers: dict[tuple[str, ...], RowReader] = {}
        self.keep, self.buffers = keep, BUFFERS

    def at(self, positions: np.ndarray) -> ArraySource:
        """Some of these rows, in this order."""
        chosen = positions if self.positions is None else self.positions[positions]
        pinned = [array.array if isinstance(array, ChosenRows) else array for array in self._arrays]
        return ArraySource(dict(zip(self._names, pinned, strict=True)), chosen)

    @property
    def positions(self) -> np.ndarray | None:
        """The numbers of the rows in the arrays; None for all of them."""
        array = self._arrays[0]
        return np.asarray(array.positions, np.int64) if isinstance(array, ChosenRows) else None

    def repeats(self) -> bool:
        """Whether a row comes several times."""
        return self.positions is not None and len(np.unique(self.positions)) < len(self.positions)

    @property
    def arrays(self) -> list[Any]:
        """The arrays, or the chosen rows of them."""
        return self._arrays

    def identity(self) -> str:
        """The commits or files that it reads."""
        return " ".join(
            f"{name}={array.name}:{array.version}@{array.commit}" + ("" if array.key is None else f"/{array.key}")
            for name, array in zip(self._names, self._arrays, strict=True)
        )

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Some columns of some rows, in the order that the rows are given in; text of any length as lists."""
        columns_read = self.read_arrays(rows, columns)
        return {
            name: _listed(column) if column.dtype.kind == "T" else column
            for name, column in zip(columns, columns_read, strict=True)
        }

    def read_arrays(self, rows: np.ndarray, columns: Sequence[str] | None = None) -> list[np.ndarray]:
        """The rows of each array, in memory that is used again once nobody sees it."""
        key = tuple(self._names if columns is None else columns)
        reader = self._readers.get(key)
        if reader is None:
            by_name = dict(zip(self._names, self._arrays, strict=True))
            reader = self._readers.setdefault(key, RowReader([by_name[name] for name in key], self.keep, self.buffers))
        return reader.read(rows)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": {}}


def _listed(texts: np.ndarray) -> list[Any]:
    return list(texts.astype(object))


def dataset_source(dataset: DatasetHandle, columns: str | Sequence[str] | None = None, rows: Any = None) -> ArraySource:
    """The samples of a dataset at the commit that is the newest: those of some arrays, or of all that begin alike.

    Raises
    ------
    ConfigError, NotFoundError
    """
    pinned = dataset.snapshot()
    return ArraySource({name: pinned[name] for name in pinned.samples(columns)}, rows)
