"""The download grid of the original Hub: chunk size against threads and processes, as a fraction of a bare client's rate."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.harness import back_memory
from benchmarks.ours import NAME, OURS, Blob, root_of
from benchmarks.places import Place

CHUNKS = {"150 KB": 224, "3 MB": 1000, "12 MB": 2000}
THREADS = (1, 4, 16)
PROCESSES = (1, 2, 4)
ROUNDS = 5
SPAWN = multiprocessing.get_context("spawn")


def grid(megabytes: int) -> list[dict[str, Any]]:
    """MB/s of hubarray and of bare GETs with the decode, for each cell."""
    rows = []
    for label, side in CHUNKS.items():
        count = max(16, min(megabytes, 400) * 1_000_000 // (side * side * 3))
        with places.s3() as base:
            hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
            ours = base.corner("h")
            values = data.photographs(count, side)
            OURS.create(ours, values, (1, side, side, 3))
            blobs, sums = OURS.blobs(ours), [zlib.crc32(value) for value in values]
            for processes in PROCESSES:
                for threads in THREADS:
                    rates = _rates(ours, blobs, sums, side, threads, processes)
                    rows.append(
                        {"chunks": label, "processes": processes, "threads": threads}
                        | {f"{name}, MB/s": rate for name, rate in rates.items()}
                        | {"fraction": rates["hubarray"] / rates["bare"]}
                    )
    return rows


def _rates(
    place: Place, blobs: list[Blob], sums: list[int], side: int, threads: int, processes: int
) -> dict[str, float]:
    """The median rate of each contender, in turns; processes start, and check what they read, before the clock does."""
    size_bytes = len(sums) * side * side * 3
    parts = [dict(list(enumerate(sums))[i::processes]) for i in range(processes)]
    barriers = {name: SPAWN.Barrier(processes + 1) for name in CONTENDERS}
    workers = [
        SPAWN.Process(target=_worker, args=(name, place, blobs, side, threads, part, barriers[name]), daemon=True)
        for name in CONTENDERS
        for part in parts
    ]
    for worker in workers:
        worker.start()
    for barrier in barriers.values():
        barrier.wait()
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name in random.sample(list(CONTENDERS), len(CONTENDERS)):
            back_memory(2 * size_bytes)
            barriers[name].wait()
            began = time.perf_counter()
            barriers[name].wait()
            seconds[name].append(time.perf_counter() - began)
    for worker in workers:
        worker.join()
    return {name: size_bytes / statistics.median(of) / 1e6 for name, of in seconds.items()}


def _worker(
    name: str, place: Place, blobs: list[Blob], side: int, threads: int, sums: dict[int, int], barrier: Any
) -> None:
    hub.configure(memory_cache_bytes=1 << 20, disk_cache_bytes=0)
    values = CONTENDERS[name](place, blobs, side)

    def read(i: int) -> int:
        return int(values(i).nbytes)

    with ThreadPoolExecutor(threads) as pool:
        if list(pool.map(lambda i: zlib.crc32(values(i)), sums)) != list(sums.values()):
            barrier.abort()
            raise ValueError(f"{name} returned other values")
        barrier.wait()
        for _ in range(ROUNDS):
            barrier.wait()
            list(pool.map(read, sums))
            barrier.wait()


def _ours(place: Place, blobs: list[Blob], side: int) -> Any:
    array = hub.load(NAME, root=root_of(place)).snapshot()
    return array.__getitem__


def _bare(place: Place, blobs: list[Blob], side: int) -> Any:
    store = limits.s3_store(place)
    return lambda i: limits.s3_read(store, [blobs[i]], (side, side, 3), np.uint8)


CONTENDERS = {"hubarray": _ours, "bare": _bare}
