"""`hub.split` and `hub.balanced`: some rows of a source, as another source."""

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
    """Some rows of a source, rising, as if they were all. See :class:`hubarray.readers.fields.source.Source`.

    Parameters
    ----------
    source : Source
    positions : ndarray of int64
        Rising; a row may come several times.
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
        """The source's, and which rows."""
        return f"{self._source.identity()} {blake3.blake3(self.positions.tobytes()).hexdigest()[:16]}"

    def read(self, rows: np.ndarray, columns: Sequence[str]) -> Columns:
        """Some columns of some rows, in the order that the rows are given in."""
        try:
            return self._source.read(self.positions[rows], columns)
        except SourceError as error:
            if error.damaged_rows is not None:
                low, high = np.searchsorted(self.positions, [error.damaged_rows.start, error.damaged_rows.stop])
                error.damaged_rows = range(int(low), int(high))
            raise

    def stretches(self, across: bool) -> SegmentedRows:
        """The stretches of the source among these rows; its rows lie in them one after the other."""
        return SegmentedRows(self._bounds_here(stretched(self._source, across).bounds))

    def repeats(self) -> bool:
        """Whether a row comes several times."""
        return bool((self.positions[1:] == self.positions[:-1]).any())

    def cached(self, cache: tuple[str, int]) -> ChosenSource:
        """The same rows of a source that keeps row groups on disk, if it can."""
        make = getattr(self._source, "cached", None)
        return self if make is None else ChosenSource(make(cache), self.positions)

    def row_names(self) -> np.ndarray:
        """A number for each row, as the source has it."""
        names = getattr(self._source, "row_names", None)
        found: np.ndarray = np.arange(self._source.rows) if names is None else names()
        return found[self.positions]

    def cache_counts(self) -> tuple[int, int]:
        """Row groups that a disk cache had, and that it had not, of what this thread read."""
        counts = getattr(self._source, "cache_counts", None)
        return (0, 0) if counts is None else counts()

    @property
    def is_near(self) -> bool:
        """Whether the source's files are this machine's."""
        return bool(getattr(self._source, "is_near", False))

    def where_of(self, row: int) -> str:
        """The file and row group of a row, for messages."""
        told = getattr(self._source, "where_of", None)
        return self.where if told is None else str(told(int(self.positions[row])))

    def narrowed(self, predicate: PredicateBase) -> tuple[Source, PredicateBase | None]:
        """The rows in units that a predicate may include rows of; and the predicate, if rows have to be looked at."""
        decide = getattr(self._source, "kept_units", None)
        if decide is None:
            return self, predicate
        kept, rest = decide(predicate)
        return self._in_units(kept), rest

    def selected(self, selector: RowGroupSelectorBase) -> ChosenSource:
        """The rows in row groups that a selector selects."""
        select = getattr(self._source, "selected_units", None)
        if select is None:
            raise ConfigError(f"rowgroup_selector: {self.where} has no indexes of row groups")
        return self._in_units(select(selector))

    def _in_units(self, kept: Collection[int]) -> ChosenSource:
        assert self._source.unit_bounds is not None
        units = np.searchsorted(self._source.unit_bounds, self.positions, "right") - 1
        return ChosenSource(self._source, self.positions[np.isin(units, np.asarray(sorted(kept), np.int64))])

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
    """Split a dataset into parts that stay put when rows are added.

    Which part a row is in depends on the value of ``by`` and the seed alone: rows of equal value are never cut apart,
    and rows that are added later leave all others where they were. The fractions hold about, as hashes fall.

    Parameters
    ----------
    source
        As of :func:`hubarray.make_reader`: an index, a name, a mapping of arrays, Parquet.
    by : str, optional
        The field whose values go together, such as a log, a patient or a day; it is read of every row. By default rows
        fall by partition or file and their place in it, so that these may be added anywhere; of arrays by their
        numbers.
    seed : int
        A part that is split again wants another one: by the same, its rows all fall where they fell.
    storage_options, root
        As of :func:`hubarray.make_reader`.
    **parts : float
        Names and fractions, 1 together, or less to leave rows out: ``train=.8, val=.1, test=.1``.

    Returns
    -------
    dict
        Of each part a source that :func:`hubarray.make_reader` takes: of tables a :class:`hubarray.RowLoader`; of
        arrays a source whose ``positions`` are what ``to_pytorch(rows=...)`` takes.

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
        warnings.warn(f"{opened.where}: no row fell into {', '.join(empty)}, as there are few {what}", stacklevel=2)
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
    """Rows drawn so that every class, or class as its weight says, comes equally often.

    Parameters
    ----------
    source
        As of :func:`hubarray.make_reader`.
    by : str
        The field that says the class; it is read of every row.
    weights : mapping of value to float, optional
        How often each class comes, in proportion; classes that are not named are left out.
    num_rows : int, optional
        How many rows are drawn; by default as few as leave no row out. With fewer, take another seed in each epoch.
    seed : int
        Which rows of a class come once more than others.
    storage_options, root
        As of :func:`hubarray.make_reader`.

    Returns
    -------
    A source that :func:`hubarray.make_reader` takes, as of :func:`split`.

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
