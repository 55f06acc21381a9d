"""PyTorch loaders over readers, under Petastorm's names: batches are dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import torch

from hubarray.errors import ConfigError
from hubarray.interop.torch.tensors import column_tensor, has_tensors
from hubarray.readers.fields.source import Column, joined, taken
from hubarray.readers.fields.unischema import Unischema
from hubarray.readers.order.permutation import permutation
from hubarray.readers.pipeline.pipeline import batch_columns
from hubarray.redaction import named_type

Batch = dict[Any, Any]
ColumnTransform = Callable[[np.ndarray], Any]
_WIDER = {"uint16": np.int32, "uint32": np.int64}


class DataLoader:
    """Batches of what a reader gives: a dictionary of tensors by field; of n-grams one of these by offset.

    Text is lists, decimals are lists of text; rows of different shapes are as the reader's ``ragged`` says. A null
    float is NaN; a batch of another column with nulls is a list, which has None. uint16 becomes int32 and uint32 int64.
    A loader can be iterated again once the reader has ended: it is then reset.

    Parameters
    ----------
    reader : Reader or WeightedSamplingReader
        Of rows or of batches.
    batch_size : int
    collate_fn : callable, optional
        Makes a batch of a list of rows, each a dictionary of NumPy values, in place of the above; of a reader of rows.
    shuffling_queue_capacity : int
        Shuffle within about this number of rows. The reader shuffles; there is no other buffer. Before the first item
        alone.

    Raises
    ------
    ConfigError
        An option makes no sense, or the reader has given items.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        shuffling_queue_capacity: int = 0,
        *,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(batch_size, (int, np.integer)) or isinstance(batch_size, bool) or batch_size < 1:
            raise ConfigError(f"batch_size={batch_size!r}: give a number of rows above 0")
        if not hasattr(reader, "last_row_consumed"):
            raise ConfigError(f"a loader is made of a reader, hub.make_reader(...), and not of {named_type(reader)}")
        if collate_fn is not None and reader.batched_output:
            raise ConfigError(
                "collate_fn= gets rows, and this reader gives batches of columns: collate them in your loop"
            )
        if shuffling_queue_capacity:
            reader.set_group_rows(int(shuffling_queue_capacity))
        self.reader = reader
        self._batch_size, self._collate = int(batch_size), collate_fn
        self._transform: ColumnTransform | None = None
        self._drop_last = drop_last
        self._state: dict[str, Any] | None = None
        # What a loop that was left early, or met an error, had not given yet.
        self._open: _Rebatched | None = None
        self._rows: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        if self.reader.last_row_consumed and not self._rows and (self._open is None or not self._open.rows):
            self.reader.reset()
        yield from self._batches()

    def __len__(self) -> int:
        """Batches of all epochs of the reader.

        Raises
        ------
        TypeError
            The rows decide how many there are, or it is endless.
        """
        if self.reader.batched_output:
            raise TypeError("the number of batches is known of readers of rows alone")
        epochs = getattr(self.reader, "num_epochs", 1)
        if epochs is None:
            raise TypeError("a reader of num_epochs=None is endless")
        count = len(self.reader) * epochs
        return count // self._batch_size if self._drop_last else -(-count // self._batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: that of the reader after the batch that was given last.

        Raises
        ------
        ConfigError
            The reader gives batches, of which a part may be left over; one of rows can be resumed.
        """
        if self.reader.batched_output:
            raise ConfigError(
                "a loader over make_batch_reader cannot be resumed, as rows of a batch may be left over in it; use "
                "make_reader, or iterate the reader itself, whose state is exact"
            )
        state: dict[str, Any] = self.reader.state_dict() if self._state is None else self._state
        return state

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Have the next batch begin where a state was taken."""
        self.reader.load_state_dict(state)
        self._state = self._open = None
        self._rows = []

    def _batches(self) -> Iterator[Any]:
        if self.reader.batched_output:
            if self._open is None:
                self._open = _Rebatched(self.reader, self._batch_size, drop_last=self._drop_last)
            for columns in self._open:
                yield _tensors(columns, self.reader.schema, self.reader.ragged, self._transform)
            return
        if not self._rows:
            self._state = self.reader.state_dict()
        for row in self.reader:
            self._rows.append(row)
            if len(self._rows) == self._batch_size:
                rows, self._rows = self._rows, []
                self._state = self.reader.state_dict()
                yield self._collated(rows)
        self._state = None
        rows, self._rows = self._rows, []
        if rows and not self._drop_last:
            yield self._collated(rows)

    def _collated(self, rows: list[Any]) -> Any:
        if self._collate is not None:
            return self._collate([_as_dictionary(row, self.reader.schema) for row in rows])
        if self.reader.ngram is None:
            return _columns_of(rows, self.reader.schema, self.reader.ragged, self._transform)
        schema, ragged = self.reader.schema, self.reader.ragged
        views = {offset: _view(schema, row) for offset, row in rows[0].items()}
        return {
            offset: _columns_of([row[offset] for row in rows], view, ragged, self._transform)
            for offset, view in views.items()
        }

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()
        self.reader.join()


