"""Groups of Zarr, HDF5 and NetCDF-4, and xarray's datasets, become datasets: every array, its dimensions, attributes."""

import contextlib
import json

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import hubarray as hub
from hubarray.errors import AlreadyExistsError, ConfigError, SourceError
from hubarray.interop.import_ import datasets as importing_groups

IMAGES = np.random.default_rng(0).integers(0, 255, (50, 12, 9), "u1")
LABELS = np.arange(50, dtype="i4")
SCALE = np.float32(0.25)


def zarr_v3(folder):
    group = zarr.create_group(str(folder / "x.zarr"), attributes={"site": "roof"})
    images = group.create_array("image", shape=IMAGES.shape, dtype="u1", chunks=(7, 12, 9),
                                dimension_names=("sample", "y", "x"), attributes={"unit": "counts"})  # fmt: skip
    images[:] = IMAGES
    group.create_array("label", data=LABELS, dimension_names=("sample",))
    group.create_array("scale", data=np.asarray(SCALE))
    return folder / "x.zarr"


def zarr_v2(folder):
    group = zarr.create_group(str(folder / "x.zarr"), zarr_format=2, attributes={"site": "roof"})
    dims = {"_ARRAY_DIMENSIONS": ["sample", "y", "x"], "unit": "counts"}
    group.create_array("image", shape=IMAGES.shape, dtype="u1", chunks=(7, 12, 9), attributes=dims)[:] = IMAGES
    group.create_array("label", shape=(50,), dtype="i4", attributes={"_ARRAY_DIMENSIONS": ["sample"]})[:] = LABELS
    group.create_array("scale", data=np.asarray(SCALE))
    return folder / "x.zarr"


def hdf5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file.attrs["site"] = "roof"
        file.create_dataset("image", data=IMAGES, chunks=(7, 12, 9), compression="gzip").attrs["unit"] = "counts"
        file["label"], file["scale"] = LABELS, SCALE
        for axis, name in enumerate(("sample", "y", "x")):
            file["image"].dims[axis].label = name
        file["label"].dims[0].label = "sample"
    return folder / "x.h5"


@pytest.mark.parametrize("make", [zarr_v3, zarr_v2, hdf5])
@pytest.mark.parametrize("chunks", ["auto", {"image": (10, 12, 9)}])
def test_a_group_becomes_a_dataset(root, tmp_path, make, chunks):
    ds = hub.import_(make(tmp_path), "lab/x:v1", chunks=chunks, attrs={"by": "me"}, root=root)
    assert list(ds) == [
        "image",
        "label",
        "scale",
    ]  # In order of their paths, or none could go on where another stopped.
    np.testing.assert_array_equal(ds["image"][...], IMAGES)
    np.testing.assert_array_equal(ds["label"][...], LABELS)
    assert ds["scale"][()] == SCALE
    assert ds.dims == {"sample": 50, "y": 12, "x": 9}
    assert dict(ds.attrs) == {"site": "roof", "by": "me"}
    assert ds["image"].attrs["unit"] == "counts"
    assert chunks == "auto" or ds["image"].chunks == (10, 12, 9)
    assert [name for name in hub.list(root=root) if "importing" in str(name)] == []
    with pytest.raises(AlreadyExistsError):
        hub.import_(tmp_path, "lab/x:v1", root=root)


