"""What a transaction drops was seen by it: that others changed it meanwhile is a conflict."""

import numpy as np
import pytest
import xarray as xr

import hubarray as hub
from hubarray.datasets import description

NAME = "lab/x:v1"


@pytest.fixture
def ds(root):
    specs = {"label": hub.ArraySpec(4, "i8", dims=("s",)), "image": hub.ArraySpec((4, 2), "u1", dims=("s", None))}
    return hub.dataset(specs, NAME, root=root)


@pytest.fixture
def other(ds, root):
    return hub.load(NAME, root=root)


def _replaced(t):
    old = t["label"][:]
    del t["label"]
    t["label"] = old.astype("f4")


def _dropped(t):
    del t["label"]


def _written_anew(t):
    for name in list(t):
        del t[name]
    t["label"] = np.arange(2)


@pytest.mark.parametrize("work", [_replaced, _dropped, _written_anew])
@pytest.mark.parametrize(
    "change",
    [
        lambda other: other["label"].__setitem__(2, 999),
        lambda other: other.append({"label": [7], "image": np.ones((1, 2))}),
        lambda other: other["label"].attrs.update(unit="mm"),
        lambda other: setattr(other["label"], "dims", (None,)),
    ],
    ids=["an element", "rows", "an attribute", "names of axes"],
)
def test_a_change_of_what_is_dropped_is_a_conflict(ds, other, work, change):
    def drop():
        with ds.transaction() as t:
            work(t)
            change(other)

    with pytest.raises(hub.errors.ConflictError, match="'label'"):
        drop()
    assert ds.refresh()["label"].dtype == np.dtype("i8")
    assert ds.commit == 2


def test_a_change_of_another_array_is_none(ds, other):
    with ds.transaction() as t:
        _replaced(t)
        other["image"][1] = 5
    assert (ds["label"].dtype, ds["image"][1].tolist()) == (np.dtype("f4"), [5, 5])


def test_xarray_that_writes_all_anew_conflicts_with_an_append(ds, other):
    def write():
        with ds.transaction() as t:
            xr.Dataset({"label": ("s", np.arange(3))}).to_zarr(ds.to_zarr_store(transaction=t), mode="w")
            other.append({"label": [7], "image": np.ones((1, 2))})

    with pytest.raises(hub.errors.ConflictError, match="somebody else"):
        write()
    assert ds.refresh()["label"][:].tolist() == [0, 0, 0, 0, 7]


def test_names_of_axes_are_part_of_a_transaction(ds):
    with ds.transaction() as t:
        t["weight"] = np.ones(4)
        assert t["weight"].dims == (None,)
        t["weight"].dims = ("s",)
        t["image"].dims = ("s", "pixel")
        t.append({"label": [9], "image": [[1, 2]], "weight": [0.5]})
    assert (ds["weight"].dims, ds["image"].dims) == (("s",), ("s", "pixel"))
    assert (ds["weight"][4], ds["label"][4], ds.dims) == (0.5, 9, {"s": 5, "pixel": 2})
    with ds.transaction() as t:
        t["weight"].dims = None
    assert ds["weight"].dims == (None,)


def test_names_that_others_gave_the_axes_meanwhile_are_a_conflict(ds, other):
    def rename():
        with ds.transaction() as t:
            t["image"].dims = ("s", "pixel")
            other["image"].dims = ("s", "p")

    with pytest.raises(hub.errors.ConflictError, match="axes were renamed"):
        rename()
    with ds.transaction() as t:
        t["image"].dims = ("s", "pixel")
        other["image"][0] = 3
    assert (ds["image"].dims, ds["image"][0].tolist()) == (("s", "pixel"), [3, 3])


def test_an_attribute_that_is_mistyped_is_an_error(ds):
    with ds.transaction() as t, pytest.raises(AttributeError):
        t["image"].dimensions = ("s",)
    with ds.transaction() as t, pytest.raises(AttributeError):
        t.attributes = {}


def test_rows_of_fill_value_are_added_for_workers_to_fill(ds):
    with ds.transaction() as t:
        t.append_fill(2, dim="s")
        with t.worker() as w:
            w["label"][4:6] = [5, 6]
            w["image"][5] = 9
        t.add(w.part)
        with pytest.raises(hub.errors.ConfigError, match="no array has a dimension 'none'"):
            t.append_fill(1, dim="none")
    assert ds["label"][:].tolist() == [0, 0, 0, 0, 5, 6]
    assert ds["image"][4:].tolist() == [[0, 0], [9, 9]]


def test_a_store_takes_a_transaction_of_its_own_dataset_and_array_alone(ds, root):
    array = hub.array((3,), "lab/a:v1", root=root)
    second = hub.dataset({"keep": hub.ArraySpec(3)}, "lab/two:v1", root=root)
    with second.transaction() as t:
        with pytest.raises(hub.errors.ConfigError, match="of another dataset"):
            ds.to_zarr_store(transaction=t)
        with pytest.raises(hub.errors.ConfigError, match="of another array"):
            array.to_zarr_store(transaction=t["keep"])
        assert hub.load("lab/two:v1", root=root).to_zarr_store(transaction=t)
    assert list(second) == ["keep"]


def test_descriptions_that_are_forgotten_meanwhile_drop_nothing(ds, other, root):
    ds["image"][:] = 7
    worker = None
    with ds.transaction() as t:
        t["label"][0] = 1
        for i in range(20):
            hub.dataset({"x": hub.ArraySpec(2)}, f"lab/other{i}:v1", root=root)
            other["label"][3] = i
        description._described.clear()
        worker = t.worker()
        with worker as w:
            assert w["image"][1].tolist() == [7, 7]
            w["image"][1] = 8
        t.add(w.part)
    assert ds["image"][:, 0].tolist() == [7, 8, 7, 7]
    assert ds["label"][:].tolist() == [1, 0, 0, 19]


@pytest.mark.parametrize(
    "spec",
    [hub.ArraySpec(4, "f8", chunks=2), hub.ArraySpec(4, "i8", chunks=4), hub.ArraySpec(3, "i8", chunks=2),
     hub.ArraySpec((4, 1), "i8", chunks=(2, 1)), hub.ArraySpec(4, "i8", chunks=2)],
    ids=["dtype", "chunks", "shape", "axes", "the same spec"],
)  # fmt: skip
@pytest.mark.parametrize("is_there", [True, False], ids=["of the dataset", "added"])
def test_a_workers_part_is_not_added_to_another_array_of_the_name(root, spec, is_there):
    made = hub.ArraySpec(4, "i8", chunks=2)
    ds = hub.dataset({"n": made} if is_there else {"x": made}, NAME, root=root)
    with ds.transaction() as t:
        if not is_there:
            t["n"] = made
        with t.worker() as w:
            w["n"][:] = 7
        del t["n"]
        t["n"] = spec
        with pytest.raises(hub.errors.ReadOnlyError, match="another array of it"):
            t.add(w.part)
    assert not ds["n"][...].any()
