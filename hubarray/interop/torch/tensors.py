"""NumPy's values as PyTorch's: tensors that share their memory, batches that are put together, and pinned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hubarray.arrays.codecs.dtypes import is_ml
from hubarray.readers.fields.source import Column
from hubarray.readers.order.sampler import Segment
from hubarray.readers.pipeline.batching import join_column


def _tensor(value: np.ndarray) -> torch.Tensor:
    """A tensor that shares memory with an array, but where PyTorch could not: it has no negative strides."""
    if any(stride < 0 for stride in value.strides):
        value = value.copy()
    if is_ml(value.dtype) and hasattr(torch, value.dtype.name):
        bits = value.view(np.int16 if value.dtype.itemsize == 2 else np.uint8)
        return torch.from_numpy(bits).view(getattr(torch, value.dtype.name))
    return torch.from_numpy(value)


def has_tensors(dtype: np.dtype[Any]) -> bool:
    """Whether PyTorch has tensors of a dtype."""
    try:
        _tensor(np.zeros(0, dtype))
    except TypeError:
        return False
    return True


def tensors(value: Any) -> Any:
    """NumPy arrays and numbers as tensors that share their memory, within tuples, lists and dictionaries too."""
    return mapped(value, lambda leaf: _tensor(np.asarray(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf)


def arrays(value: Any) -> Any:
    """Tensors as NumPy arrays, where NumPy has their dtype: what goes through a pipe by its bytes."""

    def array(leaf: Any) -> Any:
        return leaf.numpy() if isinstance(leaf, torch.Tensor) and leaf.dtype != torch.bfloat16 else leaf

    return mapped(value, array)


def pinned(value: Any) -> Any:
    """Tensors in memory that a GPU reads by itself."""
    return mapped(value, lambda leaf: leaf.pin_memory() if isinstance(leaf, torch.Tensor) else leaf)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """A value whose leaves a function made; dictionaries, tuples, named ones too, and lists are no leaves."""
    if isinstance(value, dict):
        return {key: mapped(item, function) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(item, function) for item in value)
    return function(value)


def column_tensor(column: Column) -> Any:
    """A column as one tensor; as a list of tensors where rows have shapes of their own, and of values for the rest."""
    if isinstance(column, np.ndarray):
        if not has_tensors(column.dtype):
            return list(column) if column.dtype.kind in "mM" else column.tolist()
        return _tensor(column if column.flags.writeable else column.copy())
    return [_leaf(item) for item in column]


def _leaf(leaf: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic)) and has_tensors(leaf.dtype):
        array = np.asarray(leaf)
        return _tensor(array if array.flags.writeable else array.copy())
    return leaf


def empty_tensor(like: torch.Tensor, length: int) -> torch.Tensor:
    """Memory for rows like those of a tensor."""
    return like.new_empty((length, *like.shape[1:]))


def join_trees(length: int, parts: Sequence[tuple[Any, Segment]]) -> Any:
    """Batches that were collated apart, as one: tensors, lists of text, and what holds them."""
    first = parts[0][0]
    if len(parts) == 1:
        return first
    if isinstance(first, torch.Tensor) or (isinstance(first, (list, tuple)) and _are_text(first)):
        segments = [(list(part) if isinstance(part, tuple) else part, segment) for part, segment in parts]
        joined = join_column(length, segments, empty_tensor)
        if isinstance(first, torch.Tensor) and isinstance(joined, list):
            raise RuntimeError(
                "samples of a batch have different shapes or dtypes: make them equal in transform=, or take single "
                "samples and collate them yourself"
            )
        return joined
    if isinstance(first, Mapping):
        return {key: join_trees(length, [(part[key], segment) for part, segment in parts]) for key in first}
    made = [join_trees(length, [(part[i], segment) for part, segment in parts]) for i in range(len(first))]
    return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)


def _are_text(value: Sequence[Any]) -> bool:
    return bool(value) and all(isinstance(item, (str, bytes)) for item in value)
