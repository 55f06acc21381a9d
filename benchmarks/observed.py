"""What an epoch takes besides its time: until the first batch, memory, and processor time, in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPAWN = multiprocessing.get_context("spawn")
_FIRST, _MEMORY, _PROCESSOR = "first batch, ms", "memory, MB", "processor, us a sample"


def beside(samples: int, make: Callable[..., Any], *arguments: Any) -> dict[str, float]:
    """Time to the first batch, memory that an epoch takes at its peak, and processor time.

    Parameters
    ----------
    samples : int
        Of an epoch.
    make : callable
        A context manager that gives a function which begins an epoch; as both are pickled, of a module.
    *arguments
        Of ``make``.
    """
    queue = SPAWN.Queue()
    process = SPAWN.Process(target=_observed, args=(make, arguments, queue))
    process.start()
    process.join(600)
    if process.exitcode:
        return dict.fromkeys((_FIRST, _MEMORY, _PROCESSOR), float("nan"))
    first, peak, spent = queue.get()
    return {_FIRST: first * 1e3, _MEMORY: peak, _PROCESSOR: spent / samples * 1e6}


def _observed(make: Callable[..., Any], arguments: tuple[Any, ...], queue: Any) -> None:
    # Part of no contender's first batch.
    importlib.import_module("torch")
    with make(*arguments) as epoch:
        # What making the data has freed is given back, so that it hides nothing.
        ctypes.CDLL(None).malloc_trim(0)
        before, peaks, over = memory_of_tree(), [0.0], threading.Event()
        spent, watching = processor_of_tree(), [0.0]

        def watch() -> None:
            began = time.thread_time()
            while not over.wait(0.02):
                peaks.append(memory_of_tree())
            watching[0] = time.thread_time() - began

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        batches = epoch()
        next(batches)
        first = time.perf_counter() - began
        for _ in batches:
            pass
        over.set()
        watcher.join()
        queue.put((first, max(peaks) - before, processor_of_tree() - spent - watching[0]))


def tree() -> set[int]:
    """This process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    seen, newest = set(), {os.getpid()}
    while newest:
        seen |= newest
        newest = {process for process, parent in parents.items() if parent in newest}
    return seen


def memory_of_tree() -> float:
    """MB that this process and all below it hold, what they share counted once."""
    total = 0
    for process in tree():
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            total += int(rollup.split("\nPss:")[1].split()[0])
    return total / 1024


def processor_of_tree() -> float:
    """Processor seconds of this process and all below it, those that ended among them."""
    ticks = 0
    for process in tree():
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
