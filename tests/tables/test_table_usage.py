"""Tables: names that are taken, values of Python, deletions, abandoned writers."""

import datetime
import re
import shutil
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

import hubarray as hub
from hubarray.tables.write import writer as writer_module
from tests.tables.rows import assert_rows, drive, write

NUMBERS = hub.Schema({"i": hub.Field("i8", index=True)})


def numbers(name, root, count=3, **options):
    return write(name, {"a": [{"i": i} for i in range(count)]}, root, NUMBERS, **options)


def test_keys_beyond_floats_pair_rows_in_a_diff_though_some_are_null(root):
    schema = hub.Schema({"k": hub.Field("i8", index=True, nullable=True)})
    for version, key in (("v1", 2**53), ("v2", 2**53 + 1)):
        write(f"t/keys:{version}", {"a": [{"k": None}, {"k": key}]}, root, schema)
    result = hub.diff("t/keys:v1", "t/keys:v2", on="k", root=root)
    assert (sum(result.added.values()), sum(result.removed.values()), result.changed) == (1, 1, {})
    write("t/keys:v3", {"a": [{"k": None}, {"k": 2**53}, {"k": 2**53 + 1}]}, root, schema)
    assert not hub.diff("t/keys:v3", "t/keys:v3", on="k", root=root).changed


