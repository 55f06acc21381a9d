"""What a second attacker, and a user, of the viewer got through with, and no longer do."""

import asyncio
import concurrent.futures
import json
import shutil
import socket
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.interop.pictures import colours, recognition
from hubarray.viewer import connections, decode_slot, table_pages
from hubarray.viewer.guard import Guard
from tests.viewer.conftest import api, get
from tests.viewer.test_answers import ask, image, refused
from tests.viewer.test_attacked import run_line


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
        for one in held:
            one.sendall(b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"403" in one.recv(4096)
            one.sendall(begun)
        assert all(is_ended(one, 10) for one in held)
        for one in held:
            one.close()


def test_drops_of_a_request_win_no_time(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    with (
        hub.view(root=root, open_browser=False) as viewer,
        socket.create_connection(("127.0.0.1", viewer.port), timeout=5) as one,
    ):
        ended = False
        for letter in b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1":
            time.sleep(0.15)
            try:
                one.sendall(bytes([letter]))
            except ConnectionError:
                ended = True
                break
        assert ended or is_ended(one, 0.5)


def test_who_takes_no_answer_is_left_on_every_page(root, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    hub.store(np.array([["x" * 2000] * 64] * 64), "t/x:v1", root=root)
    with hub.view(root=root, open_browser=False) as viewer:
        path = api(viewer, "values", name="t/x:v1", y=0, x=1, at="0,0", rows=64, columns=64).split(str(viewer.port))[1]
        held = []
        for _ in range(20):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", viewer.port))
            one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            held.append(one)
        began = time.perf_counter()
        assert ask(viewer, "facts", name="t/x:v1")["commit"] == 1
        assert time.perf_counter() - began < 10
        time.sleep(4)
        assert all(is_ended(one, 5) for one in held)


def test_large_pieces_take_turns_and_few_wait_for_theirs():
    inside, go, done = threading.Semaphore(0), threading.Event(), []

    def decode():
        with decode_slot.turn(1 << 30):
            inside.release()
            go.wait(20)
            done.append(1)

    waiting = [threading.Thread(target=decode) for _ in range(3)]
    for one in waiting:
        one.start()
    assert inside.acquire(timeout=10)
    time.sleep(0.2)
    with pytest.raises(hub.errors.UnavailableError, match="one at a time"), decode_slot.turn(1 << 30):
        pass
    with decode_slot.turn(1000):
        assert not inside.acquire(blocking=False)
    go.set()
    for one in waiting:
        one.join()
    assert len(done) == 3
    with decode_slot.turn(1 << 30):
        pass


@pytest.mark.parametrize("bands", ["0,400,800", "0,400,801", "899,1,-1", "5,5,5"])
def test_channels_that_lie_far_apart_are_those_that_were_asked_for(viewer, root, bands):
    values = np.random.default_rng(0).integers(0, 255, (96, 80, 900), "u1")
    hub.store(values, "t/x:v1", chunks=(32, 32, 1), root=root)
    found = image(viewer, "picture", name="t/x:v1", y=0, x=1, c=2, bands=bands, at="0,0,0", level=0, row=0, column=0,
                  low=0, high=255)  # fmt: skip
    for colour, band in enumerate(map(int, bands.split(","))):
        np.testing.assert_array_equal(found[..., colour], values[..., band] if band >= 0 else 0)


def test_a_row_of_colours_is_one_and_a_colour_that_is_not_there_is_dark(viewer, root):
    values = np.arange(50 * 8, dtype="i2").reshape(8, 50) - 100
    hub.store(values, "t/x:v1", root=root)
    found = image(viewer, "picture", name="t/x:v1", y=-1, x=1, c=0, bands="5,6,-1", at="0,0", level=0, row=0, column=0,
                  low=-100, high=300)  # fmt: skip
    assert found.shape == (1, 50, 3)
    assert (found[..., 2] == 0).all()
    np.testing.assert_array_equal(found[0, :, 0], np.rint((values[5] + 100.0) * 255 / 400).astype("u1"))


@pytest.mark.parametrize(
    ("values", "page", "given"),
    [
        (np.array([[0, 5e-324]] * 4), "window", {}),
        (np.array([[-1e308, 1e308]] * 4), "window", {}),
        (np.array([[-1.7e308, 1.7e308]] * 4), "picture", {"low": -1.7e308, "high": 1.7e308}),
        (np.array([[0, 5e-324]] * 4), "picture", {"low": 0, "high": 5e-324}),
        (np.zeros((0, 4)), "line", {"y": -1}),
        (np.zeros((4, 4)), "sample", {"row": 0}),
        (np.zeros((4, 4)), "changes", {"one": "t/x:v1", "two": "t/x:v1", "key": "zz"}),
    ],
    ids=str,
)
def test_the_ends_of_numbers_and_pages_of_other_kinds_are_no_failures(viewer, root, capfd, values, page, given):
    hub.store(values, "t/x:v1", root=root)
    asked = {"name": "t/x:v1", "y": 0, "x": 1, "at": "0,0", "level": 0, "row": 0, "column": 0} | given
    answer = get(api(viewer, page, **asked))
    assert answer.status in (200, 400, 404), answer.body
    assert "Traceback" not in capfd.readouterr().err
    if page == "window":
        assert sum(json.loads(answer.body)["counts"]) == values.size
        assert np.isfinite(json.loads(answer.body)["shown"]).all()


@pytest.mark.parametrize("text", ["n is None or n > 99999999999999999999999", "s == '\\ud800' and n is not None",
                                  "partition in [1, 'a'] and n is not None"])  # fmt: skip
def test_filters_that_no_field_could_pass_say_so(viewer, root, text):
    schema = hub.Schema({"n": hub.Field("i8", index=True, nullable=True), "s": hub.Field(str, index=True)})
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        p.append({"n": None, "s": "a"})
    answer = get(api(viewer, "rows", name="t/rows:v1", filter=text))
    assert answer.status in (200, 400), answer.body


def test_a_version_that_was_wiped_and_made_again_is_the_new_one(tmp_path):
    root = hub.Root(str(tmp_path / "root"))
    a = hub.array((8, 8), "t/x:v1", "i4", root=root)
    a[:] = 1
    with hub.view(root=root, open_browser=False) as viewer:
        given = {"name": "t/x:v1@2", "y": 0, "x": 1, "at": "0,0"}
        one = ask(viewer, "facts", name="t/x:v1")["line_id"]
        assert ask(viewer, "values", line_id=one, **given)["rows"] == [["1"]]
        shutil.rmtree(tmp_path / "root" / "t")
        hub.array((4, 4), "t/x:v1", "i4", root=root)[:] = 9
        two = ask(viewer, "facts", name="t/x:v1")["line_id"]
        assert two != one
        assert ask(viewer, "array", line_id=two, **given)["shape"] == [4, 4]
        assert ask(viewer, "values", line_id=two, **given)["rows"] == [["9"]]


def test_lists_that_go_on_are_not_kept(viewer, root):
    hub.array(3, "t/x:v1", root=root)
    for page in ("home", "log", "facts"):
        answer = get(api(viewer, page, name="t/x:v1@1"))
        assert "immutable" not in answer.headers["cache-control"], page
    hub.array(3, "t/y:v1", root=root)
    assert len(ask(viewer, "home", name="t/x:v1@1")["names"]) == 2


def test_of_a_row_and_a_sample_what_is_broken_says_so_and_the_rest_is_there(viewer, root):
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
    ds = hub.dataset({"a": hub.ArraySpec((4, 400), "u1", dims=("s", None), codec="none"),
                      "b": hub.ArraySpec(4, "i4", dims=("s",))}, "t/ds:v1", root=root)  # fmt: skip
    ds["b"][:] = [1, 2, 3, 4]
    ds["a"][:] = np.random.default_rng(0).integers(0, 255, (4, 400), "u1")
    pack = max(root.store.list("t/ds/packs/"), key=lambda one: one.size_bytes).key
    damage(root, pack)
    values = {one["name"]: one for one in ask(viewer, "sample", name="t/ds:v1", row=0)["values"]}
    assert (values["a"]["is"], values["b"]["text"]) == ("broken", 1)
    assert pack in values["a"]["text"]
    schema = hub.Schema(
        {"t": hub.Field("i4", index=True), "h.x": hub.Field("u1", (5000,)), "g.y": hub.Field("f4", (9,))}
    )
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        p.append({"t": 7, "h.x": np.random.default_rng(0).integers(0, 255, 5000, "u1"), "g.y": np.ones(9, "f4")})
    pack = max(root.store.list("t/rows/packs/"), key=lambda one: one.size_bytes).key
    damage(root, pack, at=2500)
    values = {one["name"]: one for one in ask(viewer, "row", name="t/rows:v1", row=0)["values"]}
    assert values["h.x"]["is"] == "broken"
    assert (values["t"]["text"], values["g.y"]["is"]) == (7, "curves")
    # What is broken today may be there tomorrow.
    answer = get(api(viewer, "row", name="t/rows:v1@1", row=0))
    assert "immutable" not in answer.headers["cache-control"]
    assert "immutable" in get(api(viewer, "cell", name="t/rows:v1@1", row=0, field="t")).headers["cache-control"]


def damage(root, key, at=10):
    data = bytearray(root.store.get(key))
    data[at] ^= 255
    root.store.delete([key])
    root.store.put(key, bytes(data))


def test_rows_of_what_is_small_on_average_are_listed_without_the_few_that_are_large(viewer, root, monkeypatch):
    monkeypatch.setattr(table_pages, "_MAX_LISTED_BYTES", 1 << 20)
    schema, rng = (
        hub.Schema({"t": hub.Field("i4", index=True), "v": hub.Field("u1", (None,))}),
        np.random.default_rng(0),
    )
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        for i in range(2000):
            p.append({"t": i, "v": rng.integers(0, 255, 3 << 20 if i == 70 else 3, "u1")})
    assert next(one for one in ask(viewer, "table", name="t/rows:v1")["fields"] if one["name"] == "v")["light"]
    first, second = (ask(viewer, "rows", name="t/rows:v1", first=at) for at in (0, 50))
    assert (first["large"], "v" in first["rows"][0]) == ([], True)
    assert (second["large"], "v" in second["rows"][0], second["rows"][20]["t"]) == (["v"], False, 70)
    assert "3145728" in ask(viewer, "cell", name="t/rows:v1", row=70, field="v")["value"]


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


def test_images_are_thinned_by_their_longer_side_and_points_too_far_away_are_nowhere():
    assert recognition.small_pixels(np.zeros((2040, 40_800), "u2"), 1024).shape[1] <= 2200
    assert recognition.small_pixels(np.zeros((8000, 8000), bool), 2048).size <= 3 * (4 << 20)
    points = np.full((40, 3), 1e300)
    points[:3] = 1
    assert len(recognition.cloud(points, 1000)) == 3


@pytest.mark.parametrize(
    ("values", "window"), [([0, 1], (0, 1)), ([0, 7], (0, 7)), ([3, 3], (3, 4)), ([0, 200], (0, 255))]
)
def test_masks_and_numbers_of_classes_are_seen(viewer, root, values, window):
    array = np.array(values * 32, "u1").reshape(8, 8)
    assert colours.window_of(array, is_byte=True) == window
    hub.store(array, "t/x:v1", root=root)
    assert tuple(ask(viewer, "window", name="t/x:v1", y=0, x=1, at="0,0")["shown"]) == window
    if values == [0, 200]:
        assert ask(viewer, "window", name="t/x:v1", y=0, x=1, at="0,0", fit=1)["shown"][1] == 200


def test_a_curve_of_two_million_elements_keeps_its_peaks(viewer, root):
    values = np.random.default_rng(0).normal(0, 0.1, 2_500_000).astype("f4")
    values[1_234_567] = 9
    hub.store(values, "t/x:v1", root=root)
    found = ask(viewer, "line", name="t/x:v1", y=-1, x=0, at="0")
    assert (max(found["curves"]["value"]), found["step"], len(found["x"]) <= 2002) == (9, 1, True)
    assert found["x"] == sorted(found["x"])
    found = ask(viewer, "line", name="t/x:v1", y=-1, x=0, at="0", first=1_000_000, end=1_500_000)
    assert max(found["curves"]["value"]) == 9


def test_the_map_of_very_many_chunks_has_each_that_is_written(viewer, root):
    a = hub.array((3, 1 << 20, 1 << 20), "t/x:v1", "u1", chunks=(1, 256, 256), root=root)
    rng = np.random.default_rng(0)
    a[1, 1000:1500, 2000:2800] = rng.integers(1, 255, (500, 800), "u1")
    a[1, 900_000:900_300, 700_000:700_500] = rng.integers(1, 255, (300, 500), "u1")
    a[2, 0, 0] = 1
    found = ask(viewer, "chunks", name="t/x:v1", y=1, x=2, at="1,0,0")
    cells = {(y, x) for y, row in enumerate(found["rows"]) for x, length in enumerate(row) if length}
    assert (found["steps"], found["written"], found["partial"]) == ([16, 16], 3 * 4 + 2 * 3, False)
    assert cells == {(0, 0), (219, 170), (219, 171)}


def test_the_line_of_sorted_rows_gives_them_in_the_order_of_the_page(viewer, root):
    schema = hub.Schema({"t": hub.Field("i8", index=True), "k": hub.Field("i4", index=True)})
    with hub.table_writer("t/rows:v1", schema, root=root) as w:
        for partition in ("b", "a"):
            with w.partition(partition) as p:
                for i in range(60):
                    p.append({"t": i + 100 * (partition == "a"), "k": i % 7})
    hub.configure(root=root.url)
    for down in (0, 1):
        found = ask(viewer, "rows", name="t/rows:v1", sort="k", down=down, count=120)
        rows = run_line(found["line"]).get_batch(range(120), ["t"])
        assert [one["t"] for one in rows] == [one["t"] for one in found["rows"]]


def test_what_changed_in_a_dataset_is_told_line_by_line(viewer, root):
    ds = hub.dataset({"a": hub.ArraySpec(4), "b": hub.ArraySpec(4)}, "t/ds:v1", root=root)
    with ds.transaction() as t:
        t["a"][0] = t["b"][1] = 1
    assert len(ask(viewer, "changes", one="t/ds:v1@1", two="t/ds:v1@2")["text"].splitlines()) == 2


def test_the_first_place_that_differs_is_found(viewer, root):
    a = hub.array((4, 64, 64), "t/x:v1", "f4", chunks=(4, 64, 64), root=root)
    a[:] = 1
    a[2, 5, 7] = 3
    a.append(np.ones((2, 64, 64)))
    given = {"one": "t/x:v1@2", "two": "t/x:v1@3"}
    (region,) = ask(viewer, "changes", **given)["regions"]
    flat = ",".join(str(one) for part in region for one in part)
    assert ask(viewer, "first-difference", region=flat, **given)["at"] == [2, 5, 7]
    grown = {"one": "t/x:v1@3", "two": "t/x:v1@4"}
    assert ask(viewer, "first-difference", region="4,6,0,64,0,64", **grown)["at"] == [4, 0, 0]
    assert refused(viewer, "first-difference", region="1,2", **given)
