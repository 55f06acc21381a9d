"""What has a shape and elements is taken as it is meant, wherever it comes from."""

import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

import hubarray as hub
from tests.optional import Optional

torch = Optional("torch")

VALUES = np.arange(12.0).reshape(4, 3)


class Interface:
    """An array only by its interface."""

    def __init__(self, values):
        self.__array_interface__ = values.__array_interface__
        self._kept = values


TAKEN = {
    "ndarray": lambda: VALUES,
    "list": lambda: VALUES.tolist(),
    "frame": lambda: pd.DataFrame(VALUES, columns=["a", "b", "c"]),
    "DataArray": lambda: xarray.DataArray(VALUES),
    "zarr": lambda: zarr.create_array({}, data=VALUES),
    "tensor": lambda: torch.from_numpy(VALUES),
    "interface": lambda: Interface(VALUES),
    "memoryview": lambda: memoryview(VALUES),
    "tensors with gradients": lambda: list(torch.tensor(VALUES, requires_grad=True)),
}


class Failing:
    """An array that says it is one."""

    def __init__(self, error):
        self._error = error

    def __array__(self, *_, **__):
        raise self._error


class Wrong:
    """An interface to more than there is memory for."""

    __array_interface__ = {"shape": (1 << 50,), "typestr": "<f8", "version": 3}  # noqa: RUF012


ENTRIES = {
    "assignment": lambda value, root: hub.array((4, 3), "t/a:v0", "f8", root=root).__setitem__(..., value),
    "append": lambda value, root: hub.array((0, 3), "t/b:v0", "f8", root=root).append(value),
    "store": lambda value, root: hub.store(value, "t/c:v0", root=root),
    "import_": lambda value, root: hub.import_(value, "t/d:v0", root=root),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "value",
    [Failing(MemoryError("no memory")), Failing(KeyError("x")), Wrong()],
    ids=["MemoryError", "KeyError", "interface"],
)
def test_what_does_not_give_itself_as_an_array_is_refused_by_its_type(root, entry, value):
    with pytest.raises(hub.errors.ConfigError, match=f"{type(value).__name__}, does not give itself as an array"):
        ENTRIES[entry](value, root)


@pytest.mark.parametrize("name", TAKEN)
def test_values_are_what_is_stored(root, name):
    assert np.array_equal(hub.import_(TAKEN[name](), "t/x:v0", root=root)[...], VALUES)
    if name not in ("list", "memoryview"):
        assert np.array_equal(hub.store(TAKEN[name](), "t/y:v0", root=root)[...], VALUES)


def test_columns_are_named_and_a_series_is_a_column(root):
    assert hub.import_(TAKEN["frame"](), "t/x:v0", root=root).attrs["columns"] == ["a", "b", "c"]
    assert hub.import_(pd.Series([1, 2]), "t/y:v0", root=root)[...].tolist() == [1, 2]
    assert hub.import_(pd.DataFrame({"a": ["x", "long"]}), "t/z:v0", root=root)[...].tolist() == [["x"], ["long"]]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (pd.DataFrame({"a": [1], "b": ["x"]}), "each as an array of its own"),
        (pd.DataFrame({"a": [1], "b": [1.5]}), "2 dtypes"),
        (pd.DataFrame({"a": pd.array([1, None, 2**60 + 1], "Int64")}), "missing values"),
        (pd.DataFrame({"a": ["x", None]}), "Python objects"),
        (pd.Series([True, None], dtype="boolean"), "Python objects"),
        (pd.Series(pd.date_range("2020", periods=3, tz="UTC")), "times with a zone"),
        (np.array(["a", 3], object), "Python objects"),
        (np.ma.masked_greater(np.arange(5), 3), "masks are not stored"),
    ],
)
def test_what_is_no_one_array_is_refused(root, source, words):
    refused(root, source, words)


def test_a_sparse_tensor_is_refused(root):
    refused(root, torch.eye(3).to_sparse(), "to_dense")


def refused(root, source, words):
    for make in (hub.import_, hub.store):
        with pytest.raises(hub.errors.ConfigError, match=words):
            make(source, "t/x:v0", root=root)
    assert hub.list(root=root) == []


def test_a_dataset_of_xarray_is_imported_and_stored_whole(root):
    source = xarray.Dataset({"v": ("x", [1.0])})
    for make in (hub.import_, hub.store):
        assert make(source, f"lab/x:{make.__name__}", root=root)["v"][:].tolist() == [1.0]


def test_text_and_views_of_other_kinds_are_taken_as_their_values(root):
    texts = np.array(["a", "bcd"], np.dtypes.StringDType())
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    for make in (hub.import_, hub.store):
        assert make(texts, f"t/x:{make.__name__}", root=root)[...].tolist() == ["a", "bcd"]
        assert make(numbers.conj(), f"t/y:{make.__name__}", root=root)[...].tolist() == [1 - 2j, 3 + 1j]
        assert make(numbers.conj().imag, f"t/z:{make.__name__}", root=root)[...].tolist() == [-2, 1]


def test_one_array_of_a_dataset_is_chosen_by_its_key(root):
    source = xarray.Dataset({"v": ("x", [1.0]), "w": ("x", [2.0], {"unit": "m"})})
    array = hub.import_(source, "t/x:v0", key="w", root=root)
    assert (array[...].tolist(), array.dims, dict(array.attrs)) == ([2.0], ("x",), {"unit": "m"})
    with pytest.raises(hub.errors.ConfigError, match="holds v, w; not 'u'"):
        hub.import_(source, "t/y:v0", key="u", root=root)


def test_storing_again_replaces_the_contents_in_one_commit(root):
    hub.store(VALUES, "t/x:v0", root=root)
    array = hub.store(VALUES + 1, "t/x:v0", root=root)
    assert array.commit == 2
    assert np.array_equal(array[...], VALUES + 1)


def test_what_was_frozen_and_deleted_comes_back_frozen(root):
    array = hub.array(3, "t/x:v0", root=root)
    array[...] = 5
    hub.freeze("t/x:v0", root=root)
    hub.delete("t/x:v0", root=root)
    back = hub.undo("t/x:v0", root=root)
    assert back.frozen
    with pytest.raises(hub.errors.FrozenError):
        back[0] = 1
    hub.delete("t/x:v0", root=root)
    assert not hub.restore("t/x:v0", 2, root=root).frozen
    hub.delete("t/x:v0", root=root)
    assert not hub.array(3, "t/x:v0", root=root).frozen


def test_an_append_says_where_its_rows_are(root, other_machine):
    array = hub.array((0, 2), "t/x:v0", "i8", root=root)
    assert array.append([[1, 1], [2, 2]]) == slice(0, 2)
    other_machine(lambda: hub.load("t/x:v0", root=root).append([[3, 3]]))
    assert array.append([[4, 4]]) == slice(3, 4)
    assert array.append(np.zeros((0, 2))) == slice(4, 4)
    assert array[...].tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]


def test_a_transform_may_turn_images_round(root):
    array = hub.import_(VALUES, "t/x:v0", root=root)
    dataset = array.to_pytorch(transform=lambda row: row[::-1])
    assert dataset[1].tolist() == [5.0, 4.0, 3.0]
