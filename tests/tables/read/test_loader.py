"""Rows by an index, whatever became of it: filtered, sorted, sampled, merged, written to Parquet and back."""

import importlib
import io
import itertools
import multiprocessing
import pickle

import imagecodecs
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.format import locations, metadata
from hubarray.tables.read.group_reads import EXACT_CANDIDATES, cheapest
from tests.tables.rows import assert_rows, drive, write

RNG = np.random.default_rng(20)


@pytest.fixture(scope="module")
def made(make_root):
    """A table under a root in memory, and its rows."""
    root = make_root("memory")
    parts = {"a": drive("a", 20), "b": drive("b", 15)}
    with pytest.MonkeyPatch.context() as patch:
        for module in (locations, metadata):
            patch.setattr(module, "SLAB_ROWS", 8)
        write("lab/drives:v1", parts, root)
        labels = hub.Schema(
            {
                "log_id": hub.Field(str, index=True),
                "frame": hub.Field("i8", index=True),
                "label.box": hub.Field("f4", (None, 4)),
                "speed": hub.Field("f4"),
            }
        )
        rows = [
            {
                "log_id": row["log_id"],
                "frame": row["frame"],
                "label.box": np.full((1, 4), row["frame"], "f4"),
                "speed": np.float32(-1),
            }
            for row in parts["a"][::2]
        ]
        write("lab/labels:v1", {"a": rows}, root, labels)
        yield root, [*parts["a"], *parts["b"]], rows


def index_of(made, **options):
    return hub.read_index("lab/drives:v1", root=made[0], **options)


def round_trip(frame):
    out = io.BytesIO()
    frame.to_parquet(out)
    return pd.read_parquet(io.BytesIO(out.getvalue()))


CHANGES = {
    "filter": lambda index: index[index["frame"] % 3 == 1],
    "sort": lambda index: index.sort_values(["frame", "log_id"], ascending=False),
    "sample": lambda index: index.sample(frac=0.7, random_state=1),
    "concat": lambda index: pd.concat([index.iloc[5:9], index.iloc[::4]]),
    "reset": lambda index: index.reset_index(drop=True),
    "parquet": round_trip,
    "head": lambda index: index.head(11),
    "arrow": lambda index: pa.Table.from_pandas(index, preserve_index=False).to_pandas(),
}


@settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(CHANGES)), max_size=5))
def test_a_changed_index_still_means_its_rows(made, changes):
    root, rows, _ = made
    with pytest.MonkeyPatch.context() as patch:
        for module in (locations, metadata):
            patch.setattr(module, "SLAB_ROWS", 8)
        index = index_of(made)
        model = list(range(len(rows)))
        frame = pd.DataFrame({"n": model})
        frame["frame"], frame["log_id"] = index["frame"].to_numpy(), index["log_id"].to_numpy()
        for change in changes:
            index, frame = CHANGES[change](index), CHANGES[change](frame)
        loader = hub.row_loader(index, root)
        expected = [rows[n] for n in frame["n"]]
        assert_rows(loader.get_batch(range(len(loader))), expected)
        assert_rows(list(loader.iter_rows()), expected)


def test_filters_give_the_rows_that_pandas_gives(made):
    root, rows, _ = made
    for filters in (
        [("frame", ">", 12)],
        [[("log_id", "==", "a"), ("frame", "<", 3)], [("partition", "==", "b")]],
        [("partition", "in", ["b"]), ("weight", "<", 2)],
    ):
        index = index_of(made, filters=filters)
        assert 0 < len(index) < len(rows)
        loader = hub.row_loader(index, root)
        for row in loader.get_batch(range(len(index)), ["log_id", "frame", "weight"]):
            groups = filters if isinstance(filters[0], list) else [filters]
            assert any(all(_holds(row, *item) for item in some) for some in groups)
    with pytest.raises(hub.errors.ConfigError, match=r"has no field .frmae.; it has partition, log_id, frame, weight"):
        index_of(made, filters=[("frmae", "==", 1)])
    with pytest.raises(hub.errors.ConfigError):
        index_of(made, filters=[("frame", "==", "text")])


