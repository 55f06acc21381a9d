"""Arrays of other libraries that a transform gives are judged, stacked and stored as NumPy's are."""

import numpy as np
import pytest
import torch

import hubarray as hub
from hubarray.interop.petastorm.pytorch import DataLoader


@pytest.fixture
def name(root):
    schema = hub.Schema({"id": hub.Field("int64"), "image": hub.Field("uint8", (4, 4))})
    with hub.table_writer("t/a:v1", schema, root=root) as writer, writer.partition("p") as part:
        part.extend({"id": i, "image": np.full((4, 4), i, "uint8")} for i in range(8))
    return "t/a:v1"


def reader(name, root, made, field=("image", np.float32, (1, 4, 4), False), **options):
    def transform(row):
        return {"id": row["id"], "image": made(row["image"])}

    spec = hub.TransformSpec(transform, edit_fields=[field])
    return hub.make_reader(name, transform_spec=spec, shuffle_row_groups=False, root=root, **options)


MADE = {
    "plain": lambda image: torch.from_numpy(image.astype("float32"))[None],
    "with gradients": lambda image: torch.from_numpy(image.astype("float32"))[None].requires_grad_(),
    "turned": lambda image: torch.from_numpy(image.astype("float32"))[None].transpose(1, 2),
    "in a list": lambda image: [torch.from_numpy(image.astype("float32"))],
    "of other depth": lambda image: torch.from_numpy(image.astype("float64"))[None],
}


@pytest.mark.parametrize("how", MADE)
@pytest.mark.parametrize("pool", ["dummy", "thread"])
def test_tensors_are_stacked(name, root, how, pool):
    with DataLoader(reader(name, root, MADE[how], reader_pool_type=pool), batch_size=4) as loader:
        batches = list(loader)
    assert [tuple(batch["image"].shape) for batch in batches] == [(4, 1, 4, 4)] * 2
    assert batches[0]["image"].dtype == torch.float32
    assert torch.cat([batch["image"] for batch in batches])[:, 0, 0, 0].tolist() == list(range(8))


def test_a_tensor_without_axes_is_a_number(name, root):
    with reader(name, root, lambda image: torch.tensor(float(image[0, 0])), ("image", np.float32, (), False)) as rows:
        assert [row.image for row in rows] == [np.float32(i) for i in range(8)]


def test_tensors_of_types_that_only_pytorch_computes_with_come_back(name, root):
    import ml_dtypes

    made = lambda image: torch.from_numpy(image.astype("float32")).to(torch.bfloat16)  # noqa: E731
    field = ("image", ml_dtypes.bfloat16, (4, 4), False)
    with DataLoader(reader(name, root, made, field), batch_size=4) as loader:
        assert next(iter(loader))["image"].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda image: torch.zeros(4, 4), r"'image' with shape \(4, 4\).*\(1, 4, 4\)"),
        (lambda image: torch.zeros(1, 4, 4, dtype=torch.complex64), "'image' as complex64"),
        (lambda image: torch.zeros(1, 4, 4).to_sparse(), "'image'.*sparse"),
        (lambda image: np.ma.masked_array(np.zeros((1, 4, 4), "f4"), True), "'image'.*mask"),
    ],
)
def test_arrays_that_are_not_what_was_said_are_refused_by_name(name, root, made, why):
    with reader(name, root, made) as rows, pytest.raises(hub.ConfigError, match=why):
        next(rows)


def test_a_batch_of_nulls_alone_has_the_dtype_of_the_field(root):
    schema = hub.Schema({
        "t": hub.Field("M8[ms]", nullable=True), "f": hub.Field("f4", nullable=True),
        "i": hub.Field("i8", nullable=True), "s": hub.Field(str, nullable=True),
    })  # fmt: skip
    with hub.table_writer("t/n:v1", schema, root=root) as writer, writer.partition("p") as part:
        part.extend([{"t": None, "f": None, "i": None, "s": None}] * 4)
    with hub.make_batch_reader("t/n:v1", root=root) as batches:
        for batch in batches:
            assert batch.t.dtype == "M8[ms]"
            assert np.isnat(batch.t).all()
            assert batch.f.dtype == "f4"
            assert np.isnan(batch.f).all()
            assert batch.i.tolist() == batch.s.tolist() == [None] * len(batch.i)
