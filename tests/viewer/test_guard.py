"""Strangers are refused, whatever they send, and the server goes on."""

import concurrent.futures
import http.client
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

import hubarray as hub
from hubarray.viewer.app import PICTURES_AT_ONCE
from hubarray.viewer.guard import MAX_URL_BYTES
from tests.viewer.conftest import api, get, resident_bytes

ORIGIN = "https://neuroglancer-demo.appspot.com"
PAGES = [
    "home", "facts", "log", "changes", "array", "window", "picture", "values", "line", "chunks", "table", "rows", "row",
    "image", "points", "curve", "dataset", "sample", "sample-image", "sample-points",
]  # fmt: skip


def raw(viewer, text):
    """The status line that some bytes get."""
    with socket.create_connection(("127.0.0.1", viewer.port), timeout=10) as connection:
        connection.sendall(text)
        return connection.recv(4096).split(b"\r\n")[0].decode()


def test_the_right_address_is_answered_and_says_what_browsers_may_do(viewer):
    answer = get(viewer.url)
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert (answer.headers["x-content-type-options"], answer.headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert answer.headers["access-control-allow-origin"] is None
    assert "server" not in {name.lower() for name in answer.headers}


@pytest.mark.parametrize("path", ["", "wrong/", "wrong/api/home", "static/", "%00/", "../", "\u00e9/"])
def test_without_the_secret_nothing_is_said(viewer, path):
    base = f"http://127.0.0.1:{viewer.port}/"
    answer = get(base + urllib.parse.quote(path, safe="/%."))
    assert answer.status == 403
    assert b"secret" in answer.body


def test_part_of_the_secret_is_not_the_secret(viewer):
    secret = viewer.url.split("/")[3]
    for wrong in (secret[:-1], secret + "x", secret.swapcase()):
        assert get(viewer.url.replace(secret, wrong)).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "0.0.0.0", "[::2]", ""]
)
def test_a_name_that_was_bent_to_this_machine_is_refused(viewer, host):
    assert get(viewer.url, Host=host).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1", "LOCALHOST"])
def test_a_forwarded_port_is_welcome(viewer, host):
    assert get(viewer.url, Host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example", ORIGIN]
)
def test_pages_of_other_sites_are_refused(viewer, origin):
    assert get(api(viewer, "home"), Origin=origin).status == 403
    assert get(f"{viewer.url}zarr/a/b/v1/zarr.json", Origin=origin).status == 403


def test_a_named_origin_reads_zarr_and_nothing_else(root):
    hub.array(3, "t/x:v1", root=root)
    with hub.view(root=root, open_browser=False, allow_origins=[ORIGIN]) as viewer:
        answer = get(f"{viewer.url}zarr/t/x/v1/zarr.json", Origin=ORIGIN)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
        answer = get(api(viewer, "home"), Origin=ORIGIN)
        assert answer.headers["access-control-allow-origin"] is None
        preflight = {
            "Origin": ORIGIN,
            "Access_Control_Request_Method": "GET",
            "Access_Control_Request_Headers": "range",
        }
        for page, allowed in (("zarr/t/x/v1/c/0", ORIGIN), ("api/home", None)):
            request = urllib.request.Request(f"{viewer.url}{page}", method="OPTIONS",
                                             headers={name.replace("_", "-"): item for name, item in preflight.items()})  # fmt: skip
            try:
                answer = urllib.request.urlopen(request)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                assert answer.headers["access-control-allow-origin"] == allowed
                assert (answer.headers["access-control-allow-headers"] == "range") == (allowed is not None)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "WHAT"])