def _holds(row, name, operator, value):
    own = row["log_id" if name == "partition" else name]
    if own is None:
        return False
    return {
        "==": own == value,
        ">": operator == ">" and own > value,
        "<": operator == "<" and own < value,
        "in": operator == "in" and own in value,
    }[operator]


def test_columns_are_chosen_by_patterns_and_a_row_has_exactly_those(made):
    root, rows, _ = made
    loader = hub.row_loader(index_of(made), root)
    assert list(loader.get_row(3, "camera.*")) == ["camera.image", "camera.exposure"]
    assert list(loader.get_row(3, ["pose", "log_id"])) == ["log_id", "pose"]
    assert list(loader.get_row(-1, ".*")) == list(rows[0])
    with pytest.raises(hub.errors.ConfigError, match="matches no column; near names are camera"):
        loader.get_row(0, "camrea.image")
    with pytest.raises(IndexError):
        loader.get_row(35)


def test_columns_are_stacked_and_ragged_ones_are_lists(made):
    root, rows, _ = made
    loader = hub.row_loader(index_of(made), root)
    at = [30, 2, 2, 17]
    columns = loader.get_columns(at)
    assert columns["pose"].shape == (4, 3)
    np.testing.assert_array_equal(columns["pose"], [rows[i]["pose"] for i in at])
    np.testing.assert_array_equal(columns["speed"], [rows[i]["speed"] for i in at])
    assert columns["note"] == [rows[i]["note"] for i in at]
    assert columns["weight"] == [rows[i]["weight"] for i in at]
    assert all(np.array_equal(column, rows[i]["lidar"]) for column, i in zip(columns["lidar"], at, strict=True))


def test_windows_follow_the_stored_sequence_whatever_the_index_was_filtered_to(made):
    root, rows, _ = made
    index = index_of(made)
    loader = hub.row_loader(index[index["frame"] == 12], root)
    for pos, first in ((0, 0), (1, 20)):
        assert_rows(loader.get_rows(pos), rows[first + 2 : first + 12])
        assert_rows(loader.get_rows(pos, offsets=[2, -1]), [rows[first + 14], rows[first + 11]])


def test_a_window_past_the_edge_of_its_partition_is_an_error_unless_it_is_padded(made):
    root = made[0]
    loader = hub.row_loader(index_of(made), root)
    with pytest.raises(hub.errors.ConfigError, match="0 rows before it and 14 after it"):
        loader.get_rows(20)
    edge = loader.get_rows(20, ["frame", "lidar"], offsets=range(-1, 2), pad="edge")
    assert [row["frame"] for row in edge] == [0, 0, 1]
    null = loader.get_rows(19, ["frame", "lidar"], offsets=range(-1, 2), pad="null")
    assert [row["frame"] for row in null] == [18, 19, None]
    assert null[2] == {"frame": None, "lidar": None}


def merged_of(made, **options):
    labels = hub.read_index("lab/labels:v1", root=made[0])
    return hub.join(index_of(made), labels, on=["log_id", "frame"], suffixes=("", "_label"), **options)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merged_rows_have_the_columns_of_both_tables(made, how):
    root, rows, labels = made
    merged = merged_of(made, how=how)
    by_key = {(row["log_id"], row["frame"]): row for row in labels}
    loader = hub.row_loader(merged, root)
    result = loader.get_batch(range(len(loader)))
    assert len(result) == (10 if how in ("inner", "right") else 35)
    own = {(row["log_id"], row["frame"]): row for row in rows}
    for row in result:
        key = (row["log_id"], row["frame"])
        label = by_key.get(key)
        expected = own[key] | {"label.box": label and label["label.box"], "speed_label": label and label["speed"]}
        assert_rows([row], [{name: expected[name] for name in row}])
    boxes = loader.get_columns(range(len(loader)), "speed_label")["speed_label"]
    assert [box is None for box in boxes] == [(row["log_id"], row["frame"]) not in by_key for row in result]


def test_names_that_clash_need_suffixes(made):
    labels = hub.read_index("lab/labels:v1", root=made[0])
    with pytest.raises(hub.errors.ConfigError, match="both tables have speed; "):
        hub.join(index_of(made), labels, on=["log_id", "frame"])


