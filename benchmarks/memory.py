"""Peak memory of a bulk read and of a transaction, beside the peers': each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from pathlib import Path
from typing import Any

from benchmarks import data, places
from benchmarks.ours import OURS
from benchmarks.peers import peers
from benchmarks.places import Place

SIDE = 256
SPAWN = multiprocessing.get_context("spawn")


def memory(megabytes: int) -> list[dict[str, Any]]:
    """Peak resident memory over the output (reading) or the input (writing), MB."""
    count = max(64, megabytes * 1_000_000 // (SIDE**2 * 3))
    rows = []
    with places.s3() as base:
        found, _ = peers("s3")
        for contender in (OURS, *found):
            place = base.corner(contender.name.replace(" ", "").strip("()"))
            row: dict[str, Any] = {"contender": contender.name}
            for what, work in (("write", _write), ("read", _read)):
                queue = SPAWN.Queue()
                process = SPAWN.Process(target=_measured, args=(work, contender.name, place, count, queue))
                process.start()
                process.join(600)
                row[f"{what}: MB beside the data"] = queue.get() if process.exitcode == 0 else float("nan")
            rows.append(row)
    return rows


def _measured(work: Any, name: str, place: Place, count: int, queue: Any) -> None:
    contender = OURS if name == OURS.name else next(peer for peer in peers("s3")[0] if peer.name == name)
    queue.put(work(contender, place, count))


def _peak() -> float:
    # Not ru_maxrss: a spawned process inherits its parent's.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def memory_of_tree() -> float:
    """MB that this process and all below it hold, what they share counted once."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    tree: set[int] = set()
    found = {os.getpid()}
    while found:
        tree |= found
        found = {process for process, parent in parents.items() if parent in found}
    total = 0
    for process in tree:
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            total += int(rollup.split("\nPss:")[1].split()[0])
    return total / 1024


def _write(contender: Any, place: Place, count: int) -> float:
    values = data.photographs(count, SIDE)
    before = _peak()
    contender.create(place, values, (1, SIDE, SIDE, 3))
    return _peak() - before


def _read(contender: Any, place: Place, count: int) -> float:
    import hubarray as hub

    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    if contender.name == "lance":
        import numpy as np

        contender._shapes[place.url] = ((count, SIDE, SIDE, 3), np.dtype("u1"))
    before = _peak()
    result = contender.open(place)(...)
    return _peak() - before - result.nbytes / (1 << 20)
