"""What users append that is not quite an array: said by name, or put right, and never stored otherwise than meant."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import hubarray as hub

NAME = "lab/x:v1"


@pytest.mark.parametrize("missing", [None, np.nan], ids=["None", "nan"])
def test_text_that_is_missing_is_no_word(root, missing):
    ds = hub.dataset({"text": hub.ArraySpec(3, str, dims=("s",))}, NAME, root=root)
    texts = np.array(["a", missing, "c"], np.dtypes.StringDType(na_object=missing))
    with pytest.raises(TypeError, match="fill missing values"):
        ds["text"][:] = texts
    with pytest.raises(TypeError, match="'text': text is expected"):
        ds.append({"text": texts})
    ds["text"][:] = np.array(["a", "b", "c"], np.dtypes.StringDType(na_object=missing))
    assert ds["text"][:].tolist() == ["a", "b", "c"]


def test_dates_are_no_numbers(root):
    ds = hub.dataset({"time": hub.ArraySpec(0, "i8", dims=("time",), attrs={"units": "days since 2026-01-01"}),
                      "real": hub.ArraySpec(0, "f8", dims=("time",))}, NAME, root=root)  # fmt: skip
    dates = pd.date_range("2026-01-01", periods=2)
    for given in (dates, dates.values, xr.Variable("time", dates), dates - dates[0]):
        with pytest.raises(TypeError, match=r"'time': .* is not stored as int64 by itself"):
            ds.append({"time": given, "real": [1.0, 2.0]})
        with pytest.raises(TypeError, match=r"'real': .* is not stored as float64"):
            ds.append({"time": [1, 2], "real": given})
    assert ds.commit == 1
    when = hub.array(2, "lab/when:v1", "M8[D]", root=root)
    when[:] = dates
    assert when[1] == np.datetime64("2026-01-02")


def test_axes_of_xarray_are_put_in_the_order_of_the_array(root):
    ds = hub.dataset({"pr": hub.ArraySpec((3, 0), "f4", dims=("lat", "time"))}, NAME, root=root)
    given = xr.DataArray(np.arange(9.0).reshape(3, 3), dims=("time", "lat"))
    ds.append({"pr": given}, dim="time")
    with ds.transaction() as t:
        t.append({"pr": given}, dim="time")
    ds["pr"].append(given, axis=1)
    assert np.array_equal(ds["pr"][...], np.concatenate([given.values.T] * 3, 1))


@pytest.mark.parametrize("in_transaction", [False, True])
def test_xarray_appends_to_datasets_with_text(root, in_transaction):
    def made(first, count):
        texts = np.array([f"text {i}" for i in range(first, first + count)], object)
        return xr.Dataset({"text": ("time", texts)}, {"time": np.arange(first, first + count)})

    ds = hub.store(made(0, 6), NAME, root=root)
    if in_transaction:
        with ds.transaction() as t:
            made(6, 4).to_zarr(ds.to_zarr_store(transaction=t), append_dim="time", consolidated=False)
    else:
        made(6, 4).to_zarr(ds.to_zarr_store(), append_dim="time", consolidated=False)
    assert ds.refresh()["text"][:].tolist() == [f"text {i}" for i in range(10)]


def test_zarr_appends_to_an_array_of_text(root):
    array = hub.array(2, NAME, str, chunks=4, root=root)
    array[:] = ["a", "b"]
    zarr.open_array(array.to_zarr_store(), mode="r+").append(np.array(["c", "d", "e"], np.dtypes.StringDType()))
    assert array.refresh()[:].tolist() == ["a", "b", "c", "d", "e"]


def test_the_name_of_a_groups_description_is_no_array(root):
    ds = hub.dataset({"x": hub.ArraySpec(3)}, NAME, root=root)
    for make in (
        lambda: hub.dataset({"zarr.json": hub.ArraySpec(3)}, "lab/y:v1", root=root),
        lambda: ds.__setitem__("zarr.json", hub.ArraySpec(3)),
        lambda: ds.rename("x", "zarr.json"),
    ):
        with pytest.raises(hub.errors.ConfigError, match="is not a name for an array"):
            make()


@pytest.mark.parametrize(
    ("rows", "error", "what"),
    [
        ({"image": np.ones((2, 3)), "label": [1, 2]}, ValueError, r"'image': cannot append an array of shape \(2, 3\)"),
        ({"image": np.ones((1, 2)), "label": ["x"]}, ValueError, "'label': invalid literal"),
        ({"image": np.ones((1, 2)), "label": [1 << 70]}, OverflowError, "'label': "),
    ],
)
def test_errors_of_an_append_name_the_array(root, rows, error, what):
    specs = {"image": hub.ArraySpec((0, 2), dims=("s", None)), "label": hub.ArraySpec(0, "i8", dims=("s",))}
    ds = hub.dataset(specs, NAME, root=root)
    with pytest.raises(error, match=what):
        ds.append(rows)
    with ds.transaction() as t, pytest.raises(error, match=what):
        t.append(rows)
    assert ds.refresh().commit == 1


def test_errors_of_a_spec_name_the_array(root):
    ds = hub.dataset({"x": hub.ArraySpec(3)}, NAME, root=root)
    bad = hub.ArraySpec((3, 2), dims=("s",))
    with pytest.raises(hub.errors.ConfigError, match="'y': dims="):
        hub.dataset({"y": bad}, "lab/y:v1", root=root)
    with pytest.raises(hub.errors.ConfigError, match="'y': dims="):
        ds["y"] = bad
    with ds.transaction() as t, pytest.raises(hub.errors.ConfigError, match="'y': dims="):
        t["y"] = bad


def test_of_many_arrays_that_are_left_out_some_are_named(root):
    ds = hub.dataset({f"a{i}": hub.ArraySpec(0, dims=("s",)) for i in range(50)}, NAME, root=root)
    with pytest.raises(hub.errors.ConfigError, match="'a20' and 29 more grow along 's' too"):
        ds.append({"a0": [1]})
    with pytest.raises(hub.errors.NotFoundError, match="a19 and 30 more"):
        ds.append({"b": [1]})


@pytest.mark.parametrize("way", ["store", "to_zarr", "in a transaction"])
def test_attributes_that_are_nan_or_infinite_come_back_as_numbers(root, way):
    attrs = {"valid_min": np.nan, "valid_range": [0.0, np.inf], "note": "NaN"}
    given = xr.Dataset({"v": ("x", np.array([1.0, np.nan]), attrs)}, attrs={"site": np.inf})
    given["v"].encoding["missing_value"] = np.nan
    if way == "store":
        ds = hub.store(given, NAME, root=root)
    else:
        ds = hub.dataset({}, NAME, root=root)
        if way == "to_zarr":
            given.to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
        else:
            with ds.transaction() as t:
                given.to_zarr(ds.to_zarr_store(transaction=t), mode="w", consolidated=False)
    result = ds.refresh().to_xarray()
    assert np.isnan(result["v"].attrs["valid_min"])
    assert (result["v"].attrs["valid_range"], result["v"].attrs["note"]) == ([0.0, np.inf], "NaN")
    assert np.isnan(result["v"].encoding["missing_value"])
    np.testing.assert_array_equal(result["v"].values, given["v"].values)
