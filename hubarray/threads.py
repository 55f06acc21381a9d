"""Threads that keep no program from ending, and calls that Ctrl-C ends.

Ctrl-C raises KeyboardInterrupt between any two instructions of the main thread, also within the classes of
:mod:`threading` that are written in Python: an interrupted Condition, Event or Semaphore keeps its lock, and whoever
uses it next waits for ever. What the main thread waits for is therefore a Lock in a ``with`` statement or a
SimpleQueue, which are written in C.
"""

from __future__ import annotations

import _thread
import atexit
import concurrent.futures.thread  # noqa: F401 - its pools are to end after ours
import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
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
        # A token for each thread that waits for a task.
        self._idle: queue.SimpleQueue[None] = queue.SimpleQueue()
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
            # Before the task is there: a token that is left behind would stand for a thread that is busy.
            try:
                self._idle.get_nowait()
                is_one_more = False
            except queue.Empty:
                is_one_more = len(self._threads) < self._max_workers
            self._tasks.put((future, lambda: function(*args, **kwargs)))
            if is_one_more:
                name = f"{self._name}_{len(self._threads)}"
                self._threads.append(start(_work, self._tasks, self._idle, name=name))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; with ``wait``, return when those that were taken are done."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                _cancel_all(self._tasks)
            self._tasks.put(None)
        if wait:
            self.join()

    def join(self, max_seconds: float | None = None) -> int:
        """Wait until the threads have ended, for so long at most. Returns how many still run.

        Call :meth:`shutdown` before.
        """
        end = None if max_seconds is None else time.monotonic() + max_seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        # After a failure or Ctrl-C nobody wants the other results.
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)
        return None


def start(function: Callable[..., object], *args: Any, name: str) -> threading.Thread:
    """Start a daemon thread. Ctrl-C in the midst of it leaves either no thread or one that runs.

    Raises
    ------
    RuntimeError
        There cannot be another thread, or the program ends.
    """
    thread = threading.Thread(target=function, args=args, name=name, daemon=True)
    errors: list[BaseException] = []
    over = threading.Lock()
    over.acquire()

    # Thread.start waits for an Event, which Ctrl-C would break. Only the main thread gets KeyboardInterrupt.
    def begin() -> None:
        try:
            thread.start()
        except BaseException as error:
            errors.append(error)
        finally:
            over.release()

    _thread.start_new_thread(begin, ())
    with over:
        pass
    if errors:
        raise errors[0]
    return thread


def _work(tasks: queue.SimpleQueue[_Task | None], idle: queue.SimpleQueue[None]) -> None:
    while True:
        try:
            task = tasks.get_nowait()
        except queue.Empty:
            idle.put(None)
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
                with contextlib.suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                # Somebody may have given it up.
                with contextlib.suppress(InvalidStateError):
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
        start(_make_calls, calls, name="hubarray-call")
    try:
        calls.put(made)
        made.done.acquire()
    except BaseException:
        calls.put(None)
        raise
    # Not before: the thread of calls that are idle must not end.
    _callers.idle.append(calls)
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
    while any(map(_is_awaited, _running.copy())) and time.monotonic() < end:
        time.sleep(0.01)


def _is_awaited(call: Future[Any] | _Call) -> bool:
    """Whether nobody has given a call up, as a reader that was closed does with one that goes on."""
    return not (isinstance(call, Future) and call.done())


# Those registered last are called first; the pools' own is registered when they are imported.
getattr(threading, "_register_atexit", atexit.register)(_end)
