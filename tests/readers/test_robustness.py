"""Readers over splits, nulls, damaged files and wrong options."""

import itertools
import pickle
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.parquet import footers, pickled
from hubarray.readers.parquet.files import listed, located
from tests.readers.conftest import row_of, write_petastorm


def cars(folder, rows=10, group=5):
    for car in range(3):
        (folder / f"car={car}").mkdir(parents=True)
        ids = np.arange(car * rows, (car + 1) * rows)
        pq.write_table(pa.table({"id": ids}), folder / f"car={car}" / "a.parquet", row_group_size=group)
    return str(folder)


@pytest.mark.parametrize("across", [False, True])
def test_windows_over_a_split_stay_where_those_of_its_source_do(tmp_path, across):
    where = cars(tmp_path / "cars")
    ngram = hub.NGram({0: ["id"], 1: ["id"]}, 1, "id", across_row_groups=across)

    def windows(source):
        with hub.make_reader(source, ngram, shuffle_row_groups=False) as reader:
            return [(int(item[0].id), int(item[1].id)) for item in reader]

    assert windows(hub.split(where, train=1.0)["train"]) == windows(where)
    assert len(windows(where)) == (27 if across else 24)


def test_what_keys_decide_of_a_source_they_decide_of_its_splits(tmp_path):
    part = hub.split(cars(tmp_path / "cars"), train=1.0)["train"]
    with hub.make_reader(
        part, predicate=hub.petastorm.in_set([1], "car"), shard_balance="drop", cur_shard=0, shard_count=2
    ) as reader:
        assert sorted(int(row.car) for row in reader) == [1] * 5


