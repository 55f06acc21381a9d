"""Reads that lie within one chunk: the commonest kind, without the general plan.

What they return is what :func:`hubarray.arrays.read.read` would; where anything
is out of the ordinary they return None, and that does the work, or raises.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from hubarray.arrays.chunk_grid import within_one_chunk
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.history.numbering import number_of
from hubarray.history.record import Record
from hubarray.history.version import Version

SCRATCH_BYTES = 8 << 20

_scratch = threading.local()


def read_within_chunk(version: Version, record: Record, metadata: ArrayMetadata, key: Any) -> Any | None:
    """The elements that a key selects, if they lie within one chunk that is present; else None.

    Costs no request when the chunk is in the memory cache. The first time that a chunk is read whole from a local
    file, it is decoded into the result itself, and kept only when it is read again: the page cache has it anyway.
    """
    plan = within_one_chunk(key, metadata.shape, metadata.chunks)
    if plan is None:
        return None
    coords, index = plan
    blob = version.blob(record, number_of(coords, record.grid))
    if blob is None:
        return None
    fetcher = version.fetcher
    cache_key = ("chunk", fetcher.identity, blob.place, metadata.decoding)
    chunk = fetcher.memory.get(cache_key)
    if chunk is not None:
        return _own(chunk[index])
    if blob.length > SCRATCH_BYTES or not fetcher.is_at_hand(blob):
        return None
    decoded = np.empty(metadata.chunks, metadata.dtype)
    if metadata.codec.stores_raw:
        if blob.length != decoded.nbytes or not fetcher.read_at_hand(blob, decoded.reshape(-1).view("u1").data):
            return None
    else:
        encoded = _buffer(blob.length)
        if not fetcher.read_at_hand(blob, encoded):
            return None
        metadata.codec.decode(encoded, decoded)
    result = decoded[index]
    if isinstance(result, np.ndarray) and result.size == decoded.size and not fetcher.memory.seen_before(cache_key):
        return result
    decoded.setflags(write=False)
    fetcher.memory.put(cache_key, decoded, decoded.nbytes)
    return _own(result)


def _own(part: Any) -> Any:
    return part.copy() if isinstance(part, np.ndarray) else part


def _buffer(size: int) -> memoryview:
    """This thread's scratch memory; fresh memory would cost a page fault for every 4 KiB."""
    held = getattr(_scratch, "held", None)
    if held is None or len(held) < size:
        held = _scratch.held = memoryview(bytearray(min(SCRATCH_BYTES, 1 << (size - 1).bit_length())))
    view: memoryview = held[:size]
    return view
