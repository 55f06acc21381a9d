"""Threads for requests, a bound on decoding, and running many tasks under a byte budget."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from hubarray import process

IO_THREADS = 32
MAX_BYTES_IN_FLIGHT = 256 << 20


def core_count() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pools:
    """The process's threads: many for waiting on requests, as many as cores for codecs.

    Codec work runs on the thread that has the bytes, under :attr:`codec_slots`,
    because handing bytes from one thread to another costs more than the bound.
    """

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._io: ThreadPoolExecutor | None = None
        self._cpu: ThreadPoolExecutor | None = None
        self.codec_slots = threading.BoundedSemaphore(core_count())

    @property
    def io(self) -> ThreadPoolExecutor:
        """The threads that wait for storage; made at first use."""
        if self._io is None:
            with self._lock:
                if self._io is None:
                    self._io = ThreadPoolExecutor(IO_THREADS, "hubarray-io")
        return self._io

    @property
    def cpu(self) -> ThreadPoolExecutor:
        """As many threads as cores, for work that does not wait for a network; made at first use."""
        if self._cpu is None:
            with self._lock:
                if self._cpu is None:
                    self._cpu = ThreadPoolExecutor(core_count(), "hubarray-cpu")
        return self._cpu


pools = Pools()


def run_all(
    tasks: Iterable[tuple[int, Callable[[], object]]],
    *,
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
    threads: ThreadPoolExecutor | None = None,
) -> None:
    """Run tasks on threads (by default those for I/O), holding at most so many bytes at a time.

    Parameters
    ----------
    tasks : iterable of (bytes, callable)
        Drawn lazily. A task must not wait for another one.
    max_bytes_in_flight : int
        A task that alone is larger still runs, by itself.

    Raises
    ------
    BaseException
        The first failure, or KeyboardInterrupt; tasks not begun are cancelled,
        and those running are waited for only when one of them failed.
    """
    threads = threads or pools.io
    pending: dict[Future[object], int] = {}
    in_flight = 0
    try:
        for size, task in tasks:
            while pending and (in_flight + size > max_bytes_in_flight or len(pending) >= 4 * IO_THREADS):
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    in_flight -= pending.pop(future)
                    future.result()
            pending[threads.submit(task)] = size
            in_flight += size
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                pending.pop(future)
                future.result()
    except BaseException as error:
        for future in pending:
            future.cancel()
        if isinstance(error, Exception):
            # A failed read must not leave threads writing into an array the caller has freed.
            wait([future for future in pending if not future.cancelled()])
        raise
