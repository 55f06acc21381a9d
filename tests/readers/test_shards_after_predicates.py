"""Shards of what an index, partition keys or Parquet's statistics decide: disjoint, complete, and equal to one row."""

import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.errors import ConfigError
from hubarray.readers import factory
from tests.readers.pipeline.test_memory_and_workers import broken
from tests.rounds import rounds

DECIDED = ("index", "partition", "index and partition", "folders", "folders by a predicate", "statistics")
KEPT = 3


def written(kind, lengths, folder):
    """A source of parts of some lengths, its root, options that keep every third part, and the ids that those have."""
    ends = list(itertools.accumulate(lengths))
    parts = [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]
    expected = [i for part in parts[::KEPT] for i in part]
    keys = [f"p{number:02d}" for number in range(len(parts))]
    if kind in ("index", "partition", "index and partition"):
        schema = hub.Schema({"id": hub.Field("i8", index=True), "group": hub.Field("i8", index=True)})
        with hub.table_writer("t/rows:v0", schema, root=folder) as writer:
            for number, (key, part) in enumerate(zip(keys, parts, strict=True)):
                with writer.partition(key) as partition:
                    partition.extend([{"id": i, "group": number % KEPT} for i in part])
        options = {
            "index": {"filters": [("group", "=", 0)]},
            "partition": {"filters": [("partition", "in", keys[::KEPT])]},
            "index and partition": {
                "filters": [[("group", "<=", 0), ("partition", "not in", keys[1::KEPT])]],
                "predicate": hub.petastorm.in_set([0], "group"),
            },
        }
        return "t/rows:v0", folder, options[kind], expected
    if kind == "statistics":
        # Row groups of one part, whose statistics are all that filters need; parts to be kept have ids below 1,000.
        shift = [0 if number % KEPT == 0 else 1000 for number in range(len(parts))]
        schema = pa.schema([("id", pa.int64())])
        with pq.ParquetWriter(folder / "rows.parquet", schema) as out:
            for add, part in zip(shift, parts, strict=True):
                out.write_table(pa.table({"id": [i + add for i in part]}, schema=schema))
        return str(folder / "rows.parquet"), None, {"filters": [("id", "<", 1000)]}, expected
    for number, (key, part) in enumerate(zip(keys, parts, strict=True)):
        (folder / f"group={number % KEPT}" / f"key={key}").mkdir(parents=True)
        table = pa.table({"id": pa.array(part, pa.int64())})
        pq.write_table(table, folder / f"group={number % KEPT}" / f"key={key}" / "a.parquet", row_group_size=3)
    by_key = {"predicate": hub.petastorm.in_set(keys[::KEPT], "key")}
    return str(folder), None, {"filters": [("group", "=", 0)]} if kind == "folders" else by_key, expected


def ids_of(reader):
    with reader:
        return [int(row.id) for row in reader]


def shards_of(source, root, count, **options):
    return [hub.make_reader(source, ["id"], root=root, cur_shard=k, shard_count=count, **options) for k in range(count)]


# Statistics are decoded by a process of their own, which takes a while to start: of them there are single cases below.
@settings(max_examples=rounds(30, 400))
@given(st.sampled_from(DECIDED[:-1]), st.lists(st.integers(1, 9), min_size=2, max_size=12), st.data())
def test_shards_of_parts_of_any_lengths_are_disjoint_complete_and_differ_by_one_row_at_most(kind, lengths, data):
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, root, options, expected = written(kind, lengths, Path(folder))
        hub.flush()
        count = data.draw(st.integers(1, min(6, len(expected))))
        shuffle = {"seed": data.draw(st.integers(0, 3)), "shuffle_rows": data.draw(st.booleans())}
        told = [len(shard) for shard in shards_of(source, root, count, **options)]
        result = [ids_of(shard) for shard in shards_of(source, root, count, **options, **shuffle)]
    assert [len(ids) for ids in result] == told, "known before a row is read"
    assert max(told) - min(told) <= 1
    assert sorted(itertools.chain(*result)) == expected


@pytest.fixture(params=DECIDED)
def filtered(request, tmp_path):
    return written(request.param, [5, 9, 4, 7, 2, 3, 8, 6, 1, 6], tmp_path)


