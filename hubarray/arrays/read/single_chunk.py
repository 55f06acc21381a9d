"""Reads that lie within one chunk: the commonest kind, without the general plan.

They return the same as :func:`hubarray.arrays.read.read.read`. In unusual cases they return None, and the caller uses
that function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hubarray.arrays.codecs.text_codec import held_bytes
from hubarray.arrays.indexing.plan import within_one_chunk
from hubarray.arrays.read.chunk_codec import chunk_key, decode_into
from hubarray.arrays.read.read import worth_a_copy
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.local_files import SCRATCH_BYTES, scratch


def read_within_chunk(state: ArraySnapshot, key: Any, fetched: Callable[[int], None]) -> Any | None:
    """The elements that a key selects, if they lie within one chunk that is present; else None.

    Costs no request when the chunk is in the memory cache, which it enters as
    :func:`hubarray.arrays.read.read.worth_a_copy` says.

    ``fetched`` is told the chunk's coordinate along the first axis when a remote root is read in chunks, whether or not
    this one had to be fetched.
    """
    metadata = state.metadata
    location = within_one_chunk(key, metadata.shape, metadata.chunks)
    if location is None:
        return None
    coords, index = location
    blob = state.place(coords)
    if blob is None:
        return None
    fetcher = state.fetcher
    if coords and fetcher.store.remote:
        fetched(coords[0])
    where = chunk_key(fetcher, blob.name, metadata)
    chunk = fetcher.memory.get(where)
    if chunk is not None:
        return _own(chunk[index])
    if blob.length > SCRATCH_BYTES:
        return None
    decoded = np.empty(metadata.chunks, metadata.dtype)
    directly = metadata.codec.raw_header_bytes(blob.length, decoded.nbytes) == 0
    encoded = decoded.reshape(-1).view("u1").data if directly else scratch(blob.length)
    is_fetched = not fetcher.read_local_or_cached(blob, encoded)
    if is_fetched:
        if not fetcher.store.remote:
            return None
        decode_into(fetcher, metadata, fetcher.blob(blob), decoded, blob)
    elif not directly:
        decode_into(fetcher, metadata, encoded, decoded, blob)
    result = decoded[index]
    if (
        isinstance(result, np.ndarray)
        and result.size == decoded.size
        and not worth_a_copy(fetcher, where, is_fetched=is_fetched)
    ):
        return result
    # What is kept is never handed out writable.
    decoded.setflags(write=False)
    fetcher.memory.put(where, decoded, held_bytes(decoded))
    return _own(result)


def _own(part: Any) -> Any:
    return part.copy() if isinstance(part, np.ndarray) else part