def test_rows_of_files_that_are_added_anywhere_leave_the_parts_of_others(tmp_path):
    where = cars(tmp_path / "cars", rows=40)
    before = {int(row.id) for row in hub.make_reader(hub.split(where, train=0.5)["train"])}
    (tmp_path / "cars" / "car=0" / "0.parquet").write_bytes((tmp_path / "cars" / "car=1" / "a.parquet").read_bytes())
    after = [(int(row.car), int(row.id)) for row in hub.make_reader(hub.split(where, train=0.5)["train"])]
    assert {i for car, i in after if i // 40 == car} == before


COLUMNS = {
    "int": pa.array([None if i % 4 == 0 else i for i in range(100)], pa.int64()),
    "real": pa.array([None if i % 4 == 0 else i / 3 for i in range(100)], pa.float32()),
    "plain": pa.array([i / 3 for i in range(100)], pa.float32()),
    "flag": pa.array([None if i % 4 == 0 else i % 2 == 0 for i in range(100)], pa.bool_()),
    "when": pa.array([None if i % 4 == 0 else i for i in range(100)], pa.timestamp("us")),
    "text": pa.array([None if i % 4 == 0 else f"t{i}" for i in range(100)]),
}


@pytest.mark.parametrize("field", COLUMNS)
@pytest.mark.parametrize(
    "make",
    [
        lambda field: hub.petastorm.in_pseudorandom_split([0.5, 0.5], 0, field),
        lambda field: hub.petastorm.in_set([None], field),
        lambda field: hub.petastorm.in_negate(hub.petastorm.in_set([None], field)),
        lambda field: hub.petastorm.in_reduce(
            [hub.petastorm.in_set([None, "t1"], field), hub.petastorm.in_pseudorandom_split([1.0], 0, field)], all
        ),
    ],
    ids=["split", "null", "cannot hold null", "reduce"],
)
def test_a_predicate_says_the_same_of_rows_and_of_batches(tmp_path, field, make):
    pq.write_table(pa.table({"id": range(100), **COLUMNS}), tmp_path / "x.parquet", row_group_size=30)
    options = {"predicate": make(field), "shuffle_row_groups": False}
    with hub.make_reader(tmp_path / "x.parquet", ["id"], **options) as reader:
        rows = [int(row.id) for row in reader]
    with hub.make_batch_reader(tmp_path / "x.parquet", ["id"], **options) as reader:
        assert [int(i) for batch in reader for i in batch.id] == rows


def test_a_predicate_that_derives_from_one_of_ours_has_the_last_word(tmp_path):
    class Odd(hub.petastorm.in_set):
        def do_include(self, values):
            return values["id"] % 2 == 1

    pq.write_table(pa.table({"id": range(6)}), tmp_path / "x.parquet")
    with hub.make_reader(tmp_path / "x.parquet", predicate=Odd([0], "id")) as reader:
        assert sorted(int(row.id) for row in reader) == [1, 3, 5]


@pytest.mark.parametrize("loader", ["DataLoader", "BatchedDataLoader"])
def test_a_loader_over_rows_loses_none_to_an_error_that_is_met_once(tmp_path, loader):
    from hubarray.interop import torch as loaders

    pq.write_table(pa.table({"id": range(600)}), tmp_path / "x.parquet", row_group_size=50)
    failed = []

    def fail_once(row):
        if row["id"] == 322 and not failed:
            failed.append(1)
            raise OSError("once")
        return row

    spec = hub.TransformSpec(fail_once)
    with getattr(loaders, loader)(hub.make_reader(tmp_path / "x.parquet", transform_spec=spec, seed=1), 100) as batches:
        seen = []
        for _ in range(2):
            try:
                for batch in batches:
                    seen += batch["id"].tolist()
            except OSError:
                continue
        assert sorted(seen) == list(range(600))


def test_a_name_in_a_pickle_that_grows_without_end_is_refused_at_once():
    nested = ("x",)
    for _ in range(60):
        nested = (nested, nested)
    began = time.monotonic()
    data = b"cpetastorm.unischema\nUnischema\n)\x81" + b"}(X\x05\x00\x00\x00_name" + pickle.dumps(nested, 2)[2:-1]
    data = b"\x80\x02" + data + b"X\x07\x00\x00\x00_fields}ub."
    with pytest.raises(hub.errors.SourceError, match="refused"):
        pickled.pickled_schema(data, "here")
    assert time.monotonic() - began < 5


def test_a_damaged_row_group_is_passed_over_at_once(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": np.arange(200_000)}), path, row_group_size=50_000, compression="snappy",
                   use_dictionary=False)  # fmt: skip
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + 200] = bytes(200)
    path.write_bytes(data)
    began = time.monotonic()
    with hub.make_batch_reader(str(path), on_error="skip", shuffle_row_groups=False) as reader:
        result = np.concatenate([batch.id for batch in reader])
        assert reader.diagnostics["rows_skipped"] == 50_000
    assert result.tolist() == [*range(50_000), *range(100_000, 200_000)]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("damage", ["destroyed", "cut", "empty", "gone later"])
def test_a_file_that_cannot_be_read_is_passed_over_and_counted(tmp_path, damage):
    where = cars(tmp_path / "cars")
    bad = tmp_path / "cars" / "car=1" / "a.parquet"
    whole = bad.read_bytes()
    if damage != "gone later":
        bad.write_bytes({"destroyed": b"x" * len(whole), "cut": whole[:-20], "empty": b""}[damage])
        with pytest.raises(hub.errors.SourceError, match="car=1/a"):
            hub.make_reader(where)
        with pytest.warns(UserWarning, match="the file is left out"):
            reader = hub.make_reader(where, on_error="skip")
        assert reader.diagnostics["files_skipped"] == 1
        with pytest.warns(UserWarning, match="the file is left out"):
            narrowed = hub.make_reader(where, on_error="skip", filters=[("car", "<", 2)])
        assert narrowed.diagnostics["files_skipped"] == 1
    else:
        reader = hub.make_reader(where, on_error="skip")
        footers.metadata._remembered.clear()
        bad.unlink()
    with reader:
        assert sorted(int(row.id) for row in reader) == [*range(10), *range(20, 30)]
        assert reader.diagnostics["rows_skipped"] == (10 if damage == "gone later" else 0)


