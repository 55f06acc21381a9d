"""Plain Parquet: as warehouses write it, on disk and S3, cached, damaged, and with other schemas."""

import datetime
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import ConfigError, SourceError
from tests.readers.conftest import same


def warehouse():
    some = list(range(40))
    return pa.table({
        "id": pa.array(some, pa.int64()),
        "small": pa.array([None if i % 7 == 0 else i for i in some], pa.int16()),
        "real": pa.array([None if i % 5 == 0 else i / 2 for i in some], pa.float32()),
        "text": pa.array([None if i % 3 == 0 else f"t{i}" for i in some]),
        "kind": pa.array([f"k{i % 3}" for i in some]).dictionary_encode(),
        "price": pa.array([Decimal(i) / 4 for i in some], pa.decimal128(10, 2)),
        "when": pa.array([datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=i) for i in some], pa.timestamp("us")),
        "day": pa.array([datetime.date(2020, 1, 1 + i % 28) for i in some], pa.date32()),
        "list": pa.array([None if i == 4 else list(range(i % 4)) for i in some], pa.list_(pa.int32())),
        "lists": pa.array([[[1.5] * (i % 3)] * (i % 2) for i in some], pa.list_(pa.list_(pa.float64()))),
        "flag": pa.array([i % 2 == 0 for i in some]),
        "bytes": pa.array([bytes([i]) for i in some], pa.binary()),
        **{f"c{n}": pa.array(some, pa.int32()) for n in range(300)},
    })  # fmt: skip


def plain(value):
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def test_every_type_of_a_warehouse_is_read(tmp_path):
    table = warehouse()
    pq.write_table(table, tmp_path / "w.parquet", row_group_size=9)
    with hub.make_reader(str(tmp_path / "w.parquet"), shuffle_row_groups=False) as reader:
        rows = list(reader)
    assert len(rows[0]) == 312
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        for name, value in expected.items():
            got = plain(getattr(row, name))
            if name == "when":
                assert np.datetime64(getattr(row, name)) == np.datetime64(value)
            elif name == "day":
                assert np.datetime64(getattr(row, name), "D") == np.datetime64(value, "D")
            else:
                assert got == value, name
    with hub.make_batch_reader(str(tmp_path / "w.parquet"), shuffle_row_groups=False) as reader:
        batch = next(reader)
    assert batch.id.tolist() == list(range(9))
    assert np.isnan(batch.real[[0, 5]]).all()


def parts(folder, count=3, rows=10):
    for k in range(count):
        (folder / f"day={k}" / f"site=s{k % 2}").mkdir(parents=True)
        table = pa.table({"id": np.arange(k * rows, (k + 1) * rows), "v": np.arange(rows, dtype=np.float32)})
        pq.write_table(table, folder / f"day={k}" / f"site=s{k % 2}" / "a.parquet", row_group_size=4)
    return str(folder)


def test_folders_of_hive_partitions_are_columns_and_are_decided_without_reading(tmp_path):
    where = parts(tmp_path / "h")
    with hub.make_reader(where) as reader:
        assert {(int(row.day), str(row.site)) for row in reader} == {(0, "s0"), (1, "s1"), (2, "s0")}
    with hub.make_reader(where, predicate=hub.petastorm.in_set(["s1"], "site")) as reader:
        assert len(reader) == 10
        assert sorted(int(row.id) for row in reader) == list(range(10, 20))
    with hub.make_reader(where, filters=[("day", ">=", 1), ("site", "=", "s0")]) as reader:
        assert len(reader) == 10


def test_lists_of_files_are_one_dataset(tmp_path):
    where = parts(tmp_path / "h")
    files = sorted(str(path) for path in (tmp_path / "h").rglob("*.parquet"))
    with hub.make_reader(files[1:], ["id"]) as reader:
        assert sorted(int(row.id) for row in reader) == list(range(10, 30))
    assert where


