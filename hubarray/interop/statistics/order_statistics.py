"""Exact quantiles and first extremes of what does not fit into memory, from counts and candidates of its blocks.

A quantile over all elements is found as by radix selection: the order-preserving bits of the values are
counted digit by digit, 16 or 8 bits in each pass, which narrows every wanted rank to one value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from hubarray.errors import ConfigError
from hubarray.interop import blocks

if TYPE_CHECKING:
    from hubarray.interop.statistics.lazy import LazyView

_IN_MEMORY_BYTES = 64 << 20
_REARRANGED_BYTES = 1 << 30
_COLUMN_BYTES = 128 << 20
_FEW_RANKS = 8
_PIECE = 1 << 20
QUANTILE_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(view: LazyView, q: Any, axis: Any = None, method: Any = "linear", keepdims: bool = False) -> Any:
    """Quantiles, as :func:`numpy.quantile` gives them.

    Raises
    ------
    ConfigError
        A method that is not offered, or elements that have no order.
    ValueError
        NumPy's own.
    """
    if method not in QUANTILE_METHODS:
        raise ConfigError(f"method={method!r}: choose one of {', '.join(QUANTILE_METHODS)}")
    if view.dtype.kind not in "biuf":
        raise ConfigError(f"quantiles of {view.dtype} are not defined; they are of integers, floats and booleans")
    fractions = np.asarray(q, np.float64)
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError("Quantiles must be in the range [0, 1]")
    if view.size * view.dtype.itemsize <= _IN_MEMORY_BYTES or view.dtype.kind == "b":
        return np.quantile(np.asarray(view), q, axis=axis, method=method, keepdims=keepdims)
    # NumPy's rules for the result's dtype depend on what q is, so it is asked.
    dtype = np.quantile(np.zeros(2, view.dtype), q, method=method).dtype
    axis = _unless_all(axis, view.ndim)
    if axis is not None:
        return _by_axis(view, np.asarray(q), axis, method, keepdims).astype(dtype)
    places = fractions.reshape(-1) * (view.size - 1)
    lows, highs = np.floor(places).astype(np.int64), np.ceil(places).astype(np.int64)
    ranks = np.unique(np.concatenate([lows, highs]))
    values, has_nan = _of_rank(view, ranks.tolist())
    results = []
    for place, low, high in zip(places, lows, highs, strict=True):
        pair = values[np.searchsorted(ranks, [low, high])]
        if np.asarray(q).dtype.kind in "biu":
            # Whole numbers are the extremes themselves: NumPy does not interpolate, which infinities would not survive.
            results.append(pair[0])
            continue
        if pair.dtype.kind == "f":
            pair = pair.astype(np.float64)
        weight = place - low
        if method == "nearest":
            # NumPy rounds half to an even place.
            weight = float(weight > 0.5 or (weight == 0.5 and low % 2))
        results.append(np.quantile(pair, np.float64(weight), method=method))
    result = np.array(results).astype(dtype)
    if has_nan:
        result[:] = np.nan
    return result.reshape(fractions.shape + ((1,) * view.ndim if keepdims else ()))[()]


def median(view: LazyView, axis: Any = None, keepdims: bool = False) -> Any:
    """The median, as :func:`numpy.median`: the mean of the two in the middle, which overflows where NumPy's does."""
    if view.size * view.dtype.itemsize <= _IN_MEMORY_BYTES or view.dtype.kind not in "iuf":
        return np.median(np.asarray(view), axis=axis, keepdims=keepdims)
    axis = _unless_all(axis, view.ndim)
    if axis is not None:
        along = normalize_axis_tuple(axis, view.ndim)
        return _along(view, along, lambda block: np.median(block, axis=along, keepdims=True)[..., None], 1, keepdims)[0]
    ranks = sorted({(view.size - 1) // 2, view.size // 2})
    values, has_nan = _of_rank(view, ranks)
    result = np.median(values)
    result = result.dtype.type(np.nan) if has_nan else result
    return np.full((1,) * view.ndim, result) if keepdims else result


def _unless_all(axis: Any, ndim: int) -> Any:
    """The axes, or None where they are all of them."""
    return None if axis is None or len(normalize_axis_tuple(axis, ndim)) == ndim else axis


def _by_axis(view: LazyView, fractions: np.ndarray, axis: Any, method: Any, keepdims: bool) -> Any:
    along = normalize_axis_tuple(axis, view.ndim)

    def of_block(block: np.ndarray) -> np.ndarray:
        result = np.quantile(block, fractions.reshape(-1), axis=along, method=method, keepdims=True)
        return np.moveaxis(result, 0, -1)

    result = _along(view, along, of_block, fractions.size, keepdims)
    return result.reshape(fractions.shape + result.shape[1:])[()]


def _along(
    view: LazyView, along: tuple[int, ...], of_block: Callable[[np.ndarray], np.ndarray], count: int, keepdims: bool
) -> np.ndarray:
    """Something of blocks that are whole along some axes, ``count`` results each as a last axis; given as the first."""
    dtype = of_block(np.zeros((1,) * view.ndim, view.dtype)).dtype
    by_columns = view.size * view.dtype.itemsize > _REARRANGED_BYTES
    result = (_by_columns if by_columns else _rearranged)(view, along, of_block, count, dtype)
    return result if keepdims else result.squeeze(tuple(1 + axis for axis in along))


def _rearranged(
    view: LazyView, along: tuple[int, ...], of_block: Callable[[np.ndarray], np.ndarray], count: int, dtype: Any
) -> np.ndarray:
    """Each chunk is read once, and all of the view is held on the way."""
    from hubarray.interop.dask import computed

    whole = view.to_dask().rechunk(dict.fromkeys(along, -1) | {i: "auto" for i in range(view.ndim) if i not in along})
    chunk_sizes = tuple((1,) if i in along else sizes for i, sizes in enumerate(whole.chunks))
    # A last axis more, so that every block keeps its place.
    result = whole.map_blocks(of_block, new_axis=view.ndim, chunks=(*chunk_sizes, (count,)), dtype=dtype)
    return np.moveaxis(computed(result, "computing quantiles"), -1, 0)


def _by_columns(
    view: LazyView, along: tuple[int, ...], of_block: Callable[[np.ndarray], np.ndarray], count: int, dtype: Any
) -> np.ndarray:
    """A column of each thread is held; a chunk is read for every column that it has a part in."""
    import dask

    from hubarray.interop.dask import computed

    other_axes = [i for i in range(view.ndim) if i not in along]
    depth = math.prod(view.shape[i] for i in along) * view.dtype.itemsize
    shape, chunks = (tuple(lengths[i] for i in other_axes) for lengths in (view.shape, view.chunks))
    lengths = blocks.column_shape(shape, chunks, depth, _COLUMN_BYTES)
    result = np.empty((count, *(1 if i in along else n for i, n in enumerate(view.shape))), dtype)
    places, tasks = [], []
    for begins in itertools.product(*(range(0, n, length) for n, length in zip(shape, lengths, strict=True))):
        cut = [slice(None)] * view.ndim
        for i, begin, length in zip(other_axes, begins, lengths, strict=True):
            cut[i] = slice(begin, begin + length)
        places.append((slice(None), *cut))
        tasks.append(dask.delayed(_of_column)(view[tuple(cut)], of_block))
    for place, values in zip(places, computed(dask.delayed(list)(tasks), "computing quantiles"), strict=True):
        result[place] = np.moveaxis(values, -1, 0)
    return result


def _of_column(column: LazyView, of_block: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return of_block(np.asarray(column))


def _of_rank(view: LazyView, ranks: list[int]) -> tuple[np.ndarray, bool]:
    """The elements of these places in sorted order, and whether there are NaNs, which come last."""
    bits = view.dtype.itemsize * 8
    digit_bits = min(bits, 16 if len(ranks) <= _FEW_RANKS else 8)
    prefixes, offsets = dict.fromkeys(ranks, 0), dict(zip(ranks, ranks, strict=True))
    has_nan = False
    for shift in range(bits - digit_bits, -1, -digit_bits):
        digits = sorted(set(prefixes.values()))
        count = partial(_count_digits, shift=shift, digit_bits=digit_bits, counted_digits=digits)
        block_results = view.each_block(count)
        has_nan = has_nan or any(nan for _, nan in block_results)
        totals = sum(counts for counts, _ in block_results)
        for rank in ranks:
            upto = np.cumsum(totals[digits.index(prefixes[rank])])
            digit = int(np.searchsorted(upto, offsets[rank], side="right"))
            offsets[rank] -= int(upto[digit - 1]) if digit else 0
            prefixes[rank] = (prefixes[rank] << digit_bits) | digit
    keys = np.array([prefixes[rank] for rank in ranks], f"u{view.dtype.itemsize}")
    return _from_ordered_bits(keys, view.dtype), has_nan


def _count_digits(
    block: np.ndarray, _begin: Any, *, shift: int, digit_bits: int, counted_digits: list[int]
) -> tuple[np.ndarray, bool]:
    """How often each digit follows each wanted prefix; and whether there are NaNs."""
    flat = np.ascontiguousarray(block).reshape(-1)
    bits = flat.dtype.itemsize * 8
    counts = np.zeros((len(counted_digits), 1 << digit_bits), np.int64)
    has_nan = False
    for first in range(0, len(flat), _PIECE):
        values = flat[first : first + _PIECE]
        has_nan = has_nan or bool(values.dtype.kind == "f" and np.isnan(values).any())
        keys = _ordered_bits(values)
        digits = (keys >> shift) & ((1 << digit_bits) - 1) if bits > digit_bits else keys
        high = keys >> (shift + digit_bits) if shift + digit_bits < bits else None
        for i, prefix in enumerate(counted_digits):
            chosen = digits if high is None else digits[high == prefix]
            # Older releases of NumPy count no unsigned integers of 64 bits.
            counts[i] += np.bincount(chosen.astype(np.intp), minlength=1 << digit_bits)
    return counts, has_nan


def _ordered_bits(values: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the values: the sign flipped, of negative floats every bit; NaNs last."""
    raw = values.view(f"u{values.dtype.itemsize}")
    top = raw.dtype.type(1 << (values.dtype.itemsize * 8 - 1))
    if values.dtype.kind == "u":
        return raw
    if values.dtype.kind == "i":
        return raw ^ top
    keys = np.where(raw & top, ~raw, raw | top)
    keys[values == 0] = top
    keys[np.isnan(values)] = ~raw.dtype.type(0)
    return keys


def _from_ordered_bits(keys: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    top = keys.dtype.type(1 << (dtype.itemsize * 8 - 1))
    if dtype.kind == "i":
        keys = keys ^ top
    elif dtype.kind == "f":
        keys = np.where(keys & top, keys ^ top, ~keys)
    return keys.view(dtype)


def first_extreme(view: LazyView, function: str) -> int:
    """The place, in the view read row by row, of the first minimum or maximum; of the first NaN if there is one."""
    shape = view.shape

    def candidate(block: np.ndarray, begin: tuple[int, ...]) -> tuple[Any, int]:
        place = np.unravel_index(getattr(np, function)(block), block.shape)
        flat = np.ravel_multi_index(tuple(b + int(p) for b, p in zip(begin, place, strict=True)), shape)
        return block[place], int(flat)

    block_results = view.each_block(candidate)
    values = np.array([value for value, _ in block_results], view.dtype)
    best = values[getattr(np, function)(values)]
    same = np.isnan(values) if best != best else values == best
    return min(place for (_, place), is_best in zip(block_results, same, strict=True) if is_best)