class BatchedDataLoader(DataLoader):
    """A :class:`DataLoader` of a reader of batches, whose rows are combined into batches of equal size.

    Parameters
    ----------
    reader : Reader
        Of :func:`hubarray.make_batch_reader`, or of rows.
    batch_size : int
    transform_fn : callable, optional
        Makes a tensor of each column, an array, in place of ``torch.as_tensor``; lists are left as they are.
    shuffling_queue_capacity : int
        Same as in :class:`DataLoader`.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: ColumnTransform | None = None,
        shuffling_queue_capacity: int = 0,
        *,
        drop_last: bool = False,
    ) -> None:
        super().__init__(
            reader, batch_size, shuffling_queue_capacity=shuffling_queue_capacity, drop_last=drop_last
        )  # fmt: skip
        if transform_fn is not None and not callable(transform_fn):
            raise ConfigError(f"transform_fn={transform_fn!r} is not a function"[:200])
        self._transform = transform_fn


class InMemBatchedDataLoader:
    """Epochs over the rows of a reader, which are read into memory once and shuffled in each epoch.

    Iterating again gives the next epochs. An epoch that was left early continues.

    Parameters
    ----------
    reader : Reader
        Of one epoch; it is read to its end.
    batch_size : int
    transform_fn : callable, optional
        Same as in :class:`BatchedDataLoader`.
    num_epochs : int or None
        None is endless.
    rows_capacity : int, optional
        Maximum number of rows to read.
    shuffle : bool
    seed : int

    Raises
    ------
    ConfigError
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: ColumnTransform | None = None,
        *,
        num_epochs: int | None = 1,
        rows_capacity: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if reader.ngram is not None:
            raise ConfigError("windows are not kept in memory; use DataLoader for them")
        if reader.num_epochs is None:
            raise ConfigError("a reader without end does not fit into memory; give it num_epochs=1")
        loader = DataLoader(reader, batch_size)
        del loader
        if num_epochs is not None and (not isinstance(num_epochs, int) or num_epochs < 1):
            raise ConfigError(f"num_epochs={num_epochs!r}: give a number above 0, or None")
        self._schema, self._ragged = reader.schema, reader.ragged
        self._columns, self._rows = _all_columns(reader, rows_capacity)
        self._batch_size, self._transform, self._num_epochs = int(batch_size), transform_fn, num_epochs
        self._shuffle, self._seed, self._drop_last = shuffle, int(seed), drop_last
        self._epoch = self._batches_given = 0

    def _batches_of_an_epoch(self) -> int:
        return self._rows // self._batch_size if self._drop_last else -(-self._rows // self._batch_size)

    def __len__(self) -> int:
        """Batches of an iteration: of ``num_epochs`` epochs.

        Raises
        ------
        TypeError
            It is endless.
        """
        if self._num_epochs is None:
            raise TypeError("a loader of num_epochs=None is endless")
        return self._batches_of_an_epoch() * self._num_epochs

    def __iter__(self) -> Iterator[Any]:
        count, left = self._batches_of_an_epoch(), self._num_epochs
        while count and (left is None or left > 0):
            epoch = self._epoch
            order = permutation(self._rows, self._seed, epoch) if self._shuffle else np.arange(self._rows)
            for step in range(self._batches_given, count):
                rows = order[step * self._batch_size : (step + 1) * self._batch_size]
                columns = {name: taken(column, rows) for name, column in self._columns.items()}
                # Whoever stops after the last batch has had the epoch.
                self._epoch, self._batches_given = (epoch, step + 1) if step + 1 < count else (epoch + 1, 0)
                yield _tensors(columns, self._schema, self._ragged, self._transform)
            left = None if left is None else left - 1

    def state_dict(self) -> dict[str, int]:
        """Return the position of the loop. With the same rows, seed and batch size, :meth:`load_state_dict` continues
        from it."""
        return {"rows": self._rows, "seed": self._seed, "batch_size": self._batch_size, "epoch": self._epoch,
                "batches": self._batches_given}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where a state was taken.

        Raises
        ------
        ConfigError
            It is of other rows, or of another order.
        """
        known = isinstance(state, Mapping) and all(type(state.get(name)) is int for name in self.state_dict())
        if not known or not 0 <= state["batches"] <= self._batches_of_an_epoch() or state["epoch"] < 0:
            raise ConfigError("not a state that an InMemBatchedDataLoader gave")
        for name, own in self.state_dict().items():
            if name not in ("epoch", "batches") and state[name] != own:
                raise ConfigError(f"the state is of {name}={state[name]}, and this loader has {own}")
        self._epoch, self._batches_given = state["epoch"], state["batches"]

    def __enter__(self) -> InMemBatchedDataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to stop: the reader was when its rows had been read."""


def _all_columns(reader: Any, max_rows: int | None) -> tuple[dict[str, Column], int]:
    parts: list[dict[str, Column]] = []
    rows = 0
    with reader:
        for columns in _Rebatched(reader, 4096):
            parts.append(columns)
            rows += len(next(iter(columns.values())))
            if max_rows is not None and rows >= max_rows:
                rows = max_rows
                break
    names = list(reader.schema.fields)
    whole = {name: joined([part[name] for part in parts]) if parts else [] for name in names}
    return {name: column[:rows] for name, column in whole.items()}, rows