def test_windows_over_merged_tables_are_refused_where_their_rows_do_not_line_up(made):
    root, _, _ = made
    merged = merged_of(made)
    loader = hub.row_loader(merged, root)
    at = int(np.flatnonzero(merged["frame"] == 12)[0])
    assert [row["frame"] for row in loader.get_rows(at, ["frame", "lidar"], offsets=[-1, 0])] == [11, 12]
    with pytest.raises(
        hub.errors.ConfigError, match=r"differ in 'frame'; publish the merged index with hub\.write_index"
    ):
        loader.get_rows(at, ["lidar", "label.box"], offsets=[-1, 0])
    plain = index_of(made).merge(
        hub.read_index("lab/labels:v1", columns=["log_id", "frame"], root=root), on=["log_id", "frame"]
    )
    with pytest.raises(hub.errors.ConfigError, match=r"merge with hub\.join"):
        hub.row_loader(plain, root).get_rows(5, ["lidar", "label.box"], offsets=[-1, 0])


def test_windows_whose_keys_name_several_rows_are_refused(root):
    frames = hub.Schema({"log": hub.Field(str, index=True), "a.v": hub.Field("i8")})
    turns = hub.Schema({"log": hub.Field(str, index=True), "rev": hub.Field("i8", index=True), "c.v": hub.Field("i8")})
    write("lab/frames:v1", {0: [{"log": "x", "a.v": i} for i in range(6)]}, root, frames)
    write("lab/turns:v1", {0: [{"log": "x", "rev": i, "c.v": 100 + i} for i in range(3)]}, root, turns)
    item = hub.read_index("lab/turns:v1", root=root)
    merged = hub.join(hub.read_index("lab/frames:v1", root=root), item[item.rev == 1], on="log")
    loader = hub.row_loader(merged, root)
    assert [row["c.v"] for row in loader.get_batch([1, 2, 3])] == [101] * 3
    with pytest.raises(hub.errors.ConfigError, match="are equal in log, so which of them belongs"):
        loader.get_rows(2, ["a.v", "c.v"], offsets=[-1, 0, 1])
    published = hub.write_index(merged, "lab/published:v1", root=root)
    assert [row["c.v"] for row in published.loader().get_rows(2, offsets=[-1, 0, 1])] == [101] * 3


def test_keys_that_come_again_outside_of_the_window_are_seen(root):
    schema = hub.Schema({"log": hub.Field(str, index=True), "v": hub.Field("i8")})
    write("lab/one:v1", {0: [{"log": log, "v": i} for i, log in enumerate("xy")]}, root, schema)
    write("lab/two:v1", {0: [{"log": log, "v": i} for i, log in enumerate("xyxy")]}, root, schema)
    second = hub.read_index("lab/two:v1", root=root)
    merged = hub.join(hub.read_index("lab/one:v1", root=root), second.iloc[[1, 2]], on="log", suffixes=("", "_two"))
    loader = hub.row_loader(merged, root)
    assert [row["v_two"] for row in loader.get_batch([0, 1])] == [2, 1]
    with pytest.raises(hub.errors.ConfigError, match="are equal in log"):
        loader.get_rows(0, ["v", "v_two"], offsets=[0, 1])


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_window_at_a_row_that_a_merged_table_lacks_is_refused(root, how):
    schema = hub.Schema({"i": hub.Field("i8", index=True), "v": hub.Field("i8")})
    write("lab/all:v1", {0: [{"i": i, "v": i} for i in range(6)]}, root, schema)
    write("lab/some:v1", {0: [{"i": i, "v": i} for i in (0, 1, 3, 4)]}, root, schema)
    first, second = (hub.read_index(f"lab/{name}:v1", root=root) for name in ("all", "some"))
    merged = hub.join(first, second, on="i", how=how, suffixes=("", "_some"))
    loader = hub.row_loader(merged, root)
    assert loader.get_rows(2, "v_some", offsets=[0])[0]["v_some"] is None
    assert [row["v"] for row in loader.get_rows(2, "v", offsets=[-1, 0])] == [1, 2]
    with pytest.raises(hub.errors.ConfigError, match="has no row there"):
        loader.get_rows(2, ["v", "v_some"], offsets=[-1, 0, 1])
    both = pd.concat([first, second], ignore_index=True)
    assert [row["v"] for row in hub.row_loader(both, root).get_rows(7, "v", offsets=[-1, 0])] == [0, 1]


