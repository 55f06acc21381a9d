"""Reading a selection: plan, look into the caches, fetch the rest, decode into the result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from hubarray.arrays.codecs.codecs import Codec
from hubarray.arrays.codecs.text_codec import held_bytes
from hubarray.arrays.indexing import numbering
from hubarray.arrays.indexing.plan import Plan, chunk_view, plan
from hubarray.arrays.indexing.selection import Selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import chunk_keys, decode_into, decoded
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import Refs
from hubarray.storage.base import Buffer

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
    chosen = plan(selection, metadata.shape, metadata.chunks)
    numbers = chosen.numbers(numbering.strides(state.record.grid))
    targets = chosen.targets(out)
    for first in range(0, chosen.count, BATCH_CHUNKS):
        refs = state.numbered(numbers[first : first + BATCH_CHUNKS])
        if targets is None:
            result: _Parts | _WholeChunks = _Parts(out, selection, chosen, first)
        else:
            result = _WholeChunks(targets[0], targets[1][first : first + BATCH_CHUNKS], metadata)
        _read_batch(state.fetcher, metadata, refs, result, cached)
    return out


def _read_batch(
    fetcher: Fetcher, metadata: ArrayMetadata, refs: Refs, result: _Parts | _WholeChunks, cached: bool
) -> None:
    """Put some chunks into the result, from the caches or storage; absent ones are fill value."""
    keep = cached and worth_keeping(fetcher, len(refs) * metadata.chunk_bytes)
    keys = chunk_keys(fetcher, refs, metadata) if keep else []
    result.fill(np.flatnonzero(refs["length"] == 0), metadata.fill)
    missing = []
    for i in np.flatnonzero(refs["length"]).tolist():
        chunk = fetcher.memory.get(keys[i]) if keep else None
        if chunk is None:
            missing.append(i)
        else:
            result.put(i, chunk)
    if not missing:
        return
    remote = fetcher.store.remote
    # Those that stay in the memory cache: a part of a chunk, and a whole one that is worth a copy.
    staying = {
        i
        for i in (missing if keep else ())
        if result.target(i, metadata) is None or worth_a_copy(fetcher, keys[i], is_fetched=remote)
    }

    def consume(position: int, data: Buffer) -> None:
        i = missing[position]
        target = None if i in staying else result.target(i, metadata)
        if target is not None:
            decode_into(fetcher, metadata, data, target, refs[i])
            return
        chunk = decoded(fetcher, metadata, data, refs[i])
        result.put(i, chunk)
        if i in staying:
            fetcher.memory.put(keys[i], chunk, held_bytes(chunk))

    missing_refs = refs[missing]
    direct = None if staying or remote else result.direct(missing, missing_refs["length"].tolist())
    disk_share = fetcher.disk.budget_bytes // _CACHED_SHARE if fetcher.disk is not None else 0
    on_disk = int(missing_refs["length"].sum()) <= disk_share
    fetcher.fetch(missing_refs, consume, keep=on_disk, targets=direct, max_bytes=metadata.max_blob_bytes)


def worth_keeping(fetcher: Fetcher, size_bytes: int) -> bool:
    """A large read passes the memory cache by: it would push out what is read again and again."""
    return size_bytes <= fetcher.memory.budget_bytes // _CACHED_SHARE


def worth_a_copy(fetcher: Fetcher, key: Hashable, *, is_fetched: bool) -> bool:
    """Whether a chunk that is read whole goes into the memory cache, which costs a copy of it.

    It does if it was fetched, or is read for the second time: what is read once need not be kept where a file has it.
    """
    return is_fetched or fetcher.memory.seen_before(key)


class _Parts:
    """A result into which each chunk is put as its projection says.

    Parameters
    ----------
    out : ndarray
        Of the canonical shape.
    selection : Selection
    chosen : Plan
    first : int
        The projection that chunk 0 has.
    """

    def __init__(self, out: np.ndarray, selection: Selection, chosen: Plan, first: int) -> None:
        self._out, self._selection, self._plan, self._first = out, selection, chosen, first

    def fill(self, positions: np.ndarray, value: np.ndarray) -> None:
        """Chunks that are absent."""
        for i in positions.tolist():
            self._out[self._plan[self._first + i].in_result] = value

    def put(self, i: int, chunk: np.ndarray) -> None:
        """A chunk that is decoded."""
        projection = self._plan[self._first + i]
        self._out[projection.in_result] = chunk_view(chunk, self._selection)[projection.in_chunk]

    def target(self, i: int, metadata: ArrayMetadata) -> np.ndarray | None:
        """Where a chunk can be decoded into; None where it cannot be."""
        projection = self._plan[self._first + i]
        target: np.ndarray = self._out[(*projection.in_result, ...)] if projection.whole else self._out[:0]
        return target if target.shape == metadata.chunks and target.flags.c_contiguous else None

    def direct(self, missing: Sequence[int], lengths: Sequence[int]) -> None:
        """No blob can be read into it as it is stored."""


class _WholeChunks:
    """A result that is whole chunks, each contiguous.

    Parameters
    ----------
    targets : ndarray
        Of shape ``(n, *chunks)``.
    order : sequence of int
        Which of them each chunk is.
    metadata : ArrayMetadata
    """

    def __init__(self, targets: np.ndarray, order: Sequence[int], metadata: ArrayMetadata) -> None:
        self._targets, self._order = targets, order
        self._codec, self._chunk_bytes = metadata.codec, metadata.chunk_bytes

    def fill(self, positions: np.ndarray, value: np.ndarray) -> None:
        """See :class:`_Parts`."""
        if len(positions):
            self._targets[[self._order[i] for i in positions.tolist()]] = value

    def put(self, i: int, chunk: np.ndarray) -> None:
        """See :class:`_Parts`."""
        self._targets[self._order[i]] = chunk

    def target(self, i: int, metadata: ArrayMetadata) -> np.ndarray:
        """See :class:`_Parts`."""
        target: np.ndarray = self._targets[self._order[i]]
        return target

    def direct(self, missing: Sequence[int], lengths: Sequence[int]) -> _Direct | None:
        """Where blobs belong that are chunks as they are in memory."""
        if self._targets.dtype.hasobject:
            return None
        flat = self._targets.reshape(-1).view("u1").data
        return _Direct(flat, [self._order[i] for i in missing], lengths, self._codec, self._chunk_bytes)


class _Direct:
    """Targets of chunks that are stored as they are in memory, maybe behind a header."""

    def __init__(
        self, flat: memoryview, order: Sequence[int], lengths: Sequence[int], codec: Codec, chunk_bytes: int
    ) -> None:
        self._flat, self._order, self._lengths = flat, order, lengths
        self._codec, self._chunk_bytes = codec, chunk_bytes

    def buffers(self, position: int) -> list[memoryview] | None:
        """See :class:`hubarray.blobs.local_files.Targets`."""
        header_bytes = self._codec.raw_header_bytes(self._lengths[position], self._chunk_bytes)
        if header_bytes is None:
            return None
        first = self._order[position] * self._chunk_bytes
        target = self._flat[first : first + self._chunk_bytes]
        return [memoryview(bytearray(header_bytes)), target] if header_bytes else [target]

    def are_final(self, position: int, buffers: list[memoryview]) -> bool:
        """See :class:`hubarray.blobs.local_files.Targets`."""
        return self._codec.is_raw(buffers[0], self._chunk_bytes)
