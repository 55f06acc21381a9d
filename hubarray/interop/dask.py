"""To and from Dask: blocks of one commit as a Dask array, and a Dask array written by its workers as one commit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import catalog
from hubarray.arrays.array import Array
from hubarray.arrays.worker import Part, Worker
from hubarray.errors import ConfigError
from hubarray.interop import blocks
from hubarray.lookup import RootLike

if TYPE_CHECKING:
    import dask.array as da


def to_dask(array: Array, *, block_bytes: int = 64 << 20) -> da.Array:
    """See :meth:`hubarray.Array.to_dask`."""
    pinned = array.snapshot()
    return as_dask(pinned, tuple(range(n) for n in pinned.shape), block_bytes=block_bytes)


def as_dask(pinned: Array, axes: tuple[blocks.Axis, ...], *, block_bytes: int) -> da.Array:
    """A view of one commit as a Dask array; the graph grows with the blocks in view, not with the array."""
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    block = blocks.block_shape(pinned.shape, pinned.chunks, pinned.dtype.itemsize, block_bytes)
    parts = [
        list(blocks.pieces(axis, size)) or [axis] if isinstance(axis, range) else [axis]
        for axis, size in zip(axes, block, strict=True)
    ]
    name = f"hubarray-{tokenize(pinned, axes, block)}"
    source = f"{name}-array"
    graph: dict[Any, Any] = {source: pinned}
    for places in itertools.product(*(range(len(one)) for one in parts)):
        chosen = [one[i] for one, i in zip(parts, places, strict=True)]
        key = tuple(blocks.as_slice(one) if isinstance(one, range) else one for one in chosen)
        shown = tuple(i for i, one in zip(places, chosen, strict=True) if isinstance(one, range))
        graph[(name, *shown)] = (_read, source, key)
    free = [[one for one in some if isinstance(one, range)] for some in parts]
    chunks = tuple(tuple(map(len, some)) for some in free if some)
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[])
    return da.Array(layers, name, chunks, dtype=pinned.dtype)


def _read(array: Array, key: tuple[Any, ...]) -> np.ndarray:
    return np.asarray(array[key])


def store(
    source: da.Array,
    name: str,
    *,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    root: RootLike = None,
    message: str | None = None,
) -> Array:
    """Write a Dask array under a name: its workers upload, in parallel, and one commit at the end shows all of it.

    Where the name exists with the same shape and dtype, its contents are replaced in that commit.

    Parameters
    ----------
    source : dask.array.Array
        Of known chunk sizes. Rechunk it to multiples of the array's chunks for speed; any chunks are right.
    name : str
    chunks, codec, attrs, overwrite
        As for :func:`hubarray.array`.
    root : str, path or Root, optional
    message : str, optional
        For the log.

    Returns
    -------
    Array

    Raises
    ------
    ConfigError
        Not a Dask array, or one of unknown shape.
    AlreadyExistsError
        The name is taken by an array of another description.

    Examples
    --------
    >>> import dask.array as da
    >>> import hubarray as hub
    >>> a = hub.store(da.arange(100, chunks=30), "docs/from-dask:v0", chunks=10)
    >>> a.commit, a[95:]
    (2, array([95, 96, 97, 98, 99]))
    """
    import dask
    import dask.array as da

    from hubarray.interop.lazy import computed

    if not isinstance(source, da.Array):
        raise ConfigError(f"hub.store writes Dask arrays, not {type(source).__name__}; assign others: a[...] = values")
    if any(n != n for n in source.shape):
        raise ConfigError(f"{name}: the Dask array's shape is unknown; call its compute_chunk_sizes() first")
    array = catalog.array(
        source.shape, name, source.dtype, chunks=chunks, codec=codec, attrs=attrs, overwrite=overwrite, root=root
    )
    with array.transaction(message or "store a Dask array") as transaction:
        worker = transaction.worker()
        tasks = []
        delayed = source.to_delayed()
        begins = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist() for sizes in source.chunks]
        for place in np.ndindex(delayed.shape):
            key = tuple(slice(b[i], b[i] + sizes[i]) for b, i, sizes in zip(begins, place, source.chunks, strict=True))
            tasks.append(dask.delayed(_write, pure=False)(worker, key, delayed[place]))
        for part in computed(dask.delayed(list)(tasks), f"storing {name}"):
            transaction.add(part)
    return array


def _write(worker: Worker, key: tuple[slice, ...], block: np.ndarray) -> Part:
    with worker as writer:
        writer[key] = block
    return writer.part