def test_arrays_of_groups_below_keep_their_path_as_a_name_and_a_key_takes_one_group_or_one_array(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for part, count in (("train", 3), ("test", 2)):
            file[f"{part}/image"], file[f"{part}/label"] = IMAGES[:count], LABELS[:count]
    every = hub.import_(tmp_path / "x.h5", "lab/every:v1", root=root)
    assert sorted(every) == ["test.image", "test.label", "train.image", "train.label"]
    np.testing.assert_array_equal(every["train.image"][...], IMAGES[:3])
    item = hub.import_(tmp_path / "x.h5", "lab/train:v1", key="train", root=root)
    assert sorted(item) == ["image", "label"]
    assert len(item["label"]) == 3
    array = hub.import_(tmp_path / "x.h5", "lab/label:v1", key="test/label", root=root)
    assert array[...].tolist() == [0, 1]


def climate():
    times = np.arange("2020-01-01", "2020-01-13", dtype="M8[D]").astype("M8[ns]")
    values = np.random.default_rng(1).normal(280, 5, (12, 4, 6)).astype("f4")
    values[3, 1, 2] = np.nan
    return xr.Dataset(
        {"t2m": (("time", "lat", "lon"), values, {"units": "K"}), "crs": ((), np.int32(0), {"epsg": 4326})},
        {"time": times, "lat": np.linspace(-60, 60, 4), "lon": np.linspace(0, 300, 6)},
        {"title": "two metres up"},
    )


def test_netcdf_comes_back_as_xarray_reads_it(root, tmp_path):
    given = climate()
    given.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding={"t2m": {"dtype": "i2", "scale_factor": 0.01,
                    "add_offset": 280.0, "_FillValue": -9999, "zlib": True}})  # fmt: skip
    ds = hub.import_(tmp_path / "x.nc", "lab/climate:v1", root=root)
    assert ds.dims == {"time": 12, "lat": 4, "lon": 6}
    assert not [name for array in ds.arrays.values() for name in array.attrs if name.isupper() or "etcdf" in name]
    with xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as there:
        xr.testing.assert_equal(ds.to_xarray().load(), there.load())


def test_dimensions_without_coordinates_are_named_and_are_no_arrays(root, tmp_path):
    xr.Dataset({"a": (("x", "y"), np.ones((3, 2))), "b": (("x",), np.ones(3))}).to_netcdf(
        tmp_path / "x.nc", engine="h5netcdf"
    )
    ds = hub.import_(tmp_path / "x.nc", "lab/plain:v1", root=root)
    assert sorted(ds) == ["a", "b"]
    assert ds.dims == {"x": 3, "y": 2}


def test_a_dataset_of_xarray_is_stored_as_one(root):
    given = climate()
    xr.testing.assert_equal(hub.import_(given, "lab/given:v1", root=root).to_xarray().load(), given)
    assert hub.import_(given, "lab/one:v1", key="t2m", root=root).shape == (12, 4, 6)


@pytest.mark.parametrize("make", [zarr_v3, hdf5])
def test_an_import_that_was_killed_goes_on_after_the_last_step(root, tmp_path, monkeypatch, make):
    source = make(tmp_path)
    monkeypatch.setattr(importing_groups, "STEP_BYTES", 7 * 12 * 9)
    write, seen = importing_groups._write, []

    def killed(staging, steps, members, number):
        if number == 4:
            raise KeyboardInterrupt
        write(staging, steps, members, number)

    monkeypatch.setattr(importing_groups, "_write", killed)
    with contextlib.suppress(KeyboardInterrupt):
        hub.import_(source, "lab/x:v1", chunks={"image": (7, 12, 9)}, root=root)
    assert not hub.exists("lab/x:v1", root=root)
    monkeypatch.setattr(importing_groups, "_write", lambda *a: (seen.append(a[3]), write(*a)))
    ds = hub.import_(source, "lab/x:v1", chunks={"image": (7, 12, 9)}, root=root)
    assert seen[0] == 4
    np.testing.assert_array_equal(ds["image"][...], IMAGES)
    np.testing.assert_array_equal(ds["label"][...], LABELS)


def test_an_import_with_other_chunks_or_of_a_changed_source_begins_anew(root, tmp_path, monkeypatch):
    source = zarr_v3(tmp_path)
    monkeypatch.setattr(importing_groups, "STEP_BYTES", 25 * 12 * 9)
    write = importing_groups._write

    def killed(staging, steps, members, number):
        if number > 1:
            raise KeyboardInterrupt
        write(staging, steps, members, number)

    for change in (lambda: None, lambda: zarr.open_group(str(source))["label"].__setitem__(0, 7)):
        monkeypatch.setattr(importing_groups, "_write", killed)
        with contextlib.suppress(KeyboardInterrupt):
            hub.import_(source, "lab/x:v1", chunks={"image": (5, 12, 9)}, root=root)
        change()
        monkeypatch.setattr(importing_groups, "_write", write)
        ds = hub.import_(source, "lab/x:v1", root=root)
        assert ds["label"][0] == zarr.open_group(str(source))["label"][0]
        hub.delete("lab/x:v1", root=root)


