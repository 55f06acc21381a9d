"""Servers that ask to try later for seconds, or break off: each call goes on until its time is up, and not longer."""

import http.server
import pickle
import subprocess
import sys
import threading
import time
import uuid

import numpy as np
import pytest

import hubarray as hub
from hubarray.storage.base import PIECE_BYTES, ObjectInfo
from hubarray.storage.memory import MemoryStore
from hubarray.storage.patience import unanswered
from hubarray.storage.s3_filesystem import S3FilesystemStore
from hubarray.storage.url import open_store
from tests.servers import free_port

BUSY_SECONDS = 1.5
BUSY = ["503 SlowDown", 500, 502, 429, "400 RequestTimeout"]
NOISE = np.random.default_rng(0).bytes(3 * PIECE_BYTES)


@pytest.fixture
def store(s3_server, proxy, engine):
    root = hub.Root(
        f"{s3_server.url}/{uuid.uuid4().hex}", storage_options=s3_server.options | {"endpoint_url": proxy.endpoint}
    )
    proxy.plan = lambda method, path: None
    made = S3FilesystemStore(root.url, root._options) if engine == "s3fs" else open_store(root)
    made.put("some/key", NOISE)
    yield made
    proxy.plan = lambda method, path: None


def busy(proxy, fault, seconds=BUSY_SECONDS):
    """Have every request fail for some seconds."""
    end = time.monotonic() + seconds
    proxy.failed.clear()
    proxy.plan = lambda method, path: fault if time.monotonic() < end else None


CALLS = {
    "get": lambda store: bytes(store.get("some/key")) == NOISE,
    "a range": lambda store: bytes(store.get("some/key", 5, 7)) == NOISE[5:12],
    "pieces": lambda store: b"".join(store.pieces("some/key", 0, len(NOISE))) == NOISE,
    "put": lambda store: store.put("other", b"x") is None and bytes(store.get("other")) == b"x",
    "create": lambda store: store.put_if_absent("new", b"x") and bytes(store.get("new")) == b"x",
    "head": lambda store: store.head("some/key").size_bytes == len(NOISE),
    "list": lambda store: [item.key for item in store.list("some/")] == ["some/key"],
    "shallow list": lambda store: [item.key for item in store.list("", shallow=True)] == ["some/"],
    "delete": lambda store: store.delete(["some/key"]) is None and not list(store.list("")),
}


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_busy_for_a_while_costs_that_while(proxy, store, call, engine):
    busy(proxy, "503 SlowDown")
    began = time.monotonic()
    assert CALLS[call](store)
    assert proxy.failed, "the fault was not met"
    assert time.monotonic() - began < BUSY_SECONDS + 8


@pytest.mark.parametrize("engine", ["obstore"])
@pytest.mark.parametrize("fault", BUSY, ids=str)
def test_whatever_asks_to_try_later_is_tried_later(proxy, store, fault, engine):
    busy(proxy, fault, 0.7)
    assert CALLS["get"](store)
    busy(proxy, fault, 0.7)
    assert CALLS["create"](store)
    assert proxy.failed


@pytest.mark.parametrize("engine", ["obstore"])
def test_the_time_that_is_allowed_ends_it(proxy, store, engine):
    store.retry_timeout_seconds = 0.0
    busy(proxy, "400 RequestTimeout", 3600)
    began = time.monotonic()
    with pytest.raises(hub.errors.UnavailableError, match="RequestTimeout") as caught:
        store.get("some/key")
    assert type(caught.value) is hub.errors.UnavailableError
    alone = time.monotonic() - began
    store.retry_timeout_seconds = 2.0
    began = time.monotonic()
    with pytest.raises(hub.errors.UnavailableError):
        store.get("some/key")
    assert 0.5 < time.monotonic() - began < 2.5 + 2 * alone


@pytest.mark.parametrize("engine", ["obstore"])
def test_a_range_that_breaks_off_again_and_again_arrives_once(proxy, store, engine):
    left = iter(["cut"] * 4)
    proxy.plan = lambda method, path: next(left, None) if method == "GET" else None
    assert b"".join(store.pieces("some/key", 0, len(NOISE))) == NOISE


def test_settings_and_roots_say_how_long(monkeypatch, tmp_path):
    assert hub.Root("s3://bkt/x").store.retry_timeout_seconds is None
    assert hub.Root("s3://bkt/x", retry_timeout_seconds=3).store.retry_timeout_seconds == 3
    assert hub.Root("s3://bkt/x", retry_timeout_seconds=3).below("y").store.retry_timeout_seconds == 3
    assert hub.Root("s3://bkt/x", retry_timeout_seconds=3) != hub.Root("s3://bkt/x")
    monkeypatch.setenv("HUBARRAY_RETRY_TIMEOUT_SECONDS", "7.5")
    assert hub.config.current().retry_timeout_seconds == 7.5
    for wrong in ("soon", -1, float("nan"), True):
        with pytest.raises(hub.errors.ConfigError, match="retry_timeout_seconds: expected a number of seconds"):
            hub.Root("s3://bkt/x", retry_timeout_seconds=wrong)


