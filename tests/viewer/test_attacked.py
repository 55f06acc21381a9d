"""What an attacker of the viewer once got through with, and no longer does."""

import ast
import os
import socket
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.interop.pictures import colours, recognition
from hubarray.viewer import connections
from hubarray.viewer.expressions import clauses_of
from tests.viewer.conftest import api, get, resident_bytes
from tests.viewer.test_answers import ask, refused


def test_what_is_asked_under_a_tag_follows_the_tag(viewer, root):
    a = hub.array(4, "t/x:v1", "i8", root=root)
    a[:] = 5
    a[:] = 9
    hub.tag("t/x:v1@2", "best", root=root)
    given = {"name": "t/x:v1@best", "x": 0, "at": "0"}
    assert ask(viewer, "values", **given)["rows"] == [["5"]]
    assert "immutable" not in get(api(viewer, "values", **given)).headers["cache-control"]
    hub.untag("t/x:v1", "best", root=root)
    hub.tag("t/x:v1@3", "best", root=root)
    assert ask(viewer, "values", **given)["rows"] == [["9"]]


def test_what_cannot_be_drawn_is_refused_before_it_is_read(viewer, root):
    hub.array(1 << 20, "t/x:v1", "S20000", chunks=1 << 14, root=root)
    before, began = resident_bytes(), time.perf_counter()
    for page in ("line", "window", "picture"):
        assert "no colours" in refused(viewer, page, name="t/x:v1", x=0, at="0", level=0, row=0, column=0)
    assert time.perf_counter() - began < 5
    assert resident_bytes() - before < 200 << 20


@pytest.mark.parametrize(
    ("shape", "chunks"), [((1 << 20, 64, 64), (1, 64, 64)), ((1 << 62,), (1 << 10,)), ((1 << 31, 1 << 31), (1, 1))]
)
def test_a_curve_touches_a_bounded_number_of_chunks(viewer, root, shape, chunks):
    hub.array(shape, "t/x:v1", "u1", chunks=chunks, root=root)
    began = time.perf_counter()
    found = ask(viewer, "line", name="t/x:v1", x=0, at=",".join("0" for _ in shape))
    assert len(found["x"]) <= 2048
    assert time.perf_counter() - began < 5


def test_values_that_lie_in_too_many_chunks_are_refused(viewer, root):
    hub.array((512, 512), "t/x:v1", "u1", chunks=(1, 512), root=root)
    hub.array((4096, 1 << 20), "t/y:v1", "u1", chunks=(1, 1 << 20), root=root)
    assert ask(viewer, "values", name="t/x:v1", y=0, x=1, at="0,0", rows=64, columns=4)["rows"]
    assert "too much to read" in refused(viewer, "values", name="t/y:v1", y=0, x=1, at="0,0", rows=512, columns=1)


def test_backticks_in_text_are_text_and_no_name_is_taken_for_another():
    assert clauses_of('side == "a`b`c"') == [[("side", "==", "a`b`c")]]
    assert clauses_of("quoted0 > 90 and `a b` >= 0") == [[("quoted0", ">", 90), ("a b", ">=", 0)]]
    assert clauses_of(r"""x == 'it\'s `so`'""") == [[("x", "==", "it's `so`")]]


def test_an_image_of_a_row_is_thinned_before_it_is_coloured(monkeypatch):
    seen = []
    monkeypatch.setattr(
        colours, "coloured", lambda values, *rest: seen.append(values.size) or np.zeros((*values.shape, 3), "u1")
    )
    recognition.small_pixels(np.zeros((8000, 8000), "u2"), 96)
    assert seen[0] < 500 * 500


@pytest.mark.parametrize(
    "values",
    [10**18 + np.arange(2500), np.array([-1.7e308, 1.7e308]), np.array([5, 5]), np.array([1.0, np.nan])],
    ids=str,
)
def test_every_histogram_counts_what_there_is(values):
    counts, low, high = colours.histogram(values)
    assert sum(counts) == np.isfinite(values).sum()
    assert low <= high


def test_times_that_are_missing_are_no_numbers():
    found = colours.real_values(np.array(["2026-01-01", "NaT"], "M8[D]"), "abs")
    assert np.isnan(found).tolist() == [False, True]


