"""Servers that are down, buckets that do not exist, credentials that are wrong."""

import concurrent.futures
import http.server
import logging
import socket
import threading
import time
import uuid
from datetime import timedelta

import pytest

import hubarray as hub
from hubarray.errors import ObjectMissingError
from hubarray.storage import objectstore
from hubarray.storage.gcs import GcsStore
from hubarray.storage.s3_filesystem import S3FilesystemStore
from hubarray.storage.url import open_store
from tests.proxy import faulty_proxy
from tests.servers import closed_port

SECRET = "wrongsecret-hunter2"


def _s3(server, engine, **changes):
    root = hub.Root(f"{server.url}/x", storage_options=server.options | changes)
    return S3FilesystemStore(root.url, root._options) if engine == "s3fs" else open_store(root)


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
def test_wrong_credentials_are_an_error_of_their_own_and_are_not_shown(s3_server, engine, caplog):
    caplog.set_level(logging.DEBUG, logger="hubarray")
    store = _s3(s3_server, engine, secret=SECRET)
    for call in (
        lambda: store.get("k"),
        lambda: store.put("k", b""),
        lambda: store.head("k"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(hub.errors.AccessDeniedError) as caught:
            call()
        assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in repr(store)
    assert "GET" in caplog.text


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ("400 ExpiredToken", "have expired"),
        ("400 InvalidToken", "session token"),
        ("403 InvalidAccessKeyId", "check storage_options"),
        ("400 AuthorizationHeaderMalformed", "region"),
        ("403 RequestTimeTooSkewed", "clock"),
        ("401 Unauthorized", "check storage_options"),
        ("403 AccessDenied", "check storage_options"),
    ],
)
def test_credentials_that_are_refused_are_told_apart_whatever_the_status(s3_server, engine, answer, advice):
    with faulty_proxy(s3_server.endpoint) as proxy:
        store = _s3(s3_server, engine, endpoint_url=proxy.endpoint)
        proxy.plan = lambda method, path: answer
        code = answer.split()[1]
        for call in (
            lambda: store.get("k"),
            lambda: store.get("k", 0, 1),
            lambda: store.put("k", b""),
            lambda: store.put_if_absent("k", b""),
            lambda: list(store.list("")),
            lambda: store.delete(["k"]),
        ):
            with pytest.raises(hub.errors.AccessDeniedError, match=rf"{code}.*: .*{advice}"):
                call()


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
def test_other_faults_of_a_request_are_not_taken_for_credentials(s3_server, engine):
    with faulty_proxy(s3_server.endpoint) as proxy:
        store = _s3(s3_server, engine, endpoint_url=proxy.endpoint)
        proxy.plan = lambda method, path: "400 InvalidArgument"
        with pytest.raises(hub.errors.StorageError) as caught:
            store.put("k", b"")
        assert not isinstance(caught.value, hub.errors.AccessDeniedError)


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
def test_a_missing_bucket_is_said_to_be_missing_on_s3(s3_server, engine):
    root = hub.Root("s3://no-such-bucket/x", storage_options=s3_server.options)
    store = S3FilesystemStore(root.url, root._options) if engine == "s3fs" else open_store(root)
    for call in (lambda: store.get("k"), lambda: list(store.list("", shallow=True))):
        with pytest.raises(hub.errors.StorageError, match="no such bucket"):
            call()


@pytest.mark.parametrize("engine", ["obstore", "s3fs"])
def test_a_bucket_that_was_just_used_is_asked_for_again_before_it_is_believed_to_be_gone(s3_server, engine):
    with faulty_proxy(s3_server.endpoint) as proxy:
        options = s3_server.options | {"endpoint_url": proxy.endpoint}
        root = hub.Root(f"{s3_server.url}/gone-{engine}", storage_options=options)
        # A forked child's store is the second.
        store = S3FilesystemStore(root.url, root._options) if engine == "s3fs" else open_store(root)
        answers = iter(["no bucket"] * 3)
        proxy.plan = lambda method, path: next(answers, None)
        with pytest.raises(hub.errors.StorageError, match="no such bucket"):
            store.put_if_absent("new", b"1")
        assert len(proxy.failed) == 1, "of one that was never used it is believed at once"
        answers = iter(())
        assert store.put_if_absent("a", b"2")
        for call in (
            lambda: store.put("b", b"3"),
            lambda: store.put_if_absent("c", b"4"),
            lambda: store.get("a"),
            lambda: store.head("a"),
            lambda: list(store.list("")),
            lambda: list(store.list("", shallow=True)),
        ):
            answers = iter(["no bucket"] * 2)
            call()
            assert next(answers, None) is None, "it was asked twice in vain"
        answers = iter(["no bucket"] * 2)
        assert [item.key for item in store.list("")] == ["a", "b", "c"]
        assert [bytes(store.get(key)) for key in "abc"] == [b"2", b"3", b"4"]
        answers = iter(["no bucket"] * 2)
        with pytest.raises(ObjectMissingError):
            store.head("none")
        proxy.plan = lambda method, path: "no bucket"
        for call in (store.get, store.head):
            with pytest.raises(hub.errors.StorageError, match="no such bucket"):
                call("a")


