"""Reading a selection: plan, look into the caches, fetch the rest, decode into place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from hubarray.arrays import numbering
from hubarray.arrays.chunk_codec import chunk_keys, decode_into, decoded
from hubarray.arrays.chunk_grid import Box, Projection, chunk_count, chunk_view, project, single_rows
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.selection import Selection
from hubarray.arrays.state import State
from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.local_files import Places
from hubarray.blobs.ref import Refs
from hubarray.blobs.verified import Consume
from hubarray.errors import ConfigError
from hubarray.history.version import Version
from hubarray.storage.base import Buffer

BATCH_CHUNKS = 16384
_CACHED_SHARE = 4
_MOST_CHUNKS_AHEAD = 1 << 20

T = TypeVar("T")


def read(
    state: State,
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
    fetcher, strides = state.fetcher, numbering.strides(state.record.grid)
    places: np.ndarray | None = None
    rows = single_rows(selection, metadata.shape, metadata.chunks)
    if rows is not None:
        places, numbers = out.reshape(len(rows), *metadata.chunks), rows.astype(np.uint64) * np.uint64(strides[0])
    elif selection.points is None:
        box = Box(selection, metadata.shape, metadata.chunks)
        places, numbers = box.chunk_after_chunk(out, metadata.chunks), box.numbers(strides)
    else:
        for projections in batched(project(selection, metadata.shape, metadata.chunks), BATCH_CHUNKS):
            refs = state.refs([projection.coords for projection in projections])
            _read_batch(fetcher, metadata, selection, projections, refs, out, cached)
        return out
    for first in range(0, len(numbers), BATCH_CHUNKS):
        refs = state.numbered(numbers[first : first + BATCH_CHUNKS])
        if places is not None:
            _read_whole(fetcher, metadata, refs, places[first : first + BATCH_CHUNKS], cached)
        else:
            _read_batch(fetcher, metadata, selection, _Window(box, first), refs, out, cached)
    return out


class _Window:
    """A sequence from some place on."""

    def __init__(self, items: Sequence[Projection], first: int) -> None:
        self._items = items
        self._first = first

    def __getitem__(self, index: int) -> Projection:
        return self._items[self._first + index]


def _read_whole(fetcher: Fetcher, metadata: ArrayMetadata, refs: Refs, places: np.ndarray, cached: bool) -> None:
    """Read chunks that each have a place of their own, contiguous and of the chunk's shape."""
    keep = cached and worth_keeping(fetcher, len(refs) * metadata.chunk_bytes)
    keys = chunk_keys(fetcher, refs, metadata) if keep else []
    places[refs["length"] == 0] = metadata.fill
    missing = _not_in_memory(fetcher, refs, keys, places.__setitem__)

    def consume(position: int, data: Buffer) -> None:
        i = missing[position]
        if not keep:
            decode_into(fetcher, metadata, data, places[i], refs[i])
            return
        chunk = decoded(fetcher, metadata, data, refs[i])
        places[i] = chunk
        fetcher.memory.put(keys[i], chunk, chunk.nbytes)

    direct = (
        None if keep or fetcher.store.remote else _Places(metadata, places, missing, refs["length"][missing].tolist())
    )
    _fetch(fetcher, metadata, refs[missing], consume, places=direct)


class _Places:
    """Where chunks belong that are stored as they are in memory, maybe behind a header."""

    def __init__(self, metadata: ArrayMetadata, places: np.ndarray, missing: list[int], lengths: list[int]) -> None:
        self._codec = metadata.codec
        self._flat, self._chunk_bytes = places.reshape(-1).view("u1").data, metadata.chunk_bytes
        self._missing, self._lengths = missing, lengths

    def buffers(self, position: int) -> list[memoryview] | None:
        """See :class:`hubarray.blobs.local_files.Places`."""
        header_bytes = self._codec.raw_header_bytes(self._lengths[position], self._chunk_bytes)
        if header_bytes is None:
            return None
        first = self._missing[position] * self._chunk_bytes
        place = self._flat[first : first + self._chunk_bytes]
        return [memoryview(bytearray(header_bytes)), place] if header_bytes else [place]

    def are_final(self, buffers: list[memoryview]) -> bool:
        """See :class:`hubarray.blobs.local_files.Places`."""
        return self._codec.is_raw(buffers[0], self._chunk_bytes)


def _read_batch(
    fetcher: Fetcher,
    metadata: ArrayMetadata,
    selection: Selection,
    projections: Sequence[Projection] | _Window,
    refs: Refs,
    out: np.ndarray,
    cached: bool,
) -> None:
    """Read some chunks into their places, from the caches or storage; absent ones are fill value."""
    keep = cached and worth_keeping(fetcher, len(refs) * metadata.chunk_bytes)
    keys = chunk_keys(fetcher, refs, metadata) if keep else []
    for i in np.flatnonzero(refs["length"] == 0).tolist():
        out[projections[i].in_result] = metadata.fill
    missing = _not_in_memory(fetcher, refs, keys, lambda i, chunk: _place(chunk, selection, projections[i], out))

    def consume(position: int, data: Buffer) -> None:
        i = missing[position]
        projection = projections[i]
        if not keep and selection.points is None:
            target = out[(*projection.in_result, ...)]
            if projection.whole and target.shape == metadata.chunks and target.flags.c_contiguous:
                decode_into(fetcher, metadata, data, target, refs[i])
                return
        chunk = decoded(fetcher, metadata, data, refs[i])
        _place(chunk, selection, projection, out)
        if keep:
            fetcher.memory.put(keys[i], chunk, chunk.nbytes)

    _fetch(fetcher, metadata, refs[missing], consume)


