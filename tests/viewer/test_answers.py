"""What the server says of arrays, tables, datasets and versions, without a browser."""

import io
import json

import numpy as np
import pytest
from PIL import Image

import hubarray as hub
from tests.viewer.conftest import api, get

SCHEMA = {
    "t": hub.Field("i8", index=True), "speed": hub.Field("f4", index=True), "side": hub.Field(str, index=True),
    "camera.image": hub.Field("u1", (None, None, 3), codec="png"), "lidar.points": hub.Field("f4", (None, 4)),
    "boxes": hub.Field("f4", (None, 4)), "note": hub.Field(str, nullable=True),
}  # fmt: skip


def ask(viewer, page, **given):
    answer = get(api(viewer, page, **given))
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def refused(viewer, page, **given):
    answer = get(api(viewer, page, **given))
    assert answer.status >= 400
    return json.loads(answer.body)["message"]


def image(viewer, page, **given):
    answer = get(api(viewer, page, **given))
    assert answer.status == 200, answer.body
    return np.asarray(Image.open(io.BytesIO(answer.body)))


@pytest.fixture
def drive(root, astronaut):
    with hub.table_writer("t/drive:v1", hub.Schema(SCHEMA), root=root) as w, w.partition("a") as p:
        for i in range(120):
            p.append({
                "t": i, "speed": np.float32(i / 10), "side": "left" if i % 2 else "right", "camera.image": astronaut[:48, :64],
                "lidar.points": np.full((100, 4), i, "f4"), "boxes": np.array([[1, 2, 30, 40]], "f4"), "note": None if i else "<b>",
            })  # fmt: skip
    return "t/drive:v1"


def test_home_lists_every_name_and_says_which_are_damaged(viewer, root):
    hub.array(3, "t/x:v1", root=root)
    hub.array(3, "t/y:v1", root=root)
    (key,) = [item.key for item in root.store.list("t/y/log/") if not item.key.endswith("head.json")]
    root.store.delete([key])
    root.store.put(key, b"junk")
    result = ask(viewer, "home")
    assert [item["name"] for item in result["names"]] == ["t/x:v1", "t/y:v1"]
    assert [bool(item["problem"]) for item in result["names"]] == [False, True]
    assert ask(viewer, "facts", name="t/x:v1")["shape"] == "(3,)"


def test_a_tile_has_the_very_pixels(viewer, root, astronaut):
    hub.store(astronaut, "t/x:v1", root=root, chunks=(100, 100, 3))
    given = {"name": "t/x:v1", "y": 0, "x": 1, "c": 2, "at": "0,0,0"}
    np.testing.assert_array_equal(image(viewer, "picture", level=0, row=1, column=1, **given), astronaut[256:, 256:])
    np.testing.assert_array_equal(image(viewer, "picture", level=1, row=0, column=0, **given), astronaut[::2, ::2])
    turned = image(viewer, "picture", **{**given, "y": 1, "x": 0}, level=0, row=0, column=1)
    np.testing.assert_array_equal(turned, astronaut.transpose(1, 0, 2)[:256, 256:])


@pytest.mark.parametrize("dtype", ["f4", "c8", "bool", "i8", "M8[s]", "f2", "u2"])
def test_numbers_of_every_kind_are_drawn_between_the_ends_of_the_window(viewer, root, dtype):
    values = np.arange(64).reshape(8, 8).astype(dtype)
    hub.store(values, "t/x:v1", root=root)
    result = image(
        viewer,
        "picture",
        name="t/x:v1",
        y=0,
        x=1,
        at="0,0",
        level=0,
        row=0,
        column=0,
        low=0,
        high=1 if dtype == "bool" else 63,
    )
    assert result[0, 0].tolist() == [0, 0, 0]
    assert result[7, 7].tolist() == [255, 255, 255]


def test_what_is_no_number_is_shown_as_such(viewer, root):
    values = np.array([[np.nan, 0.0], [1.0, np.inf]])
    hub.store(values, "t/x:v1", root=root)
    given = {"name": "t/x:v1", "y": 0, "x": 1, "at": "0,0"}
    result = image(viewer, "picture", level=0, row=0, column=0, low=0, high=1, **given)
    assert result[0, 0].tolist() == [255, 0, 255]
    assert ask(viewer, "values", rows=2, columns=2, **given)["rows"] == [["nan", "0"], ["1", "inf"]]
    assert ask(viewer, "line", name="t/x:v1", y=-1, x=1, at="0,0")["curves"]["value"] == [None, 0.0]


