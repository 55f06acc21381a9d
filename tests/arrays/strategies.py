"""What hypothesis draws: shapes, indices as NumPy takes them, dtypes, and values."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hubarray.arrays.codecs.codec_chains import NAMED_CHAINS

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "datetime64[ns]",
    "timedelta64[ms]",
    "U5",
    "S3",
    "V3",
    np.dtypes.StringDType(),
    [("a", "<i4"), ("b", "<f8"), ("c", "S2")],
]
CODECS = list(NAMED_CHAINS)
# An axis of four elements: the length of its chunks, and what is taken of it. All pairs for all axes find what is
# special where an axis is one chunk and taken whole, which random ones seldom are.
WAYS_TO_CUT_FOUR = [1, 2, 4, 6]
WAYS_TO_TAKE_FOUR = [
    slice(None),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(None, None, -2),
    slice(2, None),
    slice(None, -1),
    slice(3, 1, -1),
    slice(2, 3),
    1,
    -1,
]


@st.composite
def shapes(draw, min_dims=0, max_dims=4, min_side=0, max_side=7):
    return tuple(draw(st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims)))


@st.composite
def chunkings(draw, shape):
    return tuple(draw(st.integers(1, 5) | st.just(max(1, length))) for length in shape)


@st.composite
def keys(draw, shape, *, valid=False):
    """An index into a shape; mostly one that NumPy accepts, always such if ``valid``."""
    items, axis = [], 0
    while axis < len(shape) and draw(st.integers(0, 9)) < 8:
        length = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "mask", "mask2", "new", "bool", "dots", "list"]))
        bounds = st.integers(-length - (not valid and draw(st.integers(0, 30)) == 0), max(length - 1, -length))
        if kind == "new":
            items.append(None)
            continue
        if kind == "bool":
            items.append(draw(st.booleans()))
            continue
        if kind == "dots":
            if not any(item is Ellipsis for item in items):
                items.append(Ellipsis)
                axis += draw(st.integers(0, len(shape) - axis))
            continue
        if kind == "mask2" and axis + 1 < len(shape):
            items.append(_mask(draw, shape[axis : axis + 2]))
            axis += 2
            continue
        if kind in ("mask", "mask2"):
            items.append(_mask(draw, (length,)))
        elif kind == "slice":
            ends = st.none() | st.integers(-length - 2, length + 2)
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2, 7]))
            items.append(slice(None, None, step) if draw(st.booleans()) else slice(draw(ends), draw(ends), step))
        elif kind == "int":
            if valid and not length:
                items.append(slice(None))
            else:
                items.append(draw(bounds))
        elif kind == "array":
            size = draw(st.sampled_from([(3,), (1,), (2, 3), (0,), (2, 1), ()])) if length else (0,)
            count = int(np.prod(size))
            items.append(np.array(draw(st.lists(bounds, min_size=count, max_size=count)), int).reshape(size))
        else:
            items.append(draw(st.lists(bounds, min_size=0, max_size=3 if length else 0)))
        axis += 1
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


def _mask(draw, shape):
    bits = draw(st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.array(bits, bool).reshape(shape)


def some_values(shape, dtype, seed):
    """Values of a dtype that differ from each other and, mostly, from the fill value."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if dtype.names is not None:
        out = np.zeros(count, dtype)
        for name in dtype.names:
            out[name] = some_values((count,), dtype[name], seed)
        return out.reshape(shape)
    if dtype.kind == "T":
        return np.array([f"{n:x}" * (n % 9) for n in rng.integers(0, 4000, count)], dtype).reshape(shape)
    if dtype.kind in "US":
        return np.array([f"{n:x}" for n in rng.integers(0, 4000, count)], dtype).reshape(shape)
    if dtype.kind == "V":
        return rng.integers(0, 255, count * dtype.itemsize, np.uint8).view(dtype).reshape(shape)
    if dtype.kind in "mM":
        return rng.integers(-(10**9), 10**9, count).view(dtype).reshape(shape)
    if dtype.kind == "c":
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(dtype).reshape(shape)
    if dtype.kind == "f":
        return rng.standard_normal(count).astype(dtype).reshape(shape)
    return rng.integers(0, 100, count).astype(dtype).reshape(shape)


def numpy_outcome(call):
    """What a call gives, or the type of what it raises."""
    try:
        return call()
    except (IndexError, ValueError, TypeError) as error:
        return type(error)


def same(one, two) -> bool:
    """Equal arrays or scalars: type, shape, dtype and every byte."""
    if isinstance(one, type) or isinstance(two, type):
        return one is two
    a, b = np.asarray(one), np.asarray(two)
    if a.dtype.kind == "T" == b.dtype.kind:
        return a.shape == b.shape and a.tolist() == b.tolist()
    return type(one) is type(two) and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
