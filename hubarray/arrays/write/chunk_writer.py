"""Encoding and uploading the chunks of one operation, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hubarray.arrays.codecs.text_codec import held_bytes
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import Encoded, chunk_key, encoded
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.pools import pools
from hubarray.blobs.ref import REF, Refs, blob_place, null_ref
from hubarray.blobs.scheduling import run_in_order
from hubarray.history.commits.commit import SMALL_BYTES
from hubarray.progress import progress

WRITE_BATCH_BYTES = 64 << 20

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
        What the contents depend on, in addition to the stored chunk.
    """

    coords: Coords
    needs_old: bool
    contents: Callable[[np.ndarray | None], np.ndarray]
    state: Any


@dataclass(frozen=True)
class _Chunk:
    """A chunk that was encoded, or uploaded by an earlier attempt.

    Attributes
    ----------
    old : ref or None
        Of the stored chunk, where it was needed.
    stored : Encoded or None
        None where all is fill value.
    cached : ndarray or None
        The contents, where they may be cached.
    ref : ref or None
        The uploads of the earlier attempt.
    """

    task: Task
    old: Refs | None
    stored: Encoded | None = None
    cached: np.ndarray | None = None
    ref: Refs | None = None


@dataclass
class ChunkWriter:
    """Encodes and uploads chunks, and remembers what it uploaded for a next attempt."""

    _done: dict[Coords, tuple[bytes | None, Any, Refs]] = field(default_factory=dict)

    def write(
        self,
        tasks: Iterable[Task],
        metadata: ArrayMetadata,
        base: ArraySnapshot,
        packs: PackWriter,
        *,
        total_bytes: int,
    ) -> tuple[list[Coords], Refs]:
        """The chunks that changed and their new refs, null for those that are all fill value.

        Memory: a batch of 64 MiB of stored chunks that are changed in part, and what :func:`run_in_order` has ahead.
        """
        batch = max(1, WRITE_BATCH_BYTES // max(1, metadata.chunk_bytes))
        changed: list[Coords] = []
        refs: list[Refs] = []

        def place(chunk: _Chunk) -> None:
            ref = self._ref(chunk, metadata, base.fetcher, packs)
            if chunk.old is None or chunk.old.tobytes() != ref.tobytes():
                changed.append(chunk.task.coords)
                refs.append(ref)
            bar.update(metadata.chunk_bytes)

        is_small = total_bytes <= SMALL_BYTES
        with progress(total_bytes, f"writing {base.version.name}") as bar:
            work = (self._work(task_batch, metadata, base, is_small) for task_batch in _batched(tasks, batch))
            run_in_order(itertools.chain.from_iterable(work), place)
        return changed, np.array(refs, REF) if refs else np.zeros(0, REF)

    def _work(
        self, tasks: list[Task], metadata: ArrayMetadata, base: ArraySnapshot, is_small: bool
    ) -> Iterator[tuple[int, Callable[[], _Chunk]]]:
        """How to encode each chunk, with what it takes; what is stored of them is fetched for all at once."""
        changed = [task.coords for task in tasks if task.needs_old]
        old_refs = dict(zip(changed, base.refs(changed), strict=True))
        before = [self._ref_of_before(task, old_refs.get(task.coords)) for task in tasks]
        fresh = [task.coords for task, ref in zip(tasks, before, strict=True) if ref is None]
        stored = {coords: old_refs[coords] for coords in fresh if coords in old_refs and old_refs[coords]["length"]}
        olds = base.chunks(list(stored), np.array(list(stored.values()), REF))
        for task, ref in zip(tasks, before, strict=True):
            old = old_refs.get(task.coords)
            if ref is not None:
                yield 0, partial(_Chunk, task, old, ref=ref)
            else:
                contents = olds.pop(task.coords, None)
                # At the array's edge the next rows share the chunk.
                is_kept = task.needs_old or (is_small and task.state is not None and task.state != metadata.chunks)
                yield metadata.chunk_bytes, partial(_encode, task, old, contents, metadata, base.fetcher, is_kept)

    def _ref(self, chunk: _Chunk, metadata: ArrayMetadata, fetcher: Fetcher, packs: PackWriter) -> Refs:
        """The ref of a chunk, which is uploaded where nothing like it is stored."""
        if chunk.ref is not None:
            return chunk.ref
        old, stored = chunk.old, chunk.stored
        if stored is None:
            ref = null_ref()
        elif old is not None and old["length"] == len(stored.blob) and old["hash"].tobytes() == stored.digest:
            ref = old.copy()
        else:
            ref = packs.add(*stored)
        if chunk.cached is not None and stored is not None:
            key = chunk_key(fetcher, blob_place(ref).name, metadata)
            fetcher.memory.put(key, chunk.cached, held_bytes(chunk.cached))
        self._done[chunk.task.coords] = (None if old is None else old.tobytes(), chunk.task.state, ref)
        return ref

    def _ref_of_before(self, task: Task, old: Refs | None) -> Refs | None:
        """The ref under which an earlier attempt uploaded a chunk, if it holds still."""
        done = self._done.get(task.coords)
        if done is None or done[:2] != (None if old is None else old.tobytes(), task.state):
            return None
        return done[2]


def _encode(
    task: Task,
    old: Refs | None,
    contents: np.ndarray | None,
    metadata: ArrayMetadata,
    fetcher: Fetcher,
    is_kept: bool,
) -> _Chunk:
    if task.needs_old:
        contents = np.full(metadata.chunks, metadata.fill) if contents is None else contents.copy()
    with pools.codec_slots:
        chunk = task.contents(contents)
        stored = encoded(fetcher, metadata, chunk)
    if is_kept:
        chunk.setflags(write=False)
    return _Chunk(task, old, stored, chunk if is_kept else None)


def _batched(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    iterator = iter(tasks)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
