"""Reading a selection: plan, look into the caches, fetch the rest, decode into place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from hubarray.arrays.chunk_grid import Projection, chunk_view, project
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.selection import Selection
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import Refs, homes
from hubarray.history.numbering import number_of
from hubarray.history.record import Record
from hubarray.history.version import Version
from hubarray.storage.base import Buffer

BATCH_CHUNKS = 16384
_CACHED_SHARE = 4

T = TypeVar("T")


def read(version: Version, record: Record, metadata: ArrayMetadata, selection: Selection) -> np.ndarray:
    """The canonical result of a selection at a record.

    Costs the manifest nodes and coalesced ranges that are not in the caches,
    fetched in parallel. Memory: the result, plus bounded requests in flight.

    Raises
    ------
    CorruptDataError
        A blob is missing or altered; its key is named. Absent chunks are fill value.
    StorageError
    """
    out = np.empty(selection.canonical_shape, metadata.dtype)
    for projections in batched(project(selection, metadata.shape, metadata.chunks), BATCH_CHUNKS):
        refs = refs_of(version, record, [projection.coords for projection in projections])
        _read_batch(version.fetcher, metadata, selection, projections, refs, out)
    return out


def refs_of(version: Version, record: Record, coords: Iterable[tuple[int, ...]]) -> Refs:
    """The refs of chunks by their coordinates."""
    numbers = np.fromiter((number_of(c, record.grid) for c in coords), np.uint64)
    return version.refs(record, numbers)


def _read_batch(
    fetcher: Fetcher,
    metadata: ArrayMetadata,
    selection: Selection,
    projections: list[Projection],
    refs: Refs,
    out: np.ndarray,
) -> None:
    keep = len(projections) * metadata.chunk_bytes <= fetcher.memory.budget_bytes // _CACHED_SHARE
    missing: list[int] = []
    for i, length in enumerate(refs["length"].tolist()):
        if not length:
            out[projections[i].in_result] = metadata.fill
            continue
        chunk = fetcher.memory.get(chunk_key(fetcher, refs[i], metadata))
        if chunk is None:
            missing.append(i)
        else:
            _place(chunk, selection, projections[i], out)
    if not missing:
        return
    wanted = refs[missing]

    def consume(position: int, data: Buffer) -> None:
        projection = projections[missing[position]]
        if not keep and selection.points is None:
            target = out[(*projection.in_result, ...)]
            if projection.whole and target.shape == metadata.chunks and target.flags.c_contiguous:
                metadata.codec.decode(data, target)
                return
        chunk = decode(metadata, data)
        _place(chunk, selection, projection, out)
        if keep:
            fetcher.memory.put(chunk_key(fetcher, wanted[position], metadata), chunk, chunk.nbytes)

    disk_share = fetcher.disk.budget_bytes // _CACHED_SHARE if fetcher.disk is not None else 0
    fetcher.fetch(wanted, consume, keep=int(wanted["length"].sum()) <= disk_share)


def decode(metadata: ArrayMetadata, data: Buffer) -> np.ndarray:
    """A chunk in memory of its own, read-only."""
    chunk = np.empty(metadata.chunks, metadata.dtype)
    metadata.codec.decode(data, chunk)
    chunk.setflags(write=False)
    return chunk


def chunk_key(fetcher: Fetcher, ref: np.void | Refs, metadata: ArrayMetadata) -> tuple[Any, ...]:
    """The key of a decoded chunk in the memory cache."""
    blob = (homes.name(int(ref["home"])), ref["pack"].tobytes(), int(ref["offset"]))
    return ("chunk", fetcher.identity, blob, metadata.decoding)


def _place(chunk: np.ndarray, selection: Selection, projection: Projection, out: np.ndarray) -> None:
    out[projection.in_result] = chunk_view(chunk, selection)[projection.in_chunk]


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to ``size`` items."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
