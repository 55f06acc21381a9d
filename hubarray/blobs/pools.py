"""The process's threads: for requests, for codecs, for reads ahead."""

from __future__ import annotations

import os
import threading

from hubarray import process
from hubarray.threads import Threads

IO_THREADS = 32
AHEAD_THREADS = 4
AHEAD_THREADS_NAME = "hubarray-ahead"
BLOCK_THREADS = "hubarray-blocks"


def core_count() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CodecSlots:
    """Lets as many threads decode at a time as there are cores, and the main thread at any time.

    Ctrl-C at a bad moment would take a slot away from the main thread for good: see hubarray/threads.py.
    """

    def __init__(self, count: int) -> None:
        self._slots = threading.BoundedSemaphore(count)
        self._main = threading.main_thread().ident

    def __enter__(self) -> None:
        if threading.get_ident() != self._main:
            self._slots.acquire()

    def __exit__(self, *_error: object) -> None:
        if threading.get_ident() != self._main:
            self._slots.release()


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
        self.io = Threads(IO_THREADS, "hubarray-io")
        """The threads that wait for storage."""
        self.cpu = Threads(core_count(), "hubarray-cpu")
        """As many threads as cores, for work that does not wait for a network."""
        self.ahead = Threads(AHEAD_THREADS, AHEAD_THREADS_NAME)
        """A few threads that run whole reads before they are asked for."""
        self.blocks = Threads(core_count(), BLOCK_THREADS)
        """As many threads as cores, for tasks that read blocks themselves."""
        self.codec_slots = CodecSlots(core_count())


pools = Pools()
