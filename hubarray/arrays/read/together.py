"""Chunks of several arrays, fetched as one array's are: by one plan of requests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.indexing import numbering, selection
from hubarray.arrays.indexing.plan import plan
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.fetch import Fetcher

_FEW_CHUNKS = 64

Coords = tuple[int, ...]


def fetch_together(fetcher: Fetcher, wanted: Iterable[tuple[ArraySnapshot, Sequence[Coords]]]) -> None:
    """Have the disk cache hold chunks of several arrays of one version.

    Arrays that are appended to together lie together: a request for each would take as long as there are arrays.

    Parameters
    ----------
    fetcher : Fetcher
        Of the version.
    wanted : iterable of (State, coordinates)

    Raises
    ------
    CorruptDataError, StorageError
    """
    if not fetcher.can_fetch_ahead:
        return
    refs = []
    for state, coords in wanted:
        found = state.refs(coords)
        # One that is too long is damaged; whoever reads its array says so.
        refs.append(found[(found["length"] > 0) & (found["length"] <= state.metadata.max_blob_bytes)])
    if refs:
        fetcher.fetch_ahead(np.concatenate(refs))


def tail(metadata: ArrayMetadata, axis: int) -> list[Coords]:
    """The chunks that rows which are appended along an axis share with those before them, where they are few."""
    length, chunk = metadata.shape[axis], metadata.chunks[axis]
    ranges = [range(count) for count in numbering.chunk_counts(metadata.shape, metadata.chunks)]
    ranges[axis] = range(length // chunk, -(-length // chunk))
    return list(itertools.product(*ranges)) if math.prod(map(len, ranges)) <= _FEW_CHUNKS else []


def rows_at(metadata: ArrayMetadata, at: Any) -> list[Coords]:
    """The chunks that some rows of an array are in, where they are few."""
    projections = plan(selection.parse(at, metadata.shape), metadata.shape, metadata.chunks)
    return [one.coords for one in projections] if projections.count <= _FEW_CHUNKS else []
