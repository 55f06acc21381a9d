"""A worker process of a reader: ``python -m hubarray.readers.pipeline.worker_process SOCKET LIFELINE``.

It receives the pipeline by cloudpickle from the reader that started it, and then row numbers. For each, it sends an
Arrow file without a name, which vanishes with its last owner. Nothing that comes from data is pickled.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import traceback
from typing import Any

HEADER = struct.Struct("<QQ")
MAX_MESSAGE_BYTES = 1 << 34


def received(connection: socket.socket, count: int) -> bytes | None:
    """So many bytes, or None where the other side has gone."""
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(1 << 20, count - len(data)))
        if not piece:
            return None
        data += piece
    return bytes(data)


def unnamed_file() -> Any:
    """A file in memory that no other process sees, and that is gone when it is closed."""
    return tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def end_with_reader(lifeline: int) -> None:
    """Have this process, and those that it begins, killed when the reader's end of a pipe is closed, as by its death.

    The kernel does it, where it can: a thread would wait for a transform that holds the interpreter's lock.
    """

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    if hasattr(fcntl, "F_SETSIG"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def main(descriptor: int, lifeline: int) -> None:
    """Serve one reader until it closes its end."""
    end_with_reader(lifeline)
    connection = socket.socket(fileno=descriptor)
    # What a transform prints is not for the reader's stdout, which may be a protocol of its own.
    os.dup2(2, 1)
    header = received(connection, HEADER.size)
    if header is None:
        return
    data = received(connection, HEADER.unpack(header)[1])
    if data is None:
        return
    import pickle

    import numpy as np

    from hubarray.readers.pipeline.transport import written

    # From the reader itself, over a socket that nobody else has.
    start = pickle.loads(data)
    # The current folder may be on it, where the user's own modules are, so what is ours is imported before.
    sys.path[:] = start["path"]
    pipeline = _opened(start)

    while (header := received(connection, HEADER.size)) is not None:
        number, size = HEADER.unpack(header)
        rows = received(connection, size)
        if rows is None:
            return
        try:
            if isinstance(pipeline, BaseException):
                raise pipeline
            loaded = pipeline.load(np.frombuffer(rows, np.int64))
            with unnamed_file() as file:
                written(loaded, file)
                file.flush()
                size = file.tell()
                _send(connection, number, {"size": size}, [file.fileno()])
        except Exception as error:
            _send(connection, number, _error(error), [])


def _opened(start: dict[str, Any]) -> Any:
    import pickle

    from hubarray import config

    try:
        config.take(start["settings"])
        return pickle.loads(start["pipeline"])
    except Exception as error:
        return error


def _error(error: Exception) -> dict[str, Any]:
    module = type(error).__module__
    return {
        "error": type(error).__name__,
        "module": module,
        "message": error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error),
        "notes": [str(note) for note in getattr(error, "__notes__", [])],
        "traceback": "".join(traceback.format_exception(error)),
    }


def _send(connection: socket.socket, number: int, message: dict[str, Any], descriptors: list[int]) -> None:
    data = json.dumps(message).encode()
    first = HEADER.pack(number, len(data))
    if descriptors:
        socket.send_fds(connection, [first], descriptors)
    else:
        connection.sendall(first)
    connection.sendall(data)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