def test_a_chunk_that_is_broken_says_which_and_the_rest_is_shown(viewer, root):
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
    a = hub.array((512, 512), "t/x:v1", "u1", chunks=(256, 256), codec="none", root=root)
    a[:] = np.random.default_rng(0).integers(0, 255, (512, 512), "u1")
    (pack,) = [item.key for item in root.store.list("t/x/packs/")]
    data = bytearray(root.store.get(pack))
    data[10] ^= 255
    root.store.delete([pack])
    root.store.put(pack, bytes(data))
    given = {"name": "t/x:v1", "y": 0, "x": 1, "at": "0,0", "level": 0}
    assert pack in refused(viewer, "picture", row=0, column=0, **given)
    assert image(viewer, "picture", row=1, column=1, **given).shape == (256, 256, 3)


def test_a_deleted_name_says_that_it_was(viewer, root):
    hub.array(3, "t/x:v1", root=root)
    hub.delete("t/x:v1", root=root)
    assert "deleted" in refused(viewer, "facts", name="t/x:v1")


def test_a_curve_of_many_elements_keeps_its_peaks(viewer, root):
    values = np.zeros(100_000)
    values[54_321] = 9
    hub.store(values, "t/x:v1", root=root)
    result = ask(viewer, "line", name="t/x:v1", y=-1, x=0, at="0")
    assert len(result["x"]) <= 2002
    assert max(result["curves"]["value"]) == 9
    assert result["x"] == sorted(result["x"])


def test_the_map_of_chunks_says_what_was_written(viewer, root):
    a = hub.array((100, 100), "t/x:v1", "u1", chunks=(10, 10), root=root)
    a[25, 35] = 1
    result = ask(viewer, "chunks", name="t/x:v1", y=0, x=1, at="0,0")
    assert [(y, x) for y, row in enumerate(result["rows"]) for x, length in enumerate(row) if length] == [(2, 3)]


def test_the_newest_commit_is_found_and_a_fixed_one_stays(viewer, root):
    a = hub.array((8, 8), "t/x:v1", "u1", root=root)
    a[:] = 1
    assert ask(viewer, "facts", name="t/x:v1")["commit"] == 2
    a[:] = 2
    assert ask(viewer, "facts", name="t/x:v1")["commit"] == 3
    given = {"y": 0, "x": 1, "at": "0,0", "rows": 1, "columns": 1}
    assert ask(viewer, "values", name="t/x:v1@2", **given)["rows"] == [["1"]]
    answer = get(api(viewer, "values", name="t/x:v1@2", **given))
    assert "immutable" in answer.headers["cache-control"]
    assert "immutable" not in get(api(viewer, "values", name="t/x:v1", **given)).headers["cache-control"]


def test_the_log_and_what_changed_between_two_commits(viewer, root):
    a = hub.array((8, 8), "t/x:v1", "u1", chunks=(4, 4), root=root)
    for i in range(3):
        a[i, i] = 1
    result = ask(viewer, "log", name="t/x:v1")
    assert [item["number"] for item in result["commits"]] == [4, 3, 2, 1]
    assert [item["number"] for item in ask(viewer, "log", name="t/x:v1", before=3)["commits"]] == [2, 1]
    assert ask(viewer, "changes", one="t/x:v1@1", two="t/x:v1@4")["regions"] == [[[0, 4], [0, 4]]]


def test_rows_of_a_table_are_filtered_sorted_and_paged(viewer, drive):
    about = ask(viewer, "table", name=drive)
    assert (about["rows"], [item["name"] for item in about["fields"]][:3]) == (120, ["t", "speed", "side"])
    result = ask(viewer, "rows", name=drive, first=100, count=50)
    assert [item["t"] for item in result["rows"]] == list(range(100, 120))
    result = ask(viewer, "rows", name=drive, filter="speed > 2 and side == 'left' and t < 30", sort="t", down=1)
    assert (result["total"], [item["t"] for item in result["rows"]]) == (5, [29, 27, 25, 23, 21])
    assert result["rows"][0]["note"] is None
    assert ask(viewer, "rows", name=drive, filter="t > 1000")["rows"] == []
    assert "'nothing'" in refused(viewer, "rows", name=drive, filter="nothing > 1")
    assert "index" in refused(viewer, "rows", name=drive, sort="note")


def test_a_list_of_rows_has_pictures_of_images_and_of_points_and_ragged_values_that_are_small(viewer, drive):
    looks = {item["name"]: (item["picture"], item["light"]) for item in ask(viewer, "table", name=drive)["fields"]}
    assert [name for name, (picture, _) in looks.items() if picture] == ["camera.image", "lidar.points"]
    assert looks["boxes"] == (False, True)
    assert ask(viewer, "rows", name=drive, count=1)["rows"][0]["boxes"] == "[[ 1., 2., 30., 40.]]"
    seen = image(viewer, "image", name=drive, row=3, field="lidar.points", side=64)
    assert (seen.shape, int((seen > 0).any(axis=2).sum())) == ((64, 64, 3), 1)


