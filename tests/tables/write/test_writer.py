"""Writing tables: whole or not at all, here or on many machines, alike from wherever."""

import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hubarray as hub
from hubarray.tables.format import block_encoding, locations
from hubarray.tables.write import writer
from tests.tables.rows import assert_rows, drive, schema, write


def hashes(table):
    """The hash of every blob of a table by its number, but for those of random ids: none has any."""
    state = table._state()
    end = state.metadata.end
    return state._refs(np.arange(end, dtype=np.uint64))["hash"].tobytes()


def test_what_is_written_is_read_and_frozen_and_one_commit(any_root):
    parts = {"b": drive("b", 9), "a": drive("a", 12)}
    table = write("lab/drives:v1", parts, any_root)
    assert_rows(table[:], [*parts["a"], *parts["b"]])
    assert (table.commit, table.frozen, table.partitions) == (1, True, ["a", "b"])
    assert hub.list(root=any_root) == ["lab/drives:v1"]


def test_rows_in_many_slabs_are_read_as_they_were_written(root, monkeypatch):
    for module in ("hubarray.tables.format.locations", "hubarray.tables.format.metadata"):
        monkeypatch.setattr(f"{module}.SLAB_ROWS", 7)
    parts = {key: drive(key, count) for key, count in (("a", 3), ("b", 20), ("c", 0), ("d", 9))}
    table = write("lab/drives:v1", parts, root)
    expected = [row for rows in parts.values() for row in rows]
    assert_rows(list(table), expected)
    assert_rows(table[[31, 0, 8, 8]], [expected[i] for i in (31, 0, 8, 8)])


def write_and_fail(root, error, keys="a", **options):
    """A writer whose block ends with an error after some partitions."""
    with hub.table_writer("lab/drives:v1", schema(), root=root, **options) as w:
        for key in keys:
            with w.partition(key) as p:
                p.extend(drive(key, 5))
        assert not hub.exists("lab/drives:v1", root=root)
        raise error


def test_nothing_is_visible_before_the_end_nor_after_an_error(root):
    with pytest.raises(ZeroDivisionError):
        write_and_fail(root, ZeroDivisionError)
    assert not hub.exists("lab/drives:v1", root=root)
    assert [info for info in root.store.list("lab/") if not info.is_folder] == []


def test_a_name_that_is_taken_is_refused_at_the_beginning_and_at_the_end(root):
    write("lab/drives:v1", {"a": drive("a", 1)}, root)
    with pytest.raises(hub.errors.AlreadyExistsError, match="exists already"):
        hub.table_writer("lab/drives:v1", schema(), root=root)
    with (
        pytest.raises(hub.errors.AlreadyExistsError, match="in the meantime"),
        hub.table_writer("lab/drives:v2", schema(), root=root),
    ):
        write("lab/drives:v2", {"a": drive("a", 2)}, root)
    assert len(hub.load("lab/drives:v2", root=root)) == 2


def test_a_partition_is_begun_once(root):
    with hub.table_writer("lab/drives:v1", schema(), root=root) as w:
        with w.partition("a") as p:
            p.extend(drive("a", 1))
        with pytest.raises(hub.errors.ConflictError, match="'a' was begun before"):
            w.partition("a")


def extract(worker, key, count):
    with worker.partition(key) as p:
        p.extend(drive(key, count))
    return bytes(p.part)


def test_eight_processes_write_the_table_that_one_process_writes(root, s3_root):
    alone = write("lab/drives:v1", {key: drive(key, 20) for key in "abcdefgh"}, root)
    with hub.table_writer("lab/drives:v1", schema(), root=s3_root) as w:
        worker = pickle.loads(pickle.dumps(w.worker()))
        with ProcessPoolExecutor(8, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(extract, [worker] * 9, "hgfedcbaa", [20] * 9))
        assert [w.add(part) for part in parts] == [True] * 8 + [False]
    there = hub.load("lab/drives:v1", root=s3_root)
    assert hashes(there) == hashes(alone)
    assert_rows(there[:], alone[:])


def test_another_partition_of_a_key_is_a_conflict_unless_the_first_counts(root):
    for on_duplicate in ("error", "first"):
        w = hub.table_writer("lab/drives:v1", schema(), root=root, on_duplicate=on_duplicate)
        worker = w.worker()
        w.add(extract(worker, "a", 3))
        if on_duplicate == "error":
            with pytest.raises(hub.errors.ConflictError, match="'a' was written twice, with different rows"):
                w.add(extract(worker, "a", 4))
            w.abort()
        else:
            assert not w.add(extract(worker, "a", 4))
            w.publish()
    assert len(hub.load("lab/drives:v1", root=root)) == 3