def test_where_every_file_is_damaged_there_is_nothing_to_pass_over_to(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(hub.errors.SourceError):
        hub.make_reader(tmp_path, on_error="skip")


def test_a_store_that_is_away_is_no_damage_to_be_passed_over(tmp_path):
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9"}
    with pytest.raises(hub.errors.UnavailableError):
        hub.make_reader("s3://bucket/x", on_error="skip", storage_options=options)


def test_lists_are_of_one_store_and_their_files_are_named_in_errors(tmp_path):
    where = cars(tmp_path / "cars")
    files = sorted(str(path) for path in (tmp_path / "cars").rglob("*.parquet"))
    with pytest.raises(hub.errors.ConfigError, match="is on another store than"):
        hub.make_reader([files[0], "memory://b/y.parquet"])
    for some in (files, files[:1], files[0]):
        with hub.make_reader(some, predicate=hub.petastorm.in_set([0], "car")) as reader:
            assert sorted(int(row.id) for row in reader) == list(range(10))

    def broken(row):
        raise RuntimeError

    reader = hub.make_reader(files, transform_spec=hub.TransformSpec(broken))
    with reader, pytest.raises(RuntimeError) as caught:
        next(reader)
    assert f"{where}/car=" in caught.value.__notes__[0]


def test_a_file_or_a_partition_of_a_petastorm_dataset_is_decoded(tmp_path):
    write_petastorm(tmp_path / "data", [row_of(i) for i in range(60)], partition_by=["key"])
    file = next((tmp_path / "data" / "key=k1").glob("*.parquet"))
    for item in (file, file.parent, [file]):
        with hub.make_reader(item) as reader:
            rows = sorted(reader, key=lambda row: row.id)
        assert [int(row.id) for row in rows] == list(range(20, 40))
        assert (rows[3].x == 23).all()
        assert str(rows[3].key) == "k1"


def test_an_endless_reader_of_nothing_is_an_error(tmp_path):
    where = cars(tmp_path / "cars")
    reader = hub.make_reader(where, predicate=hub.petastorm.in_lambda(["id"], lambda i: False), num_epochs=None)
    with reader, pytest.raises(hub.errors.NoDataAvailableError, match="no row passed the predicate in a whole epoch"):
        next(reader)


def test_a_mix_that_has_ended_begins_again(tmp_path):
    where = cars(tmp_path / "cars")
    with hub.petastorm.WeightedSamplingReader(
        [hub.make_reader(where, seed=i) for i in range(2)], [0.5, 0.5], seed=0
    ) as mix:
        first_id = int(next(mix).id)
        with pytest.raises(NotImplementedError):
            mix.reset()
        first = [first_id, *(int(row.id) for row in mix)]
        mix.reset()
        second = [int(row.id) for row in mix]
    assert len(second) >= 30 > len(first) - 30
    assert first != second


def test_a_state_without_a_seed_goes_on_on_any_number_of_shards(tmp_path):
    where = cars(tmp_path / "cars")
    with hub.make_reader(where) as item:
        begun = [int(row.id) for row in itertools.islice(item, 7)]
        state = item.state_dict()
    rest = []
    for rank in range(2):
        with hub.make_reader(where, cur_shard=rank, shard_count=2) as reader:
            reader.load_state_dict(state)
            rest += [int(row.id) for row in reader]
    assert sorted(begun + rest) == list(range(30))
    assert hub.make_reader(where, cur_shard=0, shard_count=1).seed == 0


def test_a_capacity_is_how_many_rows_are_shuffled_among(tmp_path):
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "x.parquet", row_group_size=10)
    reader = hub.make_reader(tmp_path / "x.parquet", shuffle_row_groups=False, seed=0)
    reader.set_group_rows(100)
    with reader:
        result = [int(row.id) for row in reader]
    moved = np.abs(np.array(result) - np.arange(1000))
    assert 60 < moved.max() < 160