def test_a_missing_bucket_is_said_to_be_missing_on_gcs(gcs_server):
    store = open_store(hub.Root("gs://no-such-bucket/x", storage_options=gcs_server.options))
    with pytest.raises(hub.errors.StorageError, match="no such bucket"):
        list(store.list("", shallow=True))


def _failure(engine, endpoint):
    """How a read fails on an endpoint, and after how many seconds."""
    options = {"key": "k", "secret": "s", "endpoint_url": endpoint}
    if engine == "gcsfs":
        store = GcsStore("gs://bkt/x", {"token": "anon", "endpoint_url": endpoint})
    elif engine == "s3fs":
        store = S3FilesystemStore("s3://bkt/x", options)
    else:
        store = open_store(hub.Root("s3://bkt/x", storage_options=options))
    began = time.monotonic()
    with pytest.raises(hub.errors.UnavailableError) as caught:
        store.get("some/key")
    return str(caught.value), time.monotonic() - began


def test_servers_that_are_down_or_never_answer_are_named_within_thirty_seconds():
    with closed_port() as port, socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        down = f"http://127.0.0.1:{port}"
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}"
        cases = [(engine, endpoint) for engine in ("obstore", "s3fs", "gcsfs") for endpoint in (down, silent)]
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            failures = list(pool.map(lambda case: _failure(*case), cases))
    for (engine, endpoint), (message, seconds) in zip(cases, failures, strict=True):
        assert "some/key" in message
        assert endpoint in message, engine
        assert seconds < 30, engine


@pytest.fixture
def down():
    with closed_port() as port:
        yield f"http://127.0.0.1:{port}"


def test_arrays_on_a_server_that_is_down_fail_in_time_and_by_name(down):
    root = hub.Root("s3://bkt/x", storage_options={"key": "k", "secret": SECRET, "endpoint_url": down})
    for call in (
        lambda: hub.load("t/x:v0", root=root),
        lambda: hub.array(3, "t/x:v0", root=root),
        lambda: hub.list(root=root),
    ):
        began = time.monotonic()
        with pytest.raises(hub.errors.UnavailableError, match=down) as caught:
            call()
        assert time.monotonic() - began < 30
        assert SECRET not in str(caught.value)


def test_whoever_waits_for_a_silent_server_fails_with_the_first_and_not_after_it(s3_server, monkeypatch):
    monkeypatch.setattr("hubarray.blobs.in_flight.FETCH_PATIENCE_SECONDS", 0.5)
    monkeypatch.setitem(objectstore._CLIENT, "read_timeout", "1s")
    monkeypatch.setitem(objectstore._RETRY, "retry_timeout", timedelta(seconds=2))
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
    with faulty_proxy(s3_server.endpoint) as proxy:
        options = s3_server.options | {"endpoint_url": proxy.endpoint}
        root = hub.Root(f"{s3_server.url}/{uuid.uuid4().hex}", storage_options=options)
        array = hub.array((50, 3000), "t/x:v0", "i4", chunks=(1, 3000), root=root)
        array[...] = 1
        array = array.snapshot()
        proxy.plan = lambda method, path: "stall"

        def failure(call):
            began = time.monotonic()
            with pytest.raises(hub.errors.UnavailableError):
                call()
            return time.monotonic() - began

        alone = failure(lambda: root.store.get("x"))
        calls = [
            lambda: hub.load("t/x:v0", root=root),
            *[lambda: array[9]] * 4,
            lambda: array[5:20],
            lambda: array[...],
        ]
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            assert max(pool.map(failure, calls)) < 1.5 * alone


def test_an_option_that_cannot_be_honoured_is_refused_by_name():
    with pytest.raises(hub.errors.ConfigError, match="acceleration"):
        open_store(hub.Root("s3://bkt", storage_options={"acceleration": True}))
    with pytest.raises(hub.errors.ConfigError, match="verify"):
        open_store(hub.Root("s3://bkt", storage_options={"client_kwargs": {"verify": False}}))