def test_parts_that_wait_survive_the_driver_and_are_gone_on_with(root, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_PARTS", 2)
    parts = {key: drive(key, 5) for key in "abcde"}
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(root, KeyboardInterrupt, "abc", resume=True)
    assert hub.list(root=root) == []
    assert hub.exists("lab/drives:v1.writing", root=root)
    with hub.table_writer("lab/drives:v1", schema(), root=root, resume=True) as w:
        assert [key in w for key in "abcde"] == [True, True, True, False, False]
        for key in "de":
            with w.partition(key) as p:
                p.extend(parts[key])
    assert hub.list(root=root) == ["lab/drives:v1"]
    table = hub.load("lab/drives:v1", root=root)
    assert_rows(table[:], [row for rows in parts.values() for row in rows])
    assert table.commit == 1


def test_a_resumed_table_has_the_blobs_of_one_that_was_not(root, monkeypatch):
    parts = {key: drive(key, 5) for key in "abcde"}
    plain = write("lab/drives:v1", parts, root)
    monkeypatch.setattr(writer, "MAX_WAITING_PARTS", 2)
    staged = write("lab/drives:v2", parts, root)
    assert hashes(plain) == hashes(staged)
    assert hub.verify("lab/drives", root=root).problems == []


def test_a_part_that_is_older_than_half_the_grace_period_is_refused_by_name(root, monkeypatch):
    w = hub.table_writer("lab/drives:v1", schema(), root=root, grace_seconds=100)
    part = extract(w.worker(), "a", 3)
    now = writer.store_now(root.store)
    monkeypatch.setattr(writer, "store_now", lambda store: now + pd.Timedelta(seconds=51))
    with pytest.raises(hub.errors.ConflictError, match=r"partition 'a' was begun .* ago, more than half"):
        w.add(part)
    w.abort()


def test_blocks_that_a_reference_has_are_not_stored_again(any_root):
    parts = {key: drive(key, 20) for key in "ab"}
    write("lab/drives:v1", parts, any_root)
    before = hub.du("lab/drives:v1", root=any_root)
    changed = {key: [row | {"speed": np.float32(9)} for row in rows] for key, rows in parts.items()}
    table = write("lab/drives:v2", changed, any_root, reference="lab/drives:v1")
    assert_rows(table[:], [*changed["a"], *changed["b"]])
    state = table._state()
    old = hub.load("lab/drives:v1", root=any_root)._state()
    groups = [len(np.unique(item.locations(item.metadata.appends[0], 0, "camera")["check"])) for item in (old, state)]
    assert groups == [40, 40]
    numbers = np.arange(state.metadata.appends[0].chunk_files, dtype=np.uint64)
    known = {ref.tobytes() for ref in old._refs(np.arange(old.metadata.appends[0].chunk_files, dtype=np.uint64))}
    new = [ref for ref in state._refs(numbers) if ref.tobytes() not in known]
    assert len(new) == 2, "one chunk file of 'rest' a partition"
    assert hub.du("lab/drives:v2", root=any_root).logical == pytest.approx(before.logical, rel=0.01)


def test_a_block_that_a_reference_has_is_not_encoded(root, monkeypatch):
    parts = {"a": drive("a", 20)}
    encoded = []

    def counting(group, columns):
        encoded.append(group.name)
        return block_encoding.encode(group, columns)

    monkeypatch.setattr("hubarray.tables.write.group_writer.encode", counting)
    write("lab/drives:v1", parts, root)
    assert encoded.count("camera") == 20
    encoded.clear()
    write(
        "lab/drives:v2", {"a": [row | {"speed": np.float32(9)} for row in parts["a"]]}, root, reference="lab/drives:v1"
    )
    assert set(encoded) == {"rest"}


def test_a_reference_of_another_name_may_be_deleted(root):
    parts = {"a": drive("a", 20)}
    write("lab/drives:v1", parts, root)
    table = write("team/copy:v1", parts, root, reference="lab/drives:v1")
    usage = hub.du("team/copy:v1", root=root)
    assert usage.shared > 0
    hub.delete("lab/drives:v1", root=root)
    assert_rows(table[:], parts["a"])
    assert hub.verify("team/copy", root=root).problems == []


def test_a_reference_under_another_root_names_transfer(root, s3_root):
    write("lab/drives:v1", {"a": drive("a", 1)}, root)
    with pytest.raises(hub.errors.ConfigError, match=r"hub\.transfer"):
        hub.table_writer("lab/new:v1", schema(), reference=f"{root.url}/lab/drives:v1", root=s3_root)


def test_short_runs_of_known_blocks_are_stored_again_and_read_equal(root):
    given = hub.Schema({"x": hub.Field("u1", (None,))})
    rng = np.random.default_rng(0)
    rows = [{"x": rng.integers(0, 9, 20_000, "u1")} for _ in range(40)]
    write("lab/x:v1", {"a": rows}, root, given)
    mixed = [row if i % 3 else {"x": rng.integers(0, 9, 20_000, "u1")} for i, row in enumerate(rows)]
    mixed += rows[:20]
    table = write("lab/x:v2", {"a": mixed}, root, given, reference="lab/x:v1")
    assert all(np.array_equal(first, second["x"]) for first, second in zip(table[:], mixed, strict=True))
    usage = hub.du("lab/x:v2", root=root)
    # Runs of two blocks are stored again with what lies around them, the long run at the end is shared.
    assert usage.own > 0.9 * usage.logical * 40 / 60
    assert usage.shared > 0


def test_a_growing_table_takes_partitions_until_it_is_frozen(root):
    parts = {key: drive(key, 4) for key in "abc"}
    table = write("lab/drives:v1", {"b": parts["b"]}, root, growing=True)
    index = hub.read_index("lab/drives:v1", root=root)
    with hub.table_writer("lab/drives:v1", root=root) as w:
        for key in "ac":
            with w.partition(key) as p:
                p.extend(parts[key])
    table.refresh()
    assert (table.commit, table.frozen) == (2, False)
    assert_rows(table[:], [*parts["b"], *parts["a"], *parts["c"]])
    assert_rows(hub.row_loader(index).get_batch(range(4)), parts["b"])
    again = hub.table_writer("lab/drives:v1", root=root)
    assert not again.add(extract(again.worker(), "a", 4)), "the same rows are there already"
    with pytest.raises(hub.errors.ConflictError, match="'a' is there already, with other rows"):
        again.add(extract(again.worker(), "a", 3))
    again.abort()
    hub.freeze("lab/drives:v1", root=root)
    with pytest.raises(hub.errors.FrozenError):
        hub.table_writer("lab/drives:v1", root=root)


def test_two_writers_at_once_both_add_to_a_growing_table(root):
    write("lab/drives:v1", {"a": drive("a", 2)}, root, growing=True)
    first, second = (hub.table_writer("lab/drives:v1", root=root) for _ in range(2))
    for w, key in ((first, "c"), (second, "b")):
        with w.partition(key) as p:
            p.extend(drive(key, 2))
    first.publish()
    second.publish()
    assert hub.load("lab/drives:v1", root=root).partitions == ["a", "c", "b"]


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_columns_of_frames_are_cast_where_every_value_survives(root, kind):
    given = hub.Schema(
        {"n": hub.Field("i2", nullable=True), "x": hub.Field("f4"), "s": hub.Field(str), "v": hub.Field("f4", (None,))}
    )
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int64"),
            "x": [0.5, float("nan"), 2.0],
            "s": ["a", "b", "c"],
            "v": [[1.0], [], [2.0, 3.0]],
        }
    )
    source = (
        frame
        if kind == "pandas"
        else pa.table(
            {
                "n": pa.array([1, None, 3]),
                "x": [0.5, float("nan"), 2.0],
                "s": ["a", "b", "c"],
                "v": [[1.0], [], [2.0, 3.0]],
            }
        )
    )
    table = write("lab/frames:v1", {"a": []}, root, given, growing=True)
    with hub.table_writer("lab/frames:v1", root=root) as w, w.partition("b") as p:
        p.extend(source)
    table.refresh()
    assert [row["n"] for row in table] == [1, None, 3]
    np.testing.assert_array_equal([row["x"] for row in table], np.array([0.5, np.nan, 2], "f4"))
    assert [row["v"].tolist() for row in table] == [[1], [], [2, 3]]
    for bad in ({"n": [40_000]}, {"n": [0.5]}):
        with (
            pytest.raises(hub.errors.ConfigError, match="cannot hold"),
            hub.table_writer("lab/bad:v1", hub.Schema({"n": hub.Field("i2")}), root=root) as w,
            w.partition("a") as p,
        ):
            p.extend(pd.DataFrame(bad))


