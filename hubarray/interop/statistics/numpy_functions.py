"""NumPy's functions on arrays.

Statistics go block by block. The shape costs nothing. Every other function gets the array read into memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from hubarray.interop.statistics.methods import Statistics

_STATISTICS = (
    *("mean", "std", "var", "sum", "prod", "min", "max", "any", "all", "argmin", "argmax"),
    *("quantile", "percentile", "median", "histogram"),
    *("nanmean", "nanstd", "nanvar", "nansum", "nanprod", "nanmin", "nanmax"),
)
_BY_FUNCTION: dict[Any, str] = {getattr(np, name): name for name in _STATISTICS} | {np.amin: "min", np.amax: "max"}
_DESCRIPTION: dict[Any, Callable[..., Any]] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: len(a.shape),
    np.size: lambda a, axis=None: np.size(np.broadcast_to(0, a.shape), axis),
    np.result_type: lambda *values: np.result_type(*(_dtype(value) for value in values)),
}


# These change their first argument, which would be a copy in memory.
_CHANGING = (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of ``__array_function__``."""
    _refuse_to_change(function, args, kwargs)
    if function in _DESCRIPTION:
        return _DESCRIPTION[function](*args, **kwargs)
    name = _BY_FUNCTION.get(function)
    if name is not None and args and isinstance(args[0], Statistics):
        signature = inspect.signature(function)
        first, *rest = signature.bind(*args, **kwargs).arguments.items()
        # An option that is given NumPy's default asks for nothing.
        options = {key: value for key, value in rest if value is not signature.parameters[key].default}
        return _statistic(name, first[1], options)
    return function(*(_in_memory(arg) for arg in args), **{key: _in_memory(kwarg) for key, kwarg in kwargs.items()})


def _refuse_to_change(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse an array that NumPy is to fill: it would fill a copy in memory."""
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        # Older releases of NumPy have functions without a signature.
        arguments = kwargs
    filled = [arguments.get("out")]
    if function in _CHANGING:
        filled += [*args, *kwargs.values()][:1]
    if any(isinstance(item, Statistics) for item in filled):
        raise TypeError(
            f"np.{function.__name__} would change a copy in memory, and not the array in the bucket; assign instead, "
            "such as a[...] = values"
        )


def _statistic(name: str, array: Statistics, options: dict[str, Any]) -> Any:
    """One statistic with NumPy's options."""
    # nanmean takes the options of mean, and so on; the first parameter is self.
    taken = [*inspect.signature(getattr(Statistics, name.removeprefix("nan"))).parameters][1:]
    refused = [key for key in options if key not in taken]
    if refused:
        raise TypeError(
            f"np.{name} of an array in a bucket takes {', '.join(taken)}, and not {', '.join(refused)}; "
            f"read the part you need first, such as np.{name}(a[0:10], {refused[0]}=...)"
        )
    return array._statistic(name, **options)


def _in_memory(value: Any) -> Any:
    if isinstance(value, Statistics):
        return np.asarray(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Statistics, list, tuple)) for item in value):
        return type(value)(_in_memory(item) for item in value)
    return value


def _dtype(value: Any) -> Any:
    bound: Any = value
    return bound.dtype if isinstance(value, Statistics) else value


class NumpyProtocols:
    """How NumPy's functions find their way: statistics by blocks, arithmetic refused."""

    __slots__ = ()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"np.{ufunc.__name__} would have to read the whole array; read first, such as a[...] or a[0:10]"
        )