def test_a_table_and_an_array_do_not_take_each_others_names(root):
    numbers("t/table:v1", root, growing=True)
    hub.array(3, "t/array:v1", "i8", root=root)
    for call in (
        lambda: hub.array(3, "t/table:v1", "i8", root=root),
        lambda: hub.array(3, "t/table:v1", "i8", root=root, overwrite=True),
        lambda: hub.store(np.zeros(3), "t/table:v1", root=root),
        lambda: hub.store(np.zeros(3), "t/table:v1", root=root, overwrite=True),
    ):
        with pytest.raises(hub.errors.AlreadyExistsError, match="exists, and is a table and no array"):
            call()
    with pytest.raises(hub.errors.ConfigError, match="is an array, but a table is expected"):
        hub.table_writer("t/array:v1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="is an array, but a table is expected"):
        hub.table_writer("t/new:v1", NUMBERS, reference="t/array:v1", root=root)
    assert len(hub.load("t/table:v1", root=root)) == 3


def test_of_two_drivers_that_resume_the_one_that_comes_late_hears_that_the_table_is_there(root, caplog):
    first, second = (hub.table_writer("t/twice:v1", NUMBERS, resume=True, root=root) for _ in range(2))
    for key, writer in (("a", first), ("b", second)):
        with writer.partition(key) as p:
            p.append({"i": 1})
        writer._stage()
    first.publish()
    with pytest.raises(hub.errors.AlreadyExistsError, match="somebody else has created it in the meantime"):
        second.publish()
    assert "are lost" not in caplog.text
    assert len(hub.load("t/twice:v1", root=root)) == 2


def test_a_reference_under_another_root_is_an_error_that_names_transfer(root, make_root):
    numbers("t/here:v1", root)
    elsewhere = make_root("memory")
    with pytest.raises(hub.errors.NotFoundError, match=r"hub\.transfer brings one there"):
        hub.table_writer("t/new:v1", NUMBERS, reference="t/here:v1", root=elsewhere)


def test_versions_that_are_being_filled_are_in_no_list_and_go_when_they_are_abandoned(root, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAITING_PARTS", 1)
    writer = hub.table_writer("t/killed:v1", NUMBERS, root=root, grace_seconds=1)
    with writer.partition("a") as p:
        p.append({"i": 1})
    hidden = writer._staged._version.name
    del writer
    assert hub.list("t", root=root) == []
    numbers("t/killed:v1", root, grace_seconds=1)
    hub.collect_garbage("t/killed", root=root)
    assert hub.exists(str(hidden), root=root), "somebody may be at work"
    age(root, hidden, 5)
    hub.collect_garbage("t/killed", root=root)
    assert not hub.exists(str(hidden), root=root)
    assert hub.list("t", root=root) == ["t/killed:v1"]


def test_a_filter_of_what_is_not_in_the_index_says_what_is(root):
    write("t/drives:v1", {"a": drive("a", 3)}, root)
    for field in ("speed", "fra*"):
        with pytest.raises(
            hub.errors.ConfigError, match=r"the index has no field .*; it has partition, log_id, frame, weight"
        ):
            hub.read_index("t/drives:v1", filters=[(field, ">", 3)], root=root)


def age(root, name, seconds):
    import os
    import time
    from pathlib import Path

    folder = Path(root.url.removeprefix("file://")) / name.home / "log" / name.version
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def test_whoever_deletes_or_counts_hears_who_reads_the_data(root):
    write("t/old:v1", {"a": drive("a", 3)}, root)
    hub.write_index(hub.read_index("t/old:v1", root=root), "u/new:v1", root=root)
    assert hub.du("t/old:v1", root=root).holders == ("u/new",)
    assert hub.delete("t/old:v1", root=root) == ["u/new"]
    usage = hub.du("t/old:v1", root=root)
    assert (usage.own, usage.logical, usage.holders) == (0, 0, ("u/new",))
    assert hub.delete("u/new:v1", root=root) == []
    assert hub.du("t/old:v1", root=root).holders == ()
    with pytest.raises(hub.errors.NotFoundError):
        hub.du("t/never:v1", root=root)


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("M8[us]", datetime.datetime(2020, 1, 2, 3, 4, 5, 6), np.datetime64("2020-01-02T03:04:05.000006")),
        ("M8[D]", datetime.date(2020, 1, 2), np.datetime64("2020-01-02")),
        ("M8[ns]", pd.Timestamp(2020, 1, 2, nanosecond=7), np.datetime64("2020-01-02T00:00:00.000000007")),
        ("m8[ms]", datetime.timedelta(seconds=1.5), np.timedelta64(1500, "ms")),
        ("m8[ns]", pd.Timedelta(7, "ns"), np.timedelta64(7, "ns")),
        ("V3", b"abc", np.void(b"abc")),
        ([("a", "i4"), ("b", "f8")], (1, 2.5), np.array((1, 2.5), [("a", "i4"), ("b", "f8")])[()]),
        ("f8", 2**53, np.float64(2**53)),
        ("f4", 0.1, np.float32(0.1)),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_python_are_stored_as_what_they_are(root, dtype, value, stored):
    with hub.table_writer("t/value:v1", hub.Field(dtype), root=root) as w, w.partition(0) as p:
        p.append({"value": value})
    result = hub.load("t/value:v1", root=root)[0]
    assert result == stored
    assert np.asarray(result).dtype == np.dtype(dtype)


def test_times_with_a_zone_are_the_moment_in_utc_however_they_come(root):
    moment = pd.Timestamp("2020-06-01 12:00", tz="Europe/Berlin")
    given = [
        [{"value": moment}], [{"value": moment.to_pydatetime()}], pd.DataFrame({"value": [moment]}),
        pa.table({"value": pa.array([moment.to_pydatetime()], pa.timestamp("us", "Europe/Berlin"))}),
    ]  # fmt: skip
    with hub.table_writer("t/moments:v1", hub.Field("M8[us]"), root=root) as w:
        for number, rows in enumerate(given):
            with w.partition(number) as p:
                p.extend(rows)
    assert [str(item) for item in hub.load("t/moments:v1", root=root)[:]] == ["2020-06-01T10:00:00.000000"] * 4


@pytest.mark.parametrize(
    ("dtype", "value", "why"),
    [
        ("M8[s]", datetime.datetime(2020, 1, 2, 3, 4, 5, 6), "does not fit"),
        ("M8[us]", datetime.timedelta(1), "does not fit|is no"),
        ("V3", b"abcd", "4 bytes"),
        ([("a", "i4")], (1.5,), "does not fit"),
        ("f8", 2**53 + 1, "does not fit"),
        ("f4", 2**24 + 1, "does not fit"),
        ("f2", 70000, "does not fit"),
    ],
    ids=str,
)
def test_values_of_python_that_would_change_are_refused(root, dtype, value, why):
    writer = hub.table_writer("t/value:v1", hub.Field(dtype), root=root)
    with writer as w, w.partition(0) as p, pytest.raises(hub.errors.ConfigError, match=why):
        p.append({"value": value})
    assert len(hub.load("t/value:v1", root=root)) == 0


def test_a_table_of_one_field_takes_values_without_a_name(root):
    with hub.table_writer("t/ragged:v1", hub.Field("i8", (None,)), root=root) as w, w.partition(0) as p:
        p.append(np.arange(2))
        p.extend([np.arange(3), {"value": np.arange(4)}])
    assert [len(item) for item in hub.load("t/ragged:v1", root=root)] == [2, 3, 4]


def test_columns_of_pandas_are_cast_as_those_of_arrow(root):
    zone = pd.Series(pd.date_range("2020", periods=2, tz="Europe/Berlin"))
    cells = pd.Series([np.array([0.5, 1.0]), np.array([2.0])])
    schema = hub.Schema({"t": hub.Field("M8[ns]", index=True), "v": hub.Field("f4", (None,))})
    with hub.table_writer("t/frame:v1", schema, root=root) as w, w.partition(0) as p:
        p.extend(pd.DataFrame({"t": zone.astype("datetime64[ns, Europe/Berlin]"), "v": cells}))
        with pytest.raises(hub.errors.ConfigError, match=r"row 3, field 'v'|row 3: column 'v'"):
            p.extend(
                pd.DataFrame(
                    {"t": zone.astype("datetime64[ns, Europe/Berlin]"), "v": [np.array([1.0]), np.array([0.1])]}
                )
            )
    table = hub.load("t/frame:v1", root=root)
    assert table[0]["t"] == np.datetime64("2019-12-31T23:00")
    assert table[0]["v"].tolist() == [0.5, 1.0]


def test_a_table_that_pandas_merged_with_itself_takes_any_suffixes(root):
    numbers("t/self:v1", root)
    index = hub.read_index("t/self:v1", root=root)
    for suffixes in ((".l", ".r"), ("-a", "-b"), (" (left)", " (right)")):
        merged = pd.merge(index, index, on=["partition", "i"], suffixes=suffixes)
        assert hub.row_loader(merged, root).get_row(1, "i")["i"] == 1


def test_a_table_that_is_written_again_after_its_deletion_begins_without_tags(root):
    numbers("t/again:v1", root)
    hub.tag("t/again:v1", "best", root=root)
    hub.delete("t/again:v1", root=root)
    numbers("t/again:v1", root, count=5)
    assert hub.tags("t/again:v1", root=root) == {}
    hub.tag("t/again:v1", "best", root=root)
    assert len(hub.load("t/again:v1@best", root=root)) == 5


def test_an_array_that_one_side_lacks_is_a_difference(root):
    schema = hub.Schema({"k": hub.Field("i8", index=True), "v": hub.Field("f4", (None,), nullable=True)})
    for version, value in (("v1", np.zeros(2, "f4")), ("v2", None)):
        write(f"t/lacking:{version}", {"a": [{"k": 0, "v": value}]}, root, schema)
    assert hub.diff("t/lacking:v1", "t/lacking:v2", root=root).columns["v"] == 1


def test_days_with_nulls_are_written_from_arrow_and_imported(root):
    days = [datetime.date(2020, 1, 1), None, datetime.date(1969, 5, 5)]
    schema = hub.Schema({"d": hub.Field("M8[D]", nullable=True), "ms": hub.Field("M8[ms]", nullable=True)})
    with hub.table_writer("t/days:v1", schema, root=root) as w, w.partition("a") as p:
        p.extend(pa.table({"d": days, "ms": days}))
    result = hub.load("t/days:v1", root=root)[:]
    assert [None if row["d"] is None else row["d"].item() for row in result] == days
    assert [None if row["ms"] is None else row["ms"].item().date() for row in result] == days
    hub.import_table(pd.DataFrame({"d": days, "i": range(3)}), "t/days:v2", root=root)
    assert [
        None if row["d"] is None else row["d"].astype("M8[D]").item() for row in hub.load("t/days:v2", root=root)
    ] == days


def test_a_csv_with_a_name_twice_is_refused(root, tmp_path):
    (tmp_path / "a.csv").write_text("id,x,x\n1,2,3\n")
    with pytest.raises(hub.errors.SourceError, match="two columns 'x'"):
        hub.import_table(tmp_path / "a.csv", "t/csv:v1", root=root)


def test_pictures_of_rare_kinds_are_imported_as_rgb_and_broken_ones_are_named(root, tmp_path):
    pixels = np.arange(48, dtype="u1").reshape(4, 4, 3)
    for name, mode in (("a.png", "RGB"), ("b.png", "P"), ("c.png", "1"), ("d.jpg", "CMYK")):
        Image.fromarray(pixels).convert(mode).save(tmp_path / name)
    table = hub.import_table(tmp_path, "t/pictures:v1", root=root)
    shapes = {row["path"]: row["image"].shape for row in table}
    assert shapes == dict.fromkeys(["a.png", "b.png", "c.png", "d.jpg"], (4, 4, 3))
    (tmp_path / "d.jpg").write_bytes(b"no picture")
    with pytest.raises(hub.errors.SourceError, match=r"d\.jpg: .* not an image of a known format"):
        hub.import_table(tmp_path, "t/pictures:v2", root=root)
    (tmp_path / "d.jpg").unlink()
    (tmp_path / "a.csv").write_text("id,path\n1,nope.png\n2,a.png\n")
    with pytest.raises(hub.errors.SourceError, match="nope"):
        hub.import_table(tmp_path / "a.csv", "t/pictures:v3", root=root)


def test_columns_that_somebody_added_to_an_index_are_left_out_with_a_warning(root):
    numbers("t/scored:v1", root)
    index = hub.read_index("t/scored:v1", root=root)
    with pytest.warns(UserWarning, match="the columns score are of no table"):
        published = hub.write_index(index.assign(score=1.0), "t/scored:v2", root=root)
    assert list(published.schema) == list(hub.load("t/scored:v1", root=root).schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hub.write_index(index, "t/scored:v3", root=root)
        merged = pd.merge(index, index, on="i")
        hub.row_loader(merged, root)


@pytest.mark.parametrize("move", [False, True])
def test_an_index_of_another_root_is_published_by_copies_and_says_how_many_bytes_first(make_root, move, capsys):
    first, second = make_root("local"), make_root("memory")
    rows = {key: drive(key, 6) for key in "ab"}
    write("t/drives:v1", rows, first)
    index = hub.read_index("t/drives:v1", root=first)
    some = index[index["frame"] > 1]
    hub.write_index(some, "t/published:v1", root=second, move=move)
    said = capsys.readouterr().err
    assert re.search(r"t/published:v1: copying [\d,]+ bytes, as t/drives:v1 is under another root", said)
    told = int(re.search(r"copying ([\d,]+) bytes", said)[1].replace(",", ""))
    assert 0.5 * told <= hub.du("t/published:v1", root=second).own <= 2 * told + 20_000
    shutil.rmtree(first.url.removeprefix("file://"))
    hub.configure(memory_cache_bytes=0, disk_cache_bytes=0)
    result = hub.load("t/published:v1", root=second)
    assert_rows(result[:], [row for key in "ab" for row in rows[key] if row["frame"] > 1])
    assert hub.verify("t/published:v1", root=second).problems == []


def test_what_a_table_shares_its_name_for_is_told_to_whoever_stores_it(root):
    table = numbers("t/x:v1", root)
    with pytest.raises(hub.errors.ConfigError, match=r"hub\.copy.*hub\.write_index"):
        hub.store(table, "t/y:v1", root=root)


def test_the_dtypes_of_an_index_are_nullable_and_small(root):
    schema = hub.Schema(
        {
            "i": hub.Field("i8", index=True), "f": hub.Field("f4", index=True, nullable=True),
            "s": hub.Field(str, index=True), "when": hub.Field("M8[us]", index=True),
        }
    )  # fmt: skip
    count = 20_000
    when = np.arange(count).astype("M8[s]").astype("M8[us]")
    rows = {"i": np.arange(count), "f": [None if i % 2 else i for i in range(count)], "s": ["x"] * count, "when": when}
    key = "a long key of a partition"
    with hub.table_writer("t/index:v1", schema, root=root) as w, w.partition(key) as p:
        p.extend(pd.DataFrame(rows))
    index = hub.read_index("t/index:v1", root=root)
    service = next(name for name in index if name.startswith("hubarray:"))
    assert index.drop(columns=[service, "when"]).dtypes.to_dict() == {
        "partition": pd.CategoricalDtype([key]), "i": np.dtype("i8"), "f": pd.Float32Dtype(),
        "s": pd.StringDtype(na_value=pd.NA),
    }  # fmt: skip
    assert index["partition"].memory_usage(index=False, deep=True) <= 4 * count + 1000, "a number for each row"
    assert index[service].memory_usage(index=False, deep=True) <= 8 * count + 1000
    assert pd.isna(index["f"].iloc[1])
    assert int(index["f"].isna().sum()) == count // 2
    assert index["when"].iloc[1] - index["when"].iloc[0] == pd.Timedelta(seconds=1)
