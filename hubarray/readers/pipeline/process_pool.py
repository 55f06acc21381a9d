"""Worker processes: for transforms in Python, which threads of one process would run one after the other."""

from __future__ import annotations

import builtins
import contextlib
import json
import mmap
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from typing import Any

import cloudpickle
import numpy as np

from hubarray import config, errors, process
from hubarray.errors import ConfigError, ReaderStoppedError
from hubarray.readers.pipeline import worker_process as worker_program
from hubarray.readers.pipeline.pipeline import Loaded, Pipeline
from hubarray.readers.pipeline.transport import read_back
from hubarray.readers.pipeline.worker_process import HEADER, received
from hubarray.threads import start

# How long a worker has to end after SIGTERM; and then its thread, to see that it has.
_TERMINATE_SECONDS, _THREAD_SECONDS = 0.5, 1.0
_WATCH_SECONDS = 1.0
_Task = tuple[Future[Loaded], np.ndarray]


class ProcessPool:
    """Processes that are commands of their own: no fork, no import of ``__main__``; lambdas and notebooks work.

    Parameters
    ----------
    pipeline : Pipeline
        Sent to each by cloudpickle.
    workers_count : int

    Raises
    ------
    ConfigError
        The pipeline cannot be sent: a function refers to what does not pickle.
    """

    def __init__(self, pipeline: Pipeline, workers_count: int) -> None:
        self.workers_count = workers_count
        try:
            sent = cloudpickle.dumps(pipeline)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the predicate or the transform cannot be sent to worker processes: {str(error)[:200]}; use "
                "reader_pool_type='thread', or open what it refers to inside of it"
            ) from None
        path = [os.path.abspath(folder) for folder in sys.path]
        start = {"path": path, "settings": config.current(), "pipeline": sent}
        self._crew = _Crew(cloudpickle.dumps(start), workers_count)
        # The threads hold the crew: a pool that nobody holds is collected, and ends it.
        self._ended = weakref.finalize(self, self._crew.kill)

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        """Begin to load some rows."""
        return self._crew.submit(np.ascontiguousarray(rows, np.int64))

    def stop(self) -> None:
        """Begin no more."""
        self._crew.stop()

    def rest(self) -> None:
        """Keep the processes: they would take seconds to come back."""

    def join(self) -> None:
        """Wait until nothing runs."""
        self._crew.join()

    def diagnostics(self) -> dict[str, Any]:
        """How it is."""
        return {"pool": "process", "workers": self.workers_count, "alive": self._crew.alive()}


