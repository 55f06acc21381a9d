"""Prefetching: chunks of one array, or of several arrays of a version, into the caches before they are read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.indexing import numbering, selection
from hubarray.arrays.indexing.plan import Plan, plan
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import chunk_keys
from hubarray.arrays.read.chunk_sinks import ChunkSink
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import Blobs, Refs
from hubarray.errors import ConfigError
from hubarray.history.log.version import Version

_MAX_CHUNKS = 1 << 20
_FEW_CHUNKS = 64
_DISK_SHARE = 4
Coords = tuple[int, ...]


def require_few(state: ArraySnapshot, chosen: Plan) -> None:
    """Refuse, by arithmetic alone, to look for more chunks than caches would ever hold.

    Raises
    ------
    ConfigError
    """
    if chosen.count > _MAX_CHUNKS:
        raise ConfigError(
            f"{state.version.name}: the selection to prefetch has {chosen.count:,} chunks, more than "
            f"{_MAX_CHUNKS:,}; fetch less at a time"
        )


def load_chunks(state: ArraySnapshot, chosen: Plan) -> None:
    """Bring the chunks of a plan into the caches: decoded into memory if they fit half of it, else on disk.

    Raises
    ------
    ConfigError
        They fit neither, or cannot be written to the disk.
    """
    version, metadata, fetcher = state.version, state.metadata, state.fetcher
    refs = state.numbered(chosen.numbers(numbering.strides(state.record.grid)))
    refs = refs[refs["length"] > 0]
    disk = fetcher.disk
    if len(refs) * metadata.chunk_bytes <= fetcher.memory.budget_bytes // 2:
        blobs = Blobs.of_refs(refs)
        sink = ChunkSink(fetcher, metadata, blobs.names, chunk_keys(fetcher, blobs.names, metadata))
        fetcher.read(blobs, sink, max_bytes=metadata.max_blob_bytes)
    elif disk is not None and int(refs["length"].sum()) <= disk.budget_bytes // 2:
        _load_onto_disk(version, disk, metadata, refs)
    elif fetcher.remote:
        if fetcher.memory.budget_bytes == 0 and disk is None:
            raise ConfigError(
                f"{version.name}: both caches are off, so nothing can be prefetched; set "
                "memory_cache_bytes or disk_cache_bytes"
            )
        raise ConfigError(
            f"{version.name}: the selection to prefetch takes {len(refs) * metadata.chunk_bytes:,} bytes, more than "
            "half of either cache; fetch less, or set memory_cache_bytes or disk_cache_bytes"
        )


def _load_onto_disk(version: Version, disk: DiskCache, metadata: ArrayMetadata, refs: Refs) -> None:
    failures = disk.space.failures
    version.fetcher.fetch_to_disk(Blobs.of_refs(refs), max_bytes=metadata.max_blob_bytes)
    if not disk.space.writable or disk.space.failures != failures:
        raise ConfigError(
            f"{version.name}: prefetched chunks cannot be kept, because the disk cache at "
            f"{disk.space.folder} cannot be written; set cache_dir, or a memory_cache_bytes that is large enough"
        )


def fetch_together(fetcher: Fetcher, requests: Iterable[tuple[ArraySnapshot, Sequence[Coords]]]) -> None:
    """Have the disk cache hold chunks of several arrays of one version.

    Arrays that are appended to together lie together: a request for each would take as long as there are arrays.

    Parameters
    ----------
    fetcher : Fetcher
        Of the version.
    requests : iterable of (ArraySnapshot, coordinates)

    Raises
    ------
    CorruptDataError, StorageError
    """
    if fetcher.disk is None:
        return
    refs = []
    for state, coords in requests:
        chunk_refs = state.refs(coords)
        # One that is too long is damaged; whoever reads its array says so.
        refs.append(chunk_refs[(chunk_refs["length"] > 0) & (chunk_refs["length"] <= state.metadata.max_blob_bytes)])
    if refs:
        blobs = Blobs.of_refs(np.concatenate(refs))
        fetcher.fetch_to_disk(blobs, budget_bytes=fetcher.disk.budget_bytes // _DISK_SHARE)


def tail(metadata: ArrayMetadata, axis: int) -> list[Coords]:
    """The chunks that rows which are appended along an axis share with those before them, where they are few."""
    length, chunk = metadata.shape[axis], metadata.chunks[axis]
    ranges = [range(count) for count in numbering.chunk_counts(metadata.shape, metadata.chunks)]
    ranges[axis] = range(length // chunk, -(-length // chunk))
    return list(itertools.product(*ranges)) if math.prod(map(len, ranges)) <= _FEW_CHUNKS else []


def rows_at(metadata: ArrayMetadata, at: Any) -> list[Coords]:
    """The chunks that some rows of an array are in, where they are few."""
    projections = plan(selection.parse(at, metadata.shape), metadata.shape, metadata.chunks)
    return [projection.coords for projection in projections] if projections.count <= _FEW_CHUNKS else []
