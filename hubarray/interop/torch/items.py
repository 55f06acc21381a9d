"""Items of a stream for PyTorch, made of rows: batches or samples, with a transform or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from torch.utils.data import default_collate

from hubarray.interop.torch.tensors import arrays, column_tensor, empty_tensor, join_trees, tensors
from hubarray.readers.fields.source import Column
from hubarray.readers.order.sampler import Segment
from hubarray.readers.pipeline.batching import column_part, join_column


class Items(Protocol):
    """How runs of rows become items.

    ``opened`` makes something of the columns of a run, and ``part`` something of some of its rows; ``join`` puts the
    parts of a step together, and ``unbatched`` gives the items of it. Workers send a run ``packed``.
    """

    def opened(self, columns: Sequence[Column]) -> Any:
        """A run in the form in which it is kept, of its columns."""

    def part(self, run: Any, first: int, count: int) -> Any:
        """Some rows of a run."""

    def join(self, length: int, parts: Sequence[tuple[Any, Segment]]) -> Any:
        """A step, of its parts."""

    def unbatched(self, block: Any) -> Iterator[Any]:
        """The items of a step."""

    def packed(self, run: Any, parts: Sequence[tuple[int, int]]) -> Any:
        """A run for another process, which will want these parts."""

    def unpacked(self, packed: Any) -> Any:
        """A run as ``part`` takes it, of what another process packed."""


class Form:
    """Samples and batches, made of their columns: the only one, a tuple, or a dictionary."""

    def __init__(self, names: Sequence[str], form: str) -> None:
        self._names, self._form = list(names), form

    def of(self, values: Sequence[Any]) -> Any:
        """A sample or batch, of a value of each column."""
        if self._form == "value":
            return values[0]
        return tuple(values) if self._form == "tuple" else dict(zip(self._names, values, strict=True))


class _Plain:
    """Columns as they are: batches are views, or joined once."""

    def __init__(self, form: Form, batched: bool) -> None:
        self._form, self._batched = form, batched

    def opened(self, columns: Sequence[Column]) -> Any:
        return [column_tensor(column) for column in columns]

    def part(self, run: Any, first: int, count: int) -> Any:
        return [column_part(column, first, count) for column in run]

    def join(self, length: int, parts: Sequence[tuple[Any, Segment]]) -> Any:
        each = zip(*(part for part, _ in parts), strict=True)
        segments = [segment for _, segment in parts]
        return [
            join_column(length, list(zip(column_parts, segments, strict=True)), empty_tensor) for column_parts in each
        ]

    def unbatched(self, block: Any) -> Iterator[Any]:
        if self._batched:
            yield self._form.of(block)
        else:
            for values in zip(*block, strict=True):
                yield self._form.of(values)

    def packed(self, run: Any, parts: Sequence[tuple[int, int]]) -> Any:
        return run

    def unpacked(self, packed: Any) -> Any:
        return packed


class _Samples:
    """Single samples that a transform makes."""

    def __init__(self, form: Form, transform: Callable[[Any], Any]) -> None:
        self._form, self._transform = form, transform

    def opened(self, columns: Sequence[Column]) -> Any:
        return _RowItems(columns)

    def _sample(self, values: Sequence[Any]) -> Any:
        return tensors(self._transform(self._form.of(values)))

    def part(self, run: Any, first: int, count: int) -> Any:
        if isinstance(run, _RowItems):
            return [self._sample(values) for values in run.rows(first, count)]
        return [tensors(item) for item in run[first : first + count]]

    def join(self, length: int, parts: Sequence[tuple[Any, Segment]]) -> Any:
        return join_column(length, parts, empty_tensor)

    def unbatched(self, block: Any) -> Iterator[Any]:
        yield from block

    def packed(self, run: Any, parts: Sequence[tuple[int, int]]) -> Any:
        # By their bytes: a tensor of its own for each value would be a file of shared memory each.
        return [arrays(self._sample(values)) for values in run.rows(0, len(run))]

    def unpacked(self, packed: Any) -> Any:
        return packed


class _Batches(_Samples):
    """Batches of what a transform makes, as torch collates it."""

    def part(self, run: Any, first: int, count: int) -> Any:
        if isinstance(run, _RowItems):
            return default_collate([self._sample(values) for values in run.rows(first, count)])
        return run[first]

    def join(self, length: int, parts: Sequence[tuple[Any, Segment]]) -> Any:
        return join_trees(length, parts)

    def unbatched(self, block: Any) -> Iterator[Any]:
        yield block

    def packed(self, run: Any, parts: Sequence[tuple[int, int]]) -> Any:
        return {first: self.part(run, first, count) for first, count in parts}


class _RowItems:
    """Columns of a run, to be taken row by row."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    def rows(self, first: int, count: int) -> Iterator[Sequence[Any]]:
        return zip(*(column[first : first + count] for column in self._columns), strict=True)


def items_of(names: Sequence[str], form: str, transform: Callable[[Any], Any] | None, *, batched: bool) -> Items:
    """How runs become items."""
    made = Form(names, form)
    if transform is None:
        return _Plain(made, batched)
    return _Batches(made, transform) if batched else _Samples(made, transform)