def test_a_published_index_can_be_windowed_and_moves_no_block(made):
    root = made[0]
    merged = merged_of(made)
    for move in (False, True):
        name = f"lab/records-{move}:v1"
        table = hub.write_index(merged, name, root=root, move=move)
        usage = hub.du(name, root=root)
        assert (usage.shared == 0) == move
        assert_rows(table[:], hub.row_loader(merged, root).get_batch(range(len(merged))))
        result = table.loader().get_rows(5, ["frame", "label.box", "lidar"], offsets=[-1, 0])
        assert [row["frame"] for row in result] == [8, 10]
        assert result[0]["label.box"][0, 0] == 8
        again = hub.write_index(hub.read_index(name, root=root).iloc[::-3], f"{name.replace(':v1', ':v2')}", root=root)
        assert [row["frame"] for row in again] == [18, 12, 6, 0]
        hub.delete(name, root=root)


def test_outer_merges_can_be_published_and_what_is_missing_stays_none(made):
    root = made[0]
    merged = merged_of(made, how="left")
    table = hub.write_index(merged, "lab/outer:v1", root=root)
    assert_rows(table[:], hub.row_loader(merged, root).get_batch(range(len(merged))))
    columns = table.loader().get_columns(range(35), ["speed_label", "speed"])
    assert [column is None for column in columns["speed_label"]] == [row["label.box"] is None for row in table]
    assert isinstance(columns["speed"], np.ndarray)
    hub.delete("lab/outer:v1", root=root)


def test_streams_of_different_rates_merge_by_the_nearest(made):
    root = made[0]
    result = hub.join_asof(
        index_of(made),
        hub.read_index("lab/labels:v1", root=root),
        on="frame",
        by="log_id",
        tolerance=1,
        suffixes=("", "_label"),
    )
    assert len(result) == 35
    loader = hub.row_loader(result, root)
    for row in loader.get_batch(range(35), ["log_id", "frame", "label.box"]):
        if row["log_id"] == "b":
            assert row["label.box"] is None
        else:
            assert row["label.box"][0, 0] == row["frame"] // 2 * 2
    with pytest.raises(hub.errors.ConfigError, match="not known whether neighbouring rows"):
        loader.get_rows(5, ["lidar", "label.box"], offsets=[0, 1])


def test_a_table_merged_with_itself_has_suffixed_columns(made):
    root, rows, _ = made
    index = index_of(made)
    plain = index.merge(index.assign(frame=index["frame"] + 1), on=["log_id", "frame"])
    loader = hub.row_loader(plain, root)
    row = loader.get_row(4, ["speed_x", "speed_y"])
    assert (row["speed_x"], row["speed_y"]) == (rows[5]["speed"], rows[4]["speed"])


def test_loaders_pickle_and_take_arrow(made):
    root, rows, _ = made
    index = index_of(made)
    again = pickle.loads(pickle.dumps(hub.row_loader(index.iloc[3:6], root)))
    assert_rows(again.get_batch([0, 2]), [rows[3], rows[5]])
    table = hub.read_index("lab/drives:v1", as_="arrow", root=root)
    assert_rows(hub.row_loader(table.slice(7, 3), root).get_batch([1]), [rows[8]])
    with pytest.raises(hub.errors.ConfigError, match="keep it, or read the index again"):
        hub.row_loader(index[["frame"]])


def test_a_pattern_heeds_the_case_of_letters(made):
    loader = hub.row_loader(index_of(made), made[0])
    assert set(loader.get_row(0, "camera.*")) == {"camera.image", "camera.exposure"}
    for pattern in ("Camera.*", "CAMERA.image", "*.Image"):
        with pytest.raises(hub.errors.ConfigError, match="camera"):
            loader.get_row(0, pattern)