def test_every_epoch_is_shared_anew_and_as_evenly(filtered):
    source, root, options, expected = filtered
    result = [ids_of(shard) for shard in shards_of(source, root, 3, num_epochs=2, seed=1, **options)]
    assert sorted(len(ids) for ids in result) == [16, 18, 18]
    assert sorted(itertools.chain(*result)) == sorted(2 * expected)
    assert set(result[0][:9]) != set(result[0][9:])


def test_shards_of_batches_are_as_even(filtered):
    source, root, options, expected = filtered
    result = []
    for k in range(3):
        with hub.make_batch_reader(source, ["id"], root=root, cur_shard=k, shard_count=3, **options) as reader:
            result.append([int(i) for batch in reader for i in batch.id])
    assert sorted(itertools.chain(*result)) == expected
    assert sorted(map(len, result)) == [8, 9, 9]


@pytest.mark.parametrize(("mode", "rows"), [("drop", 7), ("pad", 8)])
def test_shards_that_drop_or_pad_are_equal(tmp_path, mode, rows):
    source, root, options, _ = written("partition", [5, 9, 4, 7, 2, 3, 8, 6, 1, 11], tmp_path)
    for shard in shards_of(source, root, 4, shard_balance=mode, **options):
        assert len(shard) == len(ids_of(shard)) == rows


def test_what_is_left_of_a_filtered_epoch_is_shared_as_evenly_by_any_number_of_shards(filtered):
    source, root, options, expected = filtered
    begun, told = [], set()
    for reader in shards_of(source, root, 2, **options):
        with reader:
            begun += [int(row.id) for row in itertools.islice(reader, 3)]
            told.add(json.dumps(reader.state_dict()))
    (state,) = told
    result = []
    for reader in shards_of(source, root, 3, **options):
        reader.load_state_dict(json.loads(state))
        result.append(ids_of(reader))
    assert sorted(begun + list(itertools.chain(*result))) == expected
    assert sorted(map(len, result)) == [6, 7, 7]


def test_a_state_of_other_filters_is_of_other_rows(filtered):
    source, root, options, _ = filtered
    with hub.make_reader(source, ["id"], root=root, seed=0, **options) as reader:
        state = reader.state_dict()
    with hub.make_reader(source, ["id"], root=root, seed=0) as reader, pytest.raises(ConfigError, match="same rows"):
        reader.load_state_dict(state)


@pytest.fixture
def by_rows(tmp_path):
    """Row groups of ten ids, of which statistics decide some alone."""
    pq.write_table(pa.table({"id": range(99), "x": range(99)}), tmp_path / "rows.parquet", row_group_size=10)
    return str(tmp_path / "rows.parquet"), {"filters": [("id", ">=", 15), ("id", "<", 78)]}


def test_shards_of_what_statistics_leave_to_rows_are_disjoint_and_complete_but_of_no_length_that_is_known(by_rows):
    source, options = by_rows
    shards = shards_of(source, None, 2, **options)
    for shard in shards:
        with pytest.raises(TypeError, match="only the rows decide"):
            len(shard)
    assert sorted(itertools.chain(*map(ids_of, shards))) == list(range(15, 78))


@pytest.mark.parametrize("mode", ["drop", "pad"])
def test_equal_shards_of_what_only_rows_decide_are_refused_with_what_helps(by_rows, mode):
    source, options = by_rows
    for given_options in (options, {"predicate": hub.petastorm.in_lambda(["x"], lambda x: x > 5)}):
        with pytest.raises(ValueError, match=r"filters=.*'exact'"):
            hub.make_reader(source, cur_shard=0, shard_count=2, shard_balance=mode, **given_options)
    aligned = {"filters": [("id", ">=", 10)]}
    result = [ids_of(shard) for shard in shards_of(source, None, 2, shard_balance=mode, **aligned)]
    assert {len(ids) for ids in result} == {44 if mode == "drop" else 45}


def test_equal_shards_that_are_not_refused_where_rows_decide_are_seen(by_rows, monkeypatch):
    source, options = by_rows
    made = broken(factory, 'if mode != "exact" and pipeline.decides:', "if False:").make_reader
    monkeypatch.setattr(hub, "make_reader", made)
    with pytest.raises(pytest.fail.Exception):
        test_equal_shards_of_what_only_rows_decide_are_refused_with_what_helps((source, options), "drop")