class _Rebatched:
    """Iterate over columns of this number of rows, from batches of other sizes. Remaining rows wait for more."""

    def __init__(self, reader: Any, batch_size: int, *, drop_last: bool = False) -> None:
        self._reader, self._batch_size, self._drop_last = reader, batch_size, drop_last
        self._names = list(reader.schema.fields)
        self._items = _column_items(reader, self._names, batch_size)
        self._held: list[dict[str, Column]] = []
        # Of the first one, rows that were given.
        self._rows = self._first_row = 0

    def __iter__(self) -> Iterator[dict[str, Column]]:
        return self

    @property
    def rows(self) -> int:
        """Rows that are left over."""
        return self._rows

    def __next__(self) -> dict[str, Column]:
        while self._rows < self._batch_size:
            try:
                item = next(self._items)
            except StopIteration:
                if not self._rows or self._drop_last:
                    self._held, self._rows, self._first_row = [], 0, 0
                    raise
                return self._of_held(self._rows)
            self._held.append(item)
            self._rows += len(item[self._names[0]])
        return self._of_held(self._batch_size)

    def _of_held(self, rows: int) -> dict[str, Column]:
        """The next rows: only those that reach over two items are put together; the others are views."""
        parts = []
        self._rows -= rows
        while rows:
            item, first = self._held[0], self._first_row
            count = min(rows, len(item[self._names[0]]) - first)
            parts.append({name: column[first : first + count] for name, column in item.items()})
            rows, self._first_row = rows - count, first + count
            if self._first_row == len(item[self._names[0]]):
                del self._held[0]
                self._first_row = 0
        return parts[0] if len(parts) == 1 else {name: joined([part[name] for part in parts]) for name in self._names}


def _column_items(reader: Any, names: Sequence[str], batch_size: int) -> Iterator[dict[str, Column]]:
    if reader.batched_output:
        # Not a generator, which an error of the reader would end.
        return map(partial(_by_name, names), reader)
    return _ColumnsOfRows(reader, names, batch_size)


def _by_name(names: Sequence[str], item: Sequence[Column]) -> dict[str, Column]:
    return dict(zip(names, item, strict=True))


class _ColumnsOfRows:
    """Iterate over columns of this number of rows. Rows before an error are kept for the next time."""

    def __init__(self, reader: Any, names: Sequence[str], batch_size: int) -> None:
        self._reader, self._names, self._batch_size = reader, names, batch_size
        self._rows: list[Any] = []

    def __iter__(self) -> Iterator[dict[str, Column]]:
        return self

    def __next__(self) -> dict[str, Column]:
        while len(self._rows) < self._batch_size:
            try:
                self._rows.append(next(self._reader))
            except StopIteration:
                if not self._rows:
                    raise
                break
        rows, self._rows = self._rows, []
        return {name: [row[i] for row in rows] for i, name in enumerate(self._names)}


def _columns_of(rows: Sequence[Any], schema: Unischema, ragged: str, transform: ColumnTransform | None) -> Batch:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(schema.fields)}
    return _tensors(columns, schema, ragged, transform)


def _view(schema: Unischema, row: Any) -> Unischema:
    """The schema of a row of an n-gram, which has some of the fields."""
    names = [name for name in schema.fields if name in row._fields]
    return schema.create_schema_view(names)


def _as_dictionary(row: Any, schema: Unischema) -> Any:
    if isinstance(row, dict):
        return {offset: dict(zip(item._fields, item, strict=True)) for offset, item in row.items()}
    return dict(zip(schema.fields, row, strict=True))


def _tensors(
    columns: Mapping[str, Column], schema: Unischema, ragged: str, transform: ColumnTransform | None = None
) -> Batch:
    tensors = batch_columns(columns, schema, "pad" if ragged == "pad" else "list")
    return {name: _nested(_tensor(column, transform), ragged) for name, column in tensors.items()}


def _tensor(column: Any, transform: ColumnTransform | None) -> Any:
    if isinstance(column, np.ndarray) and not column.dtype.hasobject:
        # PyTorch can hold unsigned integers of more than one byte, and hardly compute with them.
        column = column.astype(_WIDER.get(column.dtype.name, column.dtype), copy=False)
        if transform is not None and has_tensors(column.dtype):
            return transform(column if column.flags.writeable else column.copy())
    return column_tensor(_with_text_for_decimals(column))


def _with_text_for_decimals(column: Any) -> Any:
    """Objects as lists, of which decimals are text: PyTorch has no tensors of either."""
    if isinstance(column, np.ndarray) and column.dtype.hasobject:
        column = column.tolist()
    if isinstance(column, list) and any(isinstance(value, Decimal) for value in column):
        return [None if value is None else str(value) for value in column]
    return column


def _nested(column: Any, ragged: str) -> Any:
    tensors = isinstance(column, list) and bool(column) and all(isinstance(value, torch.Tensor) for value in column)
    return torch.nested.nested_tensor(column) if tensors and ragged == "nested" else column
