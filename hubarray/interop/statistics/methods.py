"""The statistics of arrays and of lazy views: NumPy's methods, all by way of one."""

from __future__ import annotations

import abc
from typing import Any


class Statistics(abc.ABC):
    """Base class of what has NumPy's statistics, computed block by block without all of it in memory.

    They are what NumPy's functions of the same names give, and take the same arguments.
    """

    __slots__ = ()

    @abc.abstractmethod
    def _statistic(self, name: str, **options: Any) -> Any:
        """The result of the method of this name."""

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Arithmetic mean, as :func:`numpy.mean`."""
        return self._statistic("mean", axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """Standard deviation, as :func:`numpy.std`."""
        return self._statistic("std", axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """Variance, as :func:`numpy.var`."""
        return self._statistic("var", axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Sum, as :func:`numpy.sum`."""
        return self._statistic("sum", axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Product, as :func:`numpy.prod`."""
        return self._statistic("prod", axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Minimum, as :func:`numpy.min`; NaN where there is one."""
        return self._statistic("min", axis=axis, out=out, keepdims=keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Maximum, as :func:`numpy.max`; NaN where there is one."""
        return self._statistic("max", axis=axis, out=out, keepdims=keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether any element is true, as :func:`numpy.any`."""
        return self._statistic("any", axis=axis, out=out, keepdims=keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements are true, as :func:`numpy.all`."""
        return self._statistic("all", axis=axis, out=out, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
        """Index of the first minimum, as :func:`numpy.argmin`."""
        return self._statistic("argmin", axis=axis, out=out, keepdims=keepdims)

    def argmax(self, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
        """Index of the first maximum, as :func:`numpy.argmax`."""
        return self._statistic("argmax", axis=axis, out=out, keepdims=keepdims)

    def quantile(self, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
        """Exact quantiles, as :func:`numpy.quantile`, by its methods linear, lower, higher, midpoint and nearest.

        Over all elements at once it reads them about four times, in memory that does not depend on their number.
        Along axes it holds up to 1 GiB of elements, and of more one column of 128 MiB a thread, for each of which
        it reads all chunks that the column passes through.
        """
        return self._statistic("quantile", q=q, axis=axis, method=method, keepdims=keepdims)

    def percentile(self, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
        """Exact percentiles, as :func:`numpy.percentile`; see :meth:`quantile`."""
        return self._statistic("percentile", q=q, axis=axis, method=method, keepdims=keepdims)

    def median(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """The median, as :func:`numpy.median`; see :meth:`quantile`."""
        return self._statistic("median", axis=axis, keepdims=keepdims)

    def histogram(self, bins: Any = 10, range: Any = None, density: bool | None = None) -> tuple[Any, Any]:
        """Counts and edges, as :func:`numpy.histogram`; ``bins`` is a number or the edges."""
        counts, edges = self._statistic("histogram", bins=bins, range=range, density=density)
        return counts, edges