def test_a_table_of_one_field_is_a_ragged_array(root):
    values = [np.full((i, 2), i, "i4") for i in range(5)]
    write("lab/ragged:v1", {0: [{"value": value} for value in values]}, root, hub.Field("i4", (None, 2)))
    ragged = hub.load("lab/ragged:v1", root=root)
    assert len(ragged) == 5
    np.testing.assert_array_equal(ragged[3], values[3])
    assert [item.shape for item in ragged[1:4]] == [(1, 2), (2, 2), (3, 2)]
    assert [len(item) for item in ragged] == [0, 1, 2, 3, 4]


def test_tables_are_a_kind_that_other_functions_know(root):
    parts = {"a": drive("a", 3)}
    table = write("lab/drives:v1", parts, root, attrs={"by": "me"}, message="first")
    assert dict(table.attrs) == {"by": "me"}
    assert [commit.message for commit in table.log()] == ["first"]
    copied = hub.copy("lab/drives:v1", "lab/drives:v2", root=root)
    assert copied.frozen
    assert_rows(copied[:], parts["a"])
    hub.delete("lab/drives:v1", root=root)
    with pytest.raises(hub.errors.NotFoundError):
        table.refresh()
    assert_rows(hub.restore("lab/drives:v1", 1, root=root)[:], parts["a"])
    with pytest.raises(hub.errors.ConfigError, match=r"write_index\(index, name, move=True\)"):
        hub.compact("lab/drives:v2", root=root)
    with pytest.raises(hub.errors.ConfigError, match="versions are not merged"):
        hub.merge_version("lab/drives:v2", into="lab/drives:v1", root=root)
    assert "camera.image" in repr(copied)
    assert "data:image/png" in copied._repr_html_()


