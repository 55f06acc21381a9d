"""Datasets that are stored again, imported, dropped or refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hubarray as hub
from hubarray.errors import ConfigError


def days(first, count=3):
    return xr.Dataset({"t": ("time", np.arange(float(count)))}, {"time": pd.date_range(first, periods=count)})


def test_what_is_stored_again_brings_what_decodes_it(root):
    for first in ("2026-01-01", "2027-05-01", "2027-05-01"):
        stored = hub.store(days(first).assign_attrs(of=first), "f/a:v1", root=root)
        assert stored.to_xarray().load().equals(days(first))
        assert dict(stored.attrs) == {"of": first}
    packed = xr.Dataset({"p": ("x", np.arange(3.0))})
    for scale in (0.5, 0.25):
        stored = hub.store(packed, "f/p:v1", encoding={"p": {"dtype": "int16", "scale_factor": scale}}, root=root)
        assert stored.to_xarray().p.values.tolist() == [0, 1, 2]
    commits = len(list(hub.log("f/p:v1", root=root)))
    assert hub.store(packed * 3, "f/p:v1", encoding={"p": {"dtype": "int16", "scale_factor": 0.25}}, root=root)
    assert len(list(hub.log("f/p:v1", root=root))) == commits + 1


def test_options_that_nobody_heeds_are_refused(root):
    ds = days("2026-01-01")
    assert hub.store(ds, "f/c:v1", encoding={"t": {"chunks": (2,)}}, root=root)["t"].chunks == (2,)
    for options in (
        {"chunks": {"nope": 2}}, {"codec": {"nope": "zstd"}}, {"encoding": {"nope": {}}},
        {"encoding": {"t": {"scale_facotr": 0.1, "dtype": "int16"}}}, {"encoding": {"t": {"compressors": None}}},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            hub.store(ds, "f/d:v1", root=root, **options)
    assert not hub.exists("f/d:v1", root=root)


@pytest.mark.parametrize(
    "encoding", [{}, {"v": {"dtype": "int16", "_FillValue": -9, "scale_factor": 0.5}}], ids=["floats", "packed"]
)
def test_attributes_of_one_element_are_that_element_in_netcdf(root, tmp_path, encoding):
    given = xr.Dataset({"v": ("x", np.array([1.0, np.nan, 3])), "w": ("x", np.ones(3), {"n": 5, "many": [1, 2]})},
                       {"x": [1.0, 2.0, 3.0]}, {"one": 1})  # fmt: skip
    given.to_netcdf(tmp_path / "f.nc", engine="h5netcdf", encoding=encoding)
    ds = hub.import_(tmp_path / "f.nc", "f/fl:v1", root=root)
    assert dict(ds.attrs) == {"one": 1}
    assert (ds["w"].attrs["n"], ds["w"].attrs["many"]) == (5, [1, 2])
    result = ds.to_xarray().load()
    assert result.v.dtype.kind == "f"
    xr.testing.assert_equal(result, given)
    xr.testing.assert_equal(xr.open_zarr(ds.to_zarr_store(), consolidated=False).load(), given)
    hub.export("f/fl:v1", tmp_path / "f.zarr", root=root)
    xr.testing.assert_equal(xr.open_zarr(str(tmp_path / "f.zarr")).load(), given)


def test_a_variable_alone_with_a_dimension_that_is_only_a_length_is_imported(root, tmp_path):
    xr.Dataset({"v": ("x", np.arange(3.0))}).to_netcdf(tmp_path / "f.nc", engine="h5netcdf")
    result = hub.import_(tmp_path / "f.nc", "f/ph:v1", root=root)
    assert (result[...].tolist(), result.dims) == ([0, 1, 2], ("x",))


def test_a_name_is_one_array_to_drop(root):
    ds = hub.dataset({"a": np.arange(3), "b": np.arange(3), "ab": np.arange(3)}, "f/d:v1", root=root)
    ds.drop("ab")
    assert list(ds) == ["a", "b"]
    with pytest.raises(hub.errors.NotFoundError, match="'ba'"):
        ds.drop("ba")
    ds.drop(["a", "b"])
    assert list(ds) == []


@pytest.mark.parametrize(("codec", "channels"), [("jpeg", 4), ("png", 5), ("webp", 4), ("webp", 2)])
def test_images_of_channels_that_a_codec_has_not_are_refused_with_those_it_has(codec, channels):
    with pytest.raises(ConfigError, match=f"the last axis has {channels}"):
        hub.ArraySpec((4, 64, 64, channels), "uint8", codec=codec).metadata()


def test_what_grows_is_missing_until_it_is_written(root):
    given = xr.Dataset({"v": ("x", np.array([1.0, np.nan, 3])), "f": ("x", np.ones(3)), "n": ("x", np.arange(3))})
    packed = {"v": {"dtype": "int16", "_FillValue": -9, "scale_factor": 0.5}}
    stored = hub.store(given, "io/st:v1", encoding=packed, root=root)
    stored.resize(x=5)
    result = stored.to_xarray().load()
    np.testing.assert_array_equal(result.v, [1, np.nan, 3, np.nan, np.nan])
    np.testing.assert_array_equal(result.f, [1, 1, 1, np.nan, np.nan])
    np.testing.assert_array_equal(result.n, [0, 1, 2, 0, 0])


def test_what_is_no_dataset_says_what_to_store(root):
    with pytest.raises(ConfigError, match="store each"):
        hub.store(xr.DataTree.from_dict({"/train": days("2026-01-01")}), "io/tree:v1", root=root)
    mixed = xr.Dataset({"s": ("x", np.array(["a", {"b": 1}], object))})
    with pytest.raises(ConfigError, match="'s': holds objects"):
        hub.store(mixed, "io/mixed:v1", root=root)


def test_text_of_xarray_is_text_of_any_length(root):
    ds = hub.dataset({}, "io/text:v1", root=root)
    text = xr.Dataset({"s": ("x", np.array(["a", "bcd"], object))})
    text.to_zarr(ds.to_zarr_store(), mode="w", consolidated=False)
    np.testing.assert_array_equal(hub.load("io/text:v1", root=root)["s"][:].astype(object), ["a", "bcd"])
