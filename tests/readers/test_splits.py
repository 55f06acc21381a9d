"""Splits that stay put, classes in balance, and mixes of readers."""

import collections
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.readers import fractions
from tests.tables import rows as model


@pytest.fixture
def labels(root):
    array = hub.array(300, "t/labels:v0", "i8", chunks=16, root=root)
    array[...] = np.arange(300) % 7
    return array


def test_parts_are_disjoint_complete_and_about_as_large_as_asked(labels, root):
    parts = hub.split("t/labels:v0", train=0.7, val=0.1, test=0.2, root=root)
    rows = [parts[name].positions.tolist() for name in ("train", "val", "test")]
    assert sorted(itertools.chain(*rows)) == list(range(300))
    assert 180 < len(rows[0]) < 240
    assert hub.split(labels, train=0.7, val=0.1, test=0.2)["val"].positions.tolist() == rows[1]
    assert hub.split(labels, train=0.7, val=0.1, test=0.2, seed=1)["val"].positions.tolist() != rows[1]


def test_rows_that_are_added_leave_all_others_where_they_were(labels, root):
    before = hub.split(labels, train=0.5, test=0.5)["train"].positions.tolist()
    labels.append(np.zeros(100, "i8"))
    after = hub.split(labels, train=0.5, test=0.5)["train"].positions.tolist()
    assert [row for row in after if row < 300] == before


def rows_by_part(name, root):
    result = {}
    for part, loader in hub.split(name, train=0.5, test=0.5, root=root).items():
        with hub.make_reader(loader, ["log_id", "frame"]) as reader:
            result |= {(str(row.log_id), int(row.frame)): part for row in reader}
    return result


def test_rows_of_a_table_stay_where_they_were_when_another_version_has_partitions_more(root):
    model.write("me/drives:v1", {key: model.drive(key, 12) for key in "bdf"}, root)
    model.write("me/drives:v2", {key: model.drive(key, 12) for key in "abcdefg"}, root)
    before, after = (rows_by_part(f"me/drives:{version}", root) for version in ("v1", "v2"))
    assert {key: after[key] for key in before} == before
    assert set(before.values()) == {"train", "test"}


def test_a_partition_is_split_by_its_key(root):
    model.write("me/drives:v1", {key: model.drive(key, 5) for key in "abcdefgh"}, root)
    parts = hub.split("me/drives:v1", train=0.5, test=0.5, by="partition", root=root)
    seen = []
    for part in parts.values():
        with hub.make_reader(part, ["log_id"]) as reader:
            seen.append(collections.Counter(str(row.log_id) for row in reader))
    assert not set(seen[0]) & set(seen[1])
    assert sum(seen, collections.Counter()) == dict.fromkeys("abcdefgh", 5)


def test_rows_of_a_merged_index_that_one_table_lacks_are_split_by_the_other(root):
    schema = hub.Schema({"id": hub.Field("i8", index=True), "x": hub.Field("i8")})
    for name, ids in (("me/a:v1", range(5)), ("me/b:v1", range(200))):
        with hub.table_writer(name, schema, root=root) as w, w.partition("p") as p:
            p.extend([{"id": i, "x": i} for i in ids])
    index = hub.join(hub.read_index("me/a:v1", root=root), hub.read_index("me/b:v1", root=root), on=["id"],
                      how="outer", suffixes=("", "_b"))  # fmt: skip
    parts = hub.split(index, train=0.5, test=0.5, root=root)
    assert 70 < len(parts["train"]) < 130
    assert len(parts["train"]) + len(parts["test"]) == 200