def test_a_path_without_a_slash_and_two_origins_are_refused_without_a_trace(viewer, capfd):
    for request in (b"OPTIONS * HTTP/1.1", b"GET foo HTTP/1.1"):
        with socket.create_connection(("127.0.0.1", viewer.port), timeout=10) as connection:
            connection.sendall(request + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert connection.recv(4096).split()[1] in (b"400", b"403", b"405")
    path = viewer.url.split(str(viewer.port))[1]
    ours = f"http://127.0.0.1:{viewer.port}"
    with socket.create_connection(("127.0.0.1", viewer.port), timeout=10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{viewer.port}\r\nOrigin: {ours}\r\nOrigin: https://evil.example\r\n"
                           "Connection: close\r\n\r\n".encode())  # fmt: skip
        assert connection.recv(4096).split()[1] == b"400"
    assert get(viewer.url, Host="127.0.0.1:1@evil.example").status == 421
    assert get(viewer.url, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert get(viewer.url, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_connections_that_ask_for_nothing_are_ended_and_the_server_goes_on(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 50)
    with hub.view(root=root, open_browser=False) as viewer:
        idle = [socket.create_connection(("127.0.0.1", viewer.port), timeout=5) for _ in range(80)]
        for one in idle:
            one.sendall(b"GET / HTTP/1.1\r\nHo") if one is not idle[-1] else None
        time.sleep(1.5)
        assert get(viewer.url).status == 200
        for one in idle:
            one.close()


def test_who_does_not_read_holds_a_slot_and_not_the_server(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    a = hub.array(32 << 20, "t/x:v1", "u1", chunks=32 << 20, codec="none", root=root)
    a[:] = np.random.default_rng(0).integers(0, 255, 32 << 20, "u1")
    with hub.view(root=root, open_browser=False) as viewer:
        path = viewer.url.split(str(viewer.port))[1]
        get(f"{viewer.url}zarr/t/x/v1/c/0", Range="bytes=0-1")
        before = resident_bytes()
        waiting = [socket.create_connection(("127.0.0.1", viewer.port), timeout=5) for _ in range(30)]
        for one in waiting:
            one.sendall(f"GET {path}zarr/t/x/v1/c/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(2)
        assert resident_bytes() - before < 20 * (32 << 20)
        assert get(viewer.url).status == 200
        for one in waiting:
            one.close()


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
    for one in (done, told, tell):
        os.close(one)
    os.waitpid(child, 0)


def test_a_dataset_of_many_arrays_is_told_by_parts(viewer, root):
    ds = hub.dataset({f"a{i}": hub.ArraySpec((0, 3), dims=("s", None)) for i in range(100)}, "t/ds:v1", root=root)
    ds.append({f"a{i}": np.ones((2, 3)) for i in range(100)})
    found = ask(viewer, "sample", name="t/ds:v1", row=1)
    assert (len(found["values"]), found["total"]) == (48, 100)
    assert len(ask(viewer, "sample", name="t/ds:v1", row=1, first=96)["values"]) == 4


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
    for one in threads:
        one.start()
    time.sleep(0.5)
    began = time.perf_counter()
    assert ask(viewer, "facts", name="t/x:v1")["commit"] >= 1
    assert time.perf_counter() - began < 5
    gate.set()
    for one in threads:
        one.join()


def run_line(line):
    """What a line of Python that a page shows gives, where nothing is there but what people have."""
    *before, last = ast.parse(line).body
    names = {"hub": hub, "np": np}
    exec(compile(ast.Module(before, []), "line", "exec"), names)
    return eval(compile(ast.Expression(last.value), "line", "eval"), names)


def test_null_and_typed_filters_say_what_they_want(viewer, root):
    schema = hub.Schema(
        {
            "t": hub.Field("M8[us]", index=True),
            "n": hub.Field("i8", index=True, nullable=True),
            "s": hub.Field(str, index=True),
        }
    )
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        for i in range(10):
            p.append(
                {
                    "t": np.datetime64("2026-01-01", "us") + np.timedelta64(i, "D"),
                    "n": None if i % 2 else i,
                    "s": "ab"[i % 2],
                }
            )
    assert ask(viewer, "rows", name="t/rows:v1", filter="t > '2026-01-06'")["total"] == 4
    assert ask(viewer, "rows", name="t/rows:v1", filter="n is None")["total"] == 5
    assert ask(viewer, "rows", name="t/rows:v1", filter="n is not None and s == 'a' or t < '2026-01-03'")["total"] == 6
    assert "is a number" in refused(viewer, "rows", name="t/rows:v1", filter="n > 'a'")
    assert "is text" in refused(viewer, "rows", name="t/rows:v1", filter="s > 3")
    assert "is a time" in refused(viewer, "rows", name="t/rows:v1", filter="t > 'soon'")
    for text, count in (
        ("t > '2026-01-06' and n is not None", 2),
        ("n is None or s in ['a']", 10),
        ("t < '2026-01-03'", 2),
    ):
        found = ask(viewer, "rows", name="t/rows:v1", filter=text)
        assert found["total"] == count
        # The line that is there to copy gives the same rows.
        hub.configure(root=root.url)
        assert len(run_line(found["line"])) == count
    line = ask(viewer, "rows", name="t/rows:v1", filter="n > 3", sort="t", down=1)["line"]
    assert (
        line
        == "hub.row_loader(hub.read_index(\"t/rows:v1@1\", filters=[[('n', '>', 3)]]).sort_values('t', ascending=False, kind='stable'))"
    )


@pytest.mark.parametrize("options", [{"name": "t/none:v1"}, {"name": "t/x:v1", "key": "zz"}, {"name": "t/x:v1@77"}, {"key": "a"},
                                     {"name": "t/words:v1", "with_": "neuroglancer"}, {"allow_origins": ["*"]}], ids=str)  # fmt: skip
def test_what_no_page_could_show_is_refused_before_a_server_starts(root, options):
    hub.array(3, "t/x:v1", root=root)
    hub.array(3, "t/words:v1", str, root=root)
    with pytest.raises(hub.HubError):
        hub.view(root=root, open_browser=False, **options)
