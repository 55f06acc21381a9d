"""The reader over every kind of source: rows, order, shards, epochs, states and bad input."""

import dataclasses
import inspect
import itertools
import json
import pickle
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import ConfigError, NoDataAvailableError, NotFoundError, ReaderStoppedError
from hubarray.readers.reader_options import ReaderOptions
from tests.readers.conftest import ROWS, make_sample, same


def ids(reader):
    with reader:
        return [int(row.id) for row in reader]


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_rows_are_what_was_written_in_every_pool(sample, pool):
    with sample.reader(shuffle_row_groups=False, reader_pool_type=pool, workers_count=2) as reader:
        result = [row._asdict() for row in reader]
    assert len(result) == ROWS
    for row, expected in zip(result, sample.rows, strict=True):
        for name, value in expected.items():
            assert same(row[name], value), name


def test_fields_are_chosen_by_names_and_whole_patterns(sample):
    with sample.reader(["id", "k.*" if "key" in sample.rows[0] else "x"]) as reader:
        assert next(reader)._fields == (("id", "key") if "key" in sample.rows[0] else ("id", "x"))
    with pytest.raises(ConfigError, match="'i' matches no field"):
        sample.reader(["i"])


@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_an_epoch_has_each_row_once_in_an_order_of_its_own_at_any_number_of_workers(sample, shuffle_rows):
    options = {"seed": 0, "shuffle_rows": shuffle_rows, "num_epochs": 3}
    result = ids(sample.reader(["id"], workers_count=1, **options))
    epochs = [result[i : i + ROWS] for i in range(0, 3 * ROWS, ROWS)]
    assert all(sorted(item) == list(range(ROWS)) for item in epochs)
    assert len({tuple(item) for item in epochs}) == 3
    for workers, pool in [(4, "thread"), (16, "thread"), (1, "dummy"), (2, "process")]:
        assert ids(sample.reader(["id"], workers_count=workers, reader_pool_type=pool, **options)) == result
    assert ids(sample.reader(["id"], **(options | {"seed": 1}))) != result


