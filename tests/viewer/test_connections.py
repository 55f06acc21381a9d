"""Clients that send half a request, read nothing or come at once: none of them stops the server."""

import asyncio
import concurrent.futures
import os
import socket
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.viewer import connections, decode_slot
from hubarray.viewer.guard import Guard
from tests.viewer.conftest import api, get, resident_bytes
from tests.viewer.test_answers import ask


def test_connections_that_ask_for_nothing_are_ended_and_the_server_goes_on(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 50)
    with hub.view(root=root, open_browser=False) as viewer:
        idle = [socket.create_connection(("127.0.0.1", viewer.port), timeout=5) for _ in range(80)]
        for item in idle:
            item.sendall(b"GET / HTTP/1.1\r\nHo") if item is not idle[-1] else None
        time.sleep(1.5)
        assert get(viewer.url).status == 200
        for item in idle:
            item.close()


def test_who_does_not_read_holds_a_slot_and_not_the_server(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    a = hub.array(32 << 20, "t/x:v1", "u1", chunks=32 << 20, codec="none", root=root)
    a[:] = np.random.default_rng(0).integers(0, 255, 32 << 20, "u1")
    with hub.view(root=root, open_browser=False) as viewer:
        path = viewer.url.split(str(viewer.port))[1]
        get(f"{viewer.url}zarr/t/x/v1/c/0", Range="bytes=0-1")
        before = resident_bytes()
        waiting = [socket.create_connection(("127.0.0.1", viewer.port), timeout=5) for _ in range(30)]
        for item in waiting:
            item.sendall(f"GET {path}zarr/t/x/v1/c/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(2)
        assert resident_bytes() - before < 20 * (32 << 20)
        assert get(viewer.url).status == 200
        for item in waiting:
            item.close()


def test_a_forked_child_does_not_hold_the_port(root):
    with hub.view(root=root, open_browser=False) as viewer:
        port, (end, done), (told, tell) = viewer.port, os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(done)
            os.write(tell, b"1")
            os.read(end, 1)
            os._exit(0)
        os.close(end)
        os.read(told, 1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    for item in (done, told, tell):
        os.close(item)
    os.waitpid(child, 0)


def test_a_slow_picture_holds_up_no_page(viewer, root, monkeypatch):
    from hubarray.viewer import app

    hub.store(np.zeros((8, 8), "u1"), "t/x:v1", root=root)
    given = {"name": "t/x:v1", "y": 0, "x": 1, "at": "0,0", "level": 0, "row": 0, "column": 0}
    gate = threading.Event()
    png = app.array_pages.drawing.png
    monkeypatch.setattr(app.array_pages.drawing, "png", lambda pixels: gate.wait(20) and png(pixels))
    threads = [
        threading.Thread(target=get, args=(api(viewer, "picture", **given, high=i + 1, low=0),)) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    began = time.perf_counter()
    assert ask(viewer, "facts", name="t/x:v1")["commit"] >= 1
    assert time.perf_counter() - began < 5
    gate.set()
    for thread in threads:
        thread.join()


def is_ended(connection, seconds):
    """Whether the server ends a connection within some time."""
    connection.settimeout(seconds)
    try:
        while connection.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize("begun", [b"", b"GET /x/ HT", b"GET /x/ HTTP/1.1\r\nHost: 127"])
def test_half_a_request_after_a_whole_one_holds_no_place(root, monkeypatch, begun):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    with hub.view(root=root, open_browser=False) as viewer:
        held = [socket.create_connection(("127.0.0.1", viewer.port), timeout=5) for _ in range(5)]
        for item in held:
            item.sendall(b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"403" in item.recv(4096)
            item.sendall(begun)
        assert all(is_ended(item, 10) for item in held)
        for item in held:
            item.close()


def test_drops_of_a_request_win_no_time(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    with (
        hub.view(root=root, open_browser=False) as viewer,
        socket.create_connection(("127.0.0.1", viewer.port), timeout=5) as item,
    ):
        ended = False
        for letter in b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1":
            time.sleep(0.15)
            try:
                item.sendall(bytes([letter]))
            except ConnectionError:
                ended = True
                break
        assert ended or is_ended(item, 0.5)


def test_who_takes_no_answer_is_left_on_every_page(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    hub.store(np.array([["x" * 2000] * 64] * 64), "t/x:v1", root=root)
    with hub.view(root=root, open_browser=False) as viewer:
        path = api(viewer, "values", name="t/x:v1", y=0, x=1, at="0,0", rows=64, columns=64).split(str(viewer.port))[1]
        held = []
        for _ in range(20):
            item = socket.socket()
            item.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            item.connect(("127.0.0.1", viewer.port))
            item.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            held.append(item)
        began = time.perf_counter()
        assert ask(viewer, "facts", name="t/x:v1")["commit"] == 1
        assert time.perf_counter() - began < 10
        time.sleep(4)
        assert all(is_ended(item, 5) for item in held)


def test_large_pieces_take_turns_and_few_wait_for_theirs():
    inside, go, done = threading.Semaphore(0), threading.Event(), []

    def decode():
        with decode_slot.turn(1 << 30):
            inside.release()
            go.wait(20)
            done.append(1)

    waiting = [threading.Thread(target=decode) for _ in range(3)]
    for item in waiting:
        item.start()
    assert inside.acquire(timeout=10)
    time.sleep(0.2)
    with pytest.raises(hub.errors.UnavailableError, match="one at a time"), decode_slot.turn(1 << 30):
        pass
    with decode_slot.turn(1000):
        assert not inside.acquire(blocking=False)
    go.set()
    for item in waiting:
        item.join()
    assert len(done) == 3
    with decode_slot.turn(1 << 30):
        pass


@pytest.mark.parametrize(
    ("own", "host", "status"),
    [("::ffff:127.0.0.2", "127.0.0.2", 200), ("fe80::1", "[fe80::1]:80", 200), ("fe80::1", "[fe80::1]evil.example", 421),
     ("10.0.0.1", "10.0.0.1:9", 200), ("10.0.0.1", "10.0.0.2", 421)],
)  # fmt: skip
def test_the_address_that_a_connection_came_to_is_ours(own, host, status):
    said = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        said.append(message)

    scope = {"type": "http", "path": "/token/", "raw_path": b"/token/", "query_string": b"", "method": "GET",
             "headers": [(b"host", host.encode())], "server": (own, 80)}  # fmt: skip
    # The browser's tests have a loop of their own on this thread.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, Guard(app, "token", hosts=["other"])(scope, None, send)).result()
    assert said[0]["status"] == status