def test_rows_of_a_value_stay_together_and_are_read_and_trained_on(root):
    model.write("me/drives:v1", {key: model.drive(key, 12) for key in "abcdefgh"}, root)
    parts = hub.split("me/drives:v1", train=0.5, test=0.5, by="log_id", root=root)
    seen = {}
    for name, part in parts.items():
        with hub.make_reader(part, ["log_id", "frame"]) as reader:
            seen[name] = collections.Counter(str(row.log_id) for row in reader)
    assert not set(seen["train"]) & set(seen["test"])
    assert sum(map(sum, (item.values() for item in seen.values()))) == 96
    assert set(seen["train"].values()) | set(seen["test"].values()) == {12}
    assert len(parts["train"].to_pytorch("frame", iterable=True, batch_size=4)) > 0


def test_parquet_is_split_by_a_column(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": range(200), "day": [i // 10 for i in range(200)]}), tmp_path / "a.parquet",
                   row_group_size=33)  # fmt: skip
    parts = hub.split(tmp_path / "a.parquet", train=0.6, test=0.3, by="day")
    days = {}
    for name, part in parts.items():
        with hub.make_reader(part, shuffle_rows=True, seed=3) as reader:
            rows = [(int(row.id), int(row.day)) for row in reader]
        assert all(i // 10 == day for i, day in rows)
        days[name] = {day for _, day in rows}
        assert len(rows) == 10 * len(days[name])
    assert not days["train"] & days["test"]


@pytest.mark.parametrize("parts", [{}, {"train": 0.9, "test": 0.2}, {"train": -0.1}, {"train": "x"}, {"train": True}])
def test_fractions_that_are_none_are_refused(labels, parts):
    with pytest.raises(hub.errors.ConfigError, match=r"fraction|at most 1"):
        hub.split(labels, **parts)


def test_a_field_that_is_not_there_is_refused(labels):
    with pytest.raises(hub.errors.ConfigError, match="no field 'log'"):
        hub.split(labels, by="log", train=1)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.integers(1, 200),
    st.integers(0, 5),
)
def test_classes_come_equally_often_and_rows_of_one_too(values, rows, seed):
    chosen = fractions.drawn(np.asarray(values), None, rows, seed)
    assert len(chosen) == rows
    assert (np.diff(chosen) >= 0).all()
    by_class = collections.Counter(values[i] for i in chosen.tolist())
    assert max(by_class.values()) - min(by_class.get(value, 0) for value in set(values)) <= 1
    times = collections.Counter(chosen.tolist())
    for item in set(values):
        counts = [times.get(i, 0) for i, value in enumerate(values) if value == item]
        assert max(counts) - min(counts) <= 1


def test_weights_say_how_often_a_class_comes(labels):
    chosen = hub.balanced(labels, by="value", weights={0: 3, 1: 1}, num_rows=80)
    with hub.make_reader(chosen, seed=0) as reader:
        assert collections.Counter(int(row.value) for row in reader) == {0: 60, 1: 20}
    everyone = hub.balanced(labels, by="value")
    assert set(everyone.positions.tolist()) == set(range(300))
    assert len(everyone.positions) == 7 * 43
    for wrong in ({9: 1}, {0: -1}, {0: 0}):
        with pytest.raises(hub.errors.ConfigError, match="weights"):
            hub.balanced(labels, by="value", weights=wrong)


def mixed(labels, **options):
    readers = [hub.make_reader(labels, num_epochs=None, seed=seed) for seed in (1, 2)]
    return hub.petastorm.WeightedSamplingReader(readers, [0.8, 0.2], **options)


def test_a_mix_draws_readers_by_weight_and_goes_on_where_it_was(labels):
    with mixed(labels, seed=5) as whole, mixed(labels, seed=5) as first, mixed(labels) as rest:
        expected = [int(row.value) for row in itertools.islice(whole, 500)]
        begun = [int(row.value) for row in itertools.islice(first, 200)]
        rest.load_state_dict(first.state_dict())
        assert begun + [int(row.value) for row in itertools.islice(rest, 300)] == expected
        assert 350 < whole.diagnostics[0]["items"] < 450


