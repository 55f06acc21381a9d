"""Running many tasks on threads, under a budget of bytes: in whatever order, or with results in order."""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import TypeVar

from hubarray.blobs.pools import AHEAD_THREADS_NAME, IO_THREADS, core_count, pools
from hubarray.threads import Threads

MAX_BYTES_IN_FLIGHT = 256 << 20
TASK_GROUP_BYTES = 256 << 10
AHEAD_BYTES_A_CORE = 16 << 20
MIN_AHEAD_BYTES, MAX_AHEAD_BYTES = 32 << 20, 256 << 20

T = TypeVar("T")


def run_all(
    tasks: Iterable[tuple[int, Callable[[], object]]],
    *,
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
    threads: Threads | None = None,
) -> None:
    """Run tasks on threads, by default those for I/O, within a budget of bytes.

    Parameters
    ----------
    tasks : iterable of (bytes, callable)
        Drawn lazily, from whatever thread is free. A task must not wait for another one. If their number is known,
        the threads for all of them are woken at once, otherwise one by one.
    max_bytes_in_flight : int
        A larger task runs alone.

    Raises
    ------
    BaseException
        The first failure, or KeyboardInterrupt; tasks not begun are given up,
        and those running are waited for only when one of them failed.
    """
    if threads is None:
        threads, most = pools.io, IO_THREADS
    else:
        most = core_count()
    count = len(tasks) if isinstance(tasks, Sequence) else 1
    _Run(iter(tasks), max_bytes_in_flight, threads, most).finish(min(count, most))


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of a few calls that each read for themselves: the first on this thread, the others on their own.

    Raises
    ------
    BaseException
        The first failure, in their order.
    """
    if not calls:
        return []
    if threading.current_thread().name.startswith(AHEAD_THREADS_NAME):
        # Those threads do not wait for each other.
        return [call() for call in calls]
    others = [pools.ahead.submit(call) for call in calls[1:]]
    return [calls[0](), *(future.result() for future in others)]


def run_in_order(tasks: Iterable[tuple[int, Callable[[], T]]], consume: Callable[[T], object]) -> None:
    """Run tasks on one thread per core, and pass on their results in the order of the tasks.

    The calling thread draws tasks and consumes results. The others work on tasks that were drawn ahead: 16 MiB a core,
    at least 32 and at most 256 MiB in all, or two tasks where these are larger. A single task runs on the calling
    thread. Every task sees the caller's context variables, ``np.errstate`` among them.

    Parameters
    ----------
    tasks : iterable of (bytes, callable)
        A task must not wait for another one. Small ones share a turn of a thread.
    consume : callable

    Raises
    ------
    BaseException
        The first failure in the order of the tasks, or of ``consume`` or of drawing; no task runs after that.
    """
    groups: Iterator[tuple[int, list[Callable[[], T]]]] = _groups(tasks)
    first = list(itertools.islice(groups, 2))
    if len(first) == 1 and len(first[0][1]) == 1:
        consume(first[0][1][0]())
        return
    groups = itertools.chain(first, groups)
    # No reference may stay here: the memory that a task holds goes with its result.
    del first
    most = min(max(AHEAD_BYTES_A_CORE * core_count(), MIN_AHEAD_BYTES), MAX_AHEAD_BYTES)
    ahead: deque[tuple[int, Future[list[T]]]] = deque()
    ahead_bytes = 0
    try:
        for size, group_calls in groups:
            while len(ahead) > 1 and ahead_bytes + size > most:
                ahead_bytes -= _consume_next(ahead, consume)
            ahead.append((size, pools.cpu.submit(copy_context().run, _results, group_calls)))
            ahead_bytes += size
        while ahead:
            _consume_next(ahead, consume)
    finally:
        wait([future for _, future in ahead if not future.cancel()])


def _groups(tasks: Iterable[tuple[int, Callable[[], T]]]) -> Iterator[tuple[int, list[Callable[[], T]]]]:
    """Small tasks joined until they are worth a future."""
    group: list[Callable[[], T]] = []
    held = 0
    for size, task in tasks:
        group.append(task)
        held += size
        if held >= TASK_GROUP_BYTES:
            yield held, group
            group, held = [], 0
    if group:
        yield held, group


def _results(tasks: list[Callable[[], T]]) -> list[T]:
    return [task() for task in tasks]


def _consume_next(ahead: deque[tuple[int, Future[list[T]]]], consume: Callable[[T], object]) -> int:
    """Wait for the oldest group and hand over its results; returns its bytes."""
    size, group = ahead[0]
    results = group.result()
    ahead.popleft()
    for result in results:
        consume(result)
    return size


class _Run:
    """Threads that draw from one iterator until it is empty.

    Small tasks take less time than a future for each, and than waiting for the first of many futures.
    """

    def __init__(
        self,
        tasks: Iterator[tuple[int, Callable[[], object]]],
        max_bytes: int,
        threads: Threads,
        most: int,
    ) -> None:
        self._tasks = tasks
        self._max_bytes = max_bytes
        self._threads = threads
        self._most = most
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        # The main thread waits for it: see hubarray/threads.py.
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._in_flight_bytes = 0
        self._running = 0
        self._waiting = False
        self._over = False
        self._error: BaseException | None = None

    def finish(self, count: int) -> None:
        """Wake so many threads, and wait until everything is done."""
        try:
            with self._lock:
                for _ in range(count):
                    self._one_more()
            self._done.get()
        except BaseException:
            self._over = True
            raise
        if self._error is not None:
            raise self._error

    def _one_more(self) -> None:
        """Have one more thread draw, if more may; under the lock."""
        if self._running < self._most and not self._over and not self._waiting:
            self._running += 1
            try:
                self._threads.submit(self._work)
            except BaseException:
                self._running -= 1
                raise

    def _work(self) -> None:
        try:
            while (drawn := self._draw()) is not None:
                size, task = drawn
                try:
                    task()
                finally:
                    with self._lock:
                        self._in_flight_bytes -= size
                        if self._waiting:
                            self._room.notify_all()
        except BaseException as error:
            with self._lock:
                self._error = self._error or error
                self._over = True
                self._room.notify_all()
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._done.put(None)

    def _draw(self) -> tuple[int, Callable[[], object]] | None:
        """The next task, once there is room for it; None when there is none or all is over."""
        with self._lock:
            while self._waiting and not self._over:
                # Another thread has drawn a task and waits for room; the order of tasks is kept.
                self._room.wait()
            drawn = None if self._over else next(self._tasks, None)
            if drawn is None:
                self._over = True
                return None
            if self._lacks_room(drawn[0]):
                self._waiting = True
                try:
                    while self._lacks_room(drawn[0]) and not self._over:
                        self._room.wait()
                finally:
                    self._waiting = False
                    self._room.notify_all()
            if self._over:
                return None
            self._in_flight_bytes += drawn[0]
            self._one_more()
            return drawn

    def _lacks_room(self, size: int) -> bool:
        return bool(self._in_flight_bytes) and self._in_flight_bytes + size > self._max_bytes