def test_transferred_tables_read_equal(root, s3_root):
    parts = {"a": drive("a", 30)}
    write("lab/drives:v1", parts, root)
    hub.transfer("lab/drives:v1", s3_root, root=root)
    assert_rows(hub.load("lab/drives:v1", root=s3_root)[:], parts["a"])


def test_differing_rows_are_told_by_partition_and_column(root):
    parts = {"a": drive("a", 6), "b": drive("b", 6)}
    write("lab/drives:v1", parts, root)
    changed = [dict(row) for row in parts["a"]]
    changed[2]["lidar"] = np.ones((1, 4), "f4")
    changed[4]["weight"] = np.float32(99)
    write("lab/drives:v2", {"a": [*changed, changed[0]], "c": drive("c", 2)}, root)
    result = hub.diff("lab/drives:v1", "lab/drives:v2", root=root)
    assert (result.added, result.removed, result.changed) == ({"a": 1, "c": 2}, {"b": 6}, {"a": 2})
    assert {name: count for name, count in result.columns.items() if count} == {"lidar": 1, "weight": 1}
    assert hub.diff("lab/drives:v1", "lab/drives:v1", root=root).same


def test_rows_are_paired_by_fields_of_the_index_wherever_they_stand(root):
    rows = drive("a", 6)
    write("lab/drives:v1", {"a": rows}, root)
    changed = dict(rows[4], speed=np.float32(-1))
    write("lab/drives:v2", {1: [changed, rows[0]], 2: [rows[5], rows[2], dict(rows[0], frame=np.int64(77))]}, root)
    result = hub.diff("lab/drives:v1", "lab/drives:v2", on=["log_id", "frame"], root=root)
    assert (result.added, result.removed, result.changed) == ({2: 1}, {"a": 2}, {1: 1})
    assert {name: count for name, count in result.columns.items() if count} == {"speed": 1}
    with pytest.raises(hub.errors.ConfigError, match="on= pairs"):
        hub.diff("lab/drives:v1", "lab/drives:v2", root=root)
    with pytest.raises(hub.errors.ConfigError, match="two rows of lab/drives:v1 have log_id='a'"):
        hub.diff("lab/drives:v1", "lab/drives:v2", on="log_id", root=root)
    with pytest.raises(hub.errors.ConfigError, match="no index field"):
        hub.diff("lab/drives:v1", "lab/drives:v2", on="speed", root=root)


def test_slabs_are_as_long_as_the_format_says():
    assert locations.SLAB_ROWS == 131_072


def test_a_table_has_five_hundred_columns_and_rows_of_a_byte_and_of_64_megabytes(root):
    fields = {f"sensor_{i:03}.value": hub.Field("f4") for i in range(500)}
    wide = hub.Schema({**fields, "flag": hub.Field("u1"), "cloud": hub.Field("u1", (None,))})
    cloud = np.arange(64 << 20, dtype="u1")
    rows = [
        {**{name: np.float32(i) for name in fields}, "flag": np.uint8(i), "cloud": cloud if i == 1 else cloud[:i]}
        for i in range(3)
    ]
    table = write("lab/wide:v1", {"a": rows}, root, wide)
    assert_rows(table[:], rows)
    assert table.loader().get_row(1, ["flag"]) == {"flag": 1}