def test_statistics_leave_row_groups_unread(tmp_path):
    pq.write_table(pa.table({"id": np.arange(1000)}), tmp_path / "s.parquet", row_group_size=10)
    with hub.make_reader(str(tmp_path / "s.parquet"), filters=[("id", "<", 25)], workers_count=1) as reader:
        assert sorted(int(row.id) for row in reader) == list(range(25))


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_buckets_are_written_and_read_with_the_same_words(request, kind):
    server = request.getfixturevalue({"s3": "s3_server", "gs": "gcs_server"}[kind])
    url, options = server.url, server.options
    fields = [
        hub.petastorm.UnischemaField("id", np.int64),
        hub.petastorm.UnischemaField("x", np.float32, (2,), hub.petastorm.NdarrayCodec()),
    ]
    rows = [{"id": i, "x": np.full(2, i, np.float32)} for i in range(20)]
    where = f"{url}/petastorm/data"
    with hub.parquet_writer(
        where, hub.petastorm.Unischema("Rows", fields), rows_per_row_group=3, storage_options=options
    ) as writer:
        writer.write_rows(rows)
    with hub.make_reader(where, storage_options=options, seed=1) as reader:
        result = {int(row.id): row.x for row in reader}
    assert all(same(result[i], rows[i]["x"]) for i in range(20))
    with hub.make_batch_reader(where, ["id"], filters=[("id", "<", 5)], storage_options=options) as reader:
        assert sorted(int(i) for batch in reader for i in batch.id) == list(range(5))


def cached(where, folder, **options):
    with hub.make_reader(
        where, cache_type="local-disk", cache_location=folder, shuffle_row_groups=False, **options
    ) as reader:
        return [tuple(map(plain, row)) for row in reader]


def test_the_cache_keeps_datasets_columns_and_rewritten_files_apart(tmp_path):
    cache = tmp_path / "cache"
    for name, base in (("a", 0), ("b", 100)):
        pq.write_table(
            pa.table({"id": np.arange(base, base + 20), "v": np.arange(20)}), tmp_path / name, row_group_size=5
        )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    for _ in range(2):
        assert [row[0] for row in cached(a, cache, schema_fields=["id"])] == list(range(20))
        assert [row[0] for row in cached(b, cache, schema_fields=["id"])] == list(range(100, 120))
        assert [len(row) for row in cached(a, cache)] == [2] * 20
    doubled = hub.TransformSpec(lambda row: {"id": row["id"] * 2, "v": row["v"]})
    assert [row[0] for row in cached(a, cache, transform_spec=doubled)] == list(range(0, 40, 2))
    assert [row[0] for row in cached(a, cache, predicate=hub.petastorm.in_lambda(["id"], lambda i: i > 17))] == [18, 19]
    pq.write_table(pa.table({"id": np.arange(20) + 7, "v": np.arange(20)}), tmp_path / "a", row_group_size=5)
    assert [row[0] for row in cached(a, cache)] == list(range(7, 27))


def test_a_cache_that_is_smaller_than_a_row_group_only_reads_again(tmp_path):
    pq.write_table(pa.table({"id": np.arange(50_000)}), tmp_path / "a", row_group_size=25_000)
    for _ in range(2):
        assert len(cached(str(tmp_path / "a"), tmp_path / "cache", cache_size_limit=1)) == 50_000


