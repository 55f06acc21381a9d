"""PyTorch's loaders over readers."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from tests.optional import Optional

torch = Optional("torch")
torch_readers = Optional("hubarray.interop.torch.readers")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    fields = [
        hub.petastorm.UnischemaField("id", np.int64),
        hub.petastorm.UnischemaField("image", np.uint8, (4, 4), hub.petastorm.NdarrayCodec()),
        hub.petastorm.UnischemaField("points", np.float32, (None, 2), hub.petastorm.NdarrayCodec()),
        hub.petastorm.UnischemaField("name", np.str_),
    ]
    with hub.parquet_writer(tmp_path / "data", hub.petastorm.Unischema("Rows", fields), rows_per_row_group=7) as writer:
        for i in range(50):
            image = rng.integers(0, 255, (4, 4)).astype("u1")
            image[0, 0] = i
            writer.write({"id": i, "image": image, "points": np.full((i % 3, 2), i, "f4"), "name": str(i)})
    return tmp_path / "data"


@pytest.mark.parametrize("make", [hub.make_reader, hub.make_batch_reader])
@pytest.mark.parametrize("loader", ["DataLoader", "BatchedDataLoader"])
def test_batches_are_dictionaries_of_tensors(folder, make, loader):
    seen = []
    with getattr(torch_readers, loader)(make(folder, seed=1), batch_size=8) as batches:
        for batch in batches:
            assert isinstance(batch["image"], torch.Tensor)
            assert torch.equal(batch["image"][:, 0, 0].long(), batch["id"])
            assert [int(name) for name in batch["name"]] == batch["id"].tolist()
            assert [len(points) for points in batch["points"]] == [i % 3 for i in batch["id"].tolist()]
            seen.append(batch["id"].tolist())
        assert [len(item) for item in seen] == [8] * 6 + [2]
        assert sorted(itertools.chain(*seen)) == list(range(50))
        again = [batch["id"].tolist() for batch in batches]
    assert again != seen
    assert sorted(itertools.chain(*again)) == list(range(50))


def test_plain_parquet_comes_through_too(tmp_path):
    pq.write_table(pa.table({"x": np.arange(20.0), "note": [None, "a"] * 10}), tmp_path / "a.parquet")
    (batch,) = torch_readers.BatchedDataLoader(hub.make_batch_reader(tmp_path / "a.parquet"), 20)
    assert batch["x"].dtype == torch.float64
    assert batch["note"][:2] == [None, "a"]


@pytest.mark.parametrize("ragged", ["list", "pad", "nested"])
def test_rows_of_different_shapes_are_as_the_reader_says(folder, ragged):
    with torch_readers.DataLoader(
        hub.make_reader(folder, ["id", "points"], shuffle_row_groups=False, ragged=ragged), 3
    ) as batches:
        points = next(iter(batches))["points"]
    if ragged == "list":
        assert [tuple(item.shape) for item in points] == [(0, 2), (1, 2), (2, 2)]
    elif ragged == "pad":
        assert points.shape == (3, 2, 2)
        assert points[1].tolist() == [[1, 1], [0, 0]]
    else:
        assert points.is_nested
        assert [tuple(item.shape) for item in points.unbind()] == [(0, 2), (1, 2), (2, 2)]


def test_a_loop_goes_on_after_the_batch_that_was_given_last(folder):
    def loader():
        return torch_readers.DataLoader(hub.make_reader(folder, ["id"], seed=4, num_epochs=2), 8)

    whole = [batch["id"].tolist() for batch in loader()]
    first = loader()
    begun = [batch["id"].tolist() for batch in itertools.islice(first, 4)]
    rest = loader()
    rest.load_state_dict(first.state_dict())
    assert begun + [batch["id"].tolist() for batch in rest] == whole
    with pytest.raises(hub.errors.ConfigError, match="cannot be resumed"):
        torch_readers.DataLoader(hub.make_batch_reader(folder)).state_dict()


def test_a_shuffling_queue_is_the_readers_own_shuffle(folder):
    plain = [int(row.id) for row in hub.make_reader(folder, ["id"], seed=2)]
    reader = hub.make_reader(folder, ["id"], seed=2)
    (batch,) = torch_readers.DataLoader(reader, 50, shuffling_queue_capacity=60)
    assert sorted(batch["id"].tolist()) == sorted(plain)
    assert batch["id"].tolist() != plain
    begun = hub.make_reader(folder, ["id"])
    next(begun)
    with pytest.raises(ValueError, match="before the first"):
        torch_readers.DataLoader(begun, shuffling_queue_capacity=10)


def test_windows_are_dictionaries_by_offset(folder):
    fields = {0: ["id", "image"], 1: ["id"]}
    ngram = hub.NGram(fields, delta_threshold=5, timestamp_field="id")
    with torch_readers.DataLoader(hub.make_reader(folder, ngram, shuffle_row_groups=False), 4) as batches:
        batch = next(iter(batches))
    assert batch[0]["id"].tolist() == [0, 1, 2, 3]
    assert batch[1]["id"].tolist() == [1, 2, 3, 4]
    assert batch[0]["image"].shape == (4, 4, 4)
    assert set(batch[1]) == {"id"}


def test_functions_of_the_user_collate_and_transform(folder):
    collated = torch_readers.DataLoader(
        hub.make_reader(folder, ["id"]), 5, collate_fn=lambda rows: sum(int(r["id"]) for r in rows)
    )
    assert sum(collated) == 1225
    doubled = torch_readers.BatchedDataLoader(
        hub.make_batch_reader(folder, ["id"]), 5, lambda column: torch.as_tensor(column) * 2
    )
    assert int(sum(int(item["id"].sum()) for item in doubled)) == 2450
    with pytest.raises(hub.errors.ConfigError, match="collate them in your loop"):
        torch_readers.DataLoader(hub.make_batch_reader(folder), collate_fn=list)
    with pytest.raises(hub.errors.ConfigError, match="batch_size"):
        torch_readers.DataLoader(hub.make_reader(folder), 0)


@pytest.mark.parametrize("make", [hub.make_reader, hub.make_batch_reader])
def test_rows_in_memory_are_shuffled_anew_in_each_epoch(folder, make):
    loader = torch_readers.InMemBatchedDataLoader(make(folder, seed=1), 10, num_epochs=3)
    assert len(loader) == 15
    seen = [batch["id"].tolist() for batch in loader]
    epochs = [list(itertools.chain(*seen[5 * i : 5 * i + 5])) for i in range(3)]
    assert all(sorted(item) == list(range(50)) for item in epochs)
    assert len({tuple(item) for item in epochs}) == 3
    assert [batch["id"].tolist() for batch in loader] != seen, "these are the epochs after them"
    again = torch_readers.InMemBatchedDataLoader(make(folder, seed=1), 10, num_epochs=3)
    assert [batch["id"].tolist() for batch in again] == seen
    few = torch_readers.InMemBatchedDataLoader(make(folder, ["id"]), 10, rows_capacity=25, drop_last=True)
    assert [len(batch["id"]) for batch in few] == [10, 10]
    with pytest.raises(hub.errors.ConfigError, match="without end"):
        torch_readers.InMemBatchedDataLoader(make(folder, num_epochs=None))


def test_integers_with_nulls_are_lists_and_wide_unsigned_ones_grow(tmp_path):
    x = pa.array([2**60 + 1, None, 3], pa.int64())
    table = pa.table({"x": x, "u2": pa.array([1, 2, 65535], pa.uint16()), "u4": pa.array([1, 2, 3], pa.uint32())})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = torch_readers.DataLoader(hub.make_reader(tmp_path, shuffle_row_groups=False), 3)
    batches = torch_readers.BatchedDataLoader(hub.make_batch_reader(tmp_path, shuffle_row_groups=False), 3)
    for loader in (rows, batches):
        (batch,) = loader
        assert [item if item is None else int(item) for item in batch["x"]] == [2**60 + 1, None, 3]
        assert (batch["u2"].dtype, batch["u4"].dtype) == (torch.int32, torch.int64)
        assert (batch["u2"] + 1).tolist() == [2, 3, 65536]


@pytest.mark.parametrize("make", [hub.make_reader, hub.make_batch_reader])
def test_a_transform_makes_a_tensor_of_each_column(folder, make):
    (batch,) = torch_readers.BatchedDataLoader(
        make(folder, ["id", "image"]), 50, lambda column: torch.as_tensor(column).double()
    )
    assert {item.dtype for item in batch.values()} == {torch.float64}
    (batch,) = torch_readers.InMemBatchedDataLoader(
        make(folder, ["id"]), 50, lambda column: torch.as_tensor(column) + 1
    )
    assert sorted(batch["id"].tolist()) == list(range(1, 51))


@pytest.mark.parametrize("make", [hub.make_reader, hub.make_batch_reader])
def test_a_loop_that_was_left_is_gone_on_with(folder, make):
    with torch_readers.BatchedDataLoader(make(folder, seed=1, num_epochs=2), batch_size=8) as loader:
        whole = [batch["id"].tolist() for batch in loader]
    with torch_readers.BatchedDataLoader(make(folder, seed=1, num_epochs=2), batch_size=8) as loader:
        result = []
        while len(result) < len(whole):
            result += [batch["id"].tolist() for batch in itertools.islice(loader, 2)]
        assert result == whole


def test_rows_that_wait_for_more_survive_an_error_of_the_reader(folder, tmp_path):
    marker = tmp_path / "fail"
    marker.touch()

    def fail_once(frame):
        if 30 in set(frame["id"]) and marker.exists():
            raise ValueError("not now")
        return frame

    reader = hub.make_batch_reader(
        folder, ["id"], shuffle_row_groups=False, reader_pool_type="dummy", transform_spec=hub.TransformSpec(fail_once)
    )
    with torch_readers.BatchedDataLoader(reader, batch_size=9) as loader:
        result = []
        with pytest.raises(ValueError, match="not now"):
            result.extend(batch["id"].tolist() for batch in loader)
        result = list(itertools.chain(*result))
        marker.unlink()
        result += [item for batch in loader for item in batch["id"].tolist()]
        assert result == list(range(50))


@pytest.mark.parametrize("ragged", ["list", "pad", "nested"])
@pytest.mark.parametrize("made", ["batches", "in memory, of rows", "in memory, of batches"])
def test_rows_of_different_shapes_are_as_the_reader_says_whatever_puts_them_together(folder, made, ragged):
    make = hub.make_reader if made == "in memory, of rows" else hub.make_batch_reader
    reader = make(folder, ["id", "points"], shuffle_row_groups=False, ragged=ragged)
    # A batch of more rows than a row group has.
    loader = (
        torch_readers.BatchedDataLoader(reader, 10)
        if made == "batches"
        else torch_readers.InMemBatchedDataLoader(reader, 10, shuffle=False)
    )
    with loader as batches:
        points = next(iter(batches))["points"]
    if ragged == "list":
        assert [tuple(item.shape) for item in points] == [(i % 3, 2) for i in range(10)]
    elif ragged == "pad":
        assert points.shape == (10, 2, 2)
        assert points[:, :, 0].tolist() == [[i if k < i % 3 else 0 for k in range(2)] for i in range(10)]
    else:
        assert points.is_nested
        assert [tuple(item.shape) for item in points.unbind()] == [(i % 3, 2) for i in range(10)]


def test_batches_of_row_groups_of_different_widths_are_padded_to_one(tmp_path):
    fields = [hub.petastorm.UnischemaField("points", np.int64, (None,), hub.petastorm.NdarrayCodec())]
    with hub.parquet_writer(tmp_path / "d", hub.petastorm.Unischema("Rows", fields), rows_per_row_group=2) as writer:
        for i in range(4):
            writer.write({"points": np.arange(i)})
    reader = hub.make_batch_reader(tmp_path / "d", shuffle_row_groups=False, ragged="pad")
    (batch,) = torch_readers.BatchedDataLoader(reader, 4)
    assert batch["points"].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]]
