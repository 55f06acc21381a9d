"""Folders, servers and the disk cache of somebody else's: nothing outside the root, nothing endless, nothing foreign."""

import os
import socket
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.blobs.disk_cache import DiskCache
from hubarray.history.log import version as versions
from hubarray.storage.http import HttpStore
from tests import servers
from tests.hostile.forge import small_array
from tests.storage.test_contract import ENGINES, store_of

LEADING_OUT = ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "a/..", "", "a/", "a\\b", "a\nb", "a\0b"]


@pytest.fixture(params=[*ENGINES, "http"])
def store(request, make_root, tmp_path):
    if request.param == "http":
        return HttpStore("http://127.0.0.1:9", {})
    return store_of(request.param, make_root)


@pytest.mark.parametrize("key", LEADING_OUT, ids=repr)
def test_every_engine_refuses_keys_that_could_lead_out_of_the_root(store, key):
    for use in (
        lambda: store.get(key),
        lambda: store.get(key, 0, 5),
        lambda: list(store.pieces(key, 0, 5)),
        lambda: store.read_into(key, 0, memoryview(bytearray(5))),
        lambda: store.head(key),
        lambda: store.put(key, b"x"),
        lambda: store.put_if_absent(key, b"x"),
        lambda: store.delete([key]),
        lambda: list(store.list(f"{key}/")),
    ):
        with pytest.raises(
            (hub.errors.StorageError, hub.errors.ReadOnlyError), match=r"is not a valid key|can only be read"
        ):
            use()


@pytest.fixture
def beside(root, tmp_path):
    """A root, and a folder outside of it with something in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_bytes(b"precious")
    root.store.put("lab/x/packs/1", b"own")
    return root.store, tmp_path / "outside"


def test_links_that_lead_out_of_a_folder_are_refused_by_every_verb(beside):
    store, outside = beside
    (store.folder / "lab" / "x" / "out").symlink_to(outside)
    (store.folder / "lab" / "x" / "packs" / "2").symlink_to(outside / "victim")
    for key in ("lab/x/out/victim", "lab/x/packs/2"):
        for use in (
            lambda key=key: store.get(key),
            lambda key=key: store.get(key, 0, 3),
            lambda key=key: store.read_into(key, 0, memoryview(bytearray(3))),
            lambda key=key: store.head(key),
        ):
            with pytest.raises(hub.errors.StorageError, match="leads out of the root"):
                use()
    for use in (
        lambda: store.put("lab/x/out/new", b"x"),
        lambda: store.put("lab/x/out/deep/new", b"x"),
        lambda: store.put_if_absent("lab/x/out/new", b"x"),
        lambda: store.delete(["lab/x/out/victim"]),
        lambda: list(store.list("lab/x/out/")),
        lambda: list(store.leftovers("lab/x/out/")),
    ):
        with pytest.raises(hub.errors.StorageError, match="leads out of the root"):
            use()
    store.put("lab/x/packs/2", b"replaces the link", atomic=True)
    assert sorted(info.key for info in store.list("")) == ["lab/x/packs/1", "lab/x/packs/2"]
    assert [info.key for info in store.list("lab/x/", shallow=True)] == ["lab/x/packs/"]
    assert (outside / "victim").read_bytes() == b"precious"
    assert [path.name for path in outside.iterdir()] == ["victim"]


def test_a_file_that_is_written_in_place_is_not_written_through_a_link(beside):
    store, outside = beside
    (store.folder / "lab" / "x" / "packs" / "2").symlink_to(outside / "victim")
    with pytest.raises(hub.errors.StorageError):
        store.put("lab/x/packs/2", b"x", atomic=False)
    assert (outside / "victim").read_bytes() == b"precious"


def test_links_within_a_root_and_a_root_that_is_a_link_work(beside, tmp_path):
    store, _ = beside
    (store.folder / "lab" / "y").symlink_to(store.folder / "lab" / "x")
    (store.folder / "lab" / "x" / "packs" / "2").symlink_to("1")
    (tmp_path / "link").symlink_to(store.folder)
    for item in (store, hub.Root(tmp_path / "link").store):
        assert bytes(item.get("lab/y/packs/1")) == b"own"
        assert bytes(item.get("lab/x/packs/2", 1, 2)) == b"wn"
        assert item.head("lab/x/packs/2").size_bytes == 3
        item.put("lab/y/packs/3", b"x")
        assert "lab/y/packs/3" in {info.key for info in item.list("lab/y/")}


def test_what_is_no_file_neither_blocks_nor_is_listed(root):
    small_array(root)
    os.unlink(root.store.folder / "t/x/log/v0/head.json")
    os.mkfifo(root.store.folder / "t/x/log/v0/head.json")
    began = time.monotonic()
    with pytest.raises(hub.errors.StorageError, match=r"head\.json: is not a regular file"):
        hub.load("t/x:v0", root=root)
    assert time.monotonic() - began < 5
    assert "t/x/log/v0/head.json" not in {info.key for info in root.store.list("t/x/")}
    hub.array(3, "t/healthy", root=root)
    assert hub.list(root=root) == ["t/healthy:main", "t/x:v0"]


def _serving(reply):
    """A server that answers every request with the same bytes; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def answer(client):
        try:
            client.recv(1 << 16)
            for piece in reply():
                client.sendall(piece)
        except OSError:
            pass
        finally:
            client.close()

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def _endless(head):
    def reply():
        yield head
        while True:
            yield b"10000\r\n" + b"x" * 65536 + b"\r\n"

    return reply


