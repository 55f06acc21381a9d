"""Blobs of a root that is a local folder, decoded on the threads that read them, where the bytes are."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from functools import partial

import numpy as np

from hubarray.blobs.coalesce import RangeRequest, plan_runs
from hubarray.blobs.pools import core_count, pools
from hubarray.blobs.ref import Blobs, key_of
from hubarray.blobs.scheduling import run_all
from hubarray.blobs.sinks import Sink
from hubarray.blobs.verified import gone, read_alone
from hubarray.errors import ObjectMissingError
from hubarray.storage.base import MAX_BUFFERS, Buffer, Store

LOCAL_RUN_BYTES = 2 << 20
# To wake threads for less takes a tenth to a third longer than to read on this one.
_MAX_SMALL_BYTES = 256 << 10
TASKS_A_CORE = 16
SCRATCH_BYTES = 8 << 20

_held = threading.local()


def read_local(store: Store, blobs: Blobs, positions: Sequence[int], sink: Sink) -> None:
    """Read blobs from local files with one thread per core, which also decodes them.

    Bytes are read into the sink's buffers where it has some. It takes the others, and what was damaged on the way.

    Raises
    ------
    CorruptDataError, StorageError
    """
    if len(positions) == 1:
        _read_one(store, blobs, positions[0], sink)
        return
    runs = plan_runs(blobs.names, positions, max_run_bytes=LOCAL_RUN_BYTES)
    if len(runs) == 1 or sum(run.length for run in runs) <= _MAX_SMALL_BYTES:
        _read_runs(store, blobs, runs, sink)
        return
    # Several runs a task: drawing a task costs about what reading a small run does.
    share = -(-len(runs) // (TASKS_A_CORE * core_count()))
    tasks = [runs[first : first + share] for first in range(0, len(runs), share)]
    run_all(
        [
            (max(run.length for run in task_runs), partial(_read_runs, store, blobs, task_runs, sink))
            for task_runs in tasks
        ],
        threads=pools.cpu,
    )


def _read_runs(store: Store, blobs: Blobs, runs: list[RangeRequest], sink: Sink) -> None:
    for run in runs:
        if len(run.members) == 1:
            _read_one(store, blobs, run.members[0], sink)
        else:
            _read_run(store, blobs, run, sink)


def _read_one(store: Store, blobs: Blobs, i: int, sink: Sink) -> None:
    """As :func:`_read_run` of a single blob: a random sample takes up to a tenth less without a plan for it."""
    name = blobs.names[i]
    key, (_, _, offset, length) = key_of(name), name
    buffers = sink.buffers(i)
    try:
        if buffers is None:
            data = scratch(length)
            data = data[: store.read_into(key, offset, data)]
            is_intact = blobs.is_intact(i, data)
        else:
            # A file that is too short leaves memory as it was, which may hold the right bytes by chance.
            is_intact = store.read_into(key, offset, buffers) == length and blobs.is_intact(i, *buffers)
    except ObjectMissingError:
        raise gone(store, key) from None
    if not is_intact or (buffers is not None and not sink.are_final(i, buffers)):
        sink.take(i, read_alone(store, blobs, i), False)
    elif buffers is None:
        sink.take(i, data, False)


def _read_run(store: Store, blobs: Blobs, run: RangeRequest, sink: Sink) -> None:
    key = key_of(blobs.names[run.members[0]])
    try:
        if not _read_to_buffers(store, key, blobs, run, sink):
            _read_by_way_of_scratch(store, key, blobs, run, sink)
    except ObjectMissingError:
        raise gone(store, key) from None


def _read_to_buffers(store: Store, key: str, blobs: Blobs, run: RangeRequest, sink: Sink) -> bool:
    """Whether blobs that lie back to back in a file could be read to where they belong."""
    end = run.start
    for i in run.members:
        if blobs.names[i][2] != end:
            return False
        end += blobs.names[i][3]
    buffer_lists: list[list[memoryview]] = []
    for i in run.members:
        buffers = sink.buffers(i)
        if buffers is None or sum(map(len, buffers)) != blobs.names[i][3]:
            return False
        buffer_lists.append(buffers)
    every = list(itertools.chain.from_iterable(buffer_lists))
    if len(every) > MAX_BUFFERS:
        return False
    is_complete = store.read_into(key, run.start, every) == run.length
    for i, buffers in zip(run.members, buffer_lists, strict=True):
        if not is_complete or not blobs.is_intact(i, *buffers) or not sink.are_final(i, buffers):
            sink.take(i, read_alone(store, blobs, i), False)
    return True


def _read_by_way_of_scratch(store: Store, key: str, blobs: Blobs, run: RangeRequest, sink: Sink) -> None:
    data = scratch(run.length)
    data = data[: store.read_into(key, run.start, data)]
    for i in run.members:
        _, _, offset, length = blobs.names[i]
        blob: Buffer = data[offset - run.start : offset - run.start + length]
        sink.take(i, blob if blobs.is_intact(i, blob) else read_alone(store, blobs, i), False)


def scratch(size: int) -> memoryview:
    """Memory to read into: this thread's own up to 8 MiB, since fresh memory costs a page fault for every 4 KiB."""
    if size > SCRATCH_BYTES:
        return np.empty(size, "u1").data
    held = getattr(_held, "memory", None)
    if held is None or len(held) < size:
        held = _held.memory = memoryview(bytearray(min(SCRATCH_BYTES, 1 << max(16, (size - 1).bit_length()))))
    view: memoryview = held[:size]
    return view