def _row_in_another_process(loader, position, answers):
    answers.put(loader.get_row(position, ["frame", "lidar", "note"]))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_loader_reads_in_another_process_from_the_root_of_its_index(root, method):
    # The root is not given, and neither is it the configured one.
    rows = drive("a", 8)
    write("lab/drives:v1", {"a": rows}, root)
    loader = hub.row_loader(hub.read_index("lab/drives:v1", root=root))
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=_row_in_another_process, args=(loader, 5, answers))
    child.start()
    result = answers.get(timeout=60)
    child.join()
    assert_rows([result], [{name: rows[5][name] for name in ("frame", "lidar", "note")}])


_KINDS = {"torch": ("torch", "Tensor"), "tensorflow": ("tensorflow", "Tensor")}


@pytest.mark.parametrize("kind", _KINDS)
def test_every_way_to_read_gives_tensors(made, kind):
    module, name = _KINDS[kind]
    tensor = getattr(importlib.import_module(module), name)
    root, rows, _ = made
    loader = hub.row_loader(index_of(made), root)
    listed = [
        loader.get_rows(3, "pose", offsets=[0, 1], as_=kind),
        loader.get_batch([3, 4], "pose", as_=kind),
        list(itertools.islice(loader.iter_rows("pose", positions=[3, 4], as_=kind), 2)),
    ]
    for result in listed:
        assert all(isinstance(row["pose"], tensor) for row in result)
        assert [row["pose"].numpy().tolist() for row in result] == [rows[i]["pose"].tolist() for i in (3, 4)]
    for columns in (
        loader.get_columns([3, 4], "pose", as_=kind),
        next(loader.iter_columns("pose", positions=[3, 4], as_=kind)),
    ):
        assert isinstance(columns["pose"], tensor)
        assert columns["pose"].numpy().tolist() == [rows[i]["pose"].tolist() for i in (3, 4)]


def test_an_image_that_came_encoded_is_stored_as_it_came(root):
    image = RNG.integers(0, 255, (20, 30, 3), "u1")
    given = {"png": imagecodecs.png_encode(image, level=1), "jpeg": imagecodecs.jpeg_encode(image, level=71)}
    for codec, data in given.items():
        field = hub.Field("u1", (None, None, 3), codec=codec)
        with hub.table_writer(f"lab/{codec}:v1", field, root=root) as w, w.partition("a") as p:
            p.append(data)
        (stored,) = hub.load(f"lab/{codec}:v1", root=root).loader().get_row(0, encoded=True).values()
        assert bytes(stored) == data


def test_a_field_in_several_groups_is_read_from_the_cheapest_of_what_the_record_says(root, forget):
    # "small" and "large" are read together from one group, and "small" alone from the one that is small.
    fields = {
        "small": hub.Field("u1", (1000,), group=["alone", "both"]),
        "large": hub.Field("u1", (5_000_000,), group=["both", "other"]),
    }
    with hub.table_writer("lab/t:v1", hub.Schema(fields), root=root) as w, w.partition("a") as p:
        p.extend([{"small": np.full(1000, i, "u1"), "large": np.full(5_000_000, i, "u1")} for i in range(3)])
    hub.configure(memory_cache_bytes=0)
    cases = {("small",): 1000, ("large",): 5_000_000, ("small", "large"): 5_001_000}
    for columns, wanted_bytes in cases.items():
        forget()
        loader = hub.load("lab/t:v1", root=root).loader()
        loader.get_batch([0, 2], list(columns))
        before = root.store.stats.counts()["read_bytes"]
        row = loader.get_row(1, list(columns))
        assert {name: int(value[0]) for name, value in row.items()} == dict.fromkeys(columns, 1)
        assert wanted_bytes <= root.store.stats.counts()["read_bytes"] - before < wanted_bytes + 10_000


def test_tensors_of_pytorch(made):
    import torch

    row = hub.row_loader(index_of(made), made[0]).get_row(3, ["lidar", "log_id"], as_="torch")
    assert row["lidar"].dtype == torch.float32
    assert row["log_id"] == "a"


def test_tensors_of_tensorflow(made):
    import tensorflow as tf

    root, rows, _ = made
    row = hub.row_loader(index_of(made), root).get_row(3, ["lidar", "log_id", "frame"], as_="tensorflow")
    assert isinstance(row["lidar"], tf.Tensor)
    assert row["lidar"].dtype == tf.float32
    np.testing.assert_array_equal(row["lidar"].numpy(), rows[3]["lidar"])
    assert int(row["frame"]) == 3


