"""NumPy's functions on arrays: statistics by blocks, the shape at once, the rest on what is read into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hubarray.arrays.array import Array
from hubarray.interop.lazy import LazyView

_STATISTICS = (
    *("mean", "std", "var", "sum", "prod", "min", "max", "any", "all", "argmin", "argmax"),
    *("quantile", "percentile", "median", "histogram"),
)
_BY_FUNCTION: dict[Any, str] = {getattr(np, name): name for name in _STATISTICS} | {np.amin: "min", np.amax: "max"}
_DESCRIPTION: dict[Any, Callable[..., Any]] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: len(a.shape),
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.result_type: lambda *given: np.result_type(*(_dtype(one) for one in given)),
}


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``__array_function__`` does."""
    if function in _DESCRIPTION:
        return _DESCRIPTION[function](*args, **kwargs)
    name = _BY_FUNCTION.get(function)
    if name is not None and args and isinstance(args[0], (Array, LazyView)):
        given = {key: value for key, value in kwargs.items() if value is not np._NoValue}
        view = args[0] if isinstance(args[0], LazyView) else LazyView(args[0])
        return getattr(view, name)(*args[1:], **given)
    return function(*(_in_memory(one) for one in args), **{key: _in_memory(one) for key, one in kwargs.items()})


def _in_memory(value: Any) -> Any:
    if isinstance(value, (Array, LazyView)):
        return np.asarray(value)
    if isinstance(value, (list, tuple)) and any(isinstance(one, (Array, LazyView, list, tuple)) for one in value):
        return type(value)(_in_memory(one) for one in value)
    return value


def _dtype(value: Any) -> Any:
    return value.dtype if isinstance(value, (Array, LazyView)) else value