def test_a_curve_is_over_time_where_the_index_has_times_that_do_not_go_back(viewer, root):
    schema = hub.Schema({"when": hub.Field("M8[ms]", index=True), "v": hub.Field("f4")})
    times = np.datetime64("2026-11-26T12:00", "ms") + np.arange(5) * np.timedelta64(500, "ms")
    for name, order in (("t/up:v1", times), ("t/down:v1", times[::-1])):
        with hub.table_writer(name, schema, root=root) as w, w.partition("a") as p:
            for i, item in enumerate(order):
                p.append({"when": item, "v": np.float32(i)})
    result = ask(viewer, "curve", name="t/up:v1", field="v")
    assert (result["of"], result["y"]) == ("when", [0, 1, 2, 3, 4])
    assert result["x"] == (times.astype("i8") / 1000).tolist()
    result = ask(viewer, "curve", name="t/down:v1", field="v")
    assert (result["of"], result["x"]) == ("", [0, 1, 2, 3, 4])


def test_a_row_of_a_table_is_told_whole(viewer, drive, astronaut):
    result = ask(viewer, "row", name=drive, row=0, sort="t", down=1)
    values = {item["name"]: item for item in result["values"]}
    assert (result["number"], values["t"]["text"]) == (119, 119)
    assert [values[item].get("is") for item in ("camera.image", "lidar.points", "boxes")] == ["image", "cloud", "boxes"]
    assert values["boxes"]["numbers"] == [1, 2, 30, 40]
    np.testing.assert_array_equal(
        image(viewer, "image", name=drive, row=3, field="camera.image", side=64), astronaut[:48, :64]
    )
    points = np.frombuffer(get(api(viewer, "points", name=drive, row=3, field="lidar.points")).body, "<f4").reshape(
        -1, 4
    )
    assert (points.shape, points[0, 0]) == ((100, 4), 3.0)
    for field in ("note", "t", "x", "boxes"):
        refused(viewer, "image", name=drive, row=3, field=field)
    refused(viewer, "row", name=drive, row=120)
    assert ask(viewer, "curve", name=drive, field="speed")["y"][10] == 1.0


def test_a_dataset_is_told_sample_by_sample(viewer, root, astronaut):
    specs = {
        "image": hub.ArraySpec((0, 512, 512, 3), "u1", dims=("sample", "y", "x", "c")),
        "label": hub.ArraySpec(0, "i8", dims=("sample",)), "name": hub.ArraySpec(0, str, dims=("sample",)),
    }  # fmt: skip
    ds = hub.dataset(specs, "t/ds:v1", root=root)
    ds.append({"image": astronaut[np.newaxis], "label": [7], "name": ["Eileen"]})
    about = ask(viewer, "dataset", name="t/ds:v1")
    assert (about["rows"], about["samples"]) == (1, ["image", "label", "name"])
    values = {item["name"]: item for item in ask(viewer, "sample", name="t/ds:v1", row=0)["values"]}
    assert (values["label"]["text"], values["name"]["text"], values["image"]["is"]) == (7, "Eileen", "image")
    np.testing.assert_array_equal(
        image(viewer, "sample-image", name="t/ds:v1", row=0, field="image", side=512), astronaut
    )
    result = image(
        viewer, "picture", name="t/ds:v1", key="image", y=1, x=2, c=3, at="0,0,0,0", level=1, row=0, column=0
    )
    np.testing.assert_array_equal(result, astronaut[::2, ::2])


def test_an_array_without_elements_and_one_without_axes_are_told(viewer, root):
    hub.array((0, 4), "t/empty:v1", root=root)
    hub.array((), "t/one:v1", root=root)[()] = 5
    assert ask(viewer, "array", name="t/empty:v1")["shape"] == [0, 4]
    assert ask(viewer, "values", name="t/one:v1", at="")["rows"] == [["5"]]


def test_a_packed_array_is_seen_as_its_physical_values(viewer, root):
    attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": 255}
    spec = hub.ArraySpec((4, 40), "u1", dims=("t", "x"), attrs=attrs)
    ds = hub.dataset({"v": spec, "label": hub.ArraySpec(4, "i4", dims=("t",))}, "t/packed:v1", root=root)
    ds["v"][...] = np.arange(160).reshape(4, 40)
    ds["v"][0, 1] = 255
    where = {"name": "t/packed:v1", "key": "v", "y": 0, "x": 1, "at": "0,0"}
    assert ask(viewer, "values", rows=1, columns=3, **where)["rows"] == [["10", "nan", "11"]]
    window = ask(viewer, "window", **where)
    assert (window["low"], window["high"]) == (10.0, 89.5)
    assert ask(viewer, "line", **where | {"y": -1, "at": "1,0"})["curves"]["value"][0] == 30.0
    values = {item["name"]: item for item in ask(viewer, "sample", name="t/packed:v1", row=1)["values"]}
    assert values["v"]["dtype"] == "float64"
    assert image(viewer, "picture", level=0, row=0, column=0, low=10, high=89.5, **where)[0, 1].tolist() == [
        255,
        0,
        255,
    ]
