"""Loaders and transforms: orders, lengths, states, threads that are left, and wrong arguments."""

import gc
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import ConfigError
from tests.optional import Optional

torch = Optional("torch")
loaders = Optional("hubarray.interop.torch")


@pytest.fixture
def where(tmp_path):
    pq.write_table(pa.table({"id": range(100), "x": np.arange(100) / 2}), tmp_path / "a.parquet", row_group_size=10)
    return str(tmp_path)


def orders(loader, count):
    return [[value for batch in loader for value in batch["id"].tolist()] for _ in range(count)]


def test_each_pass_over_rows_in_memory_is_in_another_order(where):
    loader = loaders.InMemBatchedDataLoader(hub.make_batch_reader(where, seed=0), batch_size=30)
    passes = orders(loader, 3)
    assert all(sorted(item) == list(range(100)) for item in passes)
    assert len({tuple(item) for item in passes}) == 3
    again = loaders.InMemBatchedDataLoader(hub.make_batch_reader(where, seed=0), batch_size=30, num_epochs=3)
    assert len(again) == 12
    assert orders(again, 1) == [[value for item in passes for value in item]]


def test_a_pass_over_rows_in_memory_goes_on_where_a_state_was_taken(where):
    def made():
        return loaders.InMemBatchedDataLoader(hub.make_batch_reader(where, seed=0), batch_size=30, num_epochs=2)

    with made() as loader:
        whole = orders(loader, 1)[0]
    loader = made()
    batches = iter(loader)
    first = [value for _ in range(5) for value in next(batches)["id"].tolist()]
    state = loader.state_dict()
    again = made()
    again.load_state_dict(state)
    rest = [value for batch in again for value in batch["id"].tolist()]
    assert first + rest[: len(whole) - len(first)] == whole
    for wrong in ({}, state | {"rows": 7}, state | {"epoch": -1}, state | {"batches": 99}, [state]):
        with pytest.raises(ConfigError):
            made().load_state_dict(wrong)


def test_the_length_of_a_loader_is_that_of_all_epochs(where):
    for epochs, length in ((1, 4), (2, 7)):
        with loaders.DataLoader(hub.make_reader(where, num_epochs=epochs), batch_size=30) as loader:
            assert len(loader) == length == len(list(loader))
    with loaders.DataLoader(hub.make_reader(where, num_epochs=None), batch_size=30) as loader, pytest.raises(TypeError):
        len(loader)


def test_a_reader_that_has_ended_leaves_no_threads(where):
    gc.collect()
    before = threading.active_count()
    readers = [hub.make_reader(where) for _ in range(5)]
    for reader in readers:
        assert len(list(reader)) == 100
    time.sleep(0.5)
    assert threading.active_count() <= before + 1
    readers[0].reset()
    assert len(list(readers[0])) == 100


