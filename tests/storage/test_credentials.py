"""Credentials that a function supplies: asked for again before they expire, in every process, and kept nowhere."""

import base64
import copy
import functools
import http.server
import pickle
import re
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.storage.credentials import RenewingStore
from hubarray.storage.memory import MemoryStore
from hubarray.storage.refusals import refused
from tests.proxy import faulty_proxy
from tests.servers import ACCESS_KEY, SECRET_KEY

TOKEN_SECONDS = 3.0


def issue(calls, lasts=TOKEN_SECONDS, tells=True, fails_after=None):
    """Keys of a few seconds. SeaweedFS takes no tokens of others, so the region, which is signed, says their age."""
    with calls.open("a") as file:
        file.write("x")
    if fails_after is not None and calls.stat().st_size > fails_after:
        raise RuntimeError(f"no more of {SECRET_KEY}")
    now = time.time()
    options = {"key": ACCESS_KEY, "secret": SECRET_KEY, "region": f"at-{now * 1000:.0f}"}
    return options, datetime.fromtimestamp(now + lasts, UTC) if tells else None


def is_expired(head):
    issued = re.search(rb"Credential=[^/]+/\d+/at-([0-9]+)/", head)
    assert issued, "a request is not signed with a key of the test"
    return "400 ExpiredToken" if time.time() > int(issued.group(1)) / 1000 + TOKEN_SECONDS else None


@pytest.fixture(scope="module")
def proxy(s3_server):
    with faulty_proxy(s3_server.endpoint) as proxy:
        proxy.check_head = is_expired
        yield proxy


@pytest.fixture
def calls(tmp_path):
    return tmp_path / "calls"


@pytest.fixture
def make(s3_server, proxy, calls):
    proxy.failed.clear()
    url = f"{s3_server.url}/{uuid.uuid4().hex}"

    def made(**changes):
        credentials = functools.partial(issue, calls, **changes)
        return hub.Root(url, storage_options={"endpoint_url": proxy.endpoint}, credentials=credentials)

    return made


def number_of(calls):
    return calls.stat().st_size


def test_keys_of_three_seconds_are_renewed_before_they_expire(make, proxy, calls):
    root = make()
    array = hub.array(40, "t/x:v1", "i8", chunks=4, root=root)
    end = time.monotonic() + 3 * TOKEN_SECONDS
    while time.monotonic() < end:
        i = np.random.default_rng(0).integers(40)
        array[i] = i
        assert hub.load("t/x:v1", root=root)[i] == i
    assert not proxy.failed, "a request was made with a key that had expired"
    assert 4 <= number_of(calls) <= 12


def test_keys_that_expire_without_notice_are_renewed_when_the_server_says_so(make, proxy, calls):
    root = make(tells=False)
    array = hub.array(40, "t/x:v1", "i8", chunks=4, root=root)
    for _ in range(2):
        time.sleep(TOKEN_SECONDS + 0.2)
        with ThreadPoolExecutor(8) as pool:
            assert len(list(pool.map(lambda i: hub.load("t/x:v1", root=root)[i], range(8)))) == 8
        array[0] += 1
    assert proxy.failed
    assert number_of(calls) == 3


@pytest.mark.parametrize(("pool", "tells"), [("thread", False), ("process", True)])
def test_four_workers_outlive_their_first_keys(make, calls, pool, tells):
    root = make(tells=tells)
    hub.store(np.arange(240), "t/x:v1", chunks=4, root=root)

    def slowly(row):
        time.sleep(0.1)
        return row

    spec = hub.TransformSpec(slowly)
    with hub.make_reader("t/x:v1", root=root, workers_count=4, reader_pool_type=pool, transform_spec=spec) as reader:
        result = sorted(int(next(iter(row))) for row in reader)
    assert result == list(range(240))
    assert number_of(calls) >= (6 if pool == "process" else 2)


def test_many_threads_ask_once(make, calls):
    root = make(lasts=3600)
    hub.array(40, "t/x:v1", root=root)
    store = make(lasts=3600).store
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: store.head("t/x/log/v1/0000000000000001.json"), range(64)))
    assert number_of(calls) == 2


