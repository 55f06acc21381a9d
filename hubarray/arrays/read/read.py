"""Reading a selection: plan which chunks it touches, and have the read engine put them into the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hubarray.arrays.indexing import numbering
from hubarray.arrays.indexing.plan import plan, within_one_chunk
from hubarray.arrays.indexing.selection import Selection
from hubarray.arrays.read.chunk_codec import chunk_key, chunk_keys
from hubarray.arrays.read.chunk_sinks import ChunkSink, PartsOfResult, SingleChunk, WholeChunks, own_part
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import Blobs

BATCH_CHUNKS = 16384
_CACHED_SHARE = 4


def read(
    state: ArraySnapshot,
    selection: Selection,
    *,
    cached: bool = True,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """The canonical result of a selection.

    Costs the manifest nodes and coalesced ranges that are not in the caches,
    fetched in parallel. Memory: the result, plus bounded requests in flight.

    Parameters
    ----------
    cached : bool
        Whether decoded chunks of a read that is small enough go into the memory cache.
    out : ndarray, optional
        C-contiguous, of the selection's canonical shape and the array's dtype: filled and returned.

    Raises
    ------
    CorruptDataError
        A blob is missing or altered; its key is named. Absent chunks are fill value.
    StorageError
    """
    metadata = state.metadata
    if out is None:
        out = np.empty(selection.canonical_shape, metadata.dtype)
    if not out.size:
        # However many chunks another axis passes through.
        return out
    fetcher = state.fetcher
    disk_share = fetcher.disk.budget_bytes // _CACHED_SHARE if fetcher.disk is not None else 0
    chosen = plan(selection, metadata.shape, metadata.chunks)
    numbers = chosen.numbers(numbering.strides(state.record.grid))
    targets, order = chosen.targets(out) or (None, range(chosen.count))
    for first in range(0, chosen.count, BATCH_CHUNKS):
        refs = state.numbered(numbers[first : first + BATCH_CHUNKS])
        present = refs["length"] > 0
        places = order[first : first + BATCH_CHUNKS]
        if not present.all():
            absent = [places[i] for i in np.flatnonzero(~present).tolist()]
            if targets is not None:
                targets[absent] = metadata.fill
            else:
                for place in absent:
                    out[chosen[place].in_result] = metadata.fill
            refs, places = refs[present], [places[i] for i in np.flatnonzero(present).tolist()]
        blobs = Blobs.of_refs(refs)
        uses_memory = cached and worth_keeping(fetcher, len(present) * metadata.chunk_bytes)
        keys = chunk_keys(fetcher, blobs.names, metadata) if uses_memory else None
        sink: ChunkSink
        if targets is None:
            sink = PartsOfResult(fetcher, metadata, blobs.names, keys, chosen, places, selection, out)
        else:
            sink = WholeChunks(fetcher, metadata, blobs.names, keys, targets, places)
        fetcher.read(blobs, sink, max_bytes=metadata.max_blob_bytes, max_kept_bytes=disk_share)
    return out


def read_within_chunk(state: ArraySnapshot, key: Any, on_read: Callable[[int], None]) -> Any | None:
    """The elements that a key selects, if they lie within one chunk that is present; else None.

    The most common reads, without the general plan. Costs no request if the chunk is in the memory cache.

    Parameters
    ----------
    state : ArraySnapshot
    key
        Anything that NumPy takes.
    on_read : callable
        Called with the chunk's coordinate along the first axis, if the root is remote, even if the chunk is cached.

    Raises
    ------
    CorruptDataError, StorageError
    """
    metadata = state.metadata
    location = within_one_chunk(key, metadata.shape, metadata.chunks)
    if location is None:
        return None
    coords, index = location
    blob = state.blob(coords)
    if blob is None:
        return None
    fetcher = state.fetcher
    if coords and fetcher.remote:
        on_read(coords[0])
    memory_key = chunk_key(fetcher, blob.names[0], metadata)
    chunk = fetcher.memory.get(memory_key)
    if chunk is not None:
        # Without a sink this takes a fifth less: python -m benchmarks samples.
        return own_part(chunk, index)
    sink = SingleChunk(fetcher, metadata, blob.names, [memory_key], index)
    fetcher.read(blob, sink, max_bytes=metadata.max_blob_bytes, recalls=False)
    return sink.result


def worth_keeping(fetcher: Fetcher, size_bytes: int) -> bool:
    """A large read passes the memory cache by: it would push out what is read again and again."""
    return size_bytes <= fetcher.memory.budget_bytes // _CACHED_SHARE
