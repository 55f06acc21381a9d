"""Names of axes: set, kept, shown to other readers of Zarr, and taken from sources."""

import json

import h5py
import numpy as np
import pytest
import tensorstore
import tifffile
import xarray
import zarr

import hubarray as hub

VALUES = np.arange(24, dtype="f4").reshape(2, 3, 4)


def test_axes_have_names_from_the_start_or_later(root):
    array = hub.array((2, 3), "t/x:v0", dims=("y", None), root=root)
    assert array.dims == ("y", None)
    array.append(np.zeros((1, 3)))
    assert hub.load("t/x:v0", root=root).dims == ("y", None)
    array.dims = ("row", "column")
    assert hub.load("t/x:v0", root=root).dims == ("row", "column")
    assert next(array.log()).message == "name axes"
    assert hub.load("t/x:v0@1", root=root).dims == ("y", None)
    assert hub.array((3, 3), "t/x:v0", root=root).dims == ("row", "column")
    assert hub.array((2,), "t/plain:v0", root=root).dims == (None,)
    with pytest.raises(hub.errors.AlreadyExistsError):
        hub.array((3, 3), "t/x:v0", dims=("a", "b"), root=root)


@pytest.mark.parametrize("dims", [("a",), ("a", "a"), (1, 2), 7, ("a", "x" * 300), "ab"])
def test_names_that_cannot_be_are_refused(root, dims):
    with pytest.raises(hub.errors.ConfigError, match="dims="):
        hub.array((2, 3), "t/x:v0", dims=dims, root=root)
    assert not hub.exists("t/x:v0", root=root)


def test_an_array_without_names_is_described_as_before(root):
    hub.array((2, 3), "t/x:v0", root=root)
    record = json.loads(bytes(root.store.get("t/x/log/v0/0000000000000001.json")))
    assert "dimension_names" not in record["array"]


def _xarray(folder):
    data = xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"units": "K"}, name="v")
    data.encoding["_FillValue"] = np.float32(-999)
    data.to_dataset().to_zarr(folder / "x.zarr", zarr_format=3, consolidated=False)
    return folder / "x.zarr", {"key": "v"}, {"units": "K", "_FillValue": -999.0}


def _nan(folder):
    data = xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"units": "K"}, name="v")
    data.to_dataset().to_zarr(folder / "x.zarr", zarr_format=3, consolidated=False)
    return folder / "x.zarr", {"key": "v"}, {"units": "K"}


def _zarr2(folder):
    data = xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"units": "K"}, name="v")
    data.to_dataset().to_zarr(folder / "x.zarr", zarr_format=2, consolidated=False)
    return folder / "x.zarr", {"key": "v"}, {"units": "K"}


def _data_array(folder):
    return xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"units": "K"}), {}, {"units": "K"}


def _lazy(folder):
    return xarray.DataArray(VALUES, dims=("t", "y", "x"), attrs={"units": "K"}).chunk(), {}, {"units": "K"}


def _zarr_array(folder):
    return (
        zarr.create_array({}, data=VALUES, dimension_names=("t", "y", "x"), attributes={"units": "K"}),
        {},
        {"units": "K"},
    )


def _hdf5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file["v"] = VALUES
        file["v"].attrs["units"] = "K"
        for axis, label in zip(file["v"].dims, "tyx", strict=True):
            axis.label = label
    return folder / "x.h5", {"key": "v"}, {"units": "K"}


@pytest.mark.parametrize(
    "kind", [_xarray, _nan, _zarr2, _data_array, _lazy, _zarr_array, _hdf5], ids=lambda one: one.__name__
)
def test_names_and_attributes_come_along_from_sources(kind, root, tmp_path):
    source, options, attrs = kind(tmp_path)
    array = hub.import_(source, "t/x:v0", root=root, **options)
    assert array.dims == ("t", "y", "x")
    assert dict(array.attrs) == attrs
    assert np.array_equal(array[...], VALUES)
    if not options:
        stored = hub.store(kind(tmp_path)[0], "t/stored:v0", root=root)
        assert (stored.dims, dict(stored.attrs)) == (array.dims, attrs)


def test_other_readers_see_the_names(root, tmp_path):
    array = hub.array(VALUES.shape, "t/x:v0", "f4", dims=("t", "y", "x"), attrs={"_FillValue": -999.0}, root=root)
    array[...] = VALUES
    opened = xarray.open_zarr(array.to_zarr_store(variable="v"), consolidated=False, mask_and_scale=False)["v"]
    assert opened.dims == ("t", "y", "x")
    assert opened.attrs["_FillValue"] == -999
    hub.export("t/x:v0", tmp_path / "x.zarr", root=root)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "x.zarr")}}
    assert tensorstore.open(spec).result().domain.labels == ("t", "y", "x")
    assert zarr.open_array(tmp_path / "x.zarr").metadata.dimension_names == ("t", "y", "x")
    hub.export("t/x:v0", tmp_path / "x.h5", root=root)
    with h5py.File(tmp_path / "x.h5") as file:
        assert [axis.label for axis in file["data"].dims] == ["t", "y", "x"]


def test_microscopes_and_maps_keep_axes_sizes_and_tags(root, tmp_path):
    volume = np.arange(2 * 3 * 4 * 5, dtype="u2").reshape(2, 3, 4, 5)
    about = {
        "axes": "TZYX",
        "PhysicalSizeX": 0.1,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeZ": 0.5,
        "PhysicalSizeZUnit": "µm",
    }
    tifffile.imwrite(tmp_path / "x.ome.tiff", volume, metadata=about, photometric="minisblack")
    array = hub.import_(tmp_path / "x.ome.tiff", "t/ome:v0", root=root)
    assert array.dims == ("t", "z", "y", "x")
    assert np.array_equal(array[...], volume)
    assert (array.attrs["ome"]["PhysicalSizeX"], array.attrs["ome"]["PhysicalSizeZ"]) == (0.1, 0.5)
    scale = [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, (0.0, 0.0, 0.0, 5e5, 6e6, 0.0), True)]
    keys = [(34735, "H", 8, (1, 1, 0, 1, 3072, 0, 1, 32633), True), (42113, "s", 0, "-9999", True)]
    tifffile.imwrite(tmp_path / "map.tif", VALUES[0], extratags=scale + keys, photometric="minisblack", metadata=None)
    placed = hub.import_(tmp_path / "map.tif", "t/map:v0", root=root)
    assert placed.shape == (1, 3, 4)
    assert placed.dims[1:] == ("y", "x")
    assert placed.attrs["geotiff"]["ModelPixelScale"] == [10.0, 10.0, 0.0]
    assert placed.attrs["tiff"]["GDAL_NODATA"] == "-9999"
