"""`hub.split` and `hub.balanced`: a selection of rows, as another source."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import blake3
import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.readers import fractions
from hubarray.readers.array_source import ArraySource
from hubarray.readers.fields.predicates import PredicateBase
from hubarray.readers.fields.selectors import RowGroupSelectorBase
from hubarray.readers.fields.source import Column, Columns, SegmentedRows, Source
from hubarray.readers.fields.unischema import no_field
from hubarray.readers.open_source import open_source
from hubarray.readers.pipeline.windows import stretched
from hubarray.readers.table_source import TableSource


class ChosenSource:
    """A selection of the rows of a source, in ascending order. See :class:`hubarray.readers.fields.source.Source`.

    Parameters
    ----------
    source : Source
    positions : ndarray of int64
        In ascending order. A row may come several times.
    """

    where: str
    chunk_rows = 1
    unit_bounds: np.ndarray | None

    def __init__(self, source: Source, positions: np.ndarray) -> None:
        self._source, self.positions = source, positions
        self.where, self.schema, self.row_bytes = source.where, source.schema, source.row_bytes
        self.rows = len(positions)
        bounds = source.unit_bounds
        whole = np.arange(source.rows + 1) if bounds is None else bounds
        self.unit_bounds = self._bounds_here(whole)

    def identity(self) -> str:
        """The identity of the source, and of the selection."""
        return f"{self._source.identity()} {blake3.blake3(self.positions.tobytes()).hexdigest()[:16]}"

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Read columns of the given rows, in the given order."""
        try:
            return self._source.read(self.positions[rows], columns)
        except SourceError as error:
            if error.damaged_rows is not None:
                low, high = np.searchsorted(self.positions, [error.damaged_rows.start, error.damaged_rows.stop])
                error.damaged_rows = range(int(low), int(high))
            raise

    def stretches(self, across: bool) -> SegmentedRows:
        """Return the stretches of the source in this selection, whose rows follow each other."""
        return SegmentedRows(self._bounds_here(stretched(self._source, across).bounds))

    def repeats(self) -> bool:
        """Return whether a row comes several times."""
        return bool((self.positions[1:] == self.positions[:-1]).any())

    def cached(self, cache: tuple[str, int]) -> ChosenSource:
        """Return the same rows of a source that keeps row groups on disk, if it can."""
        make = getattr(self._source, "cached", None)
        return self if make is None else ChosenSource(make(cache), self.positions)

    def row_names(self) -> np.ndarray:
        """Return the number of each row in the source."""
        names = getattr(self._source, "row_names", None)
        row_numbers: np.ndarray = np.arange(self._source.rows) if names is None else names()
        return row_numbers[self.positions]

    def cache_counts(self) -> tuple[int, int]:
        """Return the hits and misses of row groups in the disk cache, for reads of this thread."""
        counts = getattr(self._source, "cache_counts", None)
        return (0, 0) if counts is None else counts()

    @property
    def is_near(self) -> bool:
        """Whether the files of the source are on this machine."""
        return bool(getattr(self._source, "is_near", False))

    def where_of(self, row: int) -> str:
        """Return the file and row group of a row, for messages."""
        describe = getattr(self._source, "where_of", None)
        return self.where if describe is None else str(describe(int(self.positions[row])))

    def narrowed(self, predicate: PredicateBase) -> tuple[Source, PredicateBase | None]:
        """Return the rows of units that may have matches, and the predicate if rows must be checked."""
        decide = getattr(self._source, "kept_units", None)
        if decide is None:
            return self, predicate
        chosen_units, rest = decide(predicate)
        return self._in_units(chosen_units), rest

    def selected(self, selector: RowGroupSelectorBase) -> ChosenSource:
        """Return the rows in row groups that a selector selects."""
        select = getattr(self._source, "selected_units", None)
        if select is None:
            raise ConfigError(f"rowgroup_selector: {self.where} has no indexes of row groups")
        return self._in_units(select(selector))

    def _in_units(self, chosen_units: Collection[int]) -> ChosenSource:
        assert self._source.unit_bounds is not None
        units = np.searchsorted(self._source.unit_bounds, self.positions, "right") - 1
        return ChosenSource(self._source, self.positions[np.isin(units, np.asarray(sorted(chosen_units), np.int64))])

    def _bounds_here(self, bounds: np.ndarray) -> np.ndarray:
        return np.unique(np.searchsorted(self.positions, bounds)).astype(np.int64)


