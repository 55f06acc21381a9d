"""Where runs are loaded: in this thread, in threads, or in worker processes; results come in the order of the plan."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.pipeline import Loaded, Pipeline

POOLS = ("thread", "process", "dummy")


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
    """Threads of this process: reading and decoding release the interpreter's lock, functions of the user do not."""

    def __init__(self, pipeline: Pipeline, workers_count: int) -> None:
        self._pipeline, self.workers_count = pipeline, workers_count
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self._lock = threading.Lock()

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        """Begin to load some rows."""
        with self._lock:
            if self._threads is None or self._process != os.getpid():
                self._threads = ThreadPoolExecutor(self.workers_count, "hubarray-reader")
                self._process = os.getpid()
            return self._threads.submit(self._pipeline.load, rows)

    def stop(self) -> None:
        """Begin no more."""
        with self._lock:
            if self._threads is not None and self._process == os.getpid():
                self._threads.shutdown(wait=False, cancel_futures=True)

    def rest(self) -> None:
        """Keep no threads."""
        with self._lock:
            if self._threads is not None and self._process == os.getpid():
                self._threads.shutdown(wait=False)
                self._threads = None

    def join(self) -> None:
        """Wait until nothing runs."""
        threads = self._threads
        if threads is not None and self._process == os.getpid():
            threads.shutdown(wait=True)
        self._threads = None

    def diagnostics(self) -> dict[str, Any]:
        """How it is."""
        return {"pool": "thread", "workers": self.workers_count}


def pool_of(kind: str, pipeline: Pipeline, workers_count: int) -> Pool:
    """The pool of a name.

    Raises
    ------
    ConfigError
    """
    if kind not in POOLS:
        raise ConfigError(f"reader_pool_type={kind!r}: there are {', '.join(map(repr, POOLS))}")
    if not isinstance(workers_count, int) or isinstance(workers_count, bool) or not 1 <= workers_count <= 1024:
        raise ConfigError(f"workers_count={workers_count!r}: is 1 to 1024")
    if kind == "dummy":
        return DummyPool(pipeline)
    if kind == "process":
        from hubarray.readers.process_pool import ProcessPool

        return ProcessPool(pipeline, workers_count)
    return ThreadPool(pipeline, workers_count)