@pytest.mark.parametrize("world", [1, 3, 7])
def test_shards_are_balanced_by_rows(sample, world):
    def shards(mode, **options):
        given = {"seed": 5, "shuffle_rows": True, "shard_count": world, "shard_balance": mode} | options
        return [ids(sample.reader(["id"], cur_shard=k, **given)) for k in range(world)]

    exact = shards("exact")
    assert sorted(itertools.chain(*exact)) == list(range(ROWS))
    assert max(map(len, exact)) - min(map(len, exact)) <= 1
    for k in range(world):
        with sample.reader(["id"], cur_shard=k, shard_count=world) as reader:
            assert len(reader) == len(exact[k])
    dropped = shards("drop")
    assert {len(item) for item in dropped} == {ROWS // world}
    assert len(set(itertools.chain(*dropped))) == ROWS // world * world
    padded = shards("pad")
    assert {len(item) for item in padded} == {-(-ROWS // world)}
    assert set(itertools.chain(*padded)) == set(range(ROWS))
    assert shards("exact", seed=6) != exact or world == 1


def test_drop_leaves_out_other_rows_in_each_epoch(sample):
    with sample.reader(["id"], seed=1, cur_shard=0, shard_count=7, shard_balance="drop", num_epochs=6) as reader:
        assert len(list(reader)) == 6 * len(reader)
    left = set()
    for epoch in range(6):
        seen = set()
        for k in range(7):
            options = {"cur_shard": k, "shard_count": 7, "shard_balance": "drop", "num_epochs": 6}
            with sample.reader(["id"], seed=1, **options) as reader:
                rows = [int(row.id) for row in reader]
                seen |= set(rows[epoch * 8 : epoch * 8 + 8])
        left.add(frozenset(set(range(ROWS)) - seen))
    assert len(left) > 1


@pytest.mark.parametrize("taken", [0, 1, 37, 60, 61, 119])
@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_prefix_and_resumed_rest_are_the_uninterrupted_run(sample, taken, shuffle_rows):
    options = {"seed": 3, "num_epochs": 2, "shuffle_rows": shuffle_rows}
    whole = ids(sample.reader(["id"], **options))
    with sample.reader(["id"], workers_count=3, **options) as reader:
        first = [int(next(reader).id) for _ in range(taken)]
        state = json.loads(json.dumps(reader.state_dict()))
    with sample.reader(["id"], workers_count=1, reader_pool_type="dummy", **options) as reader:
        reader.load_state_dict(state)
        rest = [int(row.id) for row in reader]
    assert first + rest == whole


def test_ranks_change_at_arbitrary_cuts_and_every_row_comes_once(sample):
    state, seen = None, []
    for world, steps in [(8, 2), (4, 3), (6, 1), (16, None)]:
        states = []
        for k in range(world):
            with sample.reader(["id"], seed=9, cur_shard=k, shard_count=world, workers_count=1 + k % 3) as reader:
                if state is not None:
                    reader.load_state_dict(state)
                for row in itertools.islice(reader, steps):
                    seen.append(int(row.id))
                states.append(reader.state_dict())
        if steps is not None:
            assert all(state == states[0] for state in states)
        state = states[0]
    assert sorted(seen) == list(range(ROWS))


def test_states_of_rows_that_a_predicate_decides_are_merged_over_the_shards(sample):
    # Not of the index of a table, which would decide it.
    name = "x" if "x" in sample.rows[0] else "id"
    odd = hub.petastorm.in_lambda([name], lambda value: bool(np.ravel(value)[0] % 2 == 1))

    def reader(k, world):
        return sample.reader(["id"], seed=2, shuffle_rows=True, predicate=odd, cur_shard=k, shard_count=world)

    seen, states = [], []
    for k in range(3):
        with reader(k, 3) as item:
            seen += [int(row.id) for row in itertools.islice(item, 3 + k)]
            states.append(item.state_dict())
    for k in range(2):
        with reader(k, 2) as item:
            item.load_state_dict(states)
            seen += [int(row.id) for row in item]
    assert sorted(seen) == list(range(1, ROWS, 2))
    for wrong in (states[:2], [states[0], states[0], states[2]], states[1]):
        with reader(0, 2) as item, pytest.raises(ConfigError, match="needed together"):
            item.load_state_dict(wrong)


def test_a_state_of_something_else_is_refused(sample, make_root, tmp_path):
    with sample.reader(["id"], seed=1) as reader:
        state = reader.state_dict()
    with sample.reader(["id"], seed=1, shard_balance="exact") as reader, pytest.raises(ConfigError, match=r"state"):
        reader.load_state_dict(state | {"mode": "drop"})
    for change in ({"seed": 2}, {"source": "other"}, {"cuts": [[1, 1, 10**6]]}, {"cuts": []}):
        with sample.reader(["id"], seed=1) as reader, pytest.raises(ConfigError, match=r"state"):
            reader.load_state_dict(state | change)
    with sample.reader(["id"], seed=1) as reader:
        next(reader)
        with pytest.raises(ConfigError, match="before the first item"):
            reader.load_state_dict(state)


MATRIX = list(itertools.product(["none", "rows"], [False, True], [False, True], [None, "overlap"], [1, 3]))


@pytest.mark.parametrize("key", [str, int])
def test_a_table_is_filtered_by_its_partitions_before_and_beside_its_rows(root, key):
    schema = hub.Schema({"i": hub.Field("i8", index=True), "x": hub.Field("f4")})
    with hub.table_writer("lab/t:v1", schema, root=root) as w:
        for number in range(4):
            with w.partition(key(number)) as p:
                p.extend([{"i": i, "x": i} for i in range(5)])
    with hub.make_reader("lab/t:v1", filters=[("partition", "in", [key(1), key(2)])], root=root) as reader:
        assert len(reader) == 10, "known before a row is read"
        assert set(reader.schema.fields) == {"i", "x"}
    beside = hub.petastorm.in_lambda(["partition", "x"], lambda partition, x: partition == key(3) and x > 2)
    with hub.make_reader("lab/t:v1", ["i"], predicate=beside, root=root, seed=0) as reader:
        assert sorted(int(row.i) for row in reader) == [3, 4]
    with pytest.raises(hub.errors.NoDataAvailableError):
        hub.make_reader("lab/t:v1", filters=[("partition", "=", key(9))], root=root)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hub.TransformSpec(edit_fields=["x"]),
        lambda: hub.TransformSpec(edit_fields=[("x",)]),
        lambda: hub.TransformSpec(edit_fields=3),
        lambda: hub.TransformSpec(3),
        lambda: hub.TransformSpec(removed_fields="x"),
    ],
)
def test_a_transform_of_another_form_says_which_is_wanted(make):
    with pytest.raises(ConfigError, match="TransformSpec: "):
        make()


@pytest.mark.parametrize("kind", ["petastorm", "table"])
@pytest.mark.parametrize(("predicate", "shuffle", "transform", "windows", "world"), MATRIX)
def test_predicate_shuffle_transform_windows_and_shards_compose(
    kind, predicate, shuffle, transform, windows, world, make_root, tmp_path
):
    sample = make_sample(kind, make_root, tmp_path)
    keep = (lambda i: i % 5 != 2) if predicate == "rows" else (lambda i: True)
    options = {"seed": 4, "shuffle_rows": shuffle, "cache_type": "local-disk"}
    if kind != "table":
        options |= {"cache_location": tmp_path / "cache"}
    if predicate == "rows":
        options["predicate"] = hub.petastorm.in_lambda(["key", "id"], lambda key, i: bool(i % 5 != 2))
    if transform:
        options["transform_spec"] = hub.TransformSpec(_doubled, edit_fields=[("twice", np.int64, (), False)])
    fields = ["id", "x"]
    if windows:
        fields = hub.NGram({0: ["id"], 1: ["id", "x"]}, 2, "id")
    # Windows of a Parquet dataset stay in row groups, of a table in partitions.
    edges = [[i for i in range(ROWS) if i // 20 == k] for k in range(3)]
    if kind == "petastorm":
        edges = [some[i : i + 7] for some in edges for i in range(0, 20, 7)]
    passing = [[i for i in some if keep(i)] for some in edges]
    if windows:
        expected = [(a, b) for some in passing for a, b in itertools.pairwise(some) if b - a <= 2]
    else:
        expected = [(i,) for some in passing for i in some]
    for _ in range(2):
        result = []
        for k in range(world):
            with sample.reader(fields, cur_shard=k, shard_count=world, **options) as reader:
                result.append(list(reader))
        told = []
        for item in itertools.chain(*result):
            rows = [item[0], item[1]] if windows else [item]
            told.append(tuple(int(row.id) for row in rows))
            assert (rows[-1].x == rows[-1].id).all()
            if transform and not windows:
                assert all(row.twice == 2 * row.id for row in rows)
        assert sorted(told) == expected
        if not shuffle and world == 1 and not windows:
            assert told != expected


def _doubled(row):
    return row | {"twice": np.int64(2 * row["id"])}


def test_a_batch_reader_gives_the_columns_of_what_passes(sample):
    options = {"seed": 0, "shuffle_rows": True}
    if "key" in sample.rows[0]:
        options["predicate"] = hub.petastorm.in_lambda(["id"], lambda ids: ids % 2 == 0)
    with sample.batches(["id"], **options) as reader:
        assert reader.batched_output
        result = np.concatenate([batch.id for batch in reader])
    assert sorted(result.tolist()) == list(range(0, ROWS, 1 if len(options) == 2 else 2))


@pytest.mark.parametrize("balance", ["exact", "drop", "pad"])
def test_the_length_of_a_batch_reader_is_its_batches(sample, balance):
    for shard in range(2):
        with sample.batches(["id"], cur_shard=shard, shard_count=2, shard_balance=balance) as reader:
            assert len(reader) == len(list(reader))


def test_a_batch_transform_gives_as_many_rows_as_it_likes(sample):
    spec = hub.TransformSpec(lambda frame: frame[frame.id < 10])
    with sample.batches(["id"], seed=0, transform_spec=spec) as reader:
        assert sorted(np.concatenate([batch.id for batch in reader]).tolist()) == list(range(10))
        with pytest.raises(TypeError, match="only the rows decide"):
            len(reader)


def test_filters_and_predicates_narrow_alike(sample):
    assert sorted(ids(sample.reader(["id"], filters=[("id", "<", 10)]))) == list(range(10))
    assert sorted(ids(sample.reader(["id"], predicate=hub.petastorm.in_set([3, 50], "id")))) == [3, 50]
    nothing = [("id", ">", 10**6)]
    if "key" in sample.rows[0]:
        with pytest.raises(NoDataAvailableError, match="no rows"):
            sample.reader(["id"], filters=nothing)
    else:
        assert ids(sample.reader(["id"], filters=nothing)) == []


def test_reset_reads_the_next_epochs_and_is_refused_in_the_middle(sample):
    with sample.reader(["id"], seed=1) as reader:
        first = [int(row.id) for row in reader]
        assert reader.last_row_consumed
        reader.reset()
        second = [int(row.id) for row in reader]
        reader.reset()
        next(reader)
        with pytest.raises(NotImplementedError, match="middle of an epoch"):
            reader.reset()
    with sample.reader(["id"], seed=1, num_epochs=2) as reader:
        assert [int(row.id) for row in reader] == first + second


def test_a_stopped_reader_says_so(sample):
    reader = sample.reader(["id"])
    next(reader)
    reader.stop()
    reader.join()
    for use in (lambda: next(reader), reader.reset):
        with pytest.raises(ReaderStoppedError, match="was stopped"):
            use()


def test_an_endless_reader_goes_on(sample):
    with sample.reader(["id"], num_epochs=None) as reader:
        assert len([None for _ in itertools.islice(reader, 5 * ROWS)]) == 5 * ROWS


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cur_shard": 1}, "together"),
        ({"cur_shard": 3, "shard_count": 3}, "shards count from 0"),
        ({"cur_shard": "auto"}, "reports a rank"),
        ({"seed": -1}, "seed"),
        ({"num_epochs": 0}, "num_epochs"),
        ({"reader_pool_type": "gpu"}, "reader_pool_type"),
        ({"workers_count": -1}, "workers_count"),
        ({"shard_balance": "even"}, "shard_balance"),
        ({"ragged": "cut"}, "ragged"),
        ({"on_error": "ignore"}, "on_error"),
        ({"cache_type": "ram"}, "cache_type"),
        ({"cache_location": "/tmp/x"}, "cache_location: nothing is cached"),
        ({"cache_size_limit": 1 << 20}, "cache_size_limit: nothing is cached"),
        ({"transform_spec": len}, "TransformSpec"),
        ({"predicate": len}, "PredicateBase"),
        ({"predicate": hub.petastorm.in_set([1], "nothing")}, "no field 'nothing'"),
        ({"filters": [("nothing", "=", 1)]}, "nothing"),
        ({"filters": [("id", "~", 1)]}, "~"),
        ({"shuffle_row_drop_partitions": 0}, "shuffle_row_drop_partitions"),
        (
            {"shard_balance": "drop", "predicate": hub.petastorm.in_lambda(["id", "x"], max)},
            "only be applied to rows that are read",
        ),
        ({"schema_fields": []}, "schema_fields"),
    ],
)
def test_wrong_arguments_are_refused_with_a_way_out(make_root, tmp_path, options, match):
    sample = make_sample("petastorm", make_root, tmp_path)
    fields = options.pop("schema_fields", None)
    with pytest.raises(ConfigError, match=match):
        sample.reader(fields, **options)


def test_more_shards_than_rows_have_no_data(sample):
    with pytest.raises(NoDataAvailableError, match="cannot be shared by 61"):
        sample.reader(["id"], cur_shard=0, shard_count=61)


def test_a_place_without_data_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="nowhere"):
        hub.make_reader(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="has no Parquet files"):
        hub.make_reader(str(tmp_path / "empty"))


