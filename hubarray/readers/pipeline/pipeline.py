"""From rows of a source to what a reader gives: predicate, window, transform, in this order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.arrow_fields import as_objects
from hubarray.readers.fields.frames import column_of_series, frame_of, null_filled
from hubarray.readers.fields.ngram import NGram
from hubarray.readers.fields.predicates import PredicateBase, mask_of
from hubarray.readers.fields.source import Column, Source, row_values, taken, users_function
from hubarray.readers.fields.transform import TransformSpec, as_declared
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.readers.pipeline.skip_damaged import DAMAGE, damaged_among
from hubarray.readers.pipeline.windows import WindowIndex
from hubarray.redaction import named_type


@dataclass
class Loaded:
    """Items that were made of the rows of a run.

    Attributes
    ----------
    slots : ndarray of int64
        Of each item the place of its row among those of the run, rising.
    columns : dict
        The values: of each item; or of the rows that windows are made of.
    windows : ndarray of int64 or None
        Of each item the rows of ``columns`` that it is made of.
    skipped : int
        Rows that could not be read, and were passed over.
    cache_hits, cache_misses : int
        Row groups that a disk cache had, and that it had not.
    """

    slots: np.ndarray
    columns: dict[str, Column]
    windows: np.ndarray | None = None
    skipped: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


class Pipeline:
    """All that is done to rows, in whatever thread or process.

    Parameters
    ----------
    source : Source
    columns : sequence of str
        The fields to read before the transform.
    predicate, transform, ngram : optional
    batched : bool
        Whether predicate and transform get a DataFrame of many rows.
    skip_errors : bool
        Pass over row groups, or rows, that cannot be read.
    """

    def __init__(
        self,
        source: Source,
        columns: Sequence[str],
        *,
        predicate: PredicateBase | None = None,
        transform: TransformSpec | None = None,
        ngram: NGram | None = None,
        schema: Unischema,
        batched: bool = False,
        skip_errors: bool = False,
    ) -> None:
        self.source, self.columns = source, list(columns)
        self.predicate, self.transform, self.ngram = predicate, transform, ngram
        self.schema, self.batched, self.skip_errors = schema, batched, skip_errors
        self._stretches = WindowIndex(source, ngram, predicate, skip_errors=skip_errors) if ngram is not None else None

    @property
    def decides(self) -> bool:
        """Whether only the rows themselves say how many items there are."""
        return (
            self.predicate is not None
            or self.ngram is not None
            or self.skip_errors
            or (self.batched and self.transform is not None and self.transform.func is not None)
        )

    def load(self, rows: np.ndarray) -> Loaded:
        """Items of some rows of the source.

        Raises
        ------
        HubError
            The source is damaged, or a function of the user failed; dataset, file and row group are named.
        """
        hits, misses = self._cache_counts()
        loaded = self._load_readable(rows) if self.skip_errors else self._load(rows)
        hits_after, misses_after = self._cache_counts()
        loaded.cache_hits, loaded.cache_misses = hits_after - hits, misses_after - misses
        return loaded

    def _cache_counts(self) -> tuple[int, int]:
        counts = getattr(self.source, "cache_counts", None)
        return (0, 0) if counts is None else counts()

    def _load_readable(self, rows: np.ndarray) -> Loaded:
        """As :meth:`load`, of the rows that can be read."""
        left, places = rows, np.arange(len(rows))
        while True:
            try:
                loaded = self._load(left)
                break
            except DAMAGE as error:
                gone = damaged_among(left, error)
                if not gone.any():
                    loaded = self._rows_that_can_be_read(left)
                    break
                # All at once: reading a damaged row group for each of its rows would take without end.
                left, places = left[~gone], places[~gone]
                if not len(left):
                    loaded = Loaded(np.zeros(0, np.int64), self._no_columns(), self._no_windows())
                    break
        loaded.slots = places[loaded.slots]
        loaded.skipped += len(rows) - len(left)
        return loaded

    def _rows_that_can_be_read(self, rows: np.ndarray) -> Loaded:
        """The rows that remain where something is damaged: halves are tried, until single rows are left out."""
        if len(rows) == 1:
            return Loaded(np.zeros(0, np.int64), self._no_columns(), self._no_windows(), 1)
        middle = len(rows) // 2
        parts = []
        for half in (rows[:middle], rows[middle:]):
            try:
                parts.append(self._load(half))
            except DAMAGE:
                parts.append(self._rows_that_can_be_read(half))
        first, second = parts
        names = list(first.columns)
        joined: dict[str, Column] = {
            name: [*row_values(first.columns[name]), *row_values(second.columns[name])] for name in names
        }
        count = len(next(iter(first.columns.values()), []))
        windows = None
        if first.windows is not None and second.windows is not None:
            windows = np.concatenate([first.windows, second.windows + count])
        slots = np.concatenate([first.slots, second.slots + middle])
        return Loaded(slots, joined, windows, first.skipped + second.skipped)

    def _no_columns(self) -> dict[str, Column]:
        return {name: [] for name in self.schema.fields}

    def _no_windows(self) -> np.ndarray | None:
        return None if self.ngram is None else np.zeros((0, self.ngram.length), np.int64)

    def _load(self, rows: np.ndarray) -> Loaded:
        if self._stretches is not None:
            return self._windows(rows)
        slots = np.arange(len(rows))
        columns: dict[str, Column] = {}
        if self.predicate is not None:
            names = sorted(self.predicate.get_fields())
            columns = dict(self.source.read(rows, names))
            with users_function(self.source, rows):
                mask = mask_of(self.predicate, columns, len(rows), batched=self.batched)
            slots, rows = np.flatnonzero(mask), rows[mask]
            columns = {name: taken(column, mask) for name, column in columns.items() if name in self.columns}
        missing = [name for name in self.columns if name not in columns]
        if missing:
            columns |= self.source.read(rows, missing) if len(rows) else {name: [] for name in missing}
        columns = {name: columns[name] for name in self.columns}
        return self._transformed(slots, columns, rows)

    def _transformed(self, slots: np.ndarray, columns: dict[str, Column], rows: np.ndarray) -> Loaded:
        if self.transform is None:
            return Loaded(slots, columns)
        function = self.transform.func
        if function is None:
            return Loaded(slots, {name: columns[name] for name in self.schema.fields})
        if self.batched:
            with users_function(self.source, rows):
                frame = function(frame_of(columns))
            if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
                raise ConfigError(f"the transform gave {named_type(frame)}, but a DataFrame is expected")
            return Loaded(np.arange(len(frame)), self._of_frame(frame))
        return Loaded(slots, self._of_rows(columns, rows))

    def _of_rows(self, columns: Mapping[str, Column], rows: np.ndarray) -> dict[str, Column]:
        assert self.transform is not None
        function = self.transform.func
        names, needed = list(columns), list(self.schema.fields)
        declared = {field.name: field for field in self.transform.edit_fields if field.name in self.schema.fields}
        known = {*names, *declared, *self.transform.removed_fields}
        out: dict[str, list[Any]] = {name: [] for name in needed}
        values = zip(*(row_values(columns[name]) for name in names), strict=True)
        for i, row in enumerate(values):
            cells = dict(zip(names, row, strict=True))
            made: Any = dict(cells)
            if function is not None:
                with users_function(self.source, rows[i : i + 1]):
                    made = function(made)
            if not isinstance(made, Mapping):
                raise ConfigError(f"the transform gave {named_type(made)}, and a row is a dictionary")
            for name in needed:
                if name not in made:
                    raise ConfigError(
                        f"the transform gave a row without {name!r}: give it, or name it in removed_fields"
                    )
                value = made[name]
                # What the function left alone is what it was.
                same = name in cells and value is cells[name] and name not in declared
                field = self.schema.fields[name]
                out[name].append(value if same else as_declared(field, value, is_edited=name in declared))
            self._check_known(made.keys() - known)
        return {name: list(column) for name, column in out.items()}

    def _of_frame(self, frame: Any) -> dict[str, Column]:
        assert self.transform is not None
        columns_by_name: dict[str, Column] = {}
        for name in self.schema.fields:
            if name not in frame.columns:
                raise ConfigError(
                    f"the transform gave a DataFrame without {name!r}: name it in removed_fields of TransformSpec"
                )
            columns_by_name[name] = column_of_series(frame[name])
        edited = {field.name for field in self.transform.edit_fields}
        for name, field in self.schema.fields.items():
            column = columns_by_name[name]
            if isinstance(column, np.ndarray) and column.dtype != object:
                # A null among whole numbers makes floats of them in a DataFrame.
                if name in edited or not field.nullable:
                    columns_by_name[name] = as_declared(field, column, batched=True)
            elif name in edited:
                columns_by_name[name] = [None if value is None else as_declared(field, value) for value in column]
        self._check_known(set(frame.columns) - {*self.columns, *columns_by_name, *self.transform.removed_fields})
        return columns_by_name

    def _check_known(self, extra: Collection[Any]) -> None:
        if extra:
            raise ConfigError(
                f"the transform gave {str(min(extra, key=str))[:80]!r}, a field that the schema does not have: name it "
                "in edit_fields, or leave it out"
            )

    def _windows(self, rows: np.ndarray) -> Loaded:
        assert self._stretches is not None
        slots, windows, skipped = self._stretches.windows(rows)
        needed, inverse = np.unique(windows, return_inverse=True)
        names = self.columns
        columns = dict(self.source.read(needed, names)) if len(needed) else {name: [] for name in names}
        if self.transform is not None:
            columns = self._of_rows(columns, needed)
        return Loaded(slots, columns, inverse.reshape(windows.shape).astype(np.int64), skipped)

    def items(self, loaded: Loaded) -> list[Any]:
        """Items as a reader of rows gives them: named tuples, or dictionaries of them by offset."""
        if loaded.windows is None or self.ngram is None:
            make = self.schema.row_type._make
            values = [row_values(loaded.columns[name]) for name in self.schema.fields]
            return [make(row) for row in zip(*values, strict=True)]
        grams = {}
        for offset, fields in self.ngram.fields.items():
            field_names = [field.name for field in fields if field.name in self.schema.fields]
            grams[offset] = (self.schema.create_schema_view(field_names).row_type._make, field_names)
        values_of = {name: row_values(column) for name, column in loaded.columns.items()}
        first = self.ngram.first_offset
        return [
            {
                offset: make([values_of[name][window[offset - first]] for name in names])
                for offset, (make, names) in grams.items()
            }
            for window in loaded.windows.tolist()
        ]


def batch_columns(columns: Mapping[str, Column], schema: Unischema, ragged: str) -> dict[str, Any]:
    """Columns of a batch as arrays: nulls of floats are NaN, of times NaT; text, ragged values and columns with other
    nulls are objects; ragged ones may be padded with zeros.

    Parameters
    ----------
    ragged : "list", "pad" or "nested"
        Rows of different shapes as they are, or all as large as the largest of the batch.

    Raises
    ------
    HubError
    """
    return {name: _batch_column(column, schema.fields[name], ragged) for name, column in columns.items()}


def _batch_column(column: Column, field: UnischemaField, ragged: str) -> Any:
    if isinstance(column, np.ndarray):
        return column
    present = [value for value in column if value is not None]
    if not present and not field.shape and field.numpy_dtype is not Decimal:
        # Only nulls, whose type the schema knows.
        return null_filled(column, np.dtype(field.numpy_dtype))
    if present and all(isinstance(value, np.ndarray) for value in present):
        return _array_rows(column, present, ragged)
    if present and all(isinstance(value, np.generic) for value in present):
        dtype = np.result_type(*{value.dtype for value in present})
        if len(present) == len(column):
            return np.asarray(column, dtype) if dtype.kind not in "OUS" else as_objects(column)
        return null_filled(column, dtype)
    return as_objects(column)


def _array_rows(column: Sequence[Any], present: Sequence[np.ndarray], ragged: str) -> Any:
    shapes = {value.shape for value in present}
    dtypes = {value.dtype for value in present}
    if len(present) < len(column) or len(dtypes) > 1 or present[0].dtype.hasobject:
        return as_objects(column)
    if len(shapes) == 1:
        return np.stack(present)
    ranks = {len(shape) for shape in shapes}
    if ragged == "pad" and len(ranks) == 1:
        most = tuple(max(lengths) for lengths in zip(*shapes, strict=True))
        out = np.zeros((len(column), *most), present[0].dtype)
        for i, value in enumerate(present):
            where: tuple[Any, ...] = (i, *map(slice, value.shape))
            out[where] = value
        return out
    return as_objects(column)
