"""Lazy views of an array, and statistics over them, block by block through Dask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from hubarray.arrays.codecs.dtypes import is_ml
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.operators import NoOperators
from hubarray.errors import ConfigError
from hubarray.interop import blocks
from hubarray.interop.dask import as_dask, computed
from hubarray.interop.statistics import order_statistics, sparse_statistics
from hubarray.interop.statistics.methods import Statistics
from hubarray.interop.statistics.numpy_functions import NumpyProtocols

if TYPE_CHECKING:
    import dask.array as da

_SUMMING = ("mean", "std", "var", "sum", "prod")
_OF_FLOATS = ("nanmean", "nanstd", "nanvar")


class LazyView(Statistics, NoOperators, NumpyProtocols):
    """A part of one commit of an array that nothing was read of yet: ``a.lazy[0:10_000, ..., 0]``.

    Takes integers, slices and ``...``, again and again; has the array's statistics; and is read by
    ``np.asarray(view)`` or handed to Dask by :meth:`to_dask`. It stays at the commit it was made from.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array((1000, 8), "docs/lazy:v0", dtype="int64", chunks=(100, 8))
    >>> a[500:] = 2
    >>> view = a.lazy[400:, ::2]
    >>> view.shape, int(view.sum()), float(view.mean())
    ((600, 4), 4000, 1.6666666666666667)
    """

    def __init__(self, array: ArrayHandle, axes: tuple[blocks.Axis, ...] | None = None) -> None:
        self._array = array.snapshot()
        self._axes = tuple(range(n) for n in array.shape) if axes is None else axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis that is left."""
        return blocks.shape_of(self._axes)

    @property
    def ndim(self) -> int:
        """Number of axes that are left."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements in view."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def chunks(self) -> tuple[int, ...]:
        """About how many of the view's positions lie in one chunk of the array, along each axis that is left."""
        pairs = zip(self._axes, self._array.chunks, strict=True)
        return tuple(max(1, chunk // abs(axis.step)) for axis, chunk in pairs if isinstance(axis, range))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self._array.dtype

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<hubarray.LazyView of {self._array!r}: shape {self.shape}, dtype {self.dtype}>"

    def __getitem__(self, key: Any) -> LazyView:
        return LazyView(self._array, blocks.index(self._axes, key))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the data is in a bucket, so it cannot be had without a copy; leave out copy=False")
        key = tuple(blocks.as_slice(axis) if isinstance(axis, range) else axis for axis in self._axes)
        result = np.asarray(self._array[key])
        return result if dtype is None else result.astype(dtype, copy=False)

    def to_dask(self, *, block_bytes: int = 64 << 20) -> da.Array:
        """The view as a Dask array; see :meth:`hubarray.Array.to_dask`."""
        return as_dask(self._array, self._axes, block_bytes=block_bytes)

    def _statistic(self, name: str, **options: Any) -> Any:
        if self.dtype.kind == "T" and name not in ("min", "max"):
            raise TypeError(f"text has no {name}; read it first: a[...]")
        match name:
            case "argmin" | "argmax":
                return self._arg(name, **options)
            case "quantile":
                return order_statistics.quantile(self, **options)
            case "percentile":
                q = options.pop("q")
                share = q / 100 if isinstance(q, (int, float)) else np.true_divide(q, 100)
                return order_statistics.quantile(self, share, **options)
            case "median":
                return order_statistics.median(self, **options)
            case "histogram":
                return self._histogram(**options)
        return self._reduced(name, **options)

    def _histogram(
        self, bins: Any = 10, range: tuple[float, float] | None = None, density: bool | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(bins, str):
            raise ConfigError(f"bins={bins!r}: give a number of bins or their edges; rules would read everything twice")
        import dask.array as da

        if np.ndim(bins) == 0 and range is None:
            range = (self.min(), self.max()) if self.size else (0.0, 1.0)
        edges = np.histogram_bin_edges(np.zeros(0, self.dtype), bins, range)
        counts, _ = da.histogram(self.to_dask().ravel(), bins=edges)
        integers = self._computed(counts).astype(np.intp, copy=False)
        if density:
            return integers / integers.sum() / np.diff(edges), edges
        return integers, edges

    def _reduced(self, function: str, out: Any = None, **options: Any) -> Any:
        import dask.array as da

        if options.get("dtype", ...) is None:
            del options["dtype"]
        if out is not None:
            _check_out(out)
            if function in ("sum", "prod", "nansum", "nanprod") and "dtype" not in options:
                # As NumPy: what is filled says how it is added up.
                options["dtype"] = out.dtype
        whole = "dtype" in options and not np.issubdtype(options["dtype"], np.inexact)
        if whole and function in _OF_FLOATS and self.dtype.kind in "fc":
            raise TypeError(f"np.{function} of {self.dtype} needs a dtype of floats, not {options['dtype']}")
        if self.size == 0 or not self.shape or (self.dtype.kind in "mM" and function.removeprefix("nan") in _SUMMING):
            return _delivered(getattr(np, function)(np.asarray(self), **options), out)
        sparse = self._from_stored_chunks(function, options)
        if sparse is not None:
            return _delivered(sparse, out)
        narrow = self.dtype == np.float16 or is_ml(self.dtype)
        half = narrow and function.removeprefix("nan") in _SUMMING and "dtype" not in options
        if half:
            # Partial sums of 16 or 8 bits overflow; NumPy has wider ones inside, too.
            options["dtype"] = np.float32
        lazy = getattr(da, function)(self.to_dask(), **options)
        if options.get("ddof"):
            lazy = self._without_freedom(lazy, function, options)
        result = self._computed(lazy)
        return _delivered(np.asarray(result).astype(self.dtype) if half else result, out)

    def _from_stored_chunks(self, function: str, options: dict[str, Any]) -> Any | None:
        """A statistic over all elements of what is large and hardly written, from the chunks that were."""
        plain = options.get("axis") is None and not options.get("keepdims") and "dtype" not in options
        if not plain or function not in sparse_statistics.SPARSE_STATISTICS or self.dtype.kind not in "biuf":
            return None
        return sparse_statistics.statistic(function, self._array, self._axes, ddof=options.get("ddof", 0))

    def _without_freedom(self, spread: da.Array, function: str, options: dict[str, Any]) -> da.Array:
        """A variance or deviation as NumPy has it where no degree of freedom is left: a division by 0, not below it."""
        import dask.array as da

        where = {"axis": options.get("axis"), "keepdims": options.get("keepdims", False)}
        if function.startswith("nan") and self.dtype.kind in "fc":
            counts = da.sum(~da.isnan(self.to_dask()), **where)
            return da.where(counts > options["ddof"], spread, np.nan).astype(spread.dtype)
        along = range(self.ndim) if where["axis"] is None else normalize_axis_tuple(where["axis"], self.ndim)
        if options["ddof"] < math.prod(self.shape[axis] for axis in along):
            return spread
        divided = getattr(da, function)(self.to_dask(), **options | {"ddof": 0})
        return da.where(divided > 0, np.inf, np.nan).astype(spread.dtype)

    def _arg(self, function: str, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
        if out is not None:
            _check_out(out)
            if out.dtype != np.intp:
                raise TypeError(f"out= is {out.dtype}, and indices are {np.dtype(np.intp)}")
        if self.size == 0 or not self.shape or self.dtype.kind not in "biufcmM":
            return _delivered(getattr(np, function)(np.asarray(self), axis=axis, keepdims=keepdims), out)
        import dask.array as da

        if axis is not None or self.ndim < 2:
            result = self._computed(getattr(da, function)(self.to_dask(), axis=axis, keepdims=keepdims))
            return _delivered(result, out)
        position = order_statistics.first_extreme(self, function)
        result = np.full((1,) * self.ndim, position, np.intp) if keepdims else np.intp(position)
        return _delivered(result, out)

    def _computed(self, lazy: Any) -> Any:
        return computed(lazy, f"reading {self._array.name}:{self._array.version}")

    def each_block(self, function: Callable[[np.ndarray, tuple[int, ...]], Any]) -> list[Any]:
        """``function(block, where it begins in the view)`` of every block, computed in parallel."""
        import dask

        blocked = self.to_dask()
        begins = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist() for sizes in blocked.chunks]
        delayed = blocked.to_delayed()
        tasks = [
            dask.delayed(function)(delayed[place], tuple(b[i] for b, i in zip(begins, place, strict=True)))
            for place in np.ndindex(delayed.shape)
        ]
        results: list[Any] = self._computed(dask.delayed(list)(tasks)) if tasks else []
        return results


def _check_out(out: Any) -> None:
    """Refuse what NumPy would refuse to fill."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out= takes a NumPy array, not {type(out).__name__}")


def _delivered(result: Any, out: Any) -> Any:
    if out is None:
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
    result = np.asarray(result)
    if out.shape != result.shape:
        raise ValueError(f"out= has shape {out.shape}, and the result has {result.shape}")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"out= is {out.dtype}, which cannot hold the result's {result.dtype}")
    out[...] = result
    return out
