"""Files with several arrays: all that can be stored becomes a dataset, and the rest is named."""

import io
import zipfile

import h5py
import numpy as np
import pytest
import tifffile
import zarr

import hubarray as hub
from hubarray.interop.import_ import datasets as importing_groups
from hubarray.interop.sources import numpy_files


def odd_hdf5(path):
    """A file with two arrays, and one of each kind that no array can be."""
    with h5py.File(path, "w") as file:
        file["signal"] = np.arange(3)
        file["deep/time"] = np.arange(3.0)
        file["refs"] = np.array([file["signal"].ref], h5py.ref_dtype)
        file.create_dataset("regions", (1,), h5py.regionref_dtype)[0] = file["signal"].regionref[:2]
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))[0] = [1, 2]
        file["null"] = h5py.Empty("f4")
        file.create_dataset("mixed", (2,), [("a", "i4"), ("b", h5py.ref_dtype)])
        file["deep"].attrs["by"] = "me"
    return path


@pytest.mark.parametrize("opened", [False, True])
def test_datasets_of_hdf5_that_cannot_be_stored_are_named_and_left_out(root, tmp_path, opened):
    path = odd_hdf5(tmp_path / "x.h5")
    with h5py.File(path) as file, pytest.warns(UserWarning, match="cannot be stored and are left out") as warned:
        result = hub.import_(file if opened else path, "t/x:v1", root=root)
    assert sorted(result) == ["deep.time", "signal"]
    assert dict(result.attrs) == {"deep": {"by": "me"}}
    (told,) = {str(item.message) for item in warned if "left out" in str(item.message)}
    assert all(name in told for name in ("refs", "regions", "ragged", "null", "mixed"))


def test_an_array_that_is_alone_but_for_what_cannot_be_stored_is_an_array(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["signal"] = np.arange(3)
        file["refs"] = np.array([file["signal"].ref], h5py.ref_dtype)
    with pytest.warns(UserWarning, match="refs cannot be stored"):
        result = hub.import_(tmp_path / "x.h5", "t/x:v1", root=root)
    assert isinstance(result, hub.Array)
    assert result[...].tolist() == [0, 1, 2]


def test_a_file_of_which_nothing_can_be_stored_is_refused(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["refs"] = np.array([file.ref], h5py.ref_dtype)
        file["more"] = np.array([file.ref], h5py.ref_dtype)
    with pytest.raises(hub.errors.ConfigError, match=r"refs|more"):
        hub.import_(tmp_path / "x.h5", "t/x:v1", root=root)
    assert not hub.exists("t/x:v1", root=root)


def test_one_that_is_named_and_cannot_be_stored_is_refused(root, tmp_path):
    with pytest.raises(hub.errors.ConfigError):
        hub.import_(odd_hdf5(tmp_path / "x.h5"), "t/x:v1", key="refs", root=root)


def test_arrays_of_a_zarr_that_cannot_be_stored_are_named_and_left_out(root, tmp_path):
    group = zarr.create_group(str(tmp_path / "x.zarr"), zarr_format=2)
    for name in ("a", "b"):
        group.create_array(name, data=np.arange(3))
    group.create_array("raw", shape=(2,), dtype="V7")
    try:
        result = hub.import_(tmp_path / "x.zarr", "t/x:v1", root=root)
    except hub.errors.ConfigError:
        pytest.fail("one array stops the others")
    assert {"a", "b"} <= set(result)


def test_arrays_of_an_npz_become_a_dataset(root, tmp_path):
    arrays = {
        "x": np.arange(6).reshape(2, 3),
        "n": np.float32(2.5),
        "empty": np.zeros((0, 3)),
        "s": np.array(["a", "bc"]),
    }
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    result = hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)
    assert sorted(result) == sorted(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(result[name][...], values)
        assert result[name].shape == values.shape
    assert hub.import_(tmp_path / "x.npz", "t/y:v1", key="x", root=root)[...].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_objects_in_an_npz_are_left_out_and_named(root, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.array([{}], object), c=np.arange(4))
    with pytest.warns(UserWarning, match="b cannot be stored and are left out: .*Python objects"):
        result = hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)
    assert sorted(result) == ["a", "c"]
    with pytest.raises(hub.errors.ConfigError, match="Python objects, which are never loaded"):
        hub.import_(tmp_path / "x.npz", "t/y:v1", key="b", root=root)


@pytest.mark.parametrize("dtype", ["u1", "f8", "U3", "M8[s]", [("a", "i4"), ("b", "f4")]])
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 5), (1, 7), (0, 3)])
def test_arrays_in_fortran_order_are_read_from_an_npz(root, tmp_path, dtype, shape):
    values = np.asfortranarray(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    np.savez_compressed(tmp_path / "x.npz", f=values, c=np.arange(3))
    result = hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)
    np.testing.assert_array_equal(result["f"][...], values)


def test_a_large_array_in_fortran_order_is_left_out_and_named(root, tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_files, "MAX_ROW_BYTES", 1000)
    np.savez(tmp_path / "x.npz", f=np.asfortranarray(np.zeros((20, 30))), c=np.arange(3), d=np.arange(3))
    with pytest.warns(UserWarning, match="f cannot be stored .* Fortran order, in which up to 1,000 bytes are read"):
        result = hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)
    assert sorted(result) == ["c", "d"]


