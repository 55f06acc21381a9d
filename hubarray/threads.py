"""Threads that keep no program from ending, and calls that Ctrl-C ends."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - its pools are to end after ours
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from hubarray import process

P = ParamSpec("P")
T = TypeVar("T")

# A call that ends while the interpreter does would crash the program, so calls that are nearly done are waited for.
_END_SECONDS = 1.0

_Task = tuple[Future[Any], Callable[[], Any]]


class Threads(Executor):
    """A pool of threads, as :class:`concurrent.futures.ThreadPoolExecutor` is one.

    That class waits at the end of the program until each thread has done its task. These threads are given up after a
    second: a request to a server that is silent takes half a minute.

    Parameters
    ----------
    max_workers : int
    name : str
        Prefix of the names of the threads.
    """

    def __init__(self, max_workers: int, name: str) -> None:
        # Dask asks for it by this name.
        self._max_workers, self._name = max_workers, name
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._is_shut = False
        # Threads that nobody can give tasks to end.
        weakref.finalize(self, self._tasks.put, None).atexit = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread call a function."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("these threads were shut down")
            self._tasks.put((future, lambda: function(*args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._max_workers:
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=_work, args=(self._tasks, self._idle), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; with ``wait``, return when those that were taken are done."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                _cancel_all(self._tasks)
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        # After a failure or Ctrl-C nobody wants the other results.
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)
        return None


def _work(tasks: queue.SimpleQueue[_Task | None], idle: threading.Semaphore) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            idle.release()
            task = tasks.get()
        if task is None:
            # It is for the others, too.
            tasks.put(None)
            return
        future, call = task
        if future.set_running_or_notify_cancel():
            _running.add(future)
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                # Else the last result would be held until there is another task.
                del result
            _running.discard(future)
        del task, future, call


def _cancel_all(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            return
        if task is not None:
            task[0].cancel()


_running: set[Future[Any] | _Call] = set()
ending = threading.Event()
"""Set when the program ends: a thread that sleeps must not keep it."""


def interruptible(call: Callable[[], T]) -> T:
    """Return what a call gives, which another thread makes where this one is the main thread.

    Python runs the handlers of signals between two instructions of the main thread. A library that is not written in
    Python and waits for a server keeps them waiting as well. After Ctrl-C, the call continues by itself, and its result
    is dropped. A call costs 20 microseconds more, half of what a task of :class:`Threads` costs.

    Examples
    --------
    >>> interruptible(lambda: 3)
    3
    """
    if threading.current_thread() is not threading.main_thread() or ending.is_set():
        return call()
    made = _Call(call)
    try:
        calls = _callers.idle.pop()
    except IndexError:
        calls = queue.SimpleQueue()
        threading.Thread(target=_make_calls, args=(calls,), name="hubarray-call", daemon=True).start()
    try:
        calls.put(made)
        made.done.acquire()
        _callers.idle.append(calls)
    except BaseException:
        calls.put(None)
        raise
    if made.error is None:
        return cast(T, made.result)
    try:
        raise made.error
    finally:
        # The error's traceback holds this frame, which must not hold the error.
        del made


class _Call:
    __slots__ = ("call", "done", "error", "result")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


def _make_calls(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (made := calls.get()) is not None:
        _running.add(made)
        try:
            made.result = made.call()
        except BaseException as error:
            made.error = error
        _running.discard(made)
        made.done.release()
        del made


class _Callers:
    """The threads of :func:`interruptible`, by what they take calls from."""

    def __init__(self) -> None:
        self.idle: list[queue.SimpleQueue[_Call | None]] = []
        process.register(self)

    def after_fork(self) -> None:
        """Forget those of the parent."""
        self.idle.clear()
        _running.clear()


_callers = _Callers()


def _end() -> None:
    ending.set()
    end = time.monotonic() + _END_SECONDS
    while _running and time.monotonic() < end:
        time.sleep(0.01)


# Those registered last are called first; the pools' own is registered when they are imported.
getattr(threading, "_register_atexit", atexit.register)(_end)