def _lying():
    yield (
        b'HTTP/1.1 206 Partial Content\r\nETag: "a"\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n'
        b"Content-Range: bytes 0-4096/100000000000\r\nContent-Length: 100000000000\r\n\r\n"
    )
    while True:
        yield b"x" * 65536


def _plain(text):
    return lambda: iter([text])


REPLIES = {
    "a body without end": _endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a range without end": _endless(
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4096/100000000000\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "a length that is a lie": _lying,
    "another host": _plain(
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest?token=x\r\nContent-Length: 0\r\n"
        b"Connection: close\r\n\r\n"
    ),
    "round and round": _plain(
        b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ),
    "yes to everything": _plain(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n"
        b"Connection: close\r\n\r\nabc"
    ),
    "a compressed bomb": _plain(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    ),
}


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_server_gets_neither_memory_nor_time_nor_other_hosts(reply, scheme):
    import tracemalloc

    listener, address = _serving(REPLIES[reply])
    root = hub.Root(address, retry_timeout_seconds=1)
    if scheme == "s3":
        options = {"key": "a", "secret": "b", "endpoint_url": address}
        root = hub.Root("s3://bkt/x", storage_options=options, retry_timeout_seconds=1)
    tracemalloc.start()
    for use in (lambda: hub.load("t/x:v0", root=root), lambda: hub.load("t/x:v0@3", root=root)):
        began = time.monotonic()
        with pytest.raises(hub.HubError) as caught:
            use()
        assert time.monotonic() - began < 20
        assert "token=x" not in str(caught.value)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    listener.close()


def test_a_listing_page_leads_nowhere_else(tmp_path, root):
    small_array(root)
    links = [
        "/etc/passwd",
        "http://elsewhere/x/",
        "a%2Fb/",
        "..%2f..%2fup/",
        "?C=N;O=D",
        "t/",
        "./",
        "x\\y",
    ]
    page = "".join(f"<a href='{link}'>x</a>" for link in links)
    (root.store.folder / "index.html").write_text(page)
    with servers.static_http(root.store.folder) as url:
        store = hub.Root(url).store
        assert [info.key for info in store.list("", shallow=True)] == ["t/"]
        assert "t/x/log/v0/head.json" in {info.key for info in store.list("")}
        assert hub.list(root=url) == ["t/x:v0"]


