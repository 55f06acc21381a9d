"""hubarray as a contender, and what the limits need to know of how it stored things."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks.peers import Reader
from benchmarks.places import Place
from hubarray.arrays.handle import snapshot_of
from hubarray.blobs.ref import blob_key

NAME = "bench/x:v0"


def root_of(place: Place) -> hub.Root:
    """The root of a place."""
    url = place.url if place.kind == "s3" else str(place.folder / "hub")
    return hub.Root(f"{url}/hub" if place.kind == "s3" else url, storage_options=place.options or None)


@dataclass(frozen=True)
class Blob:
    """Where one chunk is stored."""

    key: str
    offset: int
    length: int


class Hub:
    """hubarray."""

    name = "hubarray"
    kinds = ("local", "s3")

    def create(self, place: Place, data: np.ndarray, chunks: tuple[int, ...], codec: Any = "auto") -> None:
        array = hub.array(data.shape, NAME, data.dtype, chunks=chunks, codec=codec, root=root_of(place))
        with array.transaction() as t:
            t[...] = data

    def open(self, place: Place) -> Reader:
        return hub.load(NAME, root=root_of(place)).__getitem__

    def blobs(self, place: Place) -> list[Blob]:
        """Every chunk, in order."""
        return self.blobs_of(hub.load(NAME, root=root_of(place)))

    def blobs_of(self, array: hub.Array) -> list[Blob]:
        """Every chunk of an array, in order."""
        state = snapshot_of(array)
        refs = state.refs(list(itertools.product(*map(range, state.counts))))
        return [Blob(blob_key(ref), int(ref["offset"]), int(ref["length"])) for ref in refs]


OURS = Hub()


def cold() -> None:
    """Forget what this process has in memory; the manifest too."""
    from hubarray.blobs import fetch

    for memory in fetch._shared._memory.values():
        memory.clear()


def ranges(blobs: list[Blob], max_bytes: int) -> Iterator[list[Blob]]:
    """Neighbouring blobs of one object, in requests of at most so many bytes."""
    batch: list[Blob] = []
    for blob in blobs:
        follows = batch and batch[-1].key == blob.key and batch[-1].offset + batch[-1].length == blob.offset
        if not follows or blob.offset + blob.length - batch[0].offset > max_bytes:
            if batch:
                yield batch
            batch = []
        batch.append(blob)
    if batch:
        yield batch
