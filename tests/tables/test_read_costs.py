"""The uses that the article on TetrysTables shows, on a folder and on S3, with the requests that each costs."""

import numpy as np
import pytest

import hubarray as hub
from tests.tables.rows import same, write

SENSORS = hub.Schema(
    {
        "log_id": hub.Field(str, index=True), "time": hub.Field("i8", index=True),
        "camera.image": hub.Field("u1", (40, 60, 3)), "lidar.points": hub.Field("f4", (None, 3)),
    }
)  # fmt: skip
LABELS = hub.Schema(
    {
        "log_id": hub.Field(str, index=True),
        "time": hub.Field("i8", index=True),
        "labels.boxes": hub.Field("f4", (None, 4)),
    }
)


def sensors(log_id, count=40):
    rng = np.random.default_rng(len(log_id))
    return [
        {"log_id": log_id, "time": np.int64(i), "camera.image": rng.integers(0, 255, (40, 60, 3), "u1"),
         "lidar.points": rng.random((50 + i, 3), "f4")} for i in range(count)
    ]  # fmt: skip


def labels(log_id, count=40, version=1):
    return [
        {"log_id": log_id, "time": np.int64(i), "labels.boxes": np.full((i % 3, 4), version, "f4")}
        for i in range(count)
    ]


@pytest.fixture(params=["local", "s3"])
def where(request, make_root, isolated):
    root = make_root(request.param)
    write("av/sensors:v1", {log: sensors(log) for log in ("a", "bb")}, root, SENSORS)
    write("labels/boxes:v1", {log: labels(log) for log in ("a", "bb")}, root, LABELS)
    # Hints of the newest commits are written by a thread, and would be counted.
    hub.flush()
    return root


def counted(root, call):
    before = root.store.stats.requests
    result = call()
    return result, root.store.stats.requests - before


def test_a_row_and_ten_consecutive_rows(where, forget):
    forget()
    index, read = counted(where, lambda: hub.read_index("av/sensors:v1", root=where))
    assert read <= 5
    loader = hub.row_loader(index, where)
    loader.get_row(0)
    rows = sensors("a")
    row, requests = counted(where, lambda: loader.get_row(13, ["camera.image", "lidar.points"]))
    assert requests == 2, "a group each"
    assert all(same(row[name], rows[13][name]) for name in row)
    loader.get_rows(15, "camera.image", offsets=range(1))
    result, requests = counted(where, lambda: loader.get_rows(30, "camera.image", offsets=range(-10, 0)))
    assert requests == 1
    assert all(
        same(item["camera.image"], rows[i]["camera.image"]) for item, i in zip(result, range(20, 30), strict=True)
    )


def test_rows_in_any_order_cost_one_look_for_their_places_even_if_nothing_is_kept(where, forget):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (200, 200, 3), "u1") for _ in range(12)]
    schema = hub.Schema({"image": hub.Field("u1", (200, 200, 3), codec=None)})
    write("av/images:v1", {"a": [{"image": image} for image in images]}, where, schema)
    hub.flush()
    hub.configure(memory_cache_bytes=0, disk_cache_bytes=0)
    loader = hub.row_loader(hub.read_index("av/images:v1", root=where), where)
    loader.get_row(0)
    _, single = counted(where, lambda: loader.get_row(3))
    at = [3, 9, 3, 3, 11, 1]
    rows, requests = counted(where, lambda: loader.get_batch(at))
    assert all(same(row["image"], images[i]) for row, i in zip(rows, at, strict=True))
    assert requests <= single + 3, "one for their places, and one for each of the other rows"


def test_a_join_costs_nothing_and_a_row_of_it_a_request_a_group(where, forget):
    first, second = (hub.read_index(name, root=where) for name in ("av/sensors:v1", "labels/boxes:v1"))
    (merged, chosen), requests = counted(
        where, lambda: (m := hub.join(first, second, on=["log_id", "time"]), m[(m.log_id == "bb") & (m.time % 2 == 0)])
    )
    # The tables' records, for their columns. Their keys are in the disk cache, which a local folder needs none of.
    assert requests <= (2 if where.store.remote else 6)
    assert len(merged) == 80
    loader = hub.row_loader(chosen, where)
    loader.get_row(0)
    row, requests = counted(where, lambda: loader.get_row(7, ["camera.image", "labels.boxes"]))
    assert requests == 2
    assert row["labels.boxes"].shape == (14 % 3, 4)
    assert same(row["camera.image"], sensors("bb")[14]["camera.image"])
    window = {"columns": ["camera.image", "labels.boxes"], "offsets": [-1, 0, 1]}
    result, requests = counted(where, lambda: loader.get_rows(10, **window))
    assert requests <= 6, "two groups; at the first window each table's list of partitions, and its keys"
    assert [len(item["labels.boxes"]) for item in result] == [i % 3 for i in (19, 20, 21)]
    assert counted(where, lambda: loader.get_rows(15, **window))[1] == 2


def test_a_second_version_with_other_labels_stores_only_those(where):
    merged = hub.Schema({name: SENSORS[name] for name in SENSORS} | {"labels.boxes": LABELS["labels.boxes"]})

    def rows(version):
        return {
            log: [first | second for first, second in zip(sensors(log), labels(log, version=version), strict=True)]
            for log in ("a", "bb")
        }

    write("av/records:v1", rows(1), where, merged)
    write("av/plain:v2", rows(2), where, merged)
    table, requests = counted(where, lambda: write("av/records:v2", rows(2), where, merged, reference="av/records:v1"))
    _, plain = counted(where, lambda: write("av/plain:v3", rows(2), where, merged))
    # The reference's record and its list of partitions; for each partition whether the commit may still be built on, and
    # of each group its locations and digests.
    assert requests <= plain + 4 + 1 + 2 * (4 + 3 * 2)
    usage = hub.du("av/records:v2", root=where)
    assert usage.own < 0.05 * usage.logical
    row, expected = table[13], rows(2)["a"][13]
    assert all(same(row[name], expected[name]) for name in expected)