def test_credentials_come_from_a_profile_in_the_shared_file(s3_server, tmp_path, monkeypatch):
    file = tmp_path / "credentials"
    file.write_text(
        "[mine]\naws_access_key_id = testkey\naws_secret_access_key = testsecret\n"
        "[other]\naws_access_key_id = testkey\naws_secret_access_key = wrong\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    endpoint = {"endpoint_url": s3_server.endpoint}
    open_store(hub.Root(s3_server.url, storage_options={"profile": "mine"} | endpoint)).put("by-profile", b"1")
    with pytest.raises(hub.errors.AccessDeniedError):
        open_store(hub.Root(s3_server.url, storage_options={"profile": "other"} | endpoint)).put("by-profile", b"1")
    with pytest.raises(hub.errors.ConfigError, match="nobody"):
        open_store(hub.Root(s3_server.url, storage_options={"profile": "nobody"} | endpoint))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert bytes(open_store(hub.Root(s3_server.url, storage_options=endpoint)).get("by-profile")) == b"1"


def test_credentials_and_endpoint_come_from_the_environment(s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testkey")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    store = open_store(hub.Root(f"{s3_server.url}/env"))
    store.put("x", b"1")
    assert bytes(store.get("x")) == b"1"


def test_no_credentials_at_all_is_an_error_that_says_what_to_do(s3_server, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store(hub.Root(s3_server.url, storage_options={"endpoint_url": s3_server.endpoint}))
    with pytest.raises(hub.errors.AccessDeniedError, match="storage_options"):
        store.get("x")


def test_anonymous_access_is_tried_when_asked_for(s3_server):
    options = {"anon": True, "endpoint_url": s3_server.endpoint}
    with pytest.raises(hub.errors.AccessDeniedError):
        open_store(hub.Root(s3_server.url, storage_options=options)).get("x")


@pytest.mark.parametrize(
    "options",
    [
        {"key": "K\n", "secret": "s"},
        {"key": "k", "secret": 5},
        {"key": "k", "secret": "s", "token": "t t"},
        {"key": "k", "secret": "s", "endpoint_url": "nonsense"},
        {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9000\n"},
        {"key": "k", "secret": "s", "region": ""},
    ],
    ids=str,
)
def test_options_that_cannot_be_sent_are_refused_before_they_crash_something(options):
    with pytest.raises(hub.errors.ConfigError, match="storage_options"):
        hub.load("t/x", root=hub.Root("s3://bkt/x", storage_options=options))


def test_credentials_in_an_endpoint_are_refused_and_not_shown():
    with pytest.raises(hub.errors.ConfigError) as caught:
        hub.Root("s3://bkt/x", storage_options={"endpoint_url": f"http://user:{SECRET}@127.0.0.1:9000"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://b_k t/h", "s3:///x", "s3://", "gs://-x/y", "nonsense://x/y"])
def test_a_url_that_is_no_root_is_refused(url):
    with pytest.raises(hub.errors.ConfigError):
        hub.load("t/x", root=url)


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(hub.errors.StorageError, match="/proc/x"):
        hub.array(3, "t/x", root="/proc/x")


class Portal(http.server.BaseHTTPRequestHandler):
    """A network's page to log in, sent for whatever is asked for."""

    page = b"<html><body><h1>Welcome to the hotel</h1></body></html>"
    status = 200

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.page)

    def do_HEAD(self):
        self.do_GET()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("status", [200, 407, 511])
def test_a_page_to_log_in_is_no_empty_bucket(status):
    hub.configure(retry_timeout_seconds=0)
    handler = type("Portal", (Portal,), {"status": status})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {"key": "k", "secret": "s", "endpoint_url": f"http://127.0.0.1:{server.server_port}"}
    root = hub.Root("s3://bkt/hub", storage_options=options)
    try:
        for call in (
            lambda: hub.list(root=root),
            lambda: hub.list("lab", root=root),
            lambda: list(root.store.list("lab/")),
            lambda: hub.load("lab/x:v1", root=root),
        ):
            with pytest.raises(hub.errors.UnavailableError):
                call()
    finally:
        server.shutdown()
        server.server_close()


def test_why_a_server_cannot_be_reached_is_said(down):
    hub.configure(retry_timeout_seconds=0)
    for endpoint, reason in ((down, "Connection refused"), ("http://nowhere.invalid:1", "lookup|resolve|not known")):
        root = hub.Root("s3://bkt/x", storage_options={"key": "k", "secret": SECRET, "endpoint_url": endpoint})
        with pytest.raises(hub.errors.UnavailableError, match=reason) as caught:
            root.store.get("k")
        assert "retries" not in str(caught.value)