def test_nothing_can_be_changed(viewer, method):
    path = urllib.parse.urlsplit(viewer.url).path
    request = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert raw(viewer, request.encode()).split()[1] in ("405", "400")
    assert get(viewer.url).status == 200


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "..%2f..%2fetc/passwd", "vendor/../../app.py", "vendor/", "static/index.html", "app.py", "%2e%2e/app.py",
     "vendor/%00", "zarr/../../x", "zarr/a/b/c/../../zarr.json", "zarr/a/b/v1/c/../zarr.json", "zarr/", "zarr/a/b/v1/.hub"],
)  # fmt: skip
def test_tricks_with_paths_lead_nowhere(viewer, path):
    secret = urllib.parse.urlsplit(viewer.url).path
    line = raw(viewer, f"GET {secret}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert line.split()[1] in ("400", "403", "404")


def test_what_is_no_request_ends_nobody_but_itself(viewer):
    for junk in (
        b"\x00\xff" * 1000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET " + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ):
        raw(viewer, junk)
    assert get(viewer.url).status == 200


def test_a_long_address_is_refused(viewer):
    assert get(api(viewer, "home", prefix="x" * MAX_URL_BYTES)).status == 414


BAD = {
    "level": ["-1", "57", "9" * 30, "1.5", "x", "1e3", "\u0661"], "row": ["-1", "9" * 30, "0x10"], "column": ["-1", str(1 << 60)],
    "y": ["-2", "64", "7"], "x": ["99"], "c": ["1", "2"], "at": ["1", "0,0,0,0,0,0,0", "-1,0,0", "x,0,0", ",,", "0,0," + "9" * 25, "," * 100],
    "low": ["nan", "inf", "x"], "high": ["1e999"], "map": ["../x", "jet"], "part": ["x"], "coarse": ["2"], "key": ["x", "\x00"], "view": ["1", "0,0,0", "-1,2,3,4", "a,b,c,d"], "each": ["-2", "2", "99"],
    "rows": ["0", "100000"], "columns": ["513"], "first": ["-1"], "end": ["0", "9" * 18], "count": ["0", "1000000"], "side": ["1", "5000"],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_huge_negative_and_senseless_parameters_are_refused_in_a_moment(viewer, root, name):
    hub.store(np.zeros((4, 8, 8), "f4"), "t/x:v1", root=root)
    good = {"name": "t/x:v1", "y": 1, "x": 2, "at": "0,0,0", "level": 0, "row": 0, "column": 0}
    for value in BAD[name]:
        for page in ("picture", "window", "values", "line", "chunks"):
            answer = get(api(viewer, page, **{**good, name: value}))
            assert answer.status in (200, 400, 404), (page, value, answer.body)
            if answer.status == 200:
                # A parameter that this page does not take.
                assert page != "picture" or name in (
                    "key",
                    "view",
                    "each",
                    "rows",
                    "columns",
                    "first",
                    "end",
                    "count",
                    "side",
                    "at",
                )
    assert get(api(viewer, "picture", **good)).status == 200


@pytest.mark.parametrize(
    "name", ["", "x", "../x", "a/b:c@0", "a/b:v1@9", "<script>", "a/b:v1@" + "9" * 40, "\x00", "t/x:v1"]
)
def test_every_page_refuses_every_name_that_is_not_there(viewer, name):
    for page in PAGES:
        given = {"name": name, "one": name, "two": name, "field": "x", "row": 0, "column": 0, "level": 0}
        answer = get(api(viewer, page, **given))
        assert answer.status in (200, 400, 404, 422), (page, answer.body)
        assert answer.status != 200 or page in ("home", "changes")


def test_a_parameter_that_is_there_twice_is_refused(viewer):
    assert get(api(viewer, "home") + "prefix=a&prefix=b").status == 400


def test_two_hundred_requests_at_once_are_answered_and_memory_stays(viewer, root):
    # A picture of each takes a chunk of 64 MiB, decoded: all at once would be 13 GB.
    hub.array((200, 8192, 8192), "t/x:v1", "u1", chunks=(1, 8192, 8192), root=root)[::50, ::4096] = 1
    hub.configure(memory_cache_bytes=0, disk_cache_bytes=0)
    given = {"name": "t/x:v1@2", "y": 1, "x": 2, "level": 5, "row": 0, "column": 0, "low": 0, "high": 1}
    addresses = [api(viewer, "picture", at=f"{i % 4 * 50},0,0", **{**given, "high": i + 1}) for i in range(200)]
    before, most, done = resident_bytes(), [0], threading.Event()

    def watch():
        while not done.wait(0.01):
            most[0] = max(most[0], resident_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            answers = list(pool.map(get, addresses))
    finally:
        done.set()
        watching.join()
    assert {item.status for item in answers} <= {200, 503}
    assert sum(item.status == 200 for item in answers) > 100
    # As many at once as there are slots for pictures, with what is encoded and what is decoded.
    assert most[0] - before < (PICTURES_AT_ONCE + 2) * 2 * (64 << 20)
    assert get(viewer.url).status == 200


def test_another_host_than_loopback_is_asked_for_twice(root):
    with pytest.raises(hub.errors.ConfigError, match="allow_other_hosts"):
        hub.view(root=root, host="0.0.0.0", open_browser=False)
    with hub.view(root=root, host="0.0.0.0", allow_other_hosts=True, open_browser=False) as viewer:
        local = viewer.url.replace(urllib.parse.urlsplit(viewer.url).hostname, "127.0.0.1")
        assert get(local).status == 200
        assert get(local, Host="evil.example").status == 421
        # By the address that a connection came to, as from another machine; and by no other address.
        assert get(local.replace("127.0.0.1", "127.0.0.2")).status == 200
        assert get(local, Host="127.0.0.2").status == 421
        assert get(local, Host="10.1.2.3").status == 421
        assert get(f"http://127.0.0.1:{viewer.port}/x/").status == 403


def test_a_port_in_use_is_a_clear_error(viewer, root):
    with pytest.raises(hub.errors.ConfigError, match="cannot listen"):
        hub.view(root=root, port=viewer.port, open_browser=False)


def test_one_connection_is_answered_without_a_pause_between_answers(viewer):
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        connection.request("GET", f"{urllib.parse.urlsplit(viewer.url).path}lib.js")
        assert connection.getresponse().read()
        took.append(time.perf_counter() - begun)
    # A delayed ACK takes 40 ms, of all but the first answers.
    assert sorted(took)[5] < 0.03, took


def test_a_viewer_that_was_stopped_listens_no_more(root):
    with hub.view(root=root, open_browser=False) as viewer:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", viewer.port), timeout=5)


def test_every_start_has_its_own_secret(root):
    secrets = set()
    for _ in range(2):
        with hub.view(root=root, open_browser=False) as viewer:
            secrets.add(viewer.url.split("/")[3])
    assert len(secrets) == 2


def test_without_a_display_the_ssh_line_is_printed(root, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with hub.view(root=root) as viewer:
        said = capsys.readouterr().out
    assert viewer.url in said
    assert f"ssh -L {viewer.port}:127.0.0.1:{viewer.port}" in said