@pytest.mark.parametrize(
    "options",
    [{"workers_count": 0}, {"shuffle_rows": "yes"}, {"storage_options": 5}, {"shuffle_row_groups": None}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(tmp_path, options):
    with pytest.raises(hub.errors.ConfigError, match=next(iter(options))):
        hub.make_reader(tmp_path, **options)


def test_a_function_in_a_window_carries_the_file_and_row_group(tmp_path):
    where = cars(tmp_path / "cars")
    ngram = hub.NGram({0: ["id"]}, 1, "id")
    predicate = hub.petastorm.in_lambda(["id"], lambda i: 1 / 0)
    with hub.make_reader(where, ngram, predicate=predicate) as reader, pytest.raises(ZeroDivisionError) as caught:
        next(reader)
    assert "row group" in caught.value.__notes__[0]


def test_nothing_of_a_file_that_may_be_rewritten_within_the_second_is_kept(s3_server, tmp_path):
    where, options = f"{s3_server.url}/fresh", s3_server.options
    client = located(where, options).client.filesystem
    client.create_dir("bkt/fresh")
    for _ in range(3):
        result = []
        for first in (0, 100):
            with client.open_output_stream("bkt/fresh/x.parquet") as out:
                pq.write_table(pa.table({"id": np.arange(first, first + 50)}), out, compression="none",
                               use_dictionary=False)  # fmt: skip
            given = {"cache_type": "local-disk", "cache_location": tmp_path / "cache", "storage_options": options}
            with hub.make_reader(where, shuffle_row_groups=False, **given) as reader:
                result.append(int(next(reader).id))
        assert result == [0, 100]
    assert listed(located(where, options))[0].is_fresh
    kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert set(kept) <= {"lock", "used"}


def test_one_read_of_metadata_starts_on_a_dataset_of_a_hundred_thousand_row_groups(tmp_path, monkeypatch):
    table = pa.table({"id": np.arange(4)})
    (tmp_path / "data").mkdir()
    for i in range(50):
        pq.write_table(table, tmp_path / "data" / f"{i:03d}.parquet", row_group_size=2)
    from hubarray.readers.parquet import summary
    from hubarray.readers.parquet.source import parquet_source

    source = parquet_source(tmp_path / "data")
    many = [footers.Footer((2,) * 2000, (32,) * 2000, item.schema) for item in source._footers]
    (tmp_path / "data" / summary.NAME).write_bytes(summary.summary_bytes(source.files, many))
    footers.metadata._remembered.clear()

    def refuse(*args):
        raise AssertionError("a footer was read")

    monkeypatch.setattr(footers.Metadata, "of", refuse)
    began = time.monotonic()
    with hub.make_reader(tmp_path / "data") as reader:
        assert len(reader) == 200_000
    assert time.monotonic() - began < 10


def test_an_empty_list_of_files_is_refused():
    with pytest.raises(hub.errors.ConfigError, match="at least one path"):
        hub.make_reader([])


def test_loaders_under_petastorms_names_take_its_options_in_its_order(tmp_path):
    from decimal import Decimal

    from hubarray.petastorm import pytorch

    pq.write_table(pa.table({"id": range(2000)}), tmp_path / "x.parquet", row_group_size=100)
    reader = hub.make_reader(tmp_path / "x.parquet", shuffle_row_groups=False)
    batches = list(pytorch.InMemBatchedDataLoader(reader, 512, None, 2, 7, 1024, False))
    assert [batch["id"][0].item() for batch in batches] == [0, 512, 0, 512]
    with pytorch.DataLoader(
        hub.make_reader(tmp_path / "x.parquet"), 10, pytorch.decimal_friendly_collate, 50
    ) as loader:
        assert next(iter(loader))["id"].shape == (10,)
    result = pytorch.decimal_friendly_collate([{"d": Decimal(1), "x": 1}, {"d": Decimal(2), "x": 2}])
    assert result["d"] == [Decimal(1), Decimal(2)]
    assert result["x"].tolist() == [1, 2]


def test_lists_within_lists_and_ragged_batches_say_what_tensorflow_can_take(tmp_path):
    table = pa.table({"ll": [[[1], [2, 3]], [[4]]], "r": [[1], [2, 3]]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(hub.errors.ConfigError, match="lists within lists"):
        hub.petastorm.make_petastorm_dataset(hub.make_reader(tmp_path / "x.parquet"))
    reader = hub.make_batch_reader(tmp_path / "x.parquet", ["r"])
    with reader, pytest.raises(Exception, match="ragged='pad'"):
        next(iter(hub.petastorm.make_petastorm_dataset(reader)))
