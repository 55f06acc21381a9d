"""Arrays for everybody else: Zarr that zarr-python and TensorStore read, .npy, HDF5."""

import os
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import tensorstore
import xarray
import zarr

import hubarray as hub
from hubarray.errors import AlreadyExistsError, ConfigError, CorruptDataError
from hubarray.storage.base import Store

DTYPES = ("u1", "i4", "f4", "f8", "bool", "c8", "U3", "M8[s]")


def filled(root, dtype="f4", codec="auto", shape=(50, 21)):
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    array = hub.array(
        shape,
        f"t/{values.dtype.kind}{values.dtype.itemsize}:v0",
        values.dtype,
        chunks=(8, 8),
        codec=codec,
        root=root,
        attrs={"unit": "mm"},
    )
    array[...] = values
    return f"{array.name}:v0", values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_zarr_python_reads_what_was_exported(dtype, root, tmp_path):
    name, values = filled(root, dtype)
    hub.export(name, tmp_path / "x.zarr", root=root)
    opened = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
    assert np.array_equal(opened[...], values)
    assert dict(opened.attrs) == {"unit": "mm"}
    assert sorted(item.name for item in (tmp_path / "x.zarr").iterdir()) == ["c", "zarr.json"]


@pytest.mark.parametrize("codec", ["auto", "zstd", "gzip", "none", "blosc-zstd"])
def test_tensorstore_reads_what_was_exported(codec, root, tmp_path):
    name, values = filled(root, codec=codec)
    hub.export(name, tmp_path / "x.zarr", root=root)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "x.zarr")}}
    assert np.array_equal(tensorstore.open(spec).result().read().result(), values)


def test_exports_go_to_buckets_and_of_any_commit(any_root, make_root):
    name, values = filled(any_root)
    hub.load(name, root=any_root)[...] = 0
    target = hub.Root(f"{make_root('s3').url}/x.zarr", storage_options=make_root("s3")._options)
    hub.export(f"{name}@2", target, root=any_root)
    back = hub.import_(_zarr_source(target), "t/back:v0", root=make_root("local"))
    assert np.array_equal(back[...], values)


def _zarr_source(target):
    from zarr.storage import FsspecStore

    store = FsspecStore.from_url(target.url, storage_options=dict(target._options))
    return zarr.open_array(store, mode="r")[...]


def test_npy_and_hdf5(root, tmp_path):
    name, values = filled(root)
    hub.export(name, tmp_path / "x.npy", root=root)
    assert np.array_equal(np.load(tmp_path / "x.npy"), values)
    hub.export(name, tmp_path / "x.h5", key="volume", root=root)
    with h5py.File(tmp_path / "x.h5") as file:
        assert np.array_equal(file["volume"][...], values)
        assert file["volume"].attrs["unit"] == "mm"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x.h5", "x.npy"]


def test_an_interrupted_export_sends_only_what_is_missing(root, tmp_path, monkeypatch):
    name, values = filled(root)
    real, sent = Store.put, []

    def put(self, key, data, **options):
        if "zarr" in self.url and key.startswith("c/"):
            if len(sent) == 9:
                raise KeyboardInterrupt
            sent.append(key)
        real(self, key, data, **options)

    monkeypatch.setattr(Store, "put", put)
    with pytest.raises(KeyboardInterrupt):
        hub.export(name, tmp_path / "x.zarr", root=root)
    assert not (tmp_path / "x.zarr" / "zarr.json").exists()
    sent.clear()
    monkeypatch.setattr(
        Store, "put", lambda self, key, data, **options: (sent.append(key), real(self, key, data, **options))
    )
    hub.export(name, tmp_path / "x.zarr", root=root)
    assert len([key for key in sent if key.startswith("c/")]) == 7 * 3 - 9
    assert np.array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...], values)


def test_nothing_is_overwritten_unasked_and_never_what_is_not_ours(root, tmp_path):
    name, values = filled(root)
    for target in ("x.npy", "x.h5", "x.zarr"):
        hub.export(name, tmp_path / target, root=root)
        with pytest.raises(AlreadyExistsError):
            hub.export(name, tmp_path / target, root=root)
        hub.export(name, tmp_path / target, root=root, overwrite=True)
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "thesis.tex").write_text("precious")
    with pytest.raises(AlreadyExistsError, match="other things"):
        hub.export(name, documents, root=root, overwrite=True)
    assert (documents / "thesis.tex").read_text() == "precious"
    assert np.array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...], values)


def test_a_damaged_chunk_stops_the_export(root, tmp_path, forget):
    name, _ = filled(root)
    (pack,) = root.store.list(f"{name.partition(':')[0]}/packs/")
    data = bytearray(root.store.get(pack.key))
    data[20] ^= 255
    root.store.put(pack.key, bytes(data))
    forget()
    for target in ("x.zarr", "x.npy"):
        with pytest.raises(CorruptDataError):
            hub.export(name, tmp_path / target, root=root)
        assert not (tmp_path / target / "zarr.json").exists()
    assert not (tmp_path / "x.npy").exists()


def test_what_a_format_cannot_hold_is_refused(root, tmp_path):
    name, _ = filled(root, "M8[s]")
    with pytest.raises(ConfigError, match="HDF5 has no"):
        hub.export(name, tmp_path / "x.h5", root=root)
    with pytest.raises(ConfigError, match="local files"):
        hub.export(name, "s3://bucket/x.npy", root=root)
    with pytest.raises(ConfigError, match="format='csv'"):
        hub.export(name, tmp_path / "x", format="csv", root=root)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(0, 5), ()])
