"""A small HTTP proxy between a client and a real server, which fails as networks and servers do."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

STALL_SECONDS = 15.0

Fault = str | int | None


class FaultyProxy:
    """Forwards requests to a server, but for those that ``plan`` gives a fault.

    Parameters
    ----------
    upstream : (host, port)
    plan : callable
        Given method and path, gives None, or a fault: ``"reset"`` (the connection is reset, nothing is forwarded),
        ``"lost reply"`` (the request goes through, the reply does not come), ``"cut"`` (half of the reply's body
        comes), ``"stall"`` (the request goes through, nothing comes), ``"no bucket"`` (the server says that there is no
        such bucket), a number (the status to answer with), or a number and a code (``"400 ExpiredToken"``).

    Attributes
    ----------
    check_head : callable
        Given a request's head, gives a fault as ``plan`` does, which comes first.
    failed : list of (method, path, fault)
        The faults so far.
    body_bytes : int
        What went to clients in bodies of the server's replies.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self.plan: Callable[[str, str], Fault] = lambda method, path: None
        self.check_head: Callable[[bytes], Fault] = lambda head: None
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.failed: list[tuple[str, str, Fault]] = []
        self.body_bytes = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
            while (request := _read_message(client)) is not None:
                method, path = request[0].split(b" ", 2)[:2]
                fault = self.plan(method.decode(), path.decode()) or self.check_head(request[0])
                if fault is not None:
                    self.failed.append((method.decode(), path.decode(), fault))
                if fault == "reset":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                if (answer := _answer(fault)) is not None:
                    status, code = answer
                    body = b"<Error><Code>%s</Code><Message>by the test</Message></Error>" % code
                    client.sendall(b"HTTP/1.1 %d Injected\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
                    client.sendall(b"" if method == b"HEAD" else body)
                    continue
                server.sendall(request[0] + request[1])
                reply = _read_message(server, no_body=method == b"HEAD")
                if reply is None or fault == "lost reply":
                    return
                if fault == "stall":
                    time.sleep(STALL_SECONDS)
                    return
                body = reply[1][: len(reply[1]) // 2] if fault == "cut" else reply[1]
                # Before it is sent: whoever has it looks at the number.
                with self._lock:
                    self.body_bytes += len(body)
                client.sendall(reply[0] + body)
                if fault == "cut":
                    return


def _answer(fault: Fault) -> tuple[int, bytes] | None:
    """The status and the code that the server is to have answered with."""
    if fault == "no bucket":
        return 404, b"NoSuchBucket"
    if isinstance(fault, int):
        return fault, b"Injected"
    status, _, code = (fault or "").partition(" ")
    return (int(status), code.encode()) if status.isdigit() else None


def _read_message(connection: socket.socket, *, no_body: bool = False) -> tuple[bytes, bytes] | None:
    """The head and the body of one HTTP message, None at the connection's end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    head += b"\r\n\r\n"
    if no_body or head.startswith((b"HTTP/1.1 204", b"HTTP/1.1 304")):
        return head, body
    if re.search(rb"(?i)^expect: 100-continue", head, re.MULTILINE):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The server is not to say it again.
        head = re.sub(rb"(?im)^expect: 100-continue\r\n", b"", head)
    if re.search(rb"(?i)^transfer-encoding: chunked", head, re.MULTILINE):
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65536)
        return head, body
    length = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
    expected = int(length.group(1)) if length else 0
    while len(body) < expected:
        piece = connection.recv(min(1 << 20, expected - len(body)))
        if not piece:
            return None
        body += piece
    return head, body


@contextlib.contextmanager
def faulty_proxy(endpoint: str) -> Iterator[FaultyProxy]:
    """A proxy in front of ``http://host:port``."""
    host, _, port = endpoint.removeprefix("http://").partition(":")
    proxy = FaultyProxy((host, int(port)))
    try:
        yield proxy
    finally:
        proxy.close()
