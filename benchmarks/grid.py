"""The download grid of the original Hub: chunk size against threads and processes, as a fraction of a bare client's rate."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.ours import NAME, OURS, Blob, root_of
from benchmarks.places import Place

CHUNKS = {"150 KB": 224, "3 MB": 1000, "12 MB": 2000}
THREADS = (1, 4, 16)
PROCESSES = (1, 2, 4)
SPAWN = multiprocessing.get_context("spawn")


def grid(megabytes: int) -> list[dict[str, Any]]:
    """MB/s of hubarray and of bare GETs with the decode, for each cell."""
    rows = []
    for label, side in CHUNKS.items():
        count = max(16, min(megabytes, 400) * 1_000_000 // (side * side * 3))
        with places.s3() as base:
            hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
            ours = base.corner("h")
            OURS.create(ours, data.photographs(count, side), (1, side, side, 3))
            blobs = OURS.blobs(ours)
            for processes in PROCESSES:
                for threads in THREADS:
                    rates = {
                        name: _rate(work, ours, blobs, count, side, threads, processes)
                        for name, work in (("hubarray", _ours), ("bare", _bare))
                    }
                    rows.append(
                        {"chunks": label, "processes": processes, "threads": threads}
                        | {f"{name}, MB/s": rate for name, rate in rates.items()}
                        | {"fraction": rates["hubarray"] / rates["bare"]}
                    )
    return rows


def _rate(work: Any, place: Place, blobs: list[Blob], count: int, side: int, threads: int, processes: int) -> float:
    """Of three rounds the median; processes start before the clock does."""
    parts = [list(range(i, count, processes)) for i in range(processes)]
    barrier, queue = SPAWN.Barrier(processes + 1), SPAWN.Queue()
    workers = [
        SPAWN.Process(target=_worker, args=(work, place, blobs, side, threads, part, barrier, queue)) for part in parts
    ]
    for worker in workers:
        worker.start()
    seconds = []
    for _ in range(3):
        barrier.wait()
        began = time.perf_counter()
        barrier.wait()
        seconds.append(time.perf_counter() - began)
    for worker in workers:
        worker.join()
    return count * side * side * 3 / sorted(seconds)[1] / 1e6


def _worker(
    work: Any, place: Place, blobs: list[Blob], side: int, threads: int, part: list[int], barrier: Any, queue: Any
) -> None:
    hub.configure(memory_cache_bytes=1 << 20, disk_cache_bytes=0)
    read = work(place, blobs, side)
    read(part[0])
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            barrier.wait()
            list(pool.map(read, part))
            barrier.wait()


def _ours(place: Place, blobs: list[Blob], side: int) -> Any:
    array = hub.load(NAME, root=root_of(place)).snapshot()
    return lambda i: array[i].nbytes


def _bare(place: Place, blobs: list[Blob], side: int) -> Any:
    store = limits.s3_store(place)
    return lambda i: limits.s3_read(store, [blobs[i]], (side, side, 3), np.uint8).nbytes
