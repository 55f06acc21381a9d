"""Training from a dataset: samples are dictionaries, in every way that arrays are trained from."""

import numpy as np
import pytest

import hubarray as hub
from tests.optional import Optional

torch = Optional("torch")
torch_data = Optional("torch.utils.data")

NAME = "lab/train:v1"


@pytest.fixture
def ds(root):
    made = hub.dataset(
        {
            "image": hub.ArraySpec((0, 4, 4), "uint8", chunks=(4, 4, 4), dims=("sample", "y", "x")),
            "label": hub.ArraySpec(0, "int64", chunks=8, dims=("sample",)),
            "class": hub.ArraySpec(3, "int64"),
        },
        NAME,
        root=root,
    )
    made.append({"image": np.arange(20)[:, None, None] + np.zeros((20, 4, 4)), "label": np.arange(20) % 2})
    return made


def check(batch):
    assert (batch["image"][:, 0, 0].numpy() % 2 == np.asarray(batch["label"])).all()
    return batch["image"][:, 0, 0].tolist()


def test_pytorch_gets_dictionaries_by_index_and_as_a_stream(ds):
    dataset = ds.to_pytorch()
    assert (len(dataset), int(dataset[7]["label"]), dataset[7]["image"].shape) == (20, 1, (4, 4))
    loader = torch_data.DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=dataset.collate)
    assert sorted(value for batch in loader for value in check(batch)) == list(range(20))
    stream = ds.to_pytorch(iterable=True, batch_size=5, seed=0)
    assert sorted(value for batch in stream for value in check(batch)) == list(range(20))
    with pytest.raises(hub.errors.NotFoundError, match="no array 'mask'"):
        ds.to_pytorch(["mask"])


def test_columns_rows_and_a_transform_choose(ds):
    only = ds.to_pytorch("label", rows=slice(2, 6), transform=lambda sample: sample["label"] * 10)
    assert [int(only[i]) for i in range(len(only))] == [0, 10, 0, 10]
    assert isinstance(ds.to_pytorch(["label"])[0]["label"], torch.Tensor)


def test_tensorflow_gets_dictionaries(ds):
    result = [batch["label"].numpy().tolist() for batch in ds.to_tensorflow(["image", "label"], batch_size=10)]
    assert result == [[0, 1] * 5] * 2


def test_splits_and_balance_take_a_dataset(ds, root):
    parts = hub.split(ds, train=0.5, test=0.5, seed=1)
    taken = [np.sort(part.positions) for part in parts.values()]
    assert np.array_equal(np.sort(np.concatenate(taken)), np.arange(20))
    some = ds.to_pytorch(rows=parts["train"].positions)
    assert len(some) == len(taken[0])
    ds["label"][:16] = 0
    with hub.make_reader(hub.balanced(ds.refresh(), by="label"), seed=0) as reader:
        labels = [int(row.label) for row in reader]
    assert 0.3 < np.mean(labels) < 0.7


def test_rows_of_unequal_sizes_are_sent_to_a_table(root):
    for shape in ((0, None), (None,)):
        with pytest.raises(hub.errors.ConfigError, match="table"):
            hub.dataset({"cloud": hub.ArraySpec(shape, "f4")}, NAME, root=root)


def test_the_fields_that_are_read_tell_what_samples_are_where_the_dataset_does_not(root):
    specs = {"a": hub.ArraySpec(4, "i4", dims=("p",)), "b": hub.ArraySpec(5, "i4", dims=("q",)),
             "c": hub.ArraySpec((4, 2), "i4", dims=("p", "q2"))}  # fmt: skip
    ds = hub.dataset(specs, "f/r:v1", root=root)
    ds["a"][:], ds["b"][:] = range(4), range(5)
    with pytest.raises(hub.errors.ConfigError, match="name the arrays"):
        hub.make_reader("f/r:v1", root=root)
    with hub.make_reader(
        "f/r:v1", ["a"], predicate=hub.petastorm.in_lambda(["c"], lambda c: True), root=root
    ) as reader:
        assert sorted(int(row.a) for row in reader) == [0, 1, 2, 3]
    with hub.make_reader("f/r:v1", ["b"], root=root) as reader:
        assert sorted(int(row.b) for row in reader) == [0, 1, 2, 3, 4]
