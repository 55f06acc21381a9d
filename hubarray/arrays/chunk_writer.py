"""Encoding and uploading the chunks of one operation, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hubarray.arrays.chunk_codec import Encoded, chunk_key, chunk_keys, decoded, encoded
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.read import batched, refs_of
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.pools import pools, run_all
from hubarray.blobs.ref import REF, Refs, blob_place, null_ref
from hubarray.history import numbering
from hubarray.history.record import Record
from hubarray.history.version import Version
from hubarray.progress import progress
from hubarray.storage.base import Buffer

BATCH_BYTES = 64 << 20

Coords = tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """One chunk to write.

    Attributes
    ----------
    coords : tuple of int
    needs_old : bool
        Whether elements of the stored chunk survive.
    contents : callable
        Given the stored chunk (writable; None if it is not needed), gives the new one.
    state : hashable
        What else, beside the stored chunk, the contents depend on.
    """

    coords: Coords
    needs_old: bool
    contents: Callable[[np.ndarray | None], np.ndarray]
    state: Any


@dataclass
class ChunkWriter:
    """Encodes and uploads chunks, and remembers what it uploaded for a next attempt."""

    _done: dict[Coords, tuple[bytes | None, Any, Refs]] = field(default_factory=dict)

    def write(
        self,
        tasks: Iterable[Task],
        metadata: ArrayMetadata,
        base: Record,
        version: Version,
        packs: PackWriter,
        *,
        total_bytes: int,
    ) -> tuple[list[Coords], Refs]:
        """The chunks that changed and their new refs, null for those that are all fill value.

        Memory: a batch of 64 MiB of decoded chunks, or one chunk if that is more.
        """
        batch = max(1, BATCH_BYTES // max(1, metadata.chunk_bytes))
        changed: list[Coords] = []
        refs: list[Refs] = []
        with progress(total_bytes, f"writing {version.name}") as bar:
            for some in batched(tasks, batch):
                for task, ref in self._write_batch(some, metadata, base, version, packs):
                    changed.append(task.coords)
                    refs.append(ref)
                bar.update(len(some) * metadata.chunk_bytes)
        return changed, np.array(refs, REF) if refs else np.zeros(0, REF)

    def _write_batch(
        self, tasks: list[Task], metadata: ArrayMetadata, base: Record, version: Version, packs: PackWriter
    ) -> list[tuple[Task, Refs]]:
        old_refs = self._old_refs(tasks, metadata, base, version)
        fresh = [task for task in tasks if not self._is_done(task, old_refs.get(task.coords))]
        blobs = self._new_blobs(fresh, metadata, version, {c: r for c, r in old_refs.items() if r["length"]})
        for task in fresh:
            old = old_refs.get(task.coords)
            stored, chunk = blobs[task.coords]
            if stored is None:
                ref = null_ref()
            elif old is not None and old["length"] == len(stored.blob) and old["hash"].tobytes() == stored.digest:
                ref = old.copy()
            else:
                ref = packs.add(*stored)
            if chunk is not None and stored is not None:
                key = chunk_key(version.fetcher, blob_place(ref).name, metadata)
                version.fetcher.memory.put(key, chunk, chunk.nbytes)
            self._done[task.coords] = (None if old is None else old.tobytes(), task.state, ref)
        results = [(task, self._done[task.coords][2]) for task in tasks]
        return [
            (task, ref)
            for task, ref in results
            if task.coords not in old_refs or old_refs[task.coords].tobytes() != ref.tobytes()
        ]

    def _is_done(self, task: Task, old: Refs | None) -> bool:
        done = self._done.get(task.coords)
        return done is not None and done[:2] == (None if old is None else old.tobytes(), task.state)

    @staticmethod
    def _old_refs(tasks: list[Task], metadata: ArrayMetadata, base: Record, version: Version) -> dict[Coords, Refs]:
        partial = [task.coords for task in tasks if task.needs_old]
        if not partial:
            return {}
        counts = numbering.chunk_counts(base.array["shape"], metadata.chunks)
        inside = [all(c < n for c, n in zip(coords, counts, strict=True)) for coords in partial]
        refs = np.zeros(len(partial), REF)
        refs[inside] = refs_of(version, base, itertools.compress(partial, inside))
        return {coords: refs[i] for i, coords in enumerate(partial)}

    @staticmethod
    def _new_blobs(
        tasks: list[Task], metadata: ArrayMetadata, version: Version, old_refs: dict[Coords, Refs]
    ) -> dict[Coords, tuple[Encoded | None, np.ndarray | None]]:
        """New bytes by chunk, None where all is fill value; and the chunk itself where it may be cached."""
        olds = _old_chunks([task.coords for task in tasks if task.coords in old_refs], metadata, version, old_refs)
        out: dict[Coords, tuple[Encoded | None, np.ndarray | None]] = {}

        def encode(task: Task) -> None:
            old = olds.get(task.coords)
            if task.needs_old:
                old = np.full(metadata.chunks, metadata.fill) if old is None else old.copy()
            with pools.codec_slots:
                chunk = task.contents(old)
                stored = encoded(version.fetcher, metadata, chunk)
            if task.needs_old:
                chunk.setflags(write=False)
            out[task.coords] = (stored, chunk if task.needs_old else None)

        if len(tasks) == 1:
            encode(tasks[0])
        else:
            run_all(((metadata.chunk_bytes, partial(encode, task)) for task in tasks), threads=pools.cpu)
        return out


def _old_chunks(
    coords: list[Coords], metadata: ArrayMetadata, version: Version, refs: dict[Coords, Refs]
) -> dict[Coords, np.ndarray]:
    fetcher = version.fetcher
    chunks: dict[Coords, np.ndarray] = {}
    missing = []
    keys = chunk_keys(fetcher, np.array([refs[one] for one in coords], REF), metadata)
    for one, key in zip(coords, keys, strict=True):
        chunk = fetcher.memory.get(key)
        if chunk is None:
            missing.append(one)
        else:
            chunks[one] = chunk

    def consume(position: int, data: Buffer) -> None:
        chunks[missing[position]] = decoded(fetcher, metadata, data)

    if missing:
        fetcher.fetch(np.array([refs[one] for one in missing], REF), consume)
    return chunks