def test_a_mix_ends_where_a_reader_that_is_drawn_has_no_more(labels):
    readers = [hub.make_reader(labels, num_epochs=n, seed=0) for n in (1, None)]
    with hub.petastorm.WeightedSamplingReader(readers, [0.5, 0.5], seed=0) as mix:
        count = sum(1 for _ in mix)
        assert mix.last_row_consumed
    assert 500 < count < 700


def test_readers_that_do_not_fit_are_refused(labels):
    reader = hub.make_reader(labels)
    with pytest.raises(hub.errors.ConfigError, match="give one for each"):
        hub.petastorm.WeightedSamplingReader([reader], [0.5, 0.5])
    with pytest.raises(hub.errors.ConfigError, match="probabilities"):
        hub.petastorm.WeightedSamplingReader([reader], [0.0])
    with pytest.raises(hub.errors.ConfigError, match="all rows"):
        hub.petastorm.WeightedSamplingReader([reader, hub.make_batch_reader(labels)], [1, 1])
    with pytest.raises(hub.errors.ConfigError, match="different fields"):
        hub.petastorm.WeightedSamplingReader([reader, hub.make_reader({"x": labels})], [1, 1])
    with pytest.raises(hub.errors.ConfigError, match="not a state"):
        mixed(labels).load_state_dict({"seed": 1})


def test_a_split_says_what_it_cannot_do(root):
    model.write("me/drives:v1", {"a": model.drive("a", 12)}, root)
    with pytest.raises(ValueError, match="name the parts"):
        hub.split("me/drives:v1", root=root)
    with pytest.raises(ValueError, match="takes a field of single values"):
        hub.split("me/drives:v1", train=1.0, by="pose", root=root)
    part = hub.split("me/drives:v1", train=1.0, root=root)["train"]
    with pytest.raises(ValueError, match="used as it is"):
        hub.row_loader(part, root=root)


def write_files(folder, names):
    folder.mkdir(exist_ok=True)
    for name in names:
        table = pa.table({"file": [name] * 60, "id": np.arange(60)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=20)


def test_a_part_of_a_part_stays_put_when_files_are_added(tmp_path):
    def parts():
        train = hub.split(tmp_path / "d", train=0.7, rest=0.3)["train"]
        result = {}
        for part, source in hub.split(train, a=0.5, b=0.5, seed=1).items():
            with hub.make_reader(source) as reader:
                result |= {(str(row.file), int(row.id)): part for row in reader}
        return result

    write_files(tmp_path / "d", "bdf")
    before = parts()
    write_files(tmp_path / "d", "ace")
    after = parts()
    assert {key: after[key] for key in before} == before
    assert 0.3 < list(before.values()).count("a") / len(before) < 0.7


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_a_part_of_parquet_is_kept_by_a_cache(tmp_path, pool):
    write_files(tmp_path / "d", "ab")
    train = hub.split(tmp_path / "d", train=0.7, rest=0.3)["train"]
    counts = []
    for _ in range(2):
        place = {"cache_type": "local-disk", "cache_location": tmp_path / "kept", "cache_size_limit": 1 << 20}
        with hub.make_reader(train, reader_pool_type=pool, seed=0, **place) as reader:
            rows = [(str(row.file), int(row.id)) for row in reader]
            counts.append((reader.diagnostics["cache_hits"], reader.diagnostics["cache_misses"]))
    assert len(set(rows)) == len(train.positions)
    assert counts[0][1] == 6
    assert counts[1] == (counts[0][0] + counts[0][1], 0)


def test_a_part_that_got_no_row_is_told(root):
    array = hub.array(6, "me/few:v0", "i8", root=root)
    array[:] = 7
    with pytest.warns(
        UserWarning, match="no row is in (train|val|train, val|val, train)?, because there are few values"
    ):
        parts = hub.split("me/few:v0", by="value", train=0.5, val=0.5, root=root)
    assert sorted(len(part.positions) for part in parts.values()) == [0, 6]
