"""Datasets as others read them: Zarr groups, HDF5 and NetCDF-4 files, of any commit, whole or not at all."""

import contextlib
import json

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import hubarray as hub
from hubarray.errors import AlreadyExistsError, ConfigError, CorruptDataError
from hubarray.interop.export import datasets as exporting_groups

IMAGES = np.random.default_rng(0).integers(0, 255, (20, 6, 4), "u1")


@pytest.fixture
def ds(root):
    made = hub.dataset(
        {
            "image": hub.ArraySpec((0, 6, 4), "u1", chunks=(5, 6, 4), dims=("sample", "y", None), attrs={"unit": "K"}),
            "label": hub.ArraySpec(0, "i8", chunks=8, dims=("sample",)),
            "scale": hub.ArraySpec((), "f4"),
        },
        "lab/train:v1", {"site": "roof"}, root=root,
    )  # fmt: skip
    made.append({"image": IMAGES, "label": range(20)})
    made["scale"][()] = 0.5
    return made


def export(ds, target, **options):
    hub.export(f"{ds.name}:{ds.version}", target, root=ds.root, **options)


def test_a_group_in_a_bucket_is_imported_again(ds, s3_server):
    target = hub.Root(f"{s3_server.url}/exported.zarr", storage_options=s3_server.options)
    export(ds, target)
    np.testing.assert_array_equal(hub.import_(target, "lab/back:v1", root=ds.root)["image"][...], IMAGES)


def test_zarr_python_and_xarray_read_a_group_of_all_arrays(ds, tmp_path):
    target = tmp_path / "x.zarr"
    export(ds, target)
    group = zarr.open_group(target, mode="r")
    np.testing.assert_array_equal(group["image"][...], IMAGES)
    assert dict(group.attrs) == {"site": "roof"}
    with xr.open_zarr(target, consolidated=True) as result:
        assert result["image"].dims == ("sample", "y", "image_dim_2")
        assert result["image"].attrs == {"unit": "K"}
        assert result["label"].values.tolist() == list(range(20))
        assert float(result["scale"]) == 0.5


@pytest.mark.parametrize("name", ["x.zarr", "x.h5", "x.nc"])
def test_what_was_exported_is_imported_as_it_was(ds, tmp_path, name):
    export(ds, tmp_path / name)
    back = hub.import_(tmp_path / name, "lab/back:v1", root=ds.root)
    assert sorted(back) == sorted(ds)
    for key, array in ds.arrays.items():
        np.testing.assert_array_equal(back[key][...], array[...])
        assert back[key].dtype == array.dtype
        assert back[key].attrs.get("unit") == array.attrs.get("unit")
    assert back.dims["sample"] == 20
    assert dict(back.attrs) == {"site": "roof"}
    with pytest.raises(AlreadyExistsError):
        export(ds, tmp_path / name)
    ds["label"][0] = 7
    export(ds, tmp_path / name, overwrite=True)
    again = hub.import_(tmp_path / name, "lab/again:v1", root=ds.root)
    assert again["label"][0] == 7


def test_an_earlier_commit_is_exported(ds, tmp_path):
    before = ds.commit
    ds["label"][0] = 7
    hub.export(f"lab/train:v1@{before}", tmp_path / "x.h5", root=ds.root)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["label"][0] == 0
        assert [dim.label for dim in file["image"].dims] == ["sample", "y", ""]


def test_an_interrupted_export_is_no_group_and_goes_on_with_what_is_missing(ds, tmp_path, monkeypatch):
    write, seen = exporting_groups.array_to_zarr, []

    def stopped(array, target, overwrite, described):
        if array.key == "label":
            raise KeyboardInterrupt
        write(array, target, overwrite, described)

    monkeypatch.setattr(exporting_groups, "array_to_zarr", stopped)
    with contextlib.suppress(KeyboardInterrupt):
        export(ds, tmp_path / "x.zarr")
    with pytest.raises(Exception, match=r"No group|not found|unable"):
        zarr.open_group(tmp_path / "x.zarr", mode="r")
    monkeypatch.setattr(exporting_groups, "array_to_zarr", lambda *a: (seen.append(a[0].key), write(*a)))
    export(ds, tmp_path / "x.zarr")
    assert seen == ["label", "scale"]
    assert zarr.open_group(tmp_path / "x.zarr", mode="r")["label"][3] == 3


def test_an_interrupted_export_of_another_commit_is_written_over(ds, tmp_path, monkeypatch):
    write = exporting_groups.array_to_zarr

    def stopped(array, target, overwrite, described):
        if array.key == "scale":
            raise KeyboardInterrupt
        write(array, target, overwrite, described)

    monkeypatch.setattr(exporting_groups, "array_to_zarr", stopped)
    with contextlib.suppress(KeyboardInterrupt):
        export(ds, tmp_path / "x.zarr")
    monkeypatch.setattr(exporting_groups, "array_to_zarr", write)
    ds["label"][3] = 33
    export(ds, tmp_path / "x.zarr")
    assert zarr.open_group(tmp_path / "x.zarr", mode="r")["label"][3] == 33


def test_what_is_not_ours_is_not_replaced(ds, tmp_path):
    export(ds, tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "notes").mkdir()
    (tmp_path / "x.zarr" / "notes" / "a.txt").write_text("mine")
    with pytest.raises(AlreadyExistsError, match="'notes'"):
        export(ds, tmp_path / "x.zarr", overwrite=True)
    zarr.create_array(str(tmp_path / "array.zarr"), data=IMAGES)
    with pytest.raises(AlreadyExistsError):
        export(ds, tmp_path / "array.zarr", overwrite=True)
    assert json.loads((tmp_path / "array.zarr" / "zarr.json").read_text())["node_type"] == "array"


def test_damage_stops_an_export(ds, tmp_path, forget, root):
    forget()
    packs = [path for path in root.store.list("") if "/packs/" in path.key]
    for info in packs:
        data = bytearray(root.store.get(info.key))
        data[len(data) // 2] ^= 255
        root.store.put(info.key, bytes(data))
    for name in ("x.zarr", "x.h5", "x.nc"):
        with pytest.raises(CorruptDataError):
            export(ds, tmp_path / name)
        assert not (tmp_path / "x.h5").exists()
        assert not (tmp_path / "x.nc").exists()


def test_what_is_no_format_of_datasets_says_what_is(ds, tmp_path):
    with pytest.raises(ConfigError, match="Zarr, HDF5 or NetCDF"):
        export(ds, tmp_path / "x.npy")
    with pytest.raises(ConfigError, match="a group of its own"):
        export(ds, tmp_path / "x.h5", key="a")
    with pytest.raises(ConfigError, match="columns= is of tables"):
        export(ds, tmp_path / "x.h5", columns="image")
    with pytest.raises(ConfigError, match="local files"):
        export(ds, "s3://bucket/x.nc")
    hub.store(IMAGES, "lab/alone:v1", root=ds.root)
    with pytest.raises(ConfigError, match="NetCDF are datasets"):
        hub.export("lab/alone:v1", tmp_path / "x.nc", format="netcdf", root=ds.root)


def test_an_export_of_encoded_images_says_what_its_reader_needs(root, tmp_path):
    spec = hub.ArraySpec((1, 8, 8), "u1", chunks=(1, 8, 8), codec="png")
    hub.dataset({"photo": spec, "x": np.zeros(3)}, "t/images:v0", root=root)
    with pytest.warns(UserWarning, match="photo: are encoded images; .*imagecodecs-zarr"):
        hub.export("t/images:v0", tmp_path / "images.zarr", root=root)