def test_empty_arrays_and_single_values_are_exported_too(shape, root, tmp_path):
    array = hub.array(shape, "t/small:v0", "f4", root=root)
    if not shape:
        array[...] = 3
    for target in ("x.npy", "x.zarr", "x.h5"):
        hub.export("t/small:v0", tmp_path / target, root=root)
    assert np.load(tmp_path / "x.npy").shape == shape
    assert np.array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...], array[...])


def test_an_export_over_another_that_is_interrupted_can_be_gone_on_with(root, tmp_path, monkeypatch):
    name, values = filled(root)
    hub.export(name, tmp_path / "x.zarr", root=root)
    hub.load(name, root=root)[...] = values + 1
    real = Store.put

    def put(self, key, data, **options):
        if "zarr" in self.url and key.startswith("c/1"):
            raise KeyboardInterrupt
        real(self, key, data, **options)

    monkeypatch.setattr(Store, "put", put)
    with pytest.raises(KeyboardInterrupt):
        hub.export(name, tmp_path / "x.zarr", root=root, overwrite=True)
    monkeypatch.setattr(Store, "put", real)
    hub.export(name, tmp_path / "x.zarr", root=root)
    assert np.array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...], values + 1)


def test_of_two_exports_at_one_place_at_once_none_leaves_a_mixture(root, tmp_path):
    arrays = {}
    for i, rows in ((1, 400), (3, 5)):
        arrays[i] = hub.array((400, 400), f"t/x{i}:v0", "i4", chunks=(20, 20), root=root)
        arrays[i][:rows] = i
    for _ in range(6):
        with ThreadPoolExecutor(2) as pool:
            running = [
                pool.submit(hub.export, f"t/x{i}:v0", tmp_path / "x.zarr", root=root, overwrite=True) for i in arrays
            ]
        failed = [item.exception() for item in running if item.exception()]
        assert all(isinstance(item, hub.errors.ConflictError) for item in failed)
        if (tmp_path / "x.zarr" / "zarr.json").exists():
            values = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...]
            assert any(np.array_equal(values, array[...]) for array in arrays.values())
        hub.export("t/x1:v0", tmp_path / "x.zarr", root=root, overwrite=True)
        assert (zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...] == 1).all()


def test_an_old_export_that_was_half_removed_is_never_taken_for_the_new_one(root, tmp_path, monkeypatch):
    """Chunks that are not encoded are all of one size, so only the marker tells whose they are."""
    name, values = filled(root, codec="none")
    hub.export(name, tmp_path / "x.zarr", root=root)
    hub.load(name, root=root)[...] = values + 1
    real = Store.delete

    def delete(self, keys):
        if "zarr" in self.url:
            real(self, keys[: len(keys) // 2])
            raise KeyboardInterrupt
        real(self, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            hub.export(name, tmp_path / "x.zarr", root=root, overwrite=True)
    (tmp_path / "x.zarr" / "notes.txt").write_text("precious")
    with pytest.raises(AlreadyExistsError, match="other things"):
        hub.export(name, tmp_path / "x.zarr", root=root)
    (tmp_path / "x.zarr" / "notes.txt").unlink()
    hub.export(name, tmp_path / "x.zarr", root=root)
    assert np.array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[...], values + 1)


def test_links_are_followed_modes_are_kept_and_devices_and_groups_are_left_alone(root, tmp_path):
    name, values = filled(root)
    real, link = tmp_path / "real.npy", tmp_path / "link.npy"
    real.write_bytes(b"old")
    real.chmod(0o600)
    link.symlink_to(real)
    hub.export(name, link, root=root, overwrite=True)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(np.load(real), values)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(AlreadyExistsError, match="not a file"):
        hub.export(name, tmp_path / "pipe.npy", root=root, overwrite=True)
    group = zarr.create_group(str(tmp_path / "group.zarr"))
    group.create_array("other", data=values)
    with pytest.raises(AlreadyExistsError, match="other things"):
        hub.export(name, tmp_path / "group.zarr", root=root, overwrite=True)
    assert np.array_equal(group["other"][...], values)
    with pytest.raises(ConfigError, match="cannot be written as"):
        hub.export(name, tmp_path / "x.csv", root=root)


def test_xarray_opens_a_group_of_several_exports(root, tmp_path):
    days = hub.array(4, "t/day:v0", "i8", dims=("day",), root=root)
    days[:] = range(4)
    heat = hub.array((4, 3), "t/heat:v0", "f4", dims=("day", None), attrs={"unit": "K"}, root=root)
    heat[:] = 5
    target = hub.Root("memory://exported/several.zarr")
    for place in (tmp_path / "x.zarr", target):
        hub.export("t/day:v0", place, key="day", root=root)
        hub.export("t/heat:v0", place, key="heat", root=root)
        with pytest.raises(AlreadyExistsError):
            hub.export("t/heat:v0", place, key="heat", root=root)
        hub.export("t/heat:v0", place, key="heat", overwrite=True, root=root)
    with xarray.open_zarr(tmp_path / "x.zarr", consolidated=False) as result:
        assert result["heat"].dims == ("day", "dim_1")
        assert result["heat"].attrs["unit"] == "K"
        assert result["day"].values.tolist() == [0, 1, 2, 3]
    assert hub.import_(target.url, "t/back:v0", key="heat", root=root).shape == (4, 3)
    hub.export("t/heat:v0", tmp_path / "bare.zarr", root=root)
    for key in ("a/b", "", "..", "a\n"):
        with pytest.raises(ConfigError, match="a plain name"):
            hub.export("t/heat:v0", tmp_path / "y.zarr", key=key, root=root)
    with pytest.raises(AlreadyExistsError, match="is not a Zarr group"):
        hub.export("t/heat:v0", tmp_path / "bare.zarr", key="heat", root=root)
