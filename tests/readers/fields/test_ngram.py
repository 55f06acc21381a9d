"""Windows, as Petastorm documents and as it behaves."""

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.errors import ConfigError, UnsortedRowsError
from tests.readers.conftest import row_of, write_petastorm

IDS = [0, 3, 8, 10, 11, 20, 23]


def gram(length=2, **options):
    return hub.NGram({i: ["id"] for i in range(length)}, options.pop("delta", 4), "id", **options)


def windows(folder, ngram, **options):
    with hub.make_reader(str(folder), ngram, shuffle_row_groups=False, **options) as reader:
        return [tuple(int(item[key].id) for key in sorted(item)) for item in reader]


def dataset(folder, groups):
    from hubarray.readers.parquet.files import located
    from hubarray.readers.parquet.finishing import finish_dataset
    from hubarray.readers.parquet.writing import arrow_schema, encode_row

    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("id", np.int64)])
    folder.mkdir()
    with pq.ParquetWriter(folder / "rows.parquet", arrow_schema(schema)) as writer:
        for some in groups:
            writer.write_table(
                pa.Table.from_pylist([encode_row(schema, {"id": i}) for i in some], arrow_schema(schema))
            )
    finish_dataset(located(folder), schema)
    return folder


def test_windows_in_one_row_group(tmp_path):
    assert windows(dataset(tmp_path / "one", [IDS]), gram()) == [(0, 3), (8, 10), (10, 11), (20, 23)]


def test_windows_do_not_cross_row_groups(tmp_path):
    folder = dataset(tmp_path / "three", [[0, 3, 8], [10, 11], [20, 23]])
    assert windows(folder, gram()) == [(0, 3), (10, 11), (20, 23)]
    assert windows(folder, gram(across_row_groups=True)) == [(0, 3), (8, 10), (10, 11), (20, 23)]


def test_windows_that_do_not_overlap_are_decided_in_a_row_group_or_across(tmp_path):
    folder = dataset(tmp_path / "runs", [range(5), range(5, 10)])
    assert windows(folder, gram(timestamp_overlap=False)) == [(0, 1), (2, 3), (5, 6), (7, 8)]
    across = gram(timestamp_overlap=False, across_row_groups=True)
    assert windows(folder, across) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_windows_of_one_row_are_rows(tmp_path):
    assert windows(dataset(tmp_path / "one", [IDS]), gram(1)) == [(i,) for i in IDS]


def test_a_window_is_made_of_rows_that_pass(tmp_path):
    folder = dataset(tmp_path / "one", [IDS])
    keep = hub.petastorm.in_lambda(["id"], lambda i: i != 10)
    assert windows(folder, gram(), predicate=keep) == [(0, 3), (8, 11), (20, 23)]


def test_offsets_may_be_negative_and_have_gaps(tmp_path):
    folder = dataset(tmp_path / "one", [range(6)])
    ngram = hub.NGram({-2: ["id"], 1: ["id"]}, 1, "id")
    assert ngram.length == 4
    assert windows(folder, ngram) == [(0, 3), (1, 4), (2, 5)]


def test_each_offset_has_its_own_fields(tmp_path):
    write_petastorm(tmp_path / "rows", [row_of(i) for i in range(6)])
    ngram = hub.NGram({0: ["id"], 1: ["id", "x"]}, 1, "id")
    with hub.make_reader(str(tmp_path / "rows"), ngram, shuffle_row_groups=False) as reader:
        item = next(reader)
    assert item[0]._fields == ("id",)
    assert item[1]._fields == ("id", "x")
    assert (item[1].x == 1).all()


def test_windows_of_shards_are_disjoint_and_all(tmp_path):
    folder = dataset(tmp_path / "runs", [range(40), range(40, 90)])
    for options in ({}, {"shuffle_rows": True, "seed": 3}, {"shuffle_row_drop_partitions": 3}):
        for across in (False, True):
            whole = windows(folder, gram(3, across_row_groups=across), **options)
            parts = [windows(folder, gram(3, across_row_groups=across), cur_shard=k, shard_count=4, **options)
                     for k in range(4)]  # fmt: skip
            assert sorted(itertools.chain(*parts)) == sorted(whole)
            starts = [i for i in range(88) if across or i < 38 or i >= 40]
            assert sorted(whole) == [(i, i + 1, i + 2) for i in starts]


def test_rows_out_of_order_are_refused(tmp_path):
    folder = dataset(tmp_path / "odd", [[0, 2, 1]])
    with pytest.raises(UnsortedRowsError, match="not sorted by 'id'") as raised:
        windows(folder, gram())
    # As Petastorm raises.
    assert isinstance(raised.value, NotImplementedError)


def test_whether_windows_overlap_is_the_fourth_argument_as_in_petastorm(tmp_path):
    folder = dataset(tmp_path / "one", [IDS])
    apart = hub.NGram({0: ["id"], 1: ["id"]}, 4, "id", False)
    assert windows(folder, apart) == windows(folder, gram(timestamp_overlap=False))
    with pytest.raises(ConfigError, match="timestamp_overlap="):
        hub.NGram({0: ["id"]}, 4, "id", hub.petastorm.Unischema("Rows", []))