class _Crew:
    """Worker processes, and a thread for each that gives it its tasks."""

    def __init__(self, first: bytes, count: int) -> None:
        self._first, self._count = first, count
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._broken: BaseException | None = None
        self._stopped = False
        self._connections: list[socket.socket] = []
        self._lifelines: list[int] = []
        self._lock = threading.Lock()
        process.register(self)

    def submit(self, rows: np.ndarray) -> Future[Loaded]:
        task: Future[Loaded] = Future()
        with self._lock:
            if self._broken is not None:
                task.set_exception(self._broken)
                return task
            if not self._threads:
                self._start()
            self._tasks.put((task, rows))
        # A worker that ended meanwhile has told those who waited before.
        self._fail_what_waits()
        return task

    def after_fork(self) -> None:
        """Leave the parent's workers to it: a forked child gets its own with its first task."""
        # Else the workers would outlive the parent for as long as this child lives.
        for connection in self._connections:
            connection.close()
        for descriptor in self._lifelines:
            os.close(descriptor)
        self._tasks, self._lock = queue.SimpleQueue(), threading.Lock()
        self._processes, self._threads, self._connections, self._lifelines = [], [], [], []
        self._broken = None

    def _start(self) -> None:
        for number in range(self._count):
            ours, theirs = socket.socketpair()
            watched, lifeline = os.pipe()
            self._connections.append(ours)
            self._lifelines.append(lifeline)
            try:
                # In a group of their own: Ctrl-C is for the reader, which ends them with all that they began.
                worker = subprocess.Popen(
                    **process.python_command("-m", worker_program.__name__, str(theirs.fileno()), str(watched)),
                    pass_fds=[theirs.fileno(), watched], stdin=subprocess.DEVNULL, process_group=0,
                )  # fmt: skip
            finally:
                theirs.close()
                os.close(watched)
            self._processes.append(worker)
            self._threads.append(start(self._serve, ours, worker, name=f"hubarray-worker-{number}"))

    def _serve(self, connection: socket.socket, worker: subprocess.Popen[bytes]) -> None:
        """Give one worker its tasks, one after the other."""
        with connection:
            task: _Task | None = None
            try:
                connection.sendall(HEADER.pack(0, len(self._first)) + self._first)
                while (task := self._next(worker)) is not None and not self._stopped:
                    future, rows = task
                    if not future.set_running_or_notify_cancel():
                        continue
                    connection.sendall(HEADER.pack(0, rows.nbytes) + rows.tobytes())
                    answer = _answer(connection)
                    if answer is None:
                        raise ConnectionError("it closed its end")
                    if isinstance(answer, BaseException):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
            except Exception as error:
                self._break(worker, error, task)

    def _next(self, worker: subprocess.Popen[bytes]) -> _Task | None:
        """The next task of a worker, which is watched while it has none."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._tasks.get(timeout=_WATCH_SECONDS)
            if worker.poll() is not None:
                raise ConnectionError("it had nothing to do")

    def _break(self, worker: subprocess.Popen[bytes], error: Exception, task: _Task | None) -> None:
        """Report the death of a worker to all callers that wait, and to later ones.

        The other workers end as well, because a caller would otherwise wait until they have done their tasks.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(1.0)
        code = worker.poll()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        was_killed = code == -signal.SIGKILL
        advice = (
            "if memory ran out, use fewer workers or smaller row groups"
            if was_killed
            else "a function of yours ended it, or a library that it calls crashed"
        )
        stopped = ReaderStoppedError(f"worker process {worker.pid} of the reader ended with {how} ({error}); {advice}")
        with self._lock:
            self._broken = self._broken or stopped
        for other in self._processes:
            _signal(other, signal.SIGKILL)
        if task is not None and not task[0].done():
            task[0].set_exception(self._broken)
        self._fail_what_waits()

    def _fail_what_waits(self) -> None:
        if self._broken is None:
            return
        with contextlib.suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None and not task[0].done() and task[0].set_running_or_notify_cancel():
                    task[0].set_exception(self._broken)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._broken = self._broken or ReaderStoppedError("the reader was stopped")
        self._fail_what_waits()
        for _ in self._threads:
            self._tasks.put(None)
        for worker in self._processes:
            _signal(worker, signal.SIGTERM)

    def kill(self) -> None:
        self.stop()
        for worker in self._processes:
            _signal(worker, signal.SIGKILL)
        self._close_lifelines()

    def join(self) -> None:
        end = time.monotonic() + _TERMINATE_SECONDS
        for worker in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.0, end - time.monotonic()))
        for worker in self._processes:
            _signal(worker, signal.SIGKILL)
            worker.wait()
        end = time.monotonic() + _THREAD_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._close_lifelines()

    def _close_lifelines(self) -> None:
        lifelines, self._lifelines = self._lifelines, []
        for lifeline in lifelines:
            os.close(lifeline)

    def alive(self) -> int:
        return sum(worker.poll() is None for worker in self._processes)


def _signal(worker: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a worker that has not ended, and the processes that its transform began."""
    if worker.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, number)


def _answer(connection: socket.socket) -> Loaded | BaseException | None:
    """The answer of a worker: a run, an error of its own, or None where it has gone."""
    first, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, 1)
    try:
        while len(first) < HEADER.size:
            more = connection.recv(HEADER.size - len(first))
            if not more:
                return None
            first += more
        _, size = HEADER.unpack(first)
        data = received(connection, size)
        if data is None:
            return None
        reply = json.loads(data)
        if "error" in reply:
            return _remade(reply)
        return read_back(mmap.mmap(descriptors[0], reply["size"], prot=mmap.PROT_READ | mmap.PROT_WRITE,
                                   flags=mmap.MAP_PRIVATE))  # fmt: skip
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _remade(failure: dict[str, Any]) -> BaseException:
    """An exception like the one that was raised over there, with the traceback that it had."""
    where = errors if failure["module"] == errors.__name__ else builtins
    kind = getattr(where, failure["error"], None)
    error: BaseException
    try:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError
        error = kind(failure["message"])
    except TypeError:
        error = RuntimeError(f"{failure['error']}: {failure['message']}")
    known = set(getattr(error, "__notes__", []))
    for note in failure["notes"]:
        if note not in known:
            error.add_note(note)
    error.add_note("in a worker process of the reader:\n" + failure["traceback"])
    return error
