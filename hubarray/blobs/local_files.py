"""Blobs of a root that is a local folder, decoded on the threads that read them, where the bytes are."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import Protocol

import numpy as np

from hubarray.blobs.coalesce import RangeRequest, plan_runs
from hubarray.blobs.pools import core_count, pools
from hubarray.blobs.ref import RefBatch, blob_key, blob_place
from hubarray.blobs.scheduling import run_all
from hubarray.blobs.verified import Consume, VerifiedReads, gone
from hubarray.errors import ObjectMissingError
from hubarray.storage.base import MAX_BUFFERS, Buffer


class Targets(Protocol):
    """Where the bytes of blobs belong that need no decoding."""

    def buffers(self, position: int) -> list[memoryview] | None:
        """Memory that takes the blob at a position, piece after piece; None if it is to be decoded."""

    def are_final(self, position: int, buffers: list[memoryview]) -> bool:
        """Whether these, filled with the right bytes, make decoding superfluous."""


LOCAL_RUN_BYTES = 2 << 20
TASKS_A_CORE = 16
SCRATCH_BYTES = 8 << 20

_held = threading.local()


def read_local(reads: VerifiedReads, ref_batch: RefBatch, consume: Consume, targets: Targets | None) -> None:
    """Read blobs from local files with one thread per core, which also decodes them.

    With ``targets``, bytes are read to where they belong; only what was damaged on the way, or has to be decoded,
    is consumed.

    Raises
    ------
    CorruptDataError, StorageError
    """
    files = _LocalFiles(reads, ref_batch, consume, targets)
    runs = plan_runs(ref_batch.refs, max_run_bytes=LOCAL_RUN_BYTES)
    if len(runs) == 1:
        files.read(runs)
        return
    # Several runs a task: drawing a task costs about what reading a small run does.
    share = -(-len(runs) // (TASKS_A_CORE * core_count()))
    tasks = (runs[first : first + share] for first in range(0, len(runs), share))
    run_all(
        ((max(run.length for run in task_runs), partial(files.read, task_runs)) for task_runs in tasks),
        threads=pools.cpu,
    )


class _LocalFiles:
    """One read of many blobs."""

    def __init__(self, reads: VerifiedReads, ref_batch: RefBatch, consume: Consume, targets: Targets | None) -> None:
        self._reads = reads
        self._batch = ref_batch
        self._consume = consume
        self._targets = targets

    def read(self, runs: list[RangeRequest]) -> None:
        for run in runs:
            key = blob_key(self._batch.refs[run.first])
            try:
                if self._targets is None or not self._read_to_targets(key, run, self._targets):
                    self._read_by_way_of_scratch(key, run)
            except ObjectMissingError:
                raise gone(self._reads.store, key) from None

    def _read_to_targets(self, key: str, run: RangeRequest, targets: Targets) -> bool:
        """Whether blobs that lie back to back in a file could be read to where they belong."""
        buffer_lists: list[list[memoryview]] = []
        end = run.start
        for i in run.members:
            buffers = targets.buffers(i)
            length = self._batch.lengths[i]
            if buffers is None or self._batch.offsets[i] != end or sum(map(len, buffers)) != length:
                return False
            buffer_lists.append(buffers)
            end += length
        every = list(itertools.chain.from_iterable(buffer_lists))
        if len(every) > MAX_BUFFERS:
            return False
        self._reads.store.read_into(key, run.start, every)
        for i, buffers in zip(run.members, buffer_lists, strict=True):
            if not self._batch.is_intact(i, *buffers) or not targets.are_final(i, buffers):
                self._consume(i, self._again(i))
        return True

    def _read_by_way_of_scratch(self, key: str, run: RangeRequest) -> None:
        data = scratch(run.length)
        data = data[: self._reads.store.read_into(key, run.start, data)]
        for i in run.members:
            begin = self._batch.offsets[i] - run.start
            blob: Buffer = data[begin : begin + self._batch.lengths[i]]
            self._consume(i, blob if self._batch.is_intact(i, blob) else self._again(i))

    def _again(self, i: int) -> Buffer:
        return self._reads.blob(blob_place(self._batch.refs[i]), partial(self._batch.is_intact, i))


def scratch(size: int) -> memoryview:
    """Memory to read into: this thread's own up to 8 MiB, since fresh memory costs a page fault for every 4 KiB."""
    if size > SCRATCH_BYTES:
        return np.empty(size, "u1").data
    held = getattr(_held, "memory", None)
    if held is None or len(held) < size:
        held = _held.memory = memoryview(bytearray(min(SCRATCH_BYTES, 1 << max(16, (size - 1).bit_length()))))
    view: memoryview = held[:size]
    return view