def _not_in_memory(
    fetcher: Fetcher, refs: Refs, keys: Sequence[tuple[Any, ...]], place: Callable[[int, np.ndarray], None]
) -> list[int]:
    """Positions of stored chunks that the memory cache does not have; those it has are put in their places."""
    missing = []
    for i in np.flatnonzero(refs["length"]).tolist():
        chunk = fetcher.memory.get(keys[i]) if keys else None
        if chunk is None:
            missing.append(i)
        else:
            place(i, chunk)
    return missing


def worth_keeping(fetcher: Fetcher, size_bytes: int) -> bool:
    """A large read passes the memory cache by: it would push out what is read again and again."""
    return size_bytes <= fetcher.memory.budget_bytes // _CACHED_SHARE


def _fetch(
    fetcher: Fetcher, metadata: ArrayMetadata, refs: Refs, consume: Consume, *, places: Places | None = None
) -> None:
    if len(refs):
        disk_share = fetcher.disk.budget_bytes // _CACHED_SHARE if fetcher.disk is not None else 0
        keep = int(refs["length"].sum()) <= disk_share
        fetcher.fetch(refs, consume, keep=keep, places=places, most_bytes=metadata.most_blob_bytes)


def require_loadable(state: State, selection: Selection) -> None:
    """Refuse, by arithmetic alone, to look for more chunks than caches would ever hold.

    Raises
    ------
    ConfigError
    """
    count = chunk_count(selection, state.metadata.shape, state.metadata.chunks)
    if count > _MOST_CHUNKS_AHEAD:
        raise ConfigError(
            f"{state.version.name}: what is to be fetched ahead is {count:,} chunks, more than {_MOST_CHUNKS_AHEAD:,}; "
            "fetch less at a time"
        )


def load_chunks(state: State, selection: Selection) -> None:
    """Bring the chunks of a selection into the caches: decoded into memory if they fit half of it, else on disk.

    Raises
    ------
    ConfigError
        They fit neither, or cannot be written to the disk.
    """
    version, metadata, fetcher = state.version, state.metadata, state.fetcher
    if not selection.size:
        return
    if selection.points is None:
        numbers = Box(selection, metadata.shape, metadata.chunks).numbers(numbering.strides(state.record.grid))
        refs = state.numbered(numbers)
    else:
        coords = dict.fromkeys(one.coords for one in project(selection, metadata.shape, metadata.chunks))
        refs = state.refs(list(coords))
    refs = refs[refs["length"] > 0]
    disk = fetcher.disk
    if len(refs) * metadata.chunk_bytes <= fetcher.memory.budget_bytes // 2:
        _load_into_memory(fetcher, metadata, refs)
    elif disk is not None and int(refs["length"].sum()) <= disk.budget_bytes // 2:
        _load_onto_disk(version, disk, metadata, refs)
    elif fetcher.store.remote:
        if fetcher.memory.budget_bytes == 0 and disk is None:
            raise ConfigError(
                f"{version.name}: both caches are off, so there is nowhere to fetch ahead to; set "
                "memory_cache_bytes or disk_cache_bytes"
            )
        raise ConfigError(
            f"{version.name}: what is to be fetched ahead takes {len(refs) * metadata.chunk_bytes:,} bytes, more than "
            "half of either cache; fetch less, or set memory_cache_bytes or disk_cache_bytes"
        )


def _load_into_memory(fetcher: Fetcher, metadata: ArrayMetadata, refs: Refs) -> None:
    keys = chunk_keys(fetcher, refs, metadata)
    missing = [i for i, key in enumerate(keys) if fetcher.memory.get(key) is None]

    def consume(position: int, data: Buffer) -> None:
        i = missing[position]
        chunk = decoded(fetcher, metadata, data, refs[i])
        fetcher.memory.put(keys[i], chunk, chunk.nbytes)

    fetcher.fetch(refs[missing], consume, most_bytes=metadata.most_blob_bytes)


def _load_onto_disk(version: Version, disk: DiskCache, metadata: ArrayMetadata, refs: Refs) -> None:
    failures = disk.failures
    if disk.writable:
        version.fetcher.fetch(refs, lambda position, data: None, most_bytes=metadata.most_blob_bytes)
    if not disk.writable or disk.failures != failures:
        raise ConfigError(
            f"{version.name}: what is fetched ahead cannot be kept, because the disk cache at {disk.folder} cannot be "
            "written; set cache_dir, or a memory_cache_bytes that is large enough"
        )


def _place(chunk: np.ndarray, selection: Selection, projection: Projection, out: np.ndarray) -> None:
    out[projection.in_result] = chunk_view(chunk, selection)[projection.in_chunk]


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to ``size`` items."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