def test_the_environment_of_a_launcher_says_the_shard(make_root, tmp_path, monkeypatch):
    sample = make_sample("petastorm", make_root, tmp_path)
    for names in (
        ("RANK", "WORLD_SIZE"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(names[0], "1")
            patch.setenv(names[1], "4")
            assert len(sample.reader(["id"], cur_shard="auto")) == 15


def test_heavy_columns_are_read_only_for_rows_that_pass(make_root, tmp_path, forget):
    root = make_root("local")
    fields = {"id": hub.Field("int64"), "image": hub.Field("uint8", (100_000,))}
    with hub.table_writer("t/heavy:v0", hub.Schema(fields), root=root) as writer, writer.partition(0) as partition:
        for i in range(200):
            partition.append({"id": i, "image": np.full(100_000, i, np.uint8)})
    forget()
    before = hub.stats()
    keep = hub.petastorm.in_lambda(["id"], lambda i: i in (3, 150))
    with hub.make_reader("t/heavy:v0", predicate=keep, root=root, shuffle_row_groups=False) as reader:
        assert [int(row.image[0]) for row in reader] == [3, 150]
    assert (hub.stats() - before).read_bytes < 2_000_000


def test_sources_pickle(sample):
    from hubarray.readers.open_source import open_source

    source = open_source(sample.source, root=sample.root)
    again = pickle.loads(pickle.dumps(source))
    assert again.identity() == source.identity()
    rows = np.array([5, 3, 59, 3])
    assert [int(item) for item in again.read(rows, ["id"])["id"]] == rows.tolist()


def test_states_of_ranks_that_took_unequally_many_rows_are_loaded_in_their_order(sample):
    def reader(k, world):
        return sample.reader(["id"], seed=2, shuffle_rows=True, cur_shard=k, shard_count=world)

    seen, states = [], []
    for k in range(2):
        with reader(k, 2) as item:
            seen += [int(row.id) for row in itertools.islice(item, 3 + 4 * k)]
            states.append(item.state_dict())
    for k in range(3):
        with reader(k, 3) as item:
            item.load_state_dict(states)
            seen += [int(row.id) for row in item]
    assert sorted(seen) == list(range(ROWS))
    with reader(0, 3) as item, pytest.raises(ConfigError, match="those of all ranks"):
        item.load_state_dict([*states, states[0]])


def test_a_state_goes_with_the_files_wherever_they_lie(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    pq.write_table(pa.table({"id": range(20)}), tmp_path / "here" / "a.parquet", row_group_size=5)
    with hub.make_reader(tmp_path / "here", seed=3) as reader:
        begun = [int(next(reader).id) for _ in range(7)]
        state = reader.state_dict()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    for place in ("there", "./here/", f"file://{tmp_path}/here"):
        with hub.make_reader(place, seed=3) as reader:
            reader.load_state_dict(state)
            assert sorted(begun + [int(row.id) for row in reader]) == list(range(20))
    pq.write_table(pa.table({"id": range(20)}), tmp_path / "there" / "a.parquet", row_group_size=5)
    with hub.make_reader("there", seed=3) as reader, pytest.raises(ConfigError, match="not rewritten"):
        reader.load_state_dict(state)


@pytest.mark.parametrize(
    ("made", "edit", "match"),
    [
        (lambda row: row | {"new": 1}, [], "'new', a field that the schema does not have"),
        (lambda row: row | {"x": np.zeros(3)}, [("x", np.float32, (2,), False)], r"shape \(3,\)"),
        (lambda row: row | {"x": 1.5}, [("x", np.int64, (), False)], "'x' as float64"),
        (lambda row: row | {"x": 300}, [("x", np.uint8, (), False)], "'x' as int64"),
    ],
)
def test_a_transform_that_gives_something_else_than_it_declares_is_refused(tmp_path, made, edit, match):
    pq.write_table(pa.table({"id": range(4), "x": range(4)}), tmp_path / "a.parquet")
    spec = hub.TransformSpec(made, edit)
    with hub.make_reader(tmp_path, transform_spec=spec) as reader, pytest.raises(ConfigError, match=match):
        next(reader)


def test_what_a_transform_declares_has_the_declared_dtype(tmp_path):
    pq.write_table(pa.table({"id": range(4)}), tmp_path / "a.parquet")
    edit = [("id", np.uint8, (), False), ("v", np.float32, (2,), False)]
    rows = hub.TransformSpec(lambda row: {"id": int(row["id"]) + 1, "v": np.ones(2)}, edit)
    with hub.make_reader(tmp_path, transform_spec=rows, shuffle_row_groups=False) as reader:
        row = next(reader)
    assert (row.id, row.id.dtype, row.v.dtype) == (1, np.uint8, np.float32)
    batches = hub.TransformSpec(lambda frame: frame.assign(extra=1), edit[:1])
    with hub.make_batch_reader(tmp_path, transform_spec=batches) as reader, pytest.raises(ConfigError, match="'extra'"):
        next(reader)
    with hub.make_batch_reader(tmp_path, transform_spec=hub.TransformSpec(None, edit[:1])) as reader:
        assert len(next(reader).id) == 4


def test_a_state_of_any_epoch_is_resumed(sample):
    def reader(**options):
        return sample.reader(["id"], seed=3, shuffle_rows=True, **options)

    with reader(num_epochs=2) as first:
        whole = [int(row.id) for row in first]
    with reader() as second:
        assert [int(row.id) for row in second] == whole[:ROWS]
        second.reset()
        head = [int(next(second).id) for _ in range(10)]
        state = second.state_dict()
    assert head == whole[ROWS : ROWS + 10]
    with reader() as third:
        third.load_state_dict(state)
        assert [int(row.id) for row in third] == whole[ROWS + 10 :]
        third.reset()
        assert third.epoch == 2
    with reader(num_epochs=2) as fourth:
        fourth.load_state_dict(state)
        assert [int(row.id) for row in fourth] == whole[ROWS + 10 :]


@pytest.mark.parametrize("worlds", [(2, 1, 1), (3, 1, 2), (4, 2, 1), (1, 2, 4, 2)])
def test_batches_come_once_though_the_world_changes_in_every_epoch(sample, worlds):
    def reader(rank, world):
        return sample.batches(["id"], seed=1, num_epochs=3, cur_shard=rank, shard_count=world)

    for cut in range(1, 6):
        result, states = [], None
        for world in worlds:
            fresh = []
            for rank in range(world):
                with reader(rank, world) as item:
                    if states is not None:
                        item.load_state_dict(states)
                    result += [int(i) for batch in itertools.islice(item, cut) for i in batch.id]
                    fresh.append(item.state_dict())
            states = fresh
            if len({state["epoch"] for state in states}) > 1:
                break
        else:
            for rank in range(worlds[-1]):
                with reader(rank, worlds[-1]) as item:
                    item.load_state_dict(states)
                    result += [int(i) for batch in item for i in batch.id]
            assert sorted(result) == sorted([*range(ROWS)] * 3)


def test_the_order_of_a_loaded_state_stands(sample):
    def reader():
        return sample.reader(["id"], seed=3, shuffle_rows=True)

    with reader() as first:
        next(first)
        state = first.state_dict()
    with reader() as second:
        second.load_state_dict(state)
        with pytest.raises(ConfigError, match="set shuffling, then load the state"):
            second.set_group_rows(5)
    with reader() as third:
        third.set_group_rows(5)
        third.load_state_dict(state)
        assert third.state_dict() == state


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_a_row_that_failed_is_asked_for_again(sample, pool, tmp_path):
    marker = tmp_path / "fail"
    marker.touch()

    def fail_once(row):
        if row["id"] == 20 and marker.exists():
            raise ValueError("not now")
        return row

    spec = hub.TransformSpec(fail_once)
    with sample.reader(["id"], transform_spec=spec, reader_pool_type=pool, shuffle_row_groups=False) as reader:
        for _ in range(2):
            with pytest.raises(ValueError, match="not now"):
                list(reader)
        assert not reader.last_row_consumed
        given = reader.diagnostics["items"]
        marker.unlink()
        assert [int(row.id) for row in reader] == list(range(given, ROWS))


def test_a_reader_is_not_pickled_and_says_what_is(sample):
    with sample.reader() as reader, pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(reader)


def test_a_cache_of_row_groups_is_refused_for_what_has_none(root):
    hub.array(3, "t/x:v0", root=root)
    with pytest.raises(ConfigError, match=r"cache_location=.*hub\.configure"):
        hub.make_reader("t/x:v0", cache_type="local-disk", cache_location="/tmp/x", root=root)


def test_the_options_of_a_reader_have_the_defaults_of_make_reader():
    documented = {
        name: parameter.default
        for name, parameter in inspect.signature(hub.make_reader).parameters.items()
        if name != "source"
    }
    assert {field.name: field.default for field in dataclasses.fields(ReaderOptions)} == documented
