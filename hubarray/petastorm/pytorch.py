"""Petastorm's ``petastorm.pytorch``."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from hubarray.interop.torch import readers as torch_readers
from hubarray.interop.torch.readers import BatchedDataLoader, DataLoader


class InMemBatchedDataLoader(torch_readers.InMemBatchedDataLoader):
    """As :class:`hubarray.interop.torch.InMemBatchedDataLoader`, with Petastorm's order of options and its defaults.

    Parameters
    ----------
    reader, batch_size, transform_fn, num_epochs, seed, rows_capacity, shuffle
        As there; 1,024 rows are read, and not shuffled, unless said otherwise.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: Callable[[np.ndarray], Any] | None = None,
        num_epochs: int | None = 1,
        seed: int = 0,
        rows_capacity: int = 1024,
        shuffle: bool = False,
    ) -> None:
        super().__init__(
            reader, batch_size, transform_fn, num_epochs=num_epochs, rows_capacity=rows_capacity, shuffle=shuffle,
            seed=seed,
        )  # fmt: skip


def decimal_friendly_collate(batch: list[Any]) -> Any:
    """Put samples together as PyTorch does, but leave decimals as a list of them."""
    return collate(batch, collate_fn_map=default_collate_fn_map | {Decimal: _listed})


def _listed(batch: list[Any], *, collate_fn_map: Any = None) -> list[Any]:
    return list(batch)


__all__ = ["BatchedDataLoader", "DataLoader", "InMemBatchedDataLoader", "decimal_friendly_collate"]