def test_an_index_of_a_table_that_was_made_again_is_refused(root):
    write("lab/drives:v1", {"a": drive("a", 3)}, root)
    index = hub.read_index("lab/drives:v1", root=root)
    hub.delete("lab/drives:v1", root=root)
    write("lab/drives:v1", {"a": drive("a", 3, seed=1)}, root)
    loader = hub.row_loader(index.assign(x=1), root)
    assert loader.get_row(0, "frame")["frame"] == 0, "the old commit can still be read"
    other = index.rename(columns=lambda name: name.replace("@1:", "@3:") if name.startswith("hubarray:") else name)
    with pytest.raises(hub.errors.ConflictError, match="deleted and made again"):
        hub.row_loader(other, root).get_row(0)


@settings(max_examples=200)
@given(st.data())
def test_the_cheapest_groups_cost_what_brute_force_finds(data):
    fields = "abcdef"
    groups = {
        str(i): data.draw(st.sets(st.sampled_from(fields), min_size=1))
        for i in range(data.draw(st.integers(1, EXACT_CANDIDATES)))
    }
    costs = {name: data.draw(st.integers(1, 9)) for name in groups}
    there = sorted(set().union(*groups.values()))
    expected = data.draw(st.sets(st.sampled_from(there)))
    chosen = cheapest(expected, groups, costs)
    assert expected <= set().union(*(groups[name] for name in chosen))
    best = min(
        sum(costs[name] for name in some)
        for mask in range(1 << len(groups))
        for some in [[name for i, name in enumerate(groups) if mask >> i & 1]]
        if expected <= set().union(*(groups[name] for name in some))
    )
    assert sum(costs[name] for name in chosen) == best


@settings(max_examples=100)
@given(st.data())
def test_more_groups_than_twelve_are_chosen_greedily_near_the_best_and_none_in_vain(data):
    fields = "abcdefg"
    groups = {name: {name} for name in fields}
    groups |= {
        f"more {i}": data.draw(st.sets(st.sampled_from(fields), min_size=2))
        for i in range(data.draw(st.integers(6, 9)))
    }
    costs = {name: data.draw(st.integers(1, 9)) for name in groups}
    chosen = cheapest(set(fields), groups, costs)
    assert set(fields) <= set().union(*(groups[name] for name in chosen))
    for name in chosen:
        others = set().union(*(groups[item] for item in chosen if item != name))
        assert not set(fields) <= others, "it could be left out"
    # The least cost of each set of fields, a group after the other.
    least = {frozenset(): 0}
    for name, has in groups.items():
        for some, cost in list(least.items()):
            more = some | has
            least[more] = min(least.get(more, 1 << 30), cost + costs[name])
    # Of a set cover by the cheapest share, Chvatal 1979.
    assert sum(costs[name] for name in chosen) <= least[frozenset(fields)] * sum(1 / k for k in range(1, 8))


@pytest.mark.parametrize("rows", [None, 1, 4, 100])
def test_columns_of_a_scan_come_a_few_rows_at_a_time(made, rows):
    root, expected, _ = made
    loader = hub.row_loader(index_of(made), root)
    parts = list(loader.iter_columns(["frame", "lidar", "pose"], rows=rows))
    assert [int(item) for part in parts for item in part["frame"]] == [int(row["frame"]) for row in expected]
    assert all(
        np.array_equal(item, row["lidar"])
        for item, row in zip((v for p in parts for v in p["lidar"]), expected, strict=True)
    )
    assert {len(part["frame"]) for part in parts[:-1]} <= {rows}
    some = [int(item) for part in loader.iter_columns("frame", positions=[5, 3, 4], rows=2) for item in part["frame"]]
    assert some == [int(expected[i]["frame"]) for i in (5, 3, 4)]
    for wrong in (0, True, 1.5):
        with pytest.raises(hub.errors.ConfigError, match="rows="):
            next(loader.iter_columns("frame", rows=wrong))
