"""PyTorch datasets over arrays: by index, or as a stream that is shuffled, split and resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch.utils.data import Dataset, default_collate

from hubarray.arrays.handle import ArrayHandle
from hubarray.blobs.scheduling import side_by_side
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError
from hubarray.interop.torch.stream import Stream, only_streams
from hubarray.interop.torch.tensors import has_tensors, tensors
from hubarray.readers.array_source import ArraySource, dataset_source

Transform = Callable[[Any], Any]


def to_pytorch(
    array: ArrayHandle,
    others: Sequence[ArrayHandle] = (),
    *,
    transform: Transform | None = None,
    iterable: bool = False,
    rows: Any = None,
    **options: Any,
) -> IndexedSamples | Stream:
    """See :meth:`hubarray.Array.to_pytorch`."""
    source = ArraySource({str(i): column for i, column in enumerate([array, *others])}, rows)
    if transform is None:
        for column in source.arrays:
            _check_dtype(column)
    if not iterable:
        only_streams(options)
        return IndexedSamples(Columns(source.arrays, transform))
    form = "value" if not others else "tuple"
    return Stream(source, list(source.schema.fields), form, transform, **options)


def dataset_to_pytorch(
    dataset: DatasetHandle,
    columns: str | Sequence[str] | None = None,
    *,
    transform: Transform | None = None,
    iterable: bool = False,
    rows: Any = None,
    **options: Any,
) -> IndexedSamples | Stream:
    """See :meth:`hubarray.Dataset.to_pytorch`."""
    source = dataset_source(dataset, columns, rows)
    if transform is None:
        for array in source.arrays:
            _check_dtype(array)
    names = list(source.schema.fields)
    if iterable:
        return Stream(source, names, "dict", transform, **options)
    only_streams(options)
    return IndexedSamples(Columns(source.arrays, transform, names))


class Columns:
    """Arrays of equal length, read together; each stays at the commit it had.

    A sample is a value, of several arrays a tuple, and with ``names`` a dictionary.
    """

    def __init__(self, arrays: Sequence[Any], transform: Transform | None, names: Sequence[str] | None = None) -> None:
        self.arrays, self.transform, self.names = arrays, transform, names

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __repr__(self) -> str:
        names = ", ".join(f"{array.name}:{array.version}@{array.commit}" for array in self.arrays)
        return f"{names}: {len(self):,} rows"

    def read(self, rows: Any) -> list[Any]:
        """The rows of every array, fetched side by side; text of any length as lists."""
        columns = side_by_side([partial(array.__getitem__, rows) for array in self.arrays])
        return [
            column.tolist() if isinstance(column, np.ndarray) and column.dtype.kind == "T" else column
            for column in columns
        ]

    def sample(self, parts: Sequence[Any]) -> Any:
        """One sample, transformed and as tensors."""
        value = self.together(parts)
        return tensors(value if self.transform is None else self.transform(value))

    def together(self, parts: Sequence[Any]) -> Any:
        """The parts of one sample, or of a batch, as one."""
        if self.names is not None:
            return dict(zip(self.names, parts, strict=True))
        return parts[0] if len(self.arrays) == 1 else tuple(parts)


def _check_dtype(array: Any) -> None:
    if array.dtype.kind != "T" and not has_tensors(array.dtype):
        raise ConfigError(
            f"{array.name}:{array.version}: PyTorch has no tensors of dtype {array.dtype}; pass transform= to convert "
            "each sample, say to float32 or int64"
        ) from None


class SampleBatch(list[Any]):
    """Samples of one batch, that know the batch they are views of."""

    batch: Any = None


class IndexedSamples(Dataset[Any]):
    """Samples by index: ``dataset[7]``, and a whole batch in one parallel fetch.

    ``DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=dataset.collate)`` gets each batch as it was
    read; torch's own collating copies it once more.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<hubarray Rows of {self._columns!r}>"

    def __getitem__(self, index: int) -> Any:
        return self._columns.sample(self._columns.read(index))

    def __getitems__(self, indices: list[int]) -> SampleBatch:
        """The samples of a batch; DataLoader asks for them so."""
        parts = self._columns.read(np.asarray(indices, np.intp))
        samples = SampleBatch(self._columns.sample(part) for part in zip(*parts, strict=True))
        if self._columns.transform is None:
            samples.batch = tensors(self._columns.together(parts))
        return samples

    @staticmethod
    def collate(samples: list[Any]) -> Any:
        """A batch as it was read, where nothing was transformed; else :func:`torch.utils.data.default_collate`."""
        batch = getattr(samples, "batch", None)
        return default_collate(samples) if batch is None else batch