def test_small_data_is_shuffled_as_a_whole(root, where):
    array = hub.array((10_000,), "u/a:v1", "i8", chunks=1000, root=root)
    array[:] = np.arange(10_000)
    with hub.make_reader("u/a:v1", seed=0, shuffle_rows=True, root=root) as reader:
        result = np.array([row.value for row in reader])
        assert reader.diagnostics["shuffled_together"] == 1
    assert all(len(set((result[i : i + 1000] // 1000).tolist())) == 10 for i in range(0, 10_000, 1000))
    loader = loaders.DataLoader(hub.make_reader("u/a:v1", seed=0, root=root), 100, shuffling_queue_capacity=10_000)
    with loader:
        first = torch.cat([batch["value"] for batch, _ in zip(loader, range(10), strict=False)])
    assert len(set((first // 1000).tolist())) == 10


ID = [("id", np.int64, (), False)]
WRONG = [
    (lambda row: {"id": row["id"] + 0.5, "x": row["x"]}, ID, "'id' as float64, and the schema says int64"),
    (lambda row: {"id": "a", "x": row["x"]}, [], "'id' as <U1"),
    (lambda row: {"id": None, "x": row["x"]}, [], "not nullable"),
    (lambda row: {"id": np.zeros(3, "i8"), "x": row["x"]}, ID, "shape"),
    (lambda row: row | {"y": [1, 2, 3]}, [("y", np.float32, (2,), False)], "shape"),
    (lambda row: row | {"y": ["a", "b"]}, [("y", np.float32, (2,), False)], "as <U1"),
]


@pytest.mark.parametrize(("function", "edits", "words"), WRONG)
def test_a_transform_that_gives_something_else_than_the_schema_says_is_an_error(tmp_path, function, edits, words):
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("id", "x")])
    table = pa.table({"id": range(10), "x": range(10)}, schema)
    pq.write_table(table, tmp_path / "a.parquet")
    reader = hub.make_reader(str(tmp_path), transform_spec=hub.TransformSpec(function, edits))
    with reader, pytest.raises(ConfigError, match=words):
        next(reader)


def test_lists_and_other_whole_numbers_become_what_is_declared(where):
    spec = hub.TransformSpec(lambda row: {"id": np.int32(row["id"]), "y": [1, 2]}, [("y", np.float32, (2,), False)],
                             removed_fields=["x"])  # fmt: skip
    with hub.make_reader(where, transform_spec=spec) as reader:
        row = next(reader)
    assert (row.id.dtype, row.y.dtype, row.y.tolist()) == ("i8", "f4", [1, 2])


@pytest.mark.parametrize(
    ("function", "edits", "words"),
    [
        (lambda frame: frame.assign(z=[np.zeros(4, "f4")] * len(frame)), [("z", np.int64, (2, 2), False)], "shape"),
        (lambda frame: frame.assign(z="text"), [("z", np.int64, (), False)], "as <U4"),
        (lambda frame: None, [], "None, but a DataFrame"),
        (lambda frame: {"id": [1]}, [], "dict, but a DataFrame"),
    ],
)
def test_a_transform_of_batches_is_held_to_the_schema_too(where, function, edits, words):
    reader = hub.make_batch_reader(where, transform_spec=hub.TransformSpec(function, edits))
    with reader, pytest.raises(ConfigError, match=words):
        next(reader)


def test_a_transform_of_batches_may_leave_nulls_as_pandas_has_them(tmp_path):
    pq.write_table(pa.table({"id": pa.array([1, None, 3], pa.int64())}), tmp_path / "a.parquet")
    with hub.make_batch_reader(str(tmp_path), transform_spec=hub.TransformSpec(lambda frame: frame)) as reader:
        assert [None if pd.isna(item) else int(item) for item in next(reader).id] == [1, None, 3]


@pytest.mark.parametrize("source", [None, 7, np.arange(3), [np.arange(3)], len], ids=str)
def test_what_is_no_source_is_refused_with_what_is(source):
    with pytest.raises(ConfigError, match="source is a name, an array"):
        hub.make_reader(source)


def test_wrong_arguments_are_refused_when_they_are_given(where):
    reader = hub.make_reader(where)
    with pytest.raises(TypeError, match=r"hubarray\.interop\.torch\.DataLoader"):
        next(iter(torch.utils.data.DataLoader(reader, batch_size=None)))
    for make in (
        lambda: loaders.DataLoader([1, 2]),
        lambda: loaders.BatchedDataLoader(reader, transform_fn=3),
        lambda: hub.TransformSpec(edit_fields=[("z", "floot", (), False)]),
        lambda: hub.petastorm.build_rowgroup_index(where, hub.petastorm.SingleFieldIndexer("a", "id")),
    ):
        with pytest.raises(ConfigError):
            make()
    assert not reader.is_batched_reader


def test_whoever_stops_after_the_last_batch_has_had_the_epoch(where):
    loader = loaders.InMemBatchedDataLoader(hub.make_reader(where), batch_size=np.int64(30), seed=np.int64(3))
    assert [len([batch for _, batch in zip(range(len(loader)), loader, strict=False)]) for _ in range(3)] == [4, 4, 4]
    loader.load_state_dict(loader.state_dict())


def test_values_without_elements_take_what_is_declared_and_text_is_no_number(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)])
    pq.write_table(pa.table({"id": range(3), "s": list("abc")}, schema), tmp_path / "a.parquet")

    def rows(function, *edits):
        with hub.make_reader(str(tmp_path), transform_spec=hub.TransformSpec(function, list(edits))) as reader:
            return list(reader)

    for shape, given in (((None,), []), ((None, 4), []), ((None,), np.array([])), ((0, 3), np.zeros((0, 3)))):
        result = rows(lambda row, given=given: row | {"y": given}, ("y", np.int64, shape, False))
        assert {row.y.dtype.name for row in result} == {"int64"}
        assert {row.y.size for row in result} == {0}
    ragged = rows(lambda row: row | {"y": [[1], [1, 2]]}, ("y", np.int64, (None, None), False))
    assert ragged[0].y == [[1], [1, 2]]
    with pytest.raises(ConfigError, match="'s' as float64"):
        rows(lambda row: row | {"s": 5.5})
    spec = hub.TransformSpec(
        lambda frame: pd.DataFrame({"id": [item for item in frame.id if item > 9]}), removed_fields=["s"]
    )
    with hub.make_batch_reader(str(tmp_path), transform_spec=spec) as reader:
        assert list(reader) == []