def test_damage_in_one_array_is_named_and_nothing_appears(root, tmp_path):
    source = zarr_v3(tmp_path)
    (source / "image" / "c" / "3" / "0" / "0").write_bytes(b"no chunk")
    with pytest.raises(SourceError, match=r"x\.zarr/image"):
        hub.import_(source, "lab/x:v1", root=root)
    assert not hub.exists("lab/x:v1", root=root)


def test_what_cannot_be_one_dataset_says_what_to_do(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/b"], file["a.b"] = LABELS, LABELS
    with pytest.raises(ConfigError, match=r"would both be 'a.b'; choose with key="):
        hub.import_(tmp_path / "x.h5", "lab/x:v1", root=root)
    (tmp_path / "old.nc").write_bytes(b"CDF\x01" + bytes(100))
    with pytest.raises(ConfigError, match=r"classic format; open it with xarray"):
        hub.import_(tmp_path / "old.nc", "lab/x:v1", root=root)
    zarr.create_group(str(tmp_path / "empty.zarr"))
    with pytest.raises(ConfigError, match="holds no array"):
        hub.import_(tmp_path / "empty.zarr", "lab/x:v1", root=root)
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["a"], file["b"] = LABELS, LABELS
        file.create_dataset("c", (3,), "i4", external=[(str(tmp_path / "x.h5"), 0, 12)])
    with pytest.raises(SourceError, match="follow_links"):
        hub.import_(tmp_path / "links.h5", "lab/x:v1", root=root)
    assert json.dumps([str(item) for item in hub.list(root=root)]) == "[]"


def test_many_small_arrays_are_one_commit(root, tmp_path):
    group = zarr.create_group(str(tmp_path / "x.zarr"))
    for i in range(40):
        group.create_array(f"a{i:02}", data=np.arange(i, i + 10))
    ds = hub.import_(tmp_path / "x.zarr", "lab/many:v1", root=root)
    assert len(ds) == 40
    assert ds["a07"][...].tolist() == list(range(7, 17))
    assert ds.commit <= 3


@pytest.mark.parametrize("suffix", ["zarr", "h5", "nc"])
def test_one_array_whose_group_has_attributes_is_a_dataset_and_comes_back_as_it_was(root, tmp_path, suffix):
    ds = hub.dataset({"x": np.arange(6, dtype="i4")}, "lab/one:v1", {"title": "a run"}, root=root)
    hub.export("lab/one:v1", tmp_path / f"one.{suffix}", root=root)
    result = hub.import_(tmp_path / f"one.{suffix}", "lab/again:v1", root=root)
    assert result.kind == ds.kind == "dataset"
    assert dict(result.attrs) == {"title": "a run"}
    assert result["x"][...].tolist() == list(range(6))
    array = hub.import_(tmp_path / f"one.{suffix}", "lab/array:v1", key="x", root=root)
    assert array.kind == "array"


def _two_groups():
    parts = {"/a": xr.Dataset({"v": ("time", np.arange(3.0))}), "/b": xr.Dataset({"v": ("time", np.arange(5.0))})}
    return xr.DataTree.from_dict(parts)


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_dimensions_of_groups_that_differ_are_those_of_their_groups(root, tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    _two_groups().to_zarr(path, consolidated=False) if suffix == "zarr" else _two_groups().to_netcdf(path)
    ds = hub.import_(path, "lab/x:v1", root=root)
    assert (ds["a.v"].dims, ds["b.v"].dims) == (("a.time",), ("b.time",))
    assert ds["b.v"][:].tolist() == [0, 1, 2, 3, 4]
    assert ds.dims == {"a.time": 3, "b.time": 5}


def test_axes_that_cannot_have_their_names_have_none_and_it_is_said(root, tmp_path):
    group = zarr.create_group(str(tmp_path / "x.zarr"))
    group.create_array("cov", data=np.eye(2), dimension_names=("x", "x"))
    group.create_array("one", data=np.ones(3), dimension_names=("n",))
    group.create_array("two", data=np.ones(4), dimension_names=("n",))
    with pytest.warns(UserWarning, match="axes of cov, one, two have no names here"):
        ds = hub.import_(tmp_path / "x.zarr", "lab/x:v1", root=root)
    assert (ds["cov"].dims, ds["one"].dims) == (("x", None), (None,))


def test_what_cannot_be_stored_is_left_out_and_said(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["none"] = np.arange(3), h5py.Empty("f4")
        ragged = file.create_dataset("ragged", 2, h5py.vlen_dtype("i4"))
        ragged[0], ragged[1] = [1, 2], [3]
        file["text"] = ["a", "longer"]
    with pytest.warns(UserWarning, match="none, ragged cannot be stored"):
        ds = hub.import_(tmp_path / "x.h5", "lab/x:v1", root=root)
    assert list(ds) == ["text", "x"]
    assert ds["text"][:].tolist() == ["a", "longer"]


def test_groups_that_are_open_become_datasets(root, tmp_path):
    with h5py.File(hdf5(tmp_path), "r") as file:
        ds = hub.import_(file, "lab/h5:v1", root=root)
        assert (list(ds), ds.attrs["site"]) == (["image", "label", "scale"], "roof")
        item = hub.import_(file, "lab/one:v1", key="label", root=root)
    np.testing.assert_array_equal(item[...], LABELS)
    group = zarr.open_group(str(zarr_v3(tmp_path)), mode="r")
    ds = hub.import_(group, "lab/zarr:v1", root=root)
    assert (list(ds), ds.attrs["site"]) == (["image", "label", "scale"], "roof")
    np.testing.assert_array_equal(ds["image"][...], IMAGES)
    np.testing.assert_array_equal(hub.import_(group, "lab/two:v1", key="label", root=root)[...], LABELS)
    with pytest.raises(ConfigError, match="no such array or group"):
        hub.import_(group, "lab/three:v1", key="none", root=root)
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        file["x"] = np.arange(3)
        with pytest.raises(ConfigError, match="in memory"):
            hub.import_(file, "lab/memory:v1", root=root)


def test_coordinates_are_scales_in_what_is_exported_to_hdf5(root, tmp_path):
    given = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3))}, {"y": [10, 20], "x": [1.0, 2.0, 3.0]})
    ds = hub.store(given, "lab/x:v1", root=root)
    hub.export("lab/x:v1", tmp_path / "x.h5", root=root)
    with xr.open_dataset(tmp_path / "x.h5", engine="h5netcdf") as result:
        xr.testing.assert_equal(result.load(), given)
    again = hub.import_(tmp_path / "x.h5", "lab/y:v1", root=root)
    assert (again.dims, again["v"].dims, dict(again["v"].attrs)) == (ds.dims, ("y", "x"), dict(ds["v"].attrs))


def test_links_out_of_a_file_that_is_open_are_refused_as_those_of_its_path(root, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.arange(3)
    (tmp_path / "raw").write_bytes(bytes(12))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "x")
        file.create_dataset("raw", (3,), "i4", external=[(str(tmp_path / "raw"), 0, 12)])
    with h5py.File(tmp_path / "x.h5", "r") as file:
        for key in ("link", "raw"):
            with pytest.raises(SourceError, match="follow_links"):
                hub.import_(file, "lab/x:v1", key=key, root=root)
        assert hub.import_(file, "lab/x:v1", key="link", follow_links=True, root=root)[:].tolist() == [0, 1, 2]
    group = zarr.create_group(str(tmp_path / "x.zarr"))
    group.create_array("x", data=np.arange(3))
    (tmp_path / "x.zarr" / "y").symlink_to(tmp_path / "other.h5")
    for source in (group, tmp_path / "x.zarr"):
        with pytest.raises(SourceError, match="follow_links"):
            hub.import_(source, "lab/y:v1", root=root)
        with pytest.raises(SourceError, match="follow_links"):
            hub.import_(source, "lab/y:v1", key="x", root=root)