def test_a_schema_that_no_record_has_room_for_is_refused_before_anything_is_written(root):
    fields = {f"{i:04}{'x' * 200}.value": hub.Field("f4") for i in range(3000)}
    with pytest.raises(hub.errors.ConfigError, match="schema: describing its 3000 fields"):
        hub.table_writer("lab/wide:v1", hub.Schema(fields), root=root)


def megabytes_held_while_writing(root):
    """How much a process grows by while 384 MB of a partition of 12 groups go through it."""
    fields = {f"sensor_{i}.frame": hub.Field("uint8", (400_000,)) for i in range(12)}
    noise = np.random.default_rng(0).integers(0, 256, 400_000, "u1")

    def held():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def write_rows(name, rows):
        with hub.table_writer(name, hub.Schema(fields), root=root) as tables, tables.partition("a") as part:
            for i in range(rows):
                part.append({field: np.roll(noise, 12 * i + k) for k, field in enumerate(fields)})

    def watch():
        while not ended.wait(0.005):
            seen.append(held())

    write_rows("lab/small:v1", 1)
    seen, ended = [held()], threading.Event()
    watching = threading.Thread(target=watch)
    watching.start()
    write_rows("lab/large:v1", 80)
    ended.set()
    watching.join()
    return (max(seen) - seen[0]) / 1e6


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_partition_writer_holds_about_128_megabytes_however_many_groups_it_fills(make_root, kind):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert 60 < pool.submit(megabytes_held_while_writing, make_root(kind)).result() < 170


def test_partitions_that_a_growing_table_has_already_are_left_as_they_are_where_the_first_counts(root):
    schema = hub.Schema({"f": hub.Field("int64", index=True)})
    with hub.table_writer("t/grown:v1", schema, growing=True, root=root) as writer, writer.partition("a") as p:
        p.extend([{"f": 7}])

    def parts(writer, *keys):
        for key in keys:
            with writer.worker().partition(key) as p:
                p.extend([{"f": 8}])
            yield writer.add(p.part)

    first, second = (hub.table_writer("t/grown:v1", on_duplicate="first", root=root) for _ in range(2))
    assert list(parts(first, "a", "b")) == [False, True]
    assert list(parts(second, "b", "c")) == [True, True], "nobody has published b when it is added"
    first.publish()
    second.publish()
    index = hub.read_index("t/grown:v1", root=root)
    assert dict(zip(index["partition"], index["f"], strict=True)) == {"a": 7, "b": 8, "c": 8}
    third = hub.table_writer("t/grown:v1", root=root)
    assert list(parts(third, "c")) == [False], "the same rows are there already"
    with pytest.raises(hub.errors.ConflictError, match="'a' is there already, with other rows"):
        list(parts(third, "a"))


@pytest.mark.parametrize(
    "rows", [{"a": "xy", "b": "uv"}, {"a": ["x"], "b": b"u"}, {"a": ["x"], "b": 7}, {"a": ["x"], "b": np.array("u")},
             "x.parquet", b"rows", 7]
)  # fmt: skip
def test_one_row_is_never_taken_for_columns_nor_text_for_rows(root, rows):
    schema = hub.Schema({"a": hub.Field(str), "b": hub.Field(str)})
    writer = hub.table_writer("t/trap:v1", schema, root=root)
    with pytest.raises(hub.errors.ConfigError, match="partition 'p'"), writer.partition("p") as p:
        p.extend(rows)
    writer.abort()


@pytest.mark.parametrize("group", [3, {"a": 1}, {"a"}, 1.5])
def test_a_group_is_a_name_or_a_list_of_them(group):
    with pytest.raises(hub.errors.ConfigError, match="group="):
        hub.Field("int64", group=group)


@pytest.mark.parametrize(("first", "second"), [("a", 1), (1, "a"), (np.int32(1), "a")])
def test_the_keys_of_a_table_are_of_one_type(root, first, second):
    schema = hub.Schema({"i": hub.Field("i8")})
    with hub.table_writer("t/keys:v1", schema, root=root) as w:
        with w.partition(first) as p:
            p.append({"i": 0})
        with pytest.raises(hub.errors.ConfigError, match="is of type"), w.partition(second):
            pass
    assert len(hub.load("t/keys:v1", root=root).partitions) == 1
    with hub.table_writer("t/grows:v1", schema, growing=True, root=root) as w, w.partition(first) as p:
        p.append({"i": 0})
    w = hub.table_writer("t/grows:v1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="is of type"), w.partition(second):
        pass