def test_links_of_hdf5_are_named_and_taken_by_their_key(root, tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)
        file["b"] = np.arange(4)
        file["soft"] = h5py.SoftLink("/a")
        file["hard"] = file["a"]
        file["group/up"] = h5py.SoftLink("/")
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/a")
        file["type"] = np.dtype("f4")
    with pytest.warns(UserWarning, match="4 links are left out: /elsewhere, /hard, /soft, /group/up"):
        result = hub.import_(path, "t/x:v1", root=root)
    assert sorted(result) == ["a", "b"]
    assert hub.import_(path, "t/y:v1", key="soft", root=root)[...].tolist() == [0, 1, 2]


def test_names_of_an_enumeration_are_kept(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        kind = h5py.enum_dtype({"RED": 0, "NEAR INFRARED": 1}, "u1")
        file.create_dataset("bands", data=np.array([1, 0], "u1"), dtype=kind)
        file["b"] = np.arange(4)
    result = hub.import_(tmp_path / "x.h5", "t/x:v1", root=root)
    assert result["bands"].attrs["enum"] == {"RED": 0, "NEAR INFRARED": 1}


def test_the_number_of_a_series_may_be_a_number(root, tmp_path):
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        file.write(np.zeros((4, 5), "u1"), photometric="minisblack")
        file.write(np.ones((6, 7), "u1"), photometric="minisblack")
    assert hub.import_(tmp_path / "x.tif", "t/x:v1", key=1, root=root).shape == (1, 6, 7)


def test_a_member_of_an_npz_is_decompressed_once(root, tmp_path, monkeypatch):
    opened = []
    real = numpy_files.zipfile.ZipFile

    class Counted(real):
        def open(self, name, *given, **named):
            opened.append(name)
            return super().open(name, *given, **named)

    values = np.arange(4000).reshape(100, 40)
    np.savez_compressed(tmp_path / "x.npz", a=values, b=np.arange(3))
    monkeypatch.setattr(importing_groups, "STEP_BYTES", 1000)
    monkeypatch.setattr(numpy_files.zipfile, "ZipFile", Counted)
    result = hub.import_(tmp_path / "x.npz", "t/x:v1", chunks={"a": (5, 40)}, root=root)
    np.testing.assert_array_equal(result["a"][...], values)
    # Once for its header, at the beginning and at the end, and once for its values.
    assert opened.count("a.npy") == 3


def test_an_npz_of_many_arrays_is_open_once(root, tmp_path, monkeypatch):
    opened = []
    real = numpy_files.zipfile.ZipFile

    class Counted(real):
        def __init__(self, *given, **named):
            opened.append(given)
            super().__init__(*given, **named)

    np.savez(tmp_path / "x.npz", **{f"a{i}": np.arange(2) for i in range(300)})
    monkeypatch.setattr(numpy_files.zipfile, "ZipFile", Counted)
    assert len(hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)) == 300
    # At the beginning, and at the end to see whether it has changed: each time also to tell what it is.
    assert len(opened) == 4


@pytest.mark.parametrize("value", ["hello", b"hello", 7, np.datetime64("2020-01-01")])
def test_an_npz_may_have_single_values_of_text_and_others(root, tmp_path, value):
    np.savez(tmp_path / "x.npz", a=np.array(value), b=np.arange(3))
    assert hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)["a"][()] == value
    np.save(tmp_path / "x.npy", np.array(value))
    assert hub.import_(tmp_path / "x.npy", "t/y:v1", root=root)[()] == value


def test_names_of_fields_in_an_npz_may_be_of_any_letters(root, tmp_path):
    values = np.array([(1,), (2,)], [("\u65e5\u00e9", "i4")])
    with pytest.warns(UserWarning, match="NumPy >= 1.17"):
        np.savez(tmp_path / "x.npz", a=values)
    assert hub.import_(tmp_path / "x.npz", "t/x:v1", root=root).dtype == values.dtype


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_in_an_npz_are_refused(root, tmp_path):
    sink = io.BytesIO()
    np.save(sink, np.arange(2))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        for name in ("a", "b", "a"):
            file.writestr(f"{name}.npy", sink.getvalue())
    with pytest.raises(hub.errors.SourceError, match="two arrays of one name"):
        hub.import_(tmp_path / "x.npz", "t/x:v1", root=root)


def test_a_prefix_of_netcdf_is_a_name_like_others_in_hdf5(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["_nc4_non_coord_x"] = [1]
        file["x"] = [2, 3]
    assert sorted(hub.import_(tmp_path / "x.h5", "t/x:v1", root=root)) == ["_nc4_non_coord_x", "x"]


def test_what_is_closed_is_refused_in_our_terms(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = np.arange(3)
        dataset = file["a"]
    for item in (file, dataset):
        with pytest.raises(hub.HubError):
            hub.import_(item, "t/x:v1", root=root)


def test_a_key_that_is_no_path_is_refused_in_our_terms(root, tmp_path):
    group = zarr.create_group(str(tmp_path / "x.zarr"))
    group.create_array("a", data=np.arange(3))
    with pytest.raises(hub.errors.ConfigError, match="there is no such array or group"):
        hub.import_(group, "t/x:v1", key="../x", root=root)
