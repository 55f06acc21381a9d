"""The process's threads: for requests, for codecs, for reads ahead; made at first use."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from hubarray import process

IO_THREADS = 32
AHEAD_THREADS = 4
AHEAD_THREADS_NAME = "hubarray-ahead"
BLOCK_THREADS = "hubarray-blocks"


def core_count() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pools:
    """The process's threads: many for waiting on requests, as many as cores for codecs.

    A chunk is decoded by the thread that fetched it, because handing bytes to
    another thread costs more than waiting for a slot. :attr:`codec_slots` bounds
    how many threads decode at a time.
    """

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._io: ThreadPoolExecutor | None = None
        self._cpu: ThreadPoolExecutor | None = None
        self._ahead: ThreadPoolExecutor | None = None
        self._blocks: ThreadPoolExecutor | None = None
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

    @property
    def ahead(self) -> ThreadPoolExecutor:
        """A few threads that run whole reads before they are asked for; made at first use."""
        if self._ahead is None:
            with self._lock:
                if self._ahead is None:
                    self._ahead = ThreadPoolExecutor(AHEAD_THREADS, AHEAD_THREADS_NAME)
        return self._ahead

    @property
    def blocks(self) -> ThreadPoolExecutor:
        """As many threads as cores, for tasks that read blocks themselves; made at first use."""
        if self._blocks is None:
            with self._lock:
                if self._blocks is None:
                    self._blocks = ThreadPoolExecutor(core_count(), BLOCK_THREADS)
        return self._blocks


pools = Pools()
