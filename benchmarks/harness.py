"""How every case is measured: contenders take turns in one run, results are checked, medians and spread are reported."""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 5
QUICK_ROUNDS, QUICK_SECONDS = 15, 1.5


@dataclass
class Timing:
    """Seconds of one contender over the rounds, and what else was seen of it, by what it is.

    ``processor_seconds`` is what this process spent on all cores, ``server_seconds`` what the server beside it did.
    """

    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    server_seconds: list[float] = field(default_factory=list)
    error: str = ""
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median, or infinity for one that failed."""
        return statistics.median(self.seconds) if self.seconds else float("inf")


@dataclass(frozen=True)
class Bar:
    """A ratio of two contenders that must be reached.

    ``kind`` is ``"at most"`` (ours takes at most so many times the other's time) or
    ``"at least"`` (ours is at least so many times as fast).
    """

    other: str
    kind: str
    ratio: float


@dataclass
class Row:
    """One case: every contender's time, and our ratio to each."""

    case: str
    ours: str
    bytes: int
    timings: dict[str, Timing]
    bars: Sequence[Bar] = ()
    note: str = ""

    def speedup(self, other: str) -> float:
        """How many times as fast as another contender we are."""
        return self.timings[other].median / self.timings[self.ours].median

    def best_peer(self) -> str | None:
        """The fastest contender that is neither ours nor a limit, and stores compressed as we do.

        Those marked as raw do other work: they copy, where the others decode.
        """
        others = [n for n, t in self.timings.items() if n != self.ours and not n.startswith("limit") and t.seconds]
        peers = [n for n in others if "(raw)" not in n]
        return min(peers, key=lambda n: self.timings[n].median, default=None)

    def verdicts(self) -> list[tuple[str, float, bool]]:
        """Each bar in words, what was reached, and whether that is enough."""
        checked = []
        for bar in self.bars:
            other = self.best_peer() if bar.other == "best peer" else bar.other
            if other is None or other not in self.timings or not self.timings[other].seconds:
                continue
            speedup = self.speedup(other)
            if bar.kind == "at most":
                checked.append((f"at most {bar.ratio:g} x the time of {other}", 1 / speedup, 1 / speedup <= bar.ratio))
            else:
                checked.append((f"at least {bar.ratio:g} x as fast as {other}", speedup, speedup >= bar.ratio))
        return checked

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {
            "case": self.case,
            "bytes": self.bytes,
            "note": self.note,
            "contenders": {name: asdict(timing) | {"median": timing.median} for name, timing in self.timings.items()},
            "bars": [{"bar": text, "reached": value, "ok": ok} for text, value, ok in self.verdicts()],
        }


def measure(
    case: str,
    contenders: Mapping[str, Callable[[], Any]],
    *,
    size_bytes: int,
    expected: np.ndarray | None = None,
    bars: Sequence[Bar] = (),
    rounds: int = ROUNDS,
    quick_rounds: int | None = None,
    before: Callable[[], None] | None = None,
    repeat: int = 1,
    ours: str = "hubarray",
    note: str = "",
    server: int | None = None,
    one_process: bool = True,
) -> Row:
    """Run contenders by turns and time them.

    Parameters
    ----------
    contenders : mapping
        Name to a function that does the work once and returns what it read.
    size_bytes : int
        Of the work, decoded; for rates.
    expected : ndarray, optional
        What each has to return in the warm-up round.
    rounds, quick_rounds : int
        Turns of each contender, and of those that take less than ``QUICK_SECONDS`` (by default ``QUICK_ROUNDS``): few of
        these would tell more of luck.
    before : callable, optional
        Run before each timed call, outside the time (to drop caches).
    repeat : int
        Calls in one timing, for work of microseconds.
    server : int, optional
        The process whose processor time is counted beside.
    one_process : bool
        Whether all work is done in this process, so that its processor time is worth telling.
    """
    timings = {name: Timing() for name in contenders}
    for name, work in contenders.items():
        try:
            if before is not None:
                before()
            result = work()
            if expected is not None and not np.array_equal(np.asarray(result), expected):
                timings[name].error = "returned other values"
        except Exception as error:
            timings[name].error = f"{type(error).__name__}: {str(error)[:200]}"
        result = None
    running = [name for name in contenders if not timings[name].error]
    gc.collect()
    gc.disable()
    try:
        for round_ in range(max(rounds, QUICK_ROUNDS if quick_rounds is None else quick_rounds)):
            if round_ == rounds:
                running = [name for name in running if timings[name].median < QUICK_SECONDS]
            # Another order each round, so that nobody always follows the same neighbour.
            for name in random.Random(round_).sample(running, len(running)):
                if before is not None:
                    before()
                back_memory(2 * size_bytes)
                work, timing = contenders[name], timings[name]
                began = time.perf_counter(), time.process_time(), _spent(server)
                for _ in range(repeat):
                    result = work()
                timing.seconds.append((time.perf_counter() - began[0]) / repeat)
                if one_process:
                    timing.processor_seconds.append((time.process_time() - began[1]) / repeat)
                if server is not None:
                    timing.server_seconds.append((_spent(server) - began[2]) / repeat)
                result = None
            gc.collect()
    finally:
        gc.enable()
    return Row(case, ours, size_bytes, timings, bars, note)


def _spent(process: int | None) -> float:
    """Processor seconds that another process has spent so far."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def back_memory(size_bytes: int) -> None:
    """Touch memory and free it, so that the next to allocate is not charged for pages that a virtual machine gave back.

    A guest whose hypervisor takes free pages gets them again at a tenth of the speed, a lottery between contenders.
    """
    np.empty(size_bytes, "u1")[::4096] = 0
