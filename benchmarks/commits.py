"""Commits a second of 1, 4 and 16 writers on one version, and how evenly they get their turns.

Each writer is a process of its own that assigns to its own element of one shared
chunk, in a loop. S3 is SeaweedFS on loopback.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import hubarray as hub

SECONDS = 6.0
WRITERS = (1, 4, 16)


def _write(root: hub.Root, index: int, start_at: float, results: Any) -> None:
    array = hub.load("bench/commits", root=root)
    time.sleep(max(0.0, start_at - time.time()))
    count, slowest = 0, 0.0
    while time.time() < start_at + SECONDS:
        began = time.perf_counter()
        array[index] = count + 1
        slowest = max(slowest, time.perf_counter() - began)
        count += 1
    results.put((count, slowest))


def _measure(kind: str, root: hub.Root, writers: int) -> dict[str, Any]:
    hub.array(64, "bench/commits", "int64", root=root, overwrite=True)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    start_at = time.time() + 1 + writers * 0.5
    processes = [context.Process(target=_write, args=(root, i, start_at, results)) for i in range(writers)]
    for process in processes:
        process.start()
    counts, slowest = zip(*(results.get() for _ in processes), strict=True)
    for process in processes:
        process.join()
    return {
        "store": kind,
        "writers": writers,
        "commits/s": sum(counts) / SECONDS,
        "fewest of one writer": min(counts),
        "most of one writer": max(counts),
        "slowest assignment, s": max(slowest),
    }


def commits(megabytes: int) -> list[dict[str, Any]]:
    """One row for each store and number of writers."""
    from tests.servers import seaweedfs

    rows = []
    with tempfile.TemporaryDirectory() as folder, seaweedfs(Path(folder) / "s3") as server:
        roots = {
            "local": hub.Root(Path(folder) / "root"),
            "s3": hub.Root(f"{server.url}/bench", storage_options=server.options),
        }
        for kind, root in roots.items():
            rows += [_measure(kind, root, writers) for writers in WRITERS]
    return rows
