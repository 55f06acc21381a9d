"""Commits a second of several writers on one version, and how evenly they get their turns.

Each writer is a process of its own that assigns in a loop to its own element, of one chunk that all share or of a chunk
of its own. Writers of one machine share a cache folder, and so take turns; those of several have one each. S3 is
SeaweedFS on loopback. Processes neither start nor end while others are measured: ending takes some time of the
processor.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import hubarray as hub

SECONDS = 6.0
WRITERS = ((1, 1), (4, 1), (16, 1), (4, 4), (16, 4), (16, 16))
"""Processes, and the machines that they are on."""
CHUNKS = {"one for all": 64, "one each": 1}


def _write(root: hub.Root, cache_dir: str, index: int, start_at: float, results: Any, all_done: Any) -> None:
    hub.configure(cache_dir=cache_dir)
    array = hub.load("bench/commits", root=root)
    time.sleep(max(0.0, start_at - time.time()))
    count, slowest = 0, 0.0
    while time.time() < start_at + SECONDS:
        began = time.perf_counter()
        array[index] = count + 1
        slowest = max(slowest, time.perf_counter() - began)
        count += 1
    all_done.wait()
    results.put((count, slowest))


def _measure(
    kind: str, root: hub.Root, folder: Path, chunks: str, writers: int, machines: int, alone: float | None
) -> dict[str, Any]:
    hub.array(64, "bench/commits", "int64", chunks=CHUNKS[chunks], root=root, overwrite=True)
    context = multiprocessing.get_context("spawn")
    results, all_done = context.Queue(), context.Barrier(writers)
    start_at = time.time() + 1 + writers * 0.5
    processes = [
        context.Process(
            target=_write, args=(root, str(folder / f"cache{i % machines}"), i, start_at, results, all_done)
        )
        for i in range(writers)
    ]
    for process in processes:
        process.start()
    counts, slowest = zip(*(results.get() for _ in processes), strict=True)
    for process in processes:
        process.join()
    commits = sum(counts) / SECONDS
    return {
        "store": kind,
        "chunks": chunks,
        "writers": writers,
        "machines": machines,
        "commits/s": commits,
        "of one writer's": commits / (alone or commits),
        "fewest of one writer": min(counts),
        "most of one writer": max(counts),
        "slowest assignment, s": max(slowest),
        "the same, in rounds": max(slowest) * commits / writers,
    }


def commits(megabytes: int) -> list[dict[str, Any]]:
    """One row for each store, way of sharing chunks, and number of writers and machines."""
    from tests.servers import seaweedfs

    rows = []
    with tempfile.TemporaryDirectory() as folder, seaweedfs(Path(folder) / "s3") as server:
        roots = {
            "local": hub.Root(Path(folder) / "root"),
            "s3": hub.Root(f"{server.url}/bench", storage_options=server.options),
        }
        for kind, root in roots.items():
            for chunks in CHUNKS:
                alone = None
                for writers, machines in WRITERS:
                    rows.append(_measure(kind, root, Path(folder), chunks, writers, machines, alone))
                    alone = alone or rows[-1]["commits/s"]
    return rows