class Web:
    """A folder behind a web server that fails for some seconds."""

    def __init__(self, folder, answer, headers=None):
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *given):
                super().__init__(*given, directory=str(folder))

            def do_GET(self):
                outer.asked.append(time.monotonic())
                if time.monotonic() < outer.end:
                    self.send_response(answer)
                    for name, value in (headers or {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    super().do_GET()

            do_HEAD = do_GET  # noqa: N815 - the server's name for it

            def log_message(self, *given):
                pass

        self.end, self.asked = 0.0, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def test_a_web_server_says_itself_how_long_to_wait(tmp_path):
    (tmp_path / "key").write_bytes(b"here")
    web = Web(tmp_path, 503, {"Retry-After": "2"})
    store = open_store(hub.Root(web.url))
    web.end = time.monotonic() + 1.0
    assert bytes(store.get("key")) == b"here"
    assert web.asked[1] - web.asked[0] >= 2.0
    store.retry_timeout_seconds = 1.0
    web.end = time.monotonic() + 60
    began = time.monotonic()
    with pytest.raises(hub.errors.UnavailableError, match="503"):
        store.get("key")
    assert time.monotonic() - began < 1.5, "two seconds would be too late"
    web.server.shutdown()


@pytest.mark.parametrize("text", ["soon", "-1", "1e99", "99999999999999", "\u0661", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_nonsense_about_the_wait_is_no_wait(tmp_path, text):
    (tmp_path / "key").write_bytes(b"here")
    web = Web(tmp_path, 429, {"Retry-After": text.encode("ascii", "replace").decode()})
    web.end = time.monotonic() + 0.3
    began = time.monotonic()
    assert bytes(open_store(hub.Root(web.url)).get("key")) == b"here"
    assert time.monotonic() - began < 5
    web.server.shutdown()


def test_a_server_that_is_gone_for_seconds_and_comes_back_costs_these(tmp_path):
    (tmp_path / "key").write_bytes(b"here")
    port = free_port()
    program = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    started = []
    timer = threading.Timer(7.5, lambda: started.append(subprocess.Popen(program, stderr=subprocess.DEVNULL)))
    timer.start()
    try:
        assert bytes(open_store(hub.Root(f"http://127.0.0.1:{port}")).get("key")) == b"here"
    finally:
        timer.join()
        started[0].kill()
        started[0].wait()


def test_an_interrupted_wait_ends_at_once(tmp_path):
    web = Web(tmp_path, 503)
    web.end = time.monotonic() + 3600
    program = (
        "import _thread, threading, sys, hubarray as hub\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"store = hub.Root({web.url!r}).store\n"
        "ThreadPoolExecutor(1).submit(store.get, 'key')\n"
        "threading.Timer(1.5, _thread.interrupt_main).start()\n"
        "store.get('key')\n"
    )
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in ended.stderr
    # Python itself and its imports take some of it.
    assert time.monotonic() - began < 1.5 + 2 + 4
    web.server.shutdown()


class Breaking(MemoryStore):
    """A distant store whose listings break off once behind some keys."""

    remote = True
    breaks_after = 3

    def _list(self, prefix, shallow):
        for i, info in enumerate([ObjectInfo(f"k{i}", 1, None) for i in range(6)]):
            if i == self.breaks_after:
                self.breaks_after = None
                raise unanswered("here", "it broke off", is_alive=True)
            yield info


def test_a_listing_that_breaks_off_gives_each_key_once():
    assert [item.key for item in Breaking("memory://listed", {}).list("")] == [f"k{i}" for i in range(6)]


def test_a_listing_that_breaks_off_behind_more_keys_than_are_remembered_is_an_error(monkeypatch):
    monkeypatch.setattr("hubarray.storage.base._MAX_REMEMBERED_KEYS", 1)
    with pytest.raises(hub.errors.UnavailableError, match="it broke off"):
        list(Breaking("memory://listed", {}).list(""))


def test_an_error_of_a_worker_comes_back_whole():
    error = pickle.loads(pickle.dumps(unanswered("here", "nothing", is_alive=True)))
    assert isinstance(error, hub.errors.UnavailableError)
    assert "here" in str(error)