def test_a_function_that_fails_is_asked_again_while_its_last_keys_are_valid(make, proxy, calls, caplog):
    store = make(fails_after=1).store
    store.put("k", b"1")
    time.sleep(0.6 * TOKEN_SECONDS)
    assert bytes(store.get("k")) == b"1"
    assert "RuntimeError" in caplog.text
    assert SECRET_KEY not in caplog.text
    time.sleep(0.5 * TOKEN_SECONDS)
    with pytest.raises(hub.errors.UnavailableError, match=r"credentials\(\) raised RuntimeError") as caught:
        store.get("k")
    assert SECRET_KEY not in str(caught.value)


def test_keys_that_are_refused_again_and_again_are_an_error(make, proxy, calls, monkeypatch):
    monkeypatch.setattr(proxy, "check_head", lambda head: "400 ExpiredToken")
    store = make().store
    for call in (
        lambda: store.get("k"),
        lambda: store.put("k", b"1"),
        lambda: list(store.list("")),
        lambda: list(store.pieces("k", 0, 9)),
    ):
        calls.unlink(missing_ok=True)
        with pytest.raises(hub.errors.AccessDeniedError, match=r"credentials\(\) returned these keys just now"):
            call()
        assert number_of(calls) == 3


def test_a_listing_that_outlives_its_keys_gives_each_entry_once(monkeypatch):
    # A real listing outlives its keys after thousands of entries.
    class Expiring(MemoryStore):
        remote = True
        made = 0

        def __init__(self, url, options):
            super().__init__(url, {})
            Expiring.made += 1
            self.fails = Expiring.made == 1

        def _list(self, prefix, shallow):
            for n, info in enumerate(super()._list(prefix, shallow)):
                if self.fails and n == 3:
                    raise refused("memory://", 400, "ExpiredToken")
                yield info

    url = f"memory://{uuid.uuid4().hex}"
    for n in range(7):
        MemoryStore(url, {}).put(f"a/{n}", b"x")
    store = RenewingStore(url, Expiring, functools.partial(Expiring, url), lambda: ({"key": "k"}, None), {})
    assert sorted(info.key for info in store.list("a/")) == [f"a/{n}" for n in range(7)]
    assert Expiring.made == 2


