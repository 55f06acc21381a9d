"""bfloat16 and the float8 types, end to end, under the names that TensorStore gives them."""

import sys

import ml_dtypes
import numpy as np
import pytest
import tensorstore

import hubarray as hub
from hubarray.arrays.codecs import dtypes
from hubarray.arrays.metadata import metadata
from tests.optional import Optional

tf = Optional("tensorflow")
torch = Optional("torch")

NAMES = [name for name in dtypes._ML_NAMES if hasattr(ml_dtypes, name)]
VALUES = np.array([[0.0, 1.0, -2.0], [0.5, 4.0, -0.0]])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fill", [0, 1.5])
def test_they_are_stored_and_read_as_they_are(root, forget, name, fill):
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = hub.array((2, 6), "t/x:v0", name, chunks=(1, 2), fill_value=fill, root=root)
    assert array.dtype == dtype
    array[:, :3] = VALUES.astype(dtype)
    array[0, 4] = 2.0
    expected = np.full((2, 6), fill, dtype)
    expected[:, :3], expected[0, 4] = VALUES.astype(dtype), 2.0
    forget()
    again = hub.load("t/x:v0", root=root)
    assert again[...].dtype == dtype
    assert again[...].tobytes() == expected.tobytes()
    assert again.fill_value == dtype.type(fill)
    assert float(again[0, 1]) == 1.0
    with again.transaction() as t:
        t[1] = t[0]
    assert again[1].tobytes() == expected[0].tobytes()
    again.append(np.ones((1, 6), dtype))
    assert hub.copy("t/x:v0", "t/y:v0", root=root)[2, 0] == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("statistic", ["sum", "mean", "std", "var", "min", "max"])
@pytest.mark.parametrize("axis", [None, 0])
def test_statistics_are_those_of_wider_numbers_rounded_once(root, name, statistic, axis):
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.array([[0.5, 1.0, 2.0], [1.5, 0.25, 1.0], [0.5, 0.5, 2.0]]).astype(dtype)
    result = getattr(hub.store(values, "t/x:v0", root=root, chunks=(1, 2)), statistic)(axis=axis)
    expected = getattr(np, statistic)(values.astype("f4"), axis=axis).astype(dtype)
    assert result.dtype == dtype
    assert np.array_equal(np.asarray(result, "f4"), np.asarray(expected, "f4"))


@pytest.mark.parametrize("fill", [0.0, 1.5, float("nan"), float("-inf")])
def test_tensorstore_reads_what_is_exported(root, tmp_path, fill):
    array = hub.array((2, 3), "t/x:v0", "bfloat16", chunks=(1, 3), fill_value=fill, root=root)
    array[1] = VALUES[1].astype(ml_dtypes.bfloat16)
    hub.export("t/x:v0", tmp_path / "x.zarr", root=root)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "x.zarr")}}
    read = tensorstore.open(spec).result().read().result()
    assert read.dtype == np.dtype("bfloat16")
    assert np.array_equal(read, array[...], equal_nan=True)


def test_frameworks_take_them_and_give_them(root):
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    array = hub.import_(tensor, "t/x:v0", root=root)
    assert array.dtype == np.dtype("bfloat16")
    assert torch.equal(array.to_pytorch()[1], tensor[1])
    assert array.to_pytorch()[1].dtype == torch.bfloat16
    dataset = array.to_tensorflow()
    assert dataset.element_spec.dtype == tf.bfloat16
    assert [float(item[0]) for item in dataset] == [0.0, 3.0]
    assert torch.equal(
        hub.import_(torch.ones(2, 2, requires_grad=True), "t/y:v0", root=root).to_pytorch()[0], torch.ones(2)
    )


def test_without_the_package_they_are_refused_by_name(root, monkeypatch):
    hub.array(3, "t/x:v0", "bfloat16", root=root)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    metadata._described.clear()
    dtypes.ml_dtype.cache_clear()
    try:
        with pytest.raises(hub.errors.ConfigError, match="pip install ml_dtypes"):
            hub.array(3, "t/y:v0", "bfloat16", root=root)
        with pytest.raises(hub.errors.FormatVersionError, match="ml_dtypes"):
            hub.load("t/x:v0", root=root)
        assert hub.list(root=root) == ["t/x:v0"]
    finally:
        dtypes.ml_dtype.cache_clear()
