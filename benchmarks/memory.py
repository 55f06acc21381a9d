"""Peak memory of a bulk read and of a transaction, beside the peers': each in a process of its own."""

from __future__ import annotations

import multiprocessing
import statistics
from pathlib import Path
from typing import Any

from benchmarks import data, places
from benchmarks.ours import OURS
from benchmarks.peers import peers
from benchmarks.places import Place

SIDE = 256
PROCESSES = 5
SPAWN = multiprocessing.get_context("spawn")


def memory(megabytes: int) -> list[dict[str, Any]]:
    """Peak resident memory over the output (reading) or the input (writing), MB.

    Counted from where a process stands once it has read or written a sample or two: code that is loaded at first use
    is no part of a read, and who loads it sooner has no less of it.
    """
    count = max(64, megabytes * 1_000_000 // (SIDE**2 * 3))
    rows = []
    with places.s3() as base:
        contenders, _ = peers("s3")
        for contender in (OURS, *contenders):
            corner = base.corner(contender.name.replace(" ", "").strip("()"))
            row: dict[str, Any] = {"contender": contender.name}
            stored = [corner.corner(str(n)) for n in range(PROCESSES)]
            row["write: MB beside the data"] = _median(_write, contender, stored, count)
            row["read: MB beside the data"] = _median(_read, contender, [stored[-1]] * PROCESSES, count)
            rows.append(row)
    return rows


def _median(work: Any, contender: Any, at: list[Place], count: int) -> float:
    """Of one process for each place. They are given the contender itself, so that they import no other."""
    figures = []
    for place in at:
        queue = SPAWN.Queue()
        process = SPAWN.Process(target=_measured, args=(work, contender, place, count, queue))
        process.start()
        process.join(600)
        if process.exitcode != 0:
            return float("nan")
        figures.append(queue.get())
    return statistics.median(figures)


def _measured(work: Any, contender: Any, place: Place, count: int, queue: Any) -> None:
    queue.put(work(contender, place, count))


def _peak() -> float:
    # Not ru_maxrss: a spawned process inherits its parent's.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _write(contender: Any, place: Place, count: int) -> float:
    values = data.photographs(count, SIDE)
    contender.create(place.corner("small"), values[:2], (1, SIDE, SIDE, 3))
    before = _peak()
    contender.create(place, values, (1, SIDE, SIDE, 3))
    return _peak() - before


def _read(contender: Any, place: Place, count: int) -> float:
    import hubarray as hub

    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    if contender.name == "lance":
        import numpy as np

        contender._shapes[place.url] = ((count, SIDE, SIDE, 3), np.dtype("u1"))
    reader = contender.open(place)
    reader(0)
    before = _peak()
    result = reader(...)
    return _peak() - before - result.nbytes / (1 << 20)
