"""Casts that keep each value: numbers and times in another dtype, if they are the same there. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

_NUMBERS = frozenset("biufc")


def may_be_kept(from_dtype: np.dtype[Any], to_dtype: np.dtype[Any]) -> bool:
    """Return whether a cast keeps some values: among numbers, among times, and among lengths of time.

    Examples
    --------
    >>> may_be_kept(np.dtype("f8"), np.dtype("i4")), may_be_kept(np.dtype("M8[s]"), np.dtype("i8"))
    (True, False)
    """
    return from_dtype.kind == to_dtype.kind in "mM" or {from_dtype.kind, to_dtype.kind} <= _NUMBERS


def _cast(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Cast values. Times that NumPy refuses to convert, because their unit would overflow, become NaT."""
    try:
        return values.astype(dtype)
    except OverflowError:
        if values.dtype.kind not in "mM":
            raise
    if values.size == 1:
        return np.full(values.shape, "NaT", dtype)
    # NumPy does not say which of them it is.
    flat = values.reshape(-1)
    halves = flat[: flat.size // 2], flat[flat.size // 2 :]
    return np.concatenate([_cast(half, dtype) for half in halves]).reshape(values.shape)


def cast_with_losses(values: np.ndarray, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return values in another dtype, and which of them are not the same there.

    Parameters
    ----------
    values : ndarray
        Of a dtype that :func:`may_be_kept`.
    dtype : dtype

    Returns
    -------
    cast : ndarray
    lost : ndarray of bool
        NaN and NaT are the same as NaN and NaT.

    Examples
    --------
    >>> cast_with_losses(np.array([1.0, 1.5, np.nan]), np.dtype("u1"))[1].tolist()
    [False, True, True]
    """
    with np.errstate(all="ignore"):
        cast = _cast(values, dtype)
        back = _cast(cast, values.dtype)
    same = (back == values) | ((back != back) & (values != values))
    from_kind, to_kind = values.dtype.kind, dtype.kind
    if from_kind in "iu" and to_kind in "iu":
        same &= (cast < 0) == (values < 0)
    # The result of casting a float beyond the range of integers depends on the processor. In float16, the smallest
    # integers are -inf as well.
    if from_kind in "iu" and to_kind in "fc":
        same &= np.isfinite(cast) & (cast.real < float(np.iinfo(values.dtype).max) + 1)
    if from_kind in "fc" and to_kind in "iu":
        info = np.iinfo(dtype)
        same &= np.isfinite(values) & (values.real >= info.min) & (values.real < float(info.max) + 1)
    return cast, ~same
