"""Arrays of other libraries that a transform gives are judged, stacked and stored as NumPy's are."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.petastorm.tf_utils import make_petastorm_dataset
from tests.optional import Optional

torch = Optional("torch")
pytorch = Optional("hubarray.petastorm.pytorch")


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
    with pytorch.DataLoader(reader(name, root, MADE[how], reader_pool_type=pool), batch_size=4) as loader:
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
    with pytorch.DataLoader(reader(name, root, made, field), batch_size=4) as loader:
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
    with reader(name, root, made) as rows, pytest.raises(hub.errors.ConfigError, match=why):
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


def unannounced(row):
    """As programs of Petastorm's have it: other arrays, of which edit_fields says nothing."""
    return {"id": row["id"], "image": torch.from_numpy(row["image"][None] / 255)}


@pytest.mark.parametrize("pool", ["dummy", "thread", "process"])
def test_arrays_of_which_nothing_was_said_arrive_as_they_are(name, root, pool):
    spec = hub.TransformSpec(unannounced)
    options = {"transform_spec": spec, "shuffle_row_groups": False, "root": root}
    with hub.make_reader(name, reader_pool_type=pool, workers_count=1, **options) as rows:
        images = [row.image for row in rows]
    assert [(image.shape, image.dtype) for image in images] == [((1, 4, 4), np.dtype("f8"))] * 8
    assert [image[0, 0, 0] for image in images] == [i / 255 for i in range(8)]


@pytest.mark.parametrize("kind", ["DataLoader", "BatchedDataLoader"])
def test_arrays_of_which_nothing_was_said_are_stacked(name, root, kind):
    spec = hub.TransformSpec(unannounced)
    reader = hub.make_reader(name, transform_spec=spec, root=root)
    with getattr(pytorch, kind)(reader, batch_size=4) as loader:
        batches = list(loader)
    assert [tuple(batch["image"].shape) for batch in batches] == [(4, 1, 4, 4)] * 2
    assert batches[0]["image"].dtype == torch.float64


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (unannounced, r"'image' with shape \(1, 4, 4\).*edit_fields"),
        (lambda row: row | {"image": row["image"] / 255}, "'image' as float64.*edit_fields"),
        (lambda row: row | {"id": 0.5}, "'id' as float64.*edit_fields"),
    ],
)
def test_tensorflow_which_must_know_before_refuses_them(name, root, made, why):
    reader = hub.make_reader(name, transform_spec=hub.TransformSpec(made), root=root)
    with reader, pytest.raises(Exception, match=why):
        list(make_petastorm_dataset(reader))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda row: row | {"image": None}, "'image' as null"),
        (lambda row: row | {"image": "a cat"}, "'image'"),
        (lambda row: row | {"image": np.ma.masked_array(np.zeros((4, 4), "f4"), True)}, "'image'.*mask"),
        (lambda row: row | {"label": 1}, "'label'"),
    ],
)
def test_what_is_no_array_of_numbers_has_to_be_said(name, root, made, why):
    reader = hub.make_reader(name, transform_spec=hub.TransformSpec(made), root=root)
    with reader, pytest.raises(hub.errors.ConfigError, match=why):
        next(reader)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(
    ("made", "kind"),
    [(lambda n: int(n), "int64"), (lambda n: float(n), "float64"), (lambda n: n > 3, "bool")],
)
def test_numbers_of_python_are_tensors_in_a_batch(name, root, made, kind, said):
    edits = [("id", np.dtype(kind).type, (), False)] if said else None
    spec = hub.TransformSpec(lambda row: {"id": made(int(row["id"]))}, edits, removed_fields=["image"])
    with pytorch.DataLoader(hub.make_reader(name, transform_spec=spec, root=root), batch_size=4) as loader:
        assert [batch["id"].dtype for batch in loader] == [getattr(torch, kind)] * 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.array([16777217], np.int64),
        lambda: np.array([16777217.0, 1e300]),
        lambda: np.array([1, 2], np.int32),
        lambda: torch.ones(2, dtype=torch.float16),
        lambda: torch.ones(2, dtype=torch.bfloat16),
    ],
)
def test_arrays_of_which_nothing_was_said_keep_every_bit(root, make):
    made = make()
    schema = hub.Schema({"x": hub.Field("float32", (None,))})
    with hub.table_writer("t/x:v1", schema, root=root) as writer, writer.partition("p") as part:
        part.extend([{"x": np.zeros(3, "f4")}] * 2)
    spec = hub.TransformSpec(lambda row: {"x": made})
    with hub.make_reader("t/x:v1", transform_spec=spec, root=root) as reader:
        result = next(reader).x
    expected = made if isinstance(made, np.ndarray) else made.float().numpy()
    assert result.astype(expected.dtype).tolist() == expected.tolist()
    assert result.dtype.itemsize >= made.dtype.itemsize


def test_numbers_beyond_what_was_said_are_refused(name, root):
    rows = reader(name, root, lambda image: np.full((1, 4, 4), 1e300))
    with rows, pytest.raises(hub.errors.ConfigError, match="'image' as float64, with numbers beyond float32"):
        next(rows)


def test_a_list_of_tensors_of_different_lengths_is_refused_by_name(name, root):
    spec = hub.TransformSpec(lambda row: row | {"image": [torch.ones(2), torch.ones(3)]})
    with (
        hub.make_reader(name, transform_spec=spec, root=root) as rows,
        pytest.raises(hub.errors.ConfigError, match="'image'"),
    ):
        next(rows)
