"""Some rows of arrays, as if they were all of them."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.readers.array_columns import columns
from tests.optional import Optional

torch = Optional("torch")
torch_data = Optional("torch.utils.data")

CHOICES = [
    slice(10, 40),
    slice(None, None, -3),
    slice(5, 5),
    np.arange(100) % 3 == 0,
    [7, 3, 99, -1],
    np.array([], int),
]


@pytest.fixture
def pair(root):
    images = hub.array((100, 4), "t/x:v0", "i8", chunks=(8, 4), root=root)
    images[...] = np.arange(400).reshape(100, 4)
    labels = hub.array(100, "t/y:v0", "i8", chunks=16, root=root)
    labels[...] = np.arange(100)
    return images, labels


@pytest.mark.parametrize("rows", CHOICES, ids=str)
def test_chosen_rows_are_those_that_numpy_chooses(pair, rows):
    images, labels = pair
    expected = images[...][rows]
    first, second = columns(pair, rows)
    assert (len(first), first.shape, first.nbytes) == (len(expected), expected.shape, expected.nbytes)
    some = np.arange(len(expected))[::-2]
    assert np.array_equal(first[some], expected[some])
    assert np.array_equal(first.read_rows(some), expected[some])
    assert np.array_equal(second[slice(1, None, 2)], labels[...][rows][1::2])
    dataset = images.to_pytorch(labels, rows=rows)
    assert len(dataset) == len(expected)
    stream = images.to_pytorch(labels, rows=rows, iterable=True, seed=1, batch_size=7)
    seen = [int(label) for _, batch in stream for label in batch]
    assert sorted(seen) == sorted(labels[...][rows].tolist())
    if len(expected):
        assert torch.equal(dataset[0][0], torch.from_numpy(expected[0]))
        batch = next(iter(torch_data.DataLoader(dataset, batch_size=4, collate_fn=dataset.collate)))
        assert np.array_equal(batch[0], expected[:4])
        assert [int(y) for _, y in images.to_tensorflow(labels, rows=rows)] == labels[...][rows].tolist()


@pytest.mark.parametrize("rows", [[100], [-101], np.ones(3, bool), [[1]], [0.5], "x"], ids=str)
def test_what_chooses_no_rows_is_refused(pair, rows):
    with pytest.raises(hub.errors.ConfigError, match="rows="):
        pair[0].to_pytorch(rows=rows)


def test_a_stream_over_chosen_rows_is_gone_on_with_over_the_same_ones_only(pair):
    def loader(rows):
        return pair[1].to_pytorch(rows=rows, iterable=True, seed=1, batch_size=5).loader(num_workers=0)

    first = loader(slice(0, 50))
    batches = iter(first)
    begun = [next(batches).tolist() for _ in range(3)]
    again = loader(slice(0, 50))
    again.load_state_dict(first.state_dict())
    rest = [item.tolist() for item in again]
    assert sorted(item for batch in begun + rest for item in batch) == list(range(50))
    with pytest.raises(hub.errors.ConfigError):
        loader(slice(0, 60)).load_state_dict(first.state_dict())


def test_ranks_share_a_tensorflow_dataset_between_them(pair):
    parts = [
        pair[1].to_tensorflow(shuffle=True, seed=3, rank=rank, world_size=2, buffer_bytes=1000) for rank in range(2)
    ]
    seen = [[int(item) for item in part] for part in parts]
    assert [len(part) for part in parts] == [len(item) for item in seen]
    assert not set(seen[0]) & set(seen[1])
    assert len(seen[0]) == len(seen[1]) >= 40
    with pytest.raises(hub.errors.ConfigError, match="seed="):
        pair[1].to_tensorflow(rank=0, world_size=2)
