"""Rows of tables in PyTorch's DataLoader, by index."""

import numpy as np
import pytest

import hubarray as hub
from tests.optional import Optional
from tests.tables import rows as model

torch = Optional("torch")
torch_data = Optional("torch.utils.data")


def test_a_dataloader_with_workers_gives_the_rows_of_an_index(s3_root):
    rows = model.drive("a", 12)
    model.write("me/drives:v1", {"a": rows}, s3_root)
    index = hub.read_index("me/drives:v1", root=s3_root)
    dataset = hub.row_loader(index[::-2], root=s3_root).to_pytorch(["pose", "frame", "log_id"])
    assert len(dataset) == 6
    batches = list(torch_data.DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork"))
    assert [batch["frame"].tolist() for batch in batches] == [[11, 9, 7, 5], [3, 1]]
    assert batches[0]["log_id"] == ["a"] * 4
    np.testing.assert_array_equal(batches[1]["pose"], [rows[3]["pose"], rows[1]["pose"]])


def test_a_transform_makes_a_sample_of_a_row(root):
    model.write("me/drives:v1", {"a": model.drive("a", 12)}, root)
    dataset = hub.load("me/drives:v1", root=root).loader().to_pytorch("lidar", transform=lambda row: len(row["lidar"]))
    (batch,) = torch_data.DataLoader(dataset, batch_size=12)
    assert batch.tolist() == [i % 5 for i in range(12)]


def test_samples_of_a_ragged_array_are_its_values(root):
    values = [np.arange(i, dtype="f4") for i in range(5)]
    model.write(
        "me/ragged:v1", {0: [{"value": item} for item in values]}, root, hub.Schema({"value": hub.Field("f4", (None,))})
    )
    dataset = hub.load("me/ragged:v1", root=root).to_pytorch()
    assert torch.equal(dataset[3], torch.arange(3.0))
    padded = torch_data.DataLoader(dataset, batch_size=5, collate_fn=lambda some: torch.nn.utils.rnn.pad_sequence(some))
    assert next(iter(padded)).shape == (4, 5)
    doubled = hub.load("me/ragged:v1", root=root).to_pytorch(transform=lambda value: value * 2)
    assert doubled[2].tolist() == [0, 2]


def test_unknown_columns_are_refused_at_once(root):
    model.write("me/drives:v1", {"a": model.drive("a", 2)}, root)
    with pytest.raises(hub.errors.ConfigError, match="lidr"):
        hub.load("me/drives:v1", root=root).loader().to_pytorch("lidr")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_of_a_table_gives_batches_of_columns(s3_root, workers):
    rows = {key: model.drive(key, 20) for key in ("a", "b")}
    model.write("me/drives:v1", rows, s3_root)
    table = hub.load("me/drives:v1", root=s3_root)
    stream = table.loader().to_pytorch(["pose", "frame", "log_id", "lidar"], iterable=True, batch_size=8, seed=1)
    seen = []
    for batch in stream.loader(num_workers=workers):
        assert isinstance(batch["pose"], torch.Tensor)
        for i, (log, frame) in enumerate(zip(batch["log_id"], batch["frame"].tolist(), strict=True)):
            np.testing.assert_array_equal(batch["pose"][i], rows[log][frame]["pose"])
            np.testing.assert_array_equal(batch["lidar"][i], rows[log][frame]["lidar"])
            seen.append((log, frame))
    assert sorted(seen) == sorted((log, i) for log in rows for i in range(20))


def test_a_table_of_one_field_streams_its_values(root):
    values = [np.arange(i, dtype="f4") for i in range(5)]
    schema = hub.Schema({"value": hub.Field("f4", (None,))})
    model.write("me/ragged:v1", {0: [{"value": value} for value in values]}, root, schema)
    stream = hub.load("me/ragged:v1", root=root).to_pytorch(iterable=True, seed=0)
    assert sorted(len(item) for item in stream) == [0, 1, 2, 3, 4]


def test_a_table_gives_some_columns_and_batches_of_ragged_rows(root):
    rows = model.drive("a", 12)
    model.write("me/drives:v1", {"a": rows}, root)
    dataset = hub.load("me/drives:v1", root=root).to_pytorch(["frame", "lidar", "log_id"])
    (batch,) = torch_data.DataLoader(dataset, batch_size=12, collate_fn=dataset.collate)
    assert batch["frame"].tolist() == list(range(12))
    assert [len(item) for item in batch["lidar"]] == [i % 5 for i in range(12)]
    assert batch["log_id"] == ["a"] * 12
