"""Appending along a dimension that some arrays have further back."""

import numpy as np
import pytest
import xarray as xr

import hubarray as hub
from hubarray.errors import ConfigError

NAME = "t/x:v0"


@pytest.fixture
def ds(root):
    return hub.dataset(
        {
            "time": hub.ArraySpec(0, "i8", dims=("time",)),
            "field": hub.ArraySpec((3, 0), "f8", chunks=(2, 2), dims=("lat", "time")),
            "lat": hub.ArraySpec(3, "f8", dims=("lat",)),
        },
        NAME,
        root=root,
    )


def rows(first, count):
    return {"time": range(first, first + count), "field": np.arange(3 * count).reshape(3, count) + first}


def test_all_arrays_of_a_dimension_grow_together_wherever_they_have_it(ds, root):
    assert ds.append(rows(0, 5)) == slice(0, 5)
    assert ds.append(rows(5, 2)) == slice(5, 7)
    assert ds.dims == {"time": 7, "lat": 3}
    assert ds["field"][:, 5:].tolist() == (np.arange(6).reshape(3, 2) + 5).tolist()
    with ds.transaction() as t:
        t.append(rows(7, 3))
    result = hub.load(NAME, root=root)
    assert (result.commit, result["time"][:].tolist()) == (4, list(range(10)))
    assert np.array_equal(result["field"][:, 7:], np.arange(9).reshape(3, 3) + 7)


def test_one_that_is_left_out_is_named(ds):
    with pytest.raises(ConfigError, match="'field' grows along 'time' too"):
        ds.append({"time": [1]})
    with pytest.raises(ConfigError, match="'lat' grows along 'lat' too"):
        ds.append({"field": np.ones((1, 0))})
    with pytest.raises(ConfigError, match="not 1 for 'time', 2 for 'field'"):
        ds.append({"time": [1], "field": np.ones((3, 2))})
    assert ds.commit == 1


def test_the_dimension_can_be_named(ds):
    ds.append(rows(0, 2))
    assert ds.append({"field": np.ones((1, 2)), "lat": [9.0]}, dim="lat") == slice(3, 4)
    assert ds.append({"field": np.ones((1, 2)), "lat": [9.0]}) == slice(4, 5)
    assert ds.dims == {"time": 2, "lat": 5}
    with pytest.raises(ConfigError, match="'lat' does not grow along 'time'"):
        ds.append({"time": [1], "field": np.ones((5, 1)), "lat": [1.0]}, dim="time")
    with pytest.raises(ConfigError, match="'time' does not grow along 'none'"):
        ds.append({"time": [1]}, dim="none")


def test_two_dimensions_that_could_grow_are_asked_for(root):
    spec = {"a": ("x", "y"), "b": ("y", "x")}
    ds = hub.dataset({name: hub.ArraySpec((2, 2), dims=dims) for name, dims in spec.items()}, NAME, root=root)
    first, second = np.ones((1, 2)), np.ones((2, 1))
    with pytest.raises(ConfigError, match="share x, y"):
        ds.append({"a": first, "b": second})
    ds.append({"a": first, "b": second}, dim="x")
    assert ds.dims == {"x": 3, "y": 2}


def test_transactions_that_append_at_once_are_put_one_after_the_other(ds, root):
    other = hub.load(NAME, root=root)
    with ds.transaction() as t:
        t.append(rows(0, 2))
        other.append(rows(10, 3))
    assert ds["time"][:].tolist() == [10, 11, 12, 0, 1]
    assert ds["field"][0].tolist() == [10, 11, 12, 0, 1]


@pytest.mark.parametrize("in_transaction", [False, True], ids=["by chunks", "in a transaction"])
def test_xarray_appends_along_a_dimension_that_is_not_the_first(root, in_transaction):
    first, more = (
        xr.Dataset(
            {"field": (("lat", "time"), np.arange(3.0 * n).reshape(3, n)), "sum": ("time", np.arange(n) + 1.0)},
            coords={"lat": [1.0, 2.0, 3.0], "time": np.arange(n) + start},
        )
        for start, n in ((0, 4), (4, 3))
    )
    ds = hub.store(first, NAME, root=root)
    before = ds.commit
    if in_transaction:
        with ds.transaction() as t:
            more.to_zarr(ds.to_zarr_store(transaction=t), append_dim="time", consolidated=False)
        assert ds.refresh().commit == before + 1
    else:
        more.to_zarr(ds.to_zarr_store(), append_dim="time", consolidated=False)
    xr.testing.assert_equal(ds.refresh().to_xarray().load(), xr.concat([first, more], "time"))


def test_workers_fill_arrays_that_their_transaction_added(ds, root):
    ds.append(rows(0, 4))
    with ds.transaction("a mask, by workers") as t:
        t["mask"] = hub.ArraySpec((4, 2), "i4", chunks=(2, 2), dims=("time", None))
        t["mask"][0] = 9
        worker = t.worker()
        for i in (1, 2):
            with worker as w:
                w["mask"][2 * i - 1 : 2 * i] = i
                w["time"][i] = -i
                assert w["mask"][0].tolist() == [0, 0]
            t.add(w.part)
    result = hub.load(NAME, root=root)
    assert result.commit == ds.commit == 3
    assert result["mask"][:, 0].tolist() == [9, 1, 0, 2]
    assert result["time"][:].tolist() == [0, -1, -2, 3]


def test_an_array_that_replaced_another_one_is_filled_as_the_new_one(ds):
    ds.append(rows(0, 2))
    with ds.transaction() as t:
        del t["field"]
        t["field"] = hub.ArraySpec((2, 2), "i2", dims=("time", None))
        with t.worker() as w:
            w["field"][1] = 5
        t.add(w.part)
    assert ds["field"][:].tolist() == [[0, 0], [5, 5]]
