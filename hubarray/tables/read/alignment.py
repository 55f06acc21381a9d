"""Windows over several tables: whether their neighbouring rows are those that a merge puts beside each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.bounded_dict import BoundedDict
from hubarray.errors import ConfigError
from hubarray.tables.format.index_column import ServiceColumn, other_side
from hubarray.tables.format.index_piece import nat_as_null
from hubarray.tables.read.row_fetch import Numbers
from hubarray.tables.snapshot.snapshot import TableSnapshot

_ADVICE = "publish the merged index with hub.write_index, and take windows of that"
_MAX_REMEMBERED = 16


class Alignment:
    """The fields that the tables of an index have in common, by which their rows are compared.

    Parameters
    ----------
    columns : sequence of ServiceColumn
        The service column of each table, which names its joins and their fields.
    tables : sequence of TableSnapshot
    are_exclusive : callable
        Whether no row of the index is of two of some tables.
    """

    def __init__(
        self,
        columns: Sequence[ServiceColumn],
        tables: Sequence[TableSnapshot],
        are_exclusive: Callable[[Sequence[int]], bool],
    ) -> None:
        self._columns, self._tables, self._are_exclusive = columns, tables, are_exclusive
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._repeated: dict[tuple[Any, ...], np.ndarray] = BoundedDict(_MAX_REMEMBERED)

    def require(self, table_numbers: Sequence[int], row_numbers: Sequence[Numbers], at: int) -> None:
        """Refuse a window whose rows of several tables are not known to belong together.

        They do where the fields that they were merged on are equal row by row, and no other row of the partition has
        the same: else the merge would have put that one there as well. That is asked of every two of them that one
        merge brought together, and they have to be connected by such pairs.

        Parameters
        ----------
        table_numbers : sequence of int
            The tables whose rows are read.
        row_numbers : sequence of array of int64
            The rows of the window in each table, -1 for none.
        at : int
            The position in the index that the window is of, for the error.

        Raises
        ------
        ConfigError
        """
        if not self._are_connected(table_numbers):
            named = " and ".join(str(self._columns[i].table) for i in table_numbers)
            raise ConfigError(
                f"row {at}: it is not known whether neighbouring rows of {named} belong together: merge with "
                f"hub.join, on index fields as they are stored; or {_ADVICE}"
            )
        for first, second in itertools.combinations(table_numbers, 2):
            for fields in self._links(first, second).values():
                self._require_pairs(first, second, fields, row_numbers, at)

    def require_never_merged(self, lacking: int, having: Sequence[int], at: int) -> None:
        """Refuse a window over a table that was merged with others, and has no row at its offset 0.

        Where indexes were only concatenated, each row is of one table, and has None in the columns of the others.

        Raises
        ------
        ConfigError
        """
        for table_number in having:
            pair = (lacking, table_number)
            if pair not in self._exclusive:
                self._exclusive[pair] = self._are_exclusive(pair)
            merges = {merge for merge, _ in self._columns[table_number].on}
            if not self._exclusive[pair] or any(other_side(merge) in merges for merge, _ in self._columns[lacking].on):
                raise ConfigError(
                    f"row {at}: {self._columns[lacking].table} has no row there, so which of its rows stand beside the "
                    f"neighbours in {self._columns[table_number].table} is not known; {_ADVICE}"
                )

    def _are_connected(self, table_numbers: Sequence[int]) -> bool:
        """Whether merges connect all of some tables, and those on one side of a merge were connected before it.

        Else two that nobody brought together would be taken for neighbours of a third.
        """
        on = {i: list(dict.fromkeys(merge for merge, _ in self._columns[i].on)) for i in table_numbers}
        if len(self._reached(table_numbers, table_numbers[0], None)) < len(table_numbers):
            return False
        for merge in {merge_path for own in on.values() for merge_path in own}:
            beside = [i for i in table_numbers if merge in on[i]]
            before = {path[:-1] for i in beside for path in on[i][: on[i].index(merge)]}
            if not set(beside) <= self._reached(table_numbers, beside[0], before):
                return False
        return True

    def _reached(self, table_numbers: Sequence[int], start: int, merges: set[str] | None) -> set[int]:
        """The tables that a table is connected with, by these merges, or all."""
        reached = {start}
        for _ in table_numbers:
            for first, second in itertools.combinations(table_numbers, 2):
                if len(reached & {first, second}) == 1 and any(
                    merges is None or merge in merges for merge in self._links(first, second)
                ):
                    reached |= {first, second}
        return reached

    def _links(self, first: int, second: int) -> dict[str, tuple[str, ...]]:
        """The fields of each join."""
        merges = set(self._columns[second].on)
        by_merge: dict[str, tuple[str, ...]] = {}
        for merge, field in self._columns[first].on:
            stored = all(field in self._tables[i].metadata.schema.index for i in (first, second))
            if (other_side(merge), field) in merges and stored:
                by_merge[merge[:-1]] = (*by_merge.get(merge[:-1], ()), field)
        return by_merge

    def _require_pairs(
        self, first: int, second: int, shared: tuple[str, ...], row_numbers: Sequence[Numbers], at: int
    ) -> None:
        for name in shared:
            if self._keys(first, row_numbers[first], name) != self._keys(second, row_numbers[second], name):
                raise ConfigError(
                    f"row {at}: the neighbouring rows of {self._columns[first].table} and "
                    f"{self._columns[second].table} differ in {name!r}; {_ADVICE}"
                )
        for i, other in ((first, second), (second, first)):
            if self._are_repeated(i, row_numbers[i], shared):
                raise ConfigError(
                    f"row {at}: several rows of a partition of {self._columns[i].table} are equal in "
                    f"{', '.join(shared)}, so which of them belongs to a row of {self._columns[other].table} is not "
                    f"known; {_ADVICE}"
                )

    def _keys(self, table: int, numbers: Numbers, name: str) -> list[Any]:
        present = np.flatnonzero(numbers >= 0)
        keys: list[Any] = [None] * len(numbers)
        values = self._tables[table].index_values(numbers[present], name)
        for position, value in zip(present.tolist(), values, strict=True):
            # NaN is missing, as a merge has it.
            keys[position] = None if isinstance(value, np.floating) and np.isnan(value) else value
        return keys

    def _are_repeated(self, i: int, numbers: Numbers, names: tuple[str, ...]) -> bool:
        """Whether rows of a window share their keys with others, of the window or of the partition."""
        table = self._tables[i]
        present = np.unique(numbers[numbers >= 0])
        if not len(present):
            return False
        first, end = table.partition_of(int(present[0]))
        known = (i, first, end, names)
        repeated = self._repeated.get(known)
        if repeated is None:
            repeated = self._repeated[known] = repeated_rows([self._column(table, name, first, end) for name in names])
        return bool(repeated[present - first].any())

    @staticmethod
    def _column(table: TableSnapshot, name: str, first: int, end: int) -> pa.Array:
        """The values of a field in the rows of a partition."""
        parts = []
        for append, slab, slab_first in table.slabs_between(first, end):
            low, high = max(first, slab_first), min(end, slab_first + append.slab_rows(slab))
            parts.append(comparable(table.index_column(append, slab, name).slice(low - slab_first, high - low)))
        return pa.concat_arrays(parts)


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Keys as a merge compares them: without a dictionary, with null for NaN, and with one zero."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    whole = whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole
    if pa.types.is_string_view(whole.type) or pa.types.is_binary_view(whole.type):
        # Arrow takes no rows of views, which is how Polars hands text over.
        whole = whole.cast(pa.large_string() if pa.types.is_string_view(whole.type) else pa.large_binary())
    if pa.types.is_temporal(whole.type):
        whole = nat_as_null(whole)
    if pa.types.is_floating(whole.type):
        whole = pa.array(whole.to_numpy(zero_copy_only=False) + 0.0, whole.type, from_pandas=True)
    return whole


def repeated_rows(columns: Sequence[pa.Array]) -> np.ndarray:
    """Which rows are equal to another one in all of some columns. Pure.

    Examples
    --------
    >>> repeated_rows([pa.array(["a", "a", "b", None]), pa.array([1, 1, 1, None])]).tolist()
    [True, True, False, False]
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(own) + 1) + own, return_inverse=True)
    counts = np.bincount(codes, minlength=1)
    return counts[codes] > 1
