"""Pages and their errors: what is read for a page is bounded, and what is shown is what there is."""

import ast
import json
import shutil
import socket
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.interop.pictures import colours, recognition
from hubarray.viewer import table_pages
from hubarray.viewer.expressions import clauses_of
from tests.viewer.conftest import api, get, resident_bytes
from tests.viewer.test_answers import ask, image, refused


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
    result = ask(viewer, "line", name="t/x:v1", x=0, at=",".join("0" for _ in shape))
    assert len(result["x"]) <= 2048
    assert time.perf_counter() - began < 5


def test_values_that_lie_in_too_many_chunks_are_refused(viewer, root):
    hub.array((512, 512), "t/x:v1", "u1", chunks=(1, 512), root=root)
    hub.array((4096, 1 << 20), "t/y:v1", "u1", chunks=(1, 1 << 20), root=root)
    assert ask(viewer, "values", name="t/x:v1", y=0, x=1, at="0,0", rows=64, columns=4)["rows"]
    assert "too many chunks to read" in refused(
        viewer, "values", name="t/y:v1", y=0, x=1, at="0,0", rows=512, columns=1
    )


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
    result = colours.real_values(np.array(["2026-01-01", "NaT"], "M8[D]"), "abs")
    assert np.isnan(result).tolist() == [False, True]


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


def test_a_dataset_of_many_arrays_is_told_by_parts(viewer, root):
    ds = hub.dataset({f"a{i}": hub.ArraySpec((0, 3), dims=("s", None)) for i in range(100)}, "t/ds:v1", root=root)
    ds.append({f"a{i}": np.ones((2, 3)) for i in range(100)})
    result = ask(viewer, "sample", name="t/ds:v1", row=1)
    assert (len(result["values"]), result["total"]) == (48, 100)
    assert len(ask(viewer, "sample", name="t/ds:v1", row=1, first=96)["values"]) == 4


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
        result = ask(viewer, "rows", name="t/rows:v1", filter=text)
        assert result["total"] == count
        # The line that is there to copy gives the same rows.
        hub.configure(root=root.url)
        assert len(run_line(result["line"])) == count
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


@pytest.mark.parametrize("bands", ["0,400,800", "0,400,801", "899,1,-1", "5,5,5"])
def test_channels_that_lie_far_apart_are_those_that_were_asked_for(viewer, root, bands):
    values = np.random.default_rng(0).integers(0, 255, (96, 80, 900), "u1")
    hub.store(values, "t/x:v1", chunks=(32, 32, 1), root=root)
    result = image(viewer, "picture", name="t/x:v1", y=0, x=1, c=2, bands=bands, at="0,0,0", level=0, row=0, column=0,
                  low=0, high=255)  # fmt: skip
    for colour, band in enumerate(map(int, bands.split(","))):
        np.testing.assert_array_equal(result[..., colour], values[..., band] if band >= 0 else 0)


def test_a_row_of_colours_is_one_and_a_colour_that_is_not_there_is_dark(viewer, root):
    values = np.arange(50 * 8, dtype="i2").reshape(8, 50) - 100
    hub.store(values, "t/x:v1", root=root)
    result = image(viewer, "picture", name="t/x:v1", y=-1, x=1, c=0, bands="5,6,-1", at="0,0", level=0, row=0, column=0,
                  low=-100, high=300)  # fmt: skip
    assert result.shape == (1, 50, 3)
    assert (result[..., 2] == 0).all()
    np.testing.assert_array_equal(result[0, :, 0], np.rint((values[5] + 100.0) * 255 / 400).astype("u1"))


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
        first = ask(viewer, "facts", name="t/x:v1")["line_id"]
        assert ask(viewer, "values", line_id=first, **given)["rows"] == [["1"]]
        shutil.rmtree(tmp_path / "root" / "t")
        hub.array((4, 4), "t/x:v1", "i4", root=root)[:] = 9
        second = ask(viewer, "facts", name="t/x:v1")["line_id"]
        assert second != first
        assert ask(viewer, "array", line_id=second, **given)["shape"] == [4, 4]
        assert ask(viewer, "values", line_id=second, **given)["rows"] == [["9"]]


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
    values = {item["name"]: item for item in ask(viewer, "sample", name="t/ds:v1", row=0)["values"]}
    assert (values["a"]["is"], values["b"]["text"]) == ("broken", 1)
    assert pack in values["a"]["text"]
    schema = hub.Schema(
        {"t": hub.Field("i4", index=True), "h.x": hub.Field("u1", (5000,)), "g.y": hub.Field("f4", (9,))}
    )
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        p.append({"t": 7, "h.x": np.random.default_rng(0).integers(0, 255, 5000, "u1"), "g.y": np.ones(9, "f4")})
    pack = max(root.store.list("t/rows/packs/"), key=lambda one: one.size_bytes).key
    damage(root, pack, at=2500)
    values = {item["name"]: item for item in ask(viewer, "row", name="t/rows:v1", row=0)["values"]}
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
    assert next(item for item in ask(viewer, "table", name="t/rows:v1")["fields"] if item["name"] == "v")["light"]
    first, second = (ask(viewer, "rows", name="t/rows:v1", first=at) for at in (0, 50))
    assert (first["large"], "v" in first["rows"][0]) == ([], True)
    assert (second["large"], "v" in second["rows"][0], second["rows"][20]["t"]) == (["v"], False, 70)
    assert "3145728" in ask(viewer, "cell", name="t/rows:v1", row=70, field="v")["value"]


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
    result = ask(viewer, "line", name="t/x:v1", y=-1, x=0, at="0")
    assert (max(result["curves"]["value"]), result["step"], len(result["x"]) <= 2002) == (9, 1, True)
    assert result["x"] == sorted(result["x"])
    result = ask(viewer, "line", name="t/x:v1", y=-1, x=0, at="0", first=1_000_000, end=1_500_000)
    assert max(result["curves"]["value"]) == 9


def test_the_map_of_very_many_chunks_has_each_that_is_written(viewer, root):
    a = hub.array((3, 1 << 20, 1 << 20), "t/x:v1", "u1", chunks=(1, 256, 256), root=root)
    rng = np.random.default_rng(0)
    a[1, 1000:1500, 2000:2800] = rng.integers(1, 255, (500, 800), "u1")
    a[1, 900_000:900_300, 700_000:700_500] = rng.integers(1, 255, (300, 500), "u1")
    a[2, 0, 0] = 1
    result = ask(viewer, "chunks", name="t/x:v1", y=1, x=2, at="1,0,0")
    cells = {(y, x) for y, row in enumerate(result["rows"]) for x, length in enumerate(row) if length}
    assert (result["steps"], result["written"], result["partial"]) == ([16, 16], 3 * 4 + 2 * 3, False)
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
        result = ask(viewer, "rows", name="t/rows:v1", sort="k", down=down, count=120)
        rows = run_line(result["line"]).get_batch(range(120), ["t"])
        assert [row["t"] for row in rows] == [item["t"] for item in result["rows"]]


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
    flat = ",".join(str(item) for part in region for item in part)
    assert ask(viewer, "first-difference", region=flat, **given)["at"] == [2, 5, 7]
    grown = {"one": "t/x:v1@3", "two": "t/x:v1@4"}
    assert ask(viewer, "first-difference", region="4,6,0,64,0,64", **grown)["at"] == [4, 0, 0]
    assert refused(viewer, "first-difference", region="1,2", **given)