def _chosen(source: Source, positions: np.ndarray) -> Any:
    if isinstance(source, TableSource):
        return source.loader.at(positions)
    if isinstance(source, ArraySource):
        return source.at(positions)
    return ChosenSource(source, positions)


def _column(source: Source, by: str) -> Column:
    schema = getattr(source, "filter_schema", source.schema)
    fields = schema.fields
    if by not in fields:
        raise no_field(schema, by, source.where)
    if fields[by].shape:
        raise ConfigError(f"{source.where}: {by!r} is an array in each row; by= takes a field of single values")
    return source.read(np.arange(source.rows), [by])[by]


def split(
    source: Any,
    *,
    by: str | None = None,
    seed: int = 0,
    storage_options: Mapping[str, Any] | None = None,
    root: Any = None,
    **parts: float,
) -> dict[str, Any]:
    """Split a dataset into parts that do not change when rows are added.

    The part of a row depends only on its value of ``by`` and on the seed. Rows of equal value are in the same part, and
    adding rows does not move others. The parts have approximately the given fractions, because hashes decide.

    Parameters
    ----------
    source
        Same as in :func:`hubarray.make_reader`: an index, a name, a mapping of arrays, or Parquet.
    by : str, optional
        The field whose values stay together, such as a log, a patient or a day. It is read for every row. By default,
        the partition or file of a row and its position there decide, so you can add partitions and files anywhere. For
        arrays, the row number decides.
    seed : int
        To split a part again, use another seed. With the same seed, all its rows are in one part.
    storage_options, root
        Same as in :func:`hubarray.make_reader`.
    **parts : float
        Names and fractions with a sum of 1, or less to leave out rows: ``train=.8, val=.1, test=.1``.

    Returns
    -------
    dict
        A source of :func:`hubarray.make_reader` per part. For tables it is a :class:`hubarray.RowLoader`; for arrays,
        its ``positions`` can be passed to ``to_pytorch(rows=...)``.

    Raises
    ------
    ConfigError, NotFoundError, SourceError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(1000, "docs/split:v0", dtype="int64")
    >>> parts = hub.split("docs/split:v0", train=0.8, test=0.2)
    >>> [len(parts[name].positions) for name in ("train", "test")]
    [797, 203]
    """
    fractions.check_fractions(parts)
    opened = open_source(source, storage_options=storage_options, root=root)
    if by is not None:
        where = fractions.value_fractions(_column(opened, by), seed)
    else:
        numbers = getattr(opened, "row_names", None)
        where = fractions.row_fractions(np.arange(opened.rows) if numbers is None else numbers(), seed)
    dealt = fractions.dealt(where, parts)
    empty = [name for name, rows in dealt.items() if parts[name] and opened.rows and not len(rows)]
    if empty:
        what = "rows" if by is None else f"values of {by!r}"
        warnings.warn(f"{opened.where}: no row is in {', '.join(empty)}, because there are few {what}", stacklevel=2)
    return {name: _chosen(opened, rows) for name, rows in dealt.items()}


def balanced(
    source: Any,
    *,
    by: str,
    weights: Mapping[Any, float] | None = None,
    num_rows: int | None = None,
    seed: int = 0,
    storage_options: Mapping[str, Any] | None = None,
    root: Any = None,
) -> Any:
    """Draw rows so that all classes come equally often, or according to weights.

    Parameters
    ----------
    source
        Same as in :func:`hubarray.make_reader`.
    by : str
        The field of the class. It is read for every row.
    weights : mapping of value to float, optional
        The relative frequency of each class. Classes without a weight are left out.
    num_rows : int, optional
        The number of rows to draw. The default is the smallest number that leaves no row out. With fewer rows, use
        another seed in each epoch.
    seed : int
        Decides which rows of a class come once more than others.
    storage_options, root
        Same as in :func:`hubarray.make_reader`.

    Returns
    -------
    A source of :func:`hubarray.make_reader`, same as in :func:`split`.

    Raises
    ------
    ConfigError, NotFoundError, SourceError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(6, "docs/balanced:v0", dtype="int64")
    >>> a[:] = [0, 0, 0, 0, 1, 1]
    >>> hub.balanced("docs/balanced:v0", by="value").positions.tolist()
    [0, 1, 2, 3, 4, 4, 5, 5]
    """
    if num_rows is not None and (not isinstance(num_rows, int) or isinstance(num_rows, bool) or num_rows < 1):
        raise ConfigError(f"num_rows={num_rows!r}: give a number of rows above 0")
    opened = open_source(source, storage_options=storage_options, root=root)
    return _chosen(opened, fractions.drawn(_column(opened, by), weights, num_rows, seed))