def test_a_damaged_cache_is_not_believed(tmp_path):
    pq.write_table(pa.table({"id": np.arange(20)}), tmp_path / "a", row_group_size=5)
    cached(str(tmp_path / "a"), tmp_path / "cache")
    spoiled = 0
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            if data:
                data[len(data) // 2] ^= 255
                path.write_bytes(data)
                spoiled += 1
    assert spoiled
    assert [row[0] for row in cached(str(tmp_path / "a"), tmp_path / "cache")] == list(range(20))


def test_a_corrupt_file_is_named_and_may_be_passed_over(tmp_path):
    where = parts(tmp_path / "h")
    file = tmp_path / "h" / "day=1" / "site=s1" / "a.parquet"
    data = bytearray(file.read_bytes())
    data[4:60] = os.urandom(56)
    file.write_bytes(data)
    with hub.make_reader(where) as reader, pytest.raises(SourceError, match=r"day=1/site=s1/a.parquet"):
        list(reader)
    with hub.make_reader(where, on_error="skip") as reader:
        result = sorted(int(row.id) for row in reader)
        assert set(range(10)) | set(range(20, 30)) <= set(result)
        assert reader.diagnostics["rows_skipped"] == 30 - len(result) > 0
    file.write_bytes(b"PAR1 this is no Parquet PAR1")
    with pytest.raises(SourceError, match=r"day=1/site=s1/a.parquet"):
        hub.make_reader(where)


def test_schemas_that_disagree_are_refused_with_the_column(tmp_path):
    pq.write_table(pa.table({"id": [1], "v": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"b.parquet.*'v'"):
        hub.make_reader(str(tmp_path))


def test_a_missing_client_and_credentials_in_a_url_are_refused():
    with pytest.raises(ConfigError, match="do not belong in a URL"):
        hub.make_reader("s3://user:secret@bucket/data")
    with pytest.raises((ConfigError, ImportError)):
        hub.make_reader("nothing://bucket/data")


def test_dask_writes_a_dataset_that_is_read_back(tmp_path):
    import dask.bag

    fields = [
        hub.petastorm.UnischemaField("id", np.int64),
        hub.petastorm.UnischemaField("x", np.float32, (2,), hub.petastorm.NdarrayCodec()),
    ]
    bag = dask.bag.range(40, npartitions=4).map(lambda i: {"id": i, "x": np.full(2, i, np.float32)})
    hub.write_dask(bag, tmp_path / "d", hub.petastorm.Unischema("Rows", fields))
    with hub.make_reader(str(tmp_path / "d")) as reader:
        assert sorted(int(row.x[0]) for row in reader) == list(range(40))
    assert len(list((tmp_path / "d").glob("*.parquet"))) == 4


@pytest.mark.parametrize(
    ("dtype", "value", "match"),
    [
        (np.int32, 1 << 40, "beyond its range"),
        (np.int32, 1.5, "not whole"),
        (np.int64, "a", "'x'.*invalid literal"),
        (np.bytes_, 5, "'x'"),
        (np.uint8, -1, "beyond its range"),
    ],
)
def test_a_value_that_a_field_cannot_hold_is_refused_by_name_and_leaves_no_file(tmp_path, dtype, value, match):
    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("x", dtype)])
    with pytest.raises(ValueError, match=match), hub.parquet_writer(tmp_path / "data", schema) as writer:
        writer.write_rows([{"x": b"" if dtype is np.bytes_ else 1}, {"x": value}])
    assert not list((tmp_path / "data").rglob("*.parquet"))


def test_rows_that_fail_at_the_end_leave_no_file(tmp_path):
    class NoBytes(hub.petastorm.NdarrayCodec):
        def encode(self, field, value):
            return 7

    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("x", np.uint8, (1,), NoBytes())])
    writer = hub.parquet_writer(tmp_path / "data", schema)
    writer.write({"x": np.zeros(1, "u1")})
    with pytest.raises(hub.HubError):
        writer.close()
    assert not list((tmp_path / "data").rglob("*.parquet"))


def test_times_keep_their_unit(tmp_path):
    fields = [hub.petastorm.UnischemaField(unit, np.dtype(f"M8[{unit}]")) for unit in ("D", "s", "us", "ns")]
    when = np.datetime64("2020-01-02T03:04:05.678901234", "ns")
    with hub.parquet_writer(tmp_path, hub.petastorm.Unischema("Rows", fields)) as writer:
        writer.write({field.name: when for field in fields})
    with hub.make_reader(tmp_path) as reader:
        row = next(reader)
    for unit in ("D", "s", "us", "ns"):
        assert getattr(row, unit) == when.astype(f"M8[{unit}]")


@pytest.mark.parametrize("filters", [("id", "=", 1), [("id", "=", "1")], [("id", "~", 1)]])
def test_filters_that_are_none_or_do_not_fit_say_so(tmp_path, filters):
    pq.write_table(pa.table({"id": range(4)}), tmp_path / "a.parquet")
    with pytest.raises(hub.errors.ConfigError, match="filters"):
        list(hub.make_reader(tmp_path, filters=filters))