def test_headers_of_a_web_server_are_renewed(tmp_path, calls):
    hub.store(np.arange(9), "t/x:v1", root=tmp_path / "root")
    hub.flush()

    class Guarded(http.server.SimpleHTTPRequestHandler):
        def send_head(self):
            if self.headers.get("X-Lab") != "ours":
                self.send_error(404)
            elif time.time() < float(base64.b64decode(self.headers.get("Authorization", "MA=="))) + 1:
                return super().send_head()
            else:
                self.send_error(401)
            return None

        def log_message(self, *args):
            pass

    handler = functools.partial(Guarded, directory=str(tmp_path / "root"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def credentials():
        with calls.open("a") as file:
            file.write("x")
        return {"headers": {"Authorization": base64.b64encode(str(time.time()).encode()).decode()}}, None

    root = hub.Root(
        f"http://127.0.0.1:{server.server_port}",
        storage_options={"headers": {"X-Lab": "ours"}},
        credentials=credentials,
    )
    array = hub.load("t/x:v1", root=root)
    time.sleep(1.2)
    assert array[...].tolist() == list(range(9))
    server.shutdown()
    server.server_close()
    assert number_of(calls) == 2


WRONG = {
    "not a function": ({"key": "k"}, "must be a function"),
    "no tuple": (lambda: {"key": "k"}, r"must return a tuple"),
    "no mapping": (lambda: ("k", None), r"must return a tuple"),
    "no options": (lambda: ({}, None), "returned no options"),
    "naive": (lambda: ({"key": "k", "secret": "s"}, datetime(2100, 1, 1)), "with a time zone"),
    "a number": (lambda: ({"key": "k", "secret": "s"}, 3600), "with a time zone"),
    "expired": (lambda: ({"key": "k", "secret": "s"}, datetime(2020, 1, 1, tzinfo=UTC)), "expired at 2020-01-01"),
    "names of boto": (lambda: ({"AccessKeyId": "k"}, None), "'AccessKeyId' is not supported"),
    "a number for a key": (lambda: ({"key": 1, "secret": "s"}, None), "'key' is not text"),
    "another place": (lambda: ({"key": "k", "endpoint_url": "http://x"}, None), "belongs in storage_options"),
    "raises": (lambda: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_function_that_returns_something_else_is_refused(case):
    credentials, complaint = WRONG[case]
    with pytest.raises(hub.HubError, match=complaint):
        hub.load("t/x:v1", root=hub.Root("s3://bkt/x", credentials=credentials))


@pytest.mark.parametrize(
    ("url", "options", "complaint"),
    [
        ("s3://bkt/x", {"key": "k", "secret": "s"}, "pass one of them"),
        ("/tmp/x", {}, "is for s3"),
        ("memory://x", {}, "is for s3"),
        ("abfs://c/x", {}, "is for s3"),
    ],
)
def test_a_root_that_has_no_use_for_it_is_refused(url, options, complaint):
    with pytest.raises(hub.errors.ConfigError, match=complaint):
        hub.Root(url, storage_options=options, credentials=lambda: ({"key": "k"}, None))


@pytest.mark.parametrize("send", [pickle.dumps, cloudpickle.dumps])
def test_a_root_travels_with_its_function_and_is_one_root_there(send):
    root = hub.Root("s3://bkt/x", credentials=lambda: ({"anon": True}, datetime.now(UTC) + timedelta(hours=1)))
    there, again = (pickle.loads(send(root)) for _ in range(2))
    assert there == again
    assert hash(there) == hash(again)
    assert there.store is again.store
    assert pickle.loads(pickle.dumps(there)) == there
    assert there._options_now() == {"anon": True}
    assert copy.copy(root)._options_now() == {"anon": True}
    assert there.below("y")._options_now() == {"anon": True}


def test_a_function_that_cannot_travel_is_refused_by_name():
    lock = threading.Lock()

    def my_session():
        with lock:
            return {"anon": True}, None

    root = hub.Root("s3://bkt/x", credentials=my_session)
    with pytest.raises(hub.errors.ConfigError, match="my_session cannot be sent to another process"):
        pickle.dumps(root)


def test_nothing_of_it_is_shown_or_written(make, isolated, calls, caplog):
    caplog.set_level("DEBUG", logger="hubarray")
    root = make(lasts=3600)
    hub.store(np.arange(400), "t/x:v1", chunks=4, root=root)
    hub.tag("t/x:v1", "paper", root=root)
    assert hub.load("t/x:v1@paper", root=root)[...].sum() == 79800
    assert SECRET_KEY not in repr(root) + repr(root.store) + caplog.text
    files = [path for path in isolated.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET_KEY.encode() in path.read_bytes()]


def test_files_are_imported_with_the_keys_of_now(make, proxy, calls, tmp_path):
    root = make()
    np.save(tmp_path / "x.npy", np.arange(9))
    root.store.put("x.npy", Path(tmp_path / "x.npy").read_bytes())
    time.sleep(TOKEN_SECONDS + 0.2)
    assert hub.import_(root.below("x.npy"), "t/x:v1")[...].tolist() == list(range(9))


def test_without_a_network_what_is_cached_opens_though_the_function_fails(make, calls):
    root = make()
    hub.store(np.arange(9), "t/x:v1", root=root)
    hub.tag("t/x:v1", "paper", root=root)
    fetch._shared._memory.clear()
    assert hub.load("t/x:v1@paper", root=root)[...].sum() == 36
    fetch._shared._memory.clear()
    offline = make(fails_after=0)
    assert hub.load("t/x:v1@paper", root=offline)[...].sum() == 36
    with pytest.raises(hub.errors.UnavailableError, match="t/x:v1@paper"):
        hub.load("t/x:v1", root=offline)