def test_a_timestamp_is_named_by_a_pattern_that_one_field_matches(tmp_path):
    folder = dataset(tmp_path / "one", [IDS])
    assert windows(folder, hub.NGram({0: ["id"], 1: ["id"]}, 4, "i.")) == windows(folder, gram())
    write_petastorm(tmp_path / "wide", [row_of(0)])
    with pytest.raises(ConfigError, match="one of them"):
        hub.make_reader(str(tmp_path / "wide"), hub.NGram({0: ["id"]}, 4, ".*"))


def test_wrong_windows_are_refused(tmp_path):
    folder = dataset(tmp_path / "one", [IDS])
    for make in (
        lambda: hub.NGram({}, 1, "id"),
        lambda: hub.NGram({"0": ["id"]}, 1, "id"),
        lambda: hub.NGram({0: "id"}, 1, "id"),
        lambda: hub.NGram({0: ["id"]}, "1", "id"),
        lambda: hub.make_reader(str(folder), hub.NGram({0: ["nothing"]}, 1, "id")),
        lambda: hub.make_reader(str(folder), hub.NGram({0: ["id"]}, 1, "time")),
        lambda: hub.make_batch_reader(str(folder), gram()),
    ):
        with pytest.raises(ConfigError):
            make()


@given(
    st.lists(st.integers(0, 6), min_size=0, max_size=30), st.integers(1, 4), st.integers(0, 4), st.booleans(), st.data()
)
def test_anchors_are_those_that_looking_at_each_row_finds(steps, length, delta, overlap, data):
    times = np.cumsum(steps).astype(np.int64)
    breaks = np.asarray([data.draw(st.booleans()) for _ in steps], bool)
    expected, last, stretch_of_last = [], None, None
    stretches = np.cumsum(breaks)
    for i in range(len(times) - length + 1):
        inside = range(i + 1, i + length)
        if any(breaks[k] or times[k] - times[k - 1] > delta for k in inside):
            continue
        if not overlap and last is not None and stretches[i] == stretch_of_last and times[i] <= last:
            continue
        expected.append(i)
        last, stretch_of_last = times[i + length - 1], stretches[i]
    result = gram(length, delta=delta, timestamp_overlap=overlap).anchors(times, breaks)
    assert result.tolist() == expected


def test_windows_over_times_take_a_timedelta():
    times = np.array([0, 1, 2, 60], "M8[s]").astype("M8[us]")
    for delta in (datetime.timedelta(seconds=1), np.timedelta64(1, "s")):
        assert hub.NGram({0: ["t"], 1: ["t"]}, delta, "t").anchors(times).tolist() == [0, 1]
    with pytest.raises(ValueError, match="give a timedelta"):
        hub.NGram({0: ["t"], 1: ["t"]}, 1, "t").anchors(times)
    with pytest.raises(ValueError, match="give a number"):
        hub.NGram({0: ["t"], 1: ["t"]}, datetime.timedelta(1), "t").anchors(np.arange(4))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8"])
def test_steps_over_the_whole_range_of_integers_are_exact(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    times = np.array([low, low + 1, high - 1, high], dtype)
    assert gram(delta=1).anchors(times).tolist() == [0, 2]
    assert gram(delta=1.5).anchors(times).tolist() == [0, 2]
    assert gram(delta=high - low).anchors(times).tolist() == [0, 1, 2]
    assert gram(delta=2**70).anchors(times).tolist() == [0, 1, 2]
    assert gram(delta=-1).anchors(times).tolist() == []


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_every_pool_gives_the_same_windows(tmp_path, pool):
    folder = dataset(tmp_path / "three", [[0, 3, 8], [10, 11], [20, 23]])
    across = gram(across_row_groups=True)
    assert windows(folder, across, reader_pool_type=pool) == [(0, 3), (8, 10), (10, 11), (20, 23)]
    assert windows(folder, gram(), reader_pool_type=pool) == [(0, 3), (10, 11), (20, 23)]


def test_windows_go_on_over_files_while_folders_say_the_same_keys(tmp_path):
    def write(place, ids):
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": np.asarray(ids, np.int64)}), place)

    for i, key in enumerate("aab"):
        write(tmp_path / "keyed" / f"key={key}" / f"{i}.parquet", range(3 * i, 3 * i + 3))
        write(tmp_path / "plain" / f"{i}.parquet", range(3 * i, 3 * i + 3))
    every = [(i, i + 1) for i in range(8)]
    across = gram(across_row_groups=True)
    assert windows(tmp_path / "plain", across) == every
    assert windows(tmp_path / "keyed", across) == [item for item in every if item != (5, 6)]
    assert windows(tmp_path / "plain", gram()) == [item for item in every if item[1] % 3]
