"""PyTorch datasets over the rows of a loader: by index, or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from hubarray.interop.torch.stream import Stream, only_streams
from hubarray.interop.torch.tensors import tensors
from hubarray.readers.table_source import TableSource
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.read.row_reads import Row


def to_pytorch(
    loader: RowLoaderHandle,
    columns: str | Sequence[str] | None = None,
    *,
    transform: Callable[[Any], Any] | None = None,
    value: str | None = None,
    iterable: bool = False,
    **options: Any,
) -> LoaderRows | Stream:
    """See :meth:`hubarray.RowLoader.to_pytorch`; with ``value`` a sample is the value of that column alone."""
    names = loader.check_columns(columns) if value is None else [value]
    if iterable:
        form = "dict" if value is None else "value"
        return Stream(TableSource(loader, names), names, form, transform, **options)
    only_streams(options)
    return LoaderRows(loader, columns if value is None else [value], transform, value)


class LoaderRows(Dataset[Any]):
    """Rows by index: ``dataset[7]``, and a whole batch in one parallel fetch, which DataLoader asks for."""

    def __init__(
        self,
        loader: RowLoaderHandle,
        columns: str | Sequence[str] | None,
        transform: Callable[[Any], Any] | None,
        value: str | None,
    ) -> None:
        self._loader, self._columns, self._transform, self._value = loader, columns, transform, value

    def __len__(self) -> int:
        return len(self._loader)

    def __repr__(self) -> str:
        return f"<hubarray LoaderRows of {self._loader!r}>"

    def __getitem__(self, index: int) -> Any:
        return self._samples([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch; DataLoader asks for them so."""
        return self._samples(indices)

    @staticmethod
    def collate(samples: list[Any]) -> Any:
        """A batch of samples: tensors of what has one shape, and lists of the rest, as streams give it.

        ``DataLoader(dataset, batch_size=32, collate_fn=dataset.collate)`` takes ragged rows, text and nulls.
        """
        if isinstance(samples[0], dict):
            return {name: _stacked([sample[name] for sample in samples]) for name in samples[0]}
        return _stacked(samples)

    def _samples(self, indices: Sequence[int]) -> list[Any]:
        if self._transform is None:
            return [self._sample(row) for row in self._loader.get_batch(indices, self._columns, as_="torch")]
        rows = self._loader.get_batch(indices, self._columns)
        return [tensors(self._transform(self._sample(row))) for row in rows]

    def _sample(self, row: Row) -> Any:
        return row if self._value is None else row[self._value]


def _stacked(values: list[Any]) -> Any:
    alike = {(value.shape, value.dtype) if isinstance(value, torch.Tensor) else None for value in values}
    return torch.stack(values) if len(alike) == 1 and None not in alike else values
