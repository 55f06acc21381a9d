"""Where runs are loaded: in this thread, in threads, or in worker processes; results come in the order of the plan."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol

import numpy as np

from hubarray import process
from hubarray.errors import ConfigError, ReaderStoppedError
from hubarray.readers.pipeline.pipeline import Loaded, Pipeline
from hubarray.threads import Threads

POOLS = ("thread", "process", "dummy")
_JOIN_SECONDS = 1.5

log = logging.getLogger("hubarray.readers")
# Of this process; a pool that nobody holds leaves by itself.
_open_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


class Pool(Protocol):
    """Loads runs."""

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        """Begin to load some rows; at the latest when the result is asked for."""

    def stop(self) -> None:
        """Begin no more, and let go of what was begun."""

    def join(self) -> None:
        """Wait until nothing runs any more."""

    def rest(self) -> None:
        """Keep no threads while there is nothing to load; the next run brings them back."""

    def diagnostics(self) -> dict[str, Any]:
        """How it is."""


class _Lazy(Future[Loaded]):
    """A result that is computed when it is asked for."""

    def __init__(self, compute: Callable[[], Loaded]) -> None:
        super().__init__()
        self._compute = compute

    def result(self, timeout: float | None = None) -> Loaded:
        if not self.done():
            try:
                self.set_result(self._compute())
            except BaseException as error:
                self.set_exception(error)
        return super().result(timeout)


class DummyPool:
    """Everything in the thread that iterates, when it is needed: for debuggers and profilers."""

    workers_count = 1

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        """Begin to load some rows."""
        return _Lazy(lambda: self._pipeline.load(rows))

    def stop(self) -> None:
        """There is nothing to stop."""

    def join(self) -> None:
        """There is nothing to wait for."""

    def rest(self) -> None:
        """There is nothing to keep."""

    def diagnostics(self) -> dict[str, Any]:
        """How it is."""
        return {"pool": "dummy", "workers": 0}


class ThreadPool:
    """Threads of this process: reading and decoding release the interpreter's lock, functions of the user do not.

    A thread cannot be ended. A thread whose transform continues is abandoned after 1.5 seconds, and does not keep the
    program from ending, unlike a thread of a ThreadPoolExecutor.
    """

    def __init__(self, pipeline: Pipeline, workers_count: int) -> None:
        self._pipeline, self.workers_count = pipeline, workers_count
        self._is_stopped = False
        self.after_fork()
        process.register(self)
        _open_pools.add(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._threads = Threads(self.workers_count, "hubarray-reader")
        self._begun: set[Future[Loaded]] = set()

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        """Begin to load some rows."""
        with self._lock:
            if self._is_stopped:
                raise ReaderStoppedError("this reader was stopped; make another one")
            future = self._threads.submit(_load, self._pipeline, rows)
            self._begun.add(future)
            future.add_done_callback(self._begun.discard)
        return future

    def stop(self) -> None:
        """Begin no more."""
        with self._lock:
            self._is_stopped = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            # Whoever waits for a transform that goes on is told now.
            for future in list(self._begun):
                with contextlib.suppress(InvalidStateError):
                    future.set_exception(ReaderStoppedError("the reader was stopped"))

    def rest(self) -> None:
        """Keep no threads."""
        with self._lock:
            self._threads.shutdown(wait=False)
            self._begin()

    def join(self, max_seconds: float = _JOIN_SECONDS) -> None:
        """Wait until nothing runs, for so long at most."""
        running = self._threads.join(max_seconds)
        if running:
            log.warning(
                "a transform or a read still runs in %d threads of a closed reader; "
                "reader_pool_type='process' has workers that can be ended",
                running,
            )

    def diagnostics(self) -> dict[str, Any]:
        """How it is."""
        return {"pool": "thread", "workers": self.workers_count}


def _load(pipeline: Pipeline, rows: np.ndarray) -> Loaded:
    try:
        return pipeline.load(rows)
    except Exception:
        raise
    except BaseException as error:
        # It would end the program that reads, and not only this thread.
        kind = type(error).__name__
        raise ReaderStoppedError(f"a function of yours raised {kind} in a worker of the reader") from None


def _end_all() -> None:
    """Stop the pools at the end of the program, before the interpreter goes: a thread must not be in the midst then."""
    pools = list(_open_pools)
    for pool in pools:
        pool.stop()
    end = time.monotonic() + _JOIN_SECONDS
    for pool in pools:
        pool.join(max(0.0, end - time.monotonic()))


# Those registered last are called first, before the pools that the threads fetch with end.
getattr(threading, "_register_atexit", atexit.register)(_end_all)


def pool_of(kind: str, pipeline: Pipeline, workers_count: int) -> Pool:
    """The pool of a name.

    Raises
    ------
    ConfigError
    """
    if kind not in POOLS:
        raise ConfigError(f"reader_pool_type={kind!r}: give one of {', '.join(map(repr, POOLS))}")
    if not isinstance(workers_count, int) or isinstance(workers_count, bool) or not 1 <= workers_count <= 1024:
        raise ConfigError(f"workers_count={workers_count!r}: is 1 to 1024")
    if kind == "dummy":
        return DummyPool(pipeline)
    if kind == "process":
        from hubarray.readers.pipeline.process_pool import ProcessPool

        return ProcessPool(pipeline, workers_count)
    return ThreadPool(pipeline, workers_count)