def _kept(folder, **how):
    folder.mkdir(parents=True, **how)
    return folder


def test_a_cache_folder_of_another_user_or_open_to_others_is_not_used(tmp_path, caplog):
    cases = {"foreign": lambda path: os.chown(path, 12345, 12345), "open": lambda path: os.chmod(path, 0o777)}
    for name, spoil in cases.items():
        cache = DiskCache(tmp_path / name, 1 << 20)
        cache.put("key", b"value")
        assert cache.get("key") == b"value"
        spoil(tmp_path / name / "v1")
        caplog.clear()
        again = DiskCache(tmp_path / name, 1 << 20)
        for _ in range(3):
            assert again.get("key") is None
            again.put("other", b"value")
            assert not again.has("key")
        assert caplog.text.count("cannot be written") == 1
        assert "others may write to it" in caplog.text
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "v1").symlink_to(_kept(tmp_path / "elsewhere", mode=0o700))
    linked = DiskCache(tmp_path / "link", 1 << 20)
    linked.put("key", b"value")
    assert linked.get("key") is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_of_others_and_links_in_the_cache_are_not_read(tmp_path):
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    cache.put("key", b"value")
    path = cache.path("key")
    os.chown(path, 12345, 12345)
    assert cache.get("key") is None
    os.unlink(path)
    (tmp_path / "victim").write_bytes(b"precious")
    os.symlink(tmp_path / "victim", path)
    assert cache.get("key") is None
    os.unlink(path)
    os.mkfifo(path)
    assert cache.get("key") is None


def _as_a_new_process():
    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    versions._versions._versions.clear()


def test_offline_the_newest_line_of_a_version_that_was_frozen_twice_is_read(make_root, monkeypatch):
    root = make_root("s3")
    for value in (1, 2):
        array = hub.array(3, "t/x:v0", "i8", root=root)
        array[...] = value
        hub.freeze("t/x:v0", root=root)
        _as_a_new_process()
        assert hub.load("t/x:v0", root=root)[...].tolist() == [value] * 3
        if value == 1:
            hub.delete("t/x:v0", root=root)
    _as_a_new_process()

    def unreachable(*_, **__):
        raise hub.errors.UnavailableError("the network is gone")

    for verb in ("_get", "_head", "_pieces"):
        monkeypatch.setattr(type(root.store), verb, unreachable)
    assert hub.load("t/x:v0", root=root)[...].tolist() == [2, 2, 2]


def test_offline_a_version_that_was_deleted_after_it_was_frozen_is_not_there(make_root, monkeypatch):
    root = make_root("s3")
    hub.array(3, "t/x:v0", "i8", root=root)[...] = np.arange(3)
    hub.freeze("t/x:v0", root=root)
    _as_a_new_process()
    hub.load("t/x:v0", root=root)[...]
    hub.delete("t/x:v0", root=root)
    _as_a_new_process()
    with pytest.raises(hub.errors.NotFoundError):
        hub.load("t/x:v0", root=root)
    monkeypatch.setattr(type(root.store), "_get", lambda *_: (_ for _ in ()).throw(hub.errors.UnavailableError("gone")))
    monkeypatch.setattr(
        type(root.store), "_head", lambda *_: (_ for _ in ()).throw(hub.errors.UnavailableError("gone"))
    )
    with pytest.raises(hub.errors.UnavailableError):
        hub.load("t/x:v0", root=root)


def test_a_server_that_does_not_list_is_not_said_to_hold_nothing(root):
    import http.server
    import threading

    hub.array(3, "t/x:v0", root=root)
    hub.flush()

    class Unlisted(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(root.store.folder))

        def list_directory(self, path):
            self.send_error(404)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unlisted) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert hub.load("t/x:v0", root=url).shape == (3,)
        with pytest.raises(hub.errors.StorageError, match="does not list its folders"):
            hub.list(root=url)
        server.shutdown()
