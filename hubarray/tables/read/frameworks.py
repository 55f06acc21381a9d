"""Values of rows as tensors of PyTorch or TensorFlow; what these have no type for stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.extras import needed


def converter(kind: str) -> Callable[[Any], Any]:
    """The function that makes a value a tensor.

    Raises
    ------
    ConfigError, MissingPackageError
    """
    if kind == "torch":
        torch = needed("torch", extra="torch", why="as_='torch'")
        return lambda value: _torch(torch, value)
    if kind == "tensorflow":
        tf = needed("tensorflow", extra="tensorflow", why="as_='tensorflow'")
        return lambda value: _tensorflow(tf, value)
    raise ConfigError(f"as_={kind!r}: give 'numpy', 'torch' or 'tensorflow'")


def _torch(torch: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_torch(torch, one) for one in value]
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufc":
        return value
    array = np.asarray(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _tensorflow(tf: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_tensorflow(tf, one) for one in value]
    if isinstance(value, (str, bytes)):
        return tf.constant(value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufcSU":
        return value
    return tf.constant(value)
