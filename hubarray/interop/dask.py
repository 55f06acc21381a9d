"""To and from Dask: blocks of one commit as a Dask array, and the tasks by which its workers write an array."""

from __future__ import annotations

import functools
import itertools
import math
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.api import catalog
from hubarray.arrays.codecs.dtypes import planned_bytes
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.write.worker import ArrayPart, ArrayWorker
from hubarray.blobs.pools import BLOCK_THREADS, pools
from hubarray.errors import ConfigError, SourceError
from hubarray.interop import blocks
from hubarray.progress import progress
from hubarray.storage.url import Root
from hubarray.values.foreign import unmasked

if TYPE_CHECKING:
    import dask.array as da

MAX_BLOCKS = 1 << 18
_MESSAGE = "store a Dask array"
_TEXT_BLOCK_BYTES = 4 << 20


def to_dask(array: ArrayHandle, *, block_bytes: int = 64 << 20) -> da.Array:
    """See :meth:`hubarray.Array.to_dask`."""
    pinned = array.snapshot()
    return as_dask(pinned, tuple(range(n) for n in pinned.shape), block_bytes=block_bytes)


def as_dask(pinned: ArrayHandle, axes: tuple[blocks.Axis, ...], *, block_bytes: int) -> da.Array:
    """A view of one commit as a Dask array; the graph grows with the blocks in view, not with the array."""
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    block = blocks.block_shape(pinned.shape, pinned.chunks, planned_bytes(pinned.dtype), block_bytes)
    count = math.prod(blocks.piece_count(axis, size) for axis, size in zip(axes, block, strict=True))
    if count > MAX_BLOCKS:
        raise ConfigError(
            f"{pinned.name}:{pinned.version}: is {count:,} blocks of about {block_bytes >> 20} MiB, and Dask plans up "
            f"to {MAX_BLOCKS:,}: take a part of it, a.lazy[0:1000].mean() or a.lazy[0:1000].to_dask(), or larger "
            "blocks, to_dask(block_bytes=...)"
        )
    parts = [
        list(blocks.pieces(axis, size)) or [axis] if isinstance(axis, range) else [axis]
        for axis, size in zip(axes, block, strict=True)
    ]
    name = f"hubarray-{tokenize(pinned, axes, block)}"
    # Tasks open the array where they run: one that cannot is an error of its task, not of a message between workers.
    described = (pinned.root, f"{pinned.name}:{pinned.version}@{pinned.commit}", pinned.key)
    graph: dict[Any, Any] = {}
    for places in itertools.product(*(range(len(part)) for part in parts)):
        chosen = [part[i] for part, i in zip(parts, places, strict=True)]
        key = tuple(blocks.as_slice(choice) if isinstance(choice, range) else choice for choice in chosen)
        shown = tuple(i for i, choice in zip(places, chosen, strict=True) if isinstance(choice, range))
        graph[(name, *shown)] = (_read, *described, key)
    free = [[element for element in choice if isinstance(element, range)] for choice in parts]
    chunks = tuple(tuple(map(len, ranges)) for ranges in free if ranges)
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[])
    return da.Array(layers, name, chunks, dtype=pinned.dtype)


@functools.lru_cache(maxsize=64)
def _opened(root: Root, name: str, key: str | None) -> ArrayHandle:
    handle: Any = catalog.load(name, root=root)
    array: ArrayHandle = handle if key is None else handle[key]
    return array


def _read(root: Root, name: str, key: str | None, at: tuple[Any, ...]) -> np.ndarray:
    return np.asarray(_opened(root, name, key)[at])


def as_blocks(array: Any) -> da.Array:
    """An array in memory, or opened elsewhere, as a Dask array of blocks of its own chunks."""
    import dask.array as da

    cut = getattr(array, "chunks", None) or "auto"
    if cut == "auto" and array.dtype.kind == "T":
        # Dask cannot tell how much text there is.
        cut = blocks.block_shape(array.shape, (1,) * array.ndim, planned_bytes(array.dtype), _TEXT_BLOCK_BYTES)
    # Not a hash of all its values, which Dask would take for a name.
    return da.from_array(array, chunks=cut, name=False)


def delayed_writes(worker: ArrayWorker, source: da.Array) -> list[Any]:
    """Tasks by which Dask's workers write an array: one a block, each of which gives a part of the transaction."""
    import dask

    tasks = []
    delayed = source.to_delayed()
    begins = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist() for sizes in source.chunks]
    for place in np.ndindex(delayed.shape):
        key = tuple(slice(b[i], b[i] + sizes[i]) for b, i, sizes in zip(begins, place, source.chunks, strict=True))
        tasks.append(dask.delayed(_write, pure=False)(worker, key, source.dtype, delayed[place]))
    return tasks


def _write(worker: ArrayWorker, key: tuple[slice, ...], dtype: np.dtype[Any], block: np.ndarray) -> ArrayPart:
    expected = tuple(part.stop - part.start for part in key)
    # A block may be masked, whatever the array said of itself.
    values = np.asarray(unmasked(block))
    if values.shape != expected or not np.can_cast(values.dtype, dtype, "safe"):
        raise SourceError(
            f"a block of the Dask array is {values.dtype} of shape {values.shape}, but was declared as {dtype} of "
            f"{expected}; give map_blocks the right dtype and chunks"
        )
    with worker as writer:
        writer[key] = values
    return writer.part


def computed(lazy: Any, what: str) -> Any:
    """Compute a Dask collection, with a progress bar where it takes more than a second."""
    from dask.callbacks import Callback

    class Bar(Callback):
        def _start_state(self, dsk: Any, state: Any) -> None:
            self._began = time.monotonic()
            self._context = progress(len(state["ready"]) + len(state["waiting"]), what, unit="task")
            self._bar = self._context.__enter__()

        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker_id: Any) -> None:
            self._bar.update(1)

        def _finish(self, dsk: Any, state: Any, errored: bool) -> None:
            self._context.__exit__(None, None, None)

    with Bar():
        return lazy.compute(**_own_threads(lazy))


def _own_threads(lazy: Any) -> dict[str, Any]:
    """Return threads that a forked child makes again, which Dask does not, unless others were chosen or this is one of
    them."""
    from dask import config, threaded
    from dask.base import get_scheduler

    chosen = any(config.get(option, None) is not None for option in ("pool", "num_workers"))
    nested = threading.current_thread().name.startswith(BLOCK_THREADS)
    if chosen or nested or (get_scheduler(collections=[lazy]) or lazy.__dask_scheduler__) is not threaded.get:
        return {}
    return {"pool": pools.blocks}
