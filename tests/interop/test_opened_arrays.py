"""Arrays that h5py or zarr-python has open: what their file says of them holds as it does by its path."""

import h5py
import numpy as np
import pytest
import zarr

import hubarray as hub

PACKED = {"scale_factor": 0.5, "add_offset": 1.0, "units": "K"}


def hdf5(folder):
    file = h5py.File(folder / "x.h5", "w")
    for name, data in {"numbers": np.arange(12, dtype="i2").reshape(3, 4), "single": np.float32(2.5)}.items():
        file[name] = data
        file[name].attrs.update(PACKED)
    file["text"] = np.array(["a", "", "ä" * 300], h5py.string_dtype())
    file["word"] = "ä"
    file["letters"] = np.array([b"ab", b"c"])
    file["y"] = np.arange(3)
    file["y"].make_scale("y")
    file["numbers"].dims[0].attach_scale(file["y"])
    file.create_dataset("gaps", (4, 2), "f8", fillvalue=-1.0, chunks=(2, 2))[0] = 1
    file.close()
    return folder / "x.h5", h5py.File(folder / "x.h5")


def zarr_of(version):
    def made(folder):
        group = zarr.create_group(folder / "x.zarr", zarr_format=version)
        named = {} if version == 2 else {"dimension_names": ("y", None)}
        group.create_array("numbers", shape=(3, 4), dtype="i2", chunks=(2, 4), fill_value=-5, **named)[:2] = 7
        group["numbers"].attrs.update(PACKED | ({"_ARRAY_DIMENSIONS": ["y", "x"]} if version == 2 else {}))
        group.create_array("single", shape=(), dtype="f4")[...] = 2.5
        group["single"].attrs.update(PACKED)
        group.create_array("bare", shape=(3,), dtype="f8", fill_value=-1.0, chunks=(1,))[1] = 2
        group.create_array("text", shape=(3,), dtype=str, chunks=(2,))[:] = np.array(["a", "", "ä" * 300])
        return folder / "x.zarr", zarr.open_group(folder / "x.zarr", mode="r")

    return made


MADE = {"hdf5": hdf5, "zarr 2": zarr_of(2), "zarr 3": zarr_of(3)}


def told(array):
    """What there is to compare of an array."""
    return array.dtype, array.shape, array.dims, dict(array.attrs), np.asarray(array[...]).tolist()


@pytest.mark.filterwarnings("ignore:.*vlen:UserWarning", "ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_an_array_that_is_open_is_what_it_is_by_its_path(root, tmp_path, made):
    path, opened = made(tmp_path)
    for name in opened:
        expected = told(hub.import_(path, f"t/{name}:path", key=name, root=root))
        assert told(hub.import_(opened[name], f"t/{name}:opened", root=root)) == expected, name
        assert told(hub.import_(opened, f"t/{name}:key", key=name, root=root)) == expected, name
        assert told(hub.store(opened[name], f"t/{name}:stored", root=root)) == expected, name


def declared(folder, kind):
    """An array whose one chunk has 2 GiB, of which nothing is stored."""
    if kind == "hdf5":
        h5py.File(folder / "x.h5", "w").create_dataset("a", (1 << 15, 1 << 16), "u1", chunks=(1 << 15, 1 << 16))
        return h5py.File(folder / "x.h5")["a"]
    return zarr.create_array(folder / "x.zarr", shape=(1 << 15, 1 << 16), dtype="u1", chunks=(1 << 15, 1 << 16))


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_chunks_that_are_too_large_to_be_decoded_are_refused(root, tmp_path, kind):
    opened = declared(tmp_path, kind)
    for store in (hub.import_, hub.store):
        with pytest.raises(hub.errors.SourceError, match="max_decoded_bytes"):
            store(opened, "t/x:v0", root=root)
    with pytest.raises(hub.errors.SourceError, match="max_decoded_bytes"):
        hub.import_(iter([opened]), "t/x:v0", root=root)
    assert not hub.exists("t/x:v0", root=root)


def test_the_limit_of_one_import_is_raised_for_an_array_that_is_open(root, tmp_path):
    opened = zarr.create_array(tmp_path / "x.zarr", shape=(4, 1000), dtype="u1", chunks=(4, 1000))
    with pytest.raises(hub.errors.SourceError, match="max_decoded_bytes"):
        hub.import_(opened, "t/x:v0", root=root, max_decoded_bytes=3999)
    assert hub.import_(opened, "t/x:v0", root=root, max_decoded_bytes=4000).shape == (4, 1000)


def test_a_dataset_without_a_shape_is_refused(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = h5py.Empty("f4")
        for store in (hub.import_, hub.store):
            with pytest.raises(hub.errors.ConfigError, match="null dataset"):
                store(file["a"], "t/x:v0", root=root)


def of_hdf5(folder):
    (folder / "secret").write_bytes(bytes(range(4)))
    file = h5py.File(folder / "x.h5", "w")
    return file.create_dataset("a", (4,), "u1", external=[(folder / "secret", 0, 4)])


def of_zarr(folder):
    array = zarr.create_array(folder / "x.zarr", shape=(4,), dtype="u1", compressors=None)
    array[:] = np.arange(4)
    chunk = folder / "x.zarr" / "c" / "0"
    chunk.rename(folder / "secret")
    chunk.symlink_to(folder / "secret")
    return array


@pytest.mark.parametrize("made", [of_hdf5, of_zarr])
def test_an_array_whose_elements_lie_in_another_file_is_refused_as_by_its_path(root, tmp_path, made):
    opened = made(tmp_path)
    for store in (hub.import_, hub.store):
        with pytest.raises(hub.errors.SourceError, match=r"follow_links=True \(--follow-links\) to the import"):
            store(opened, "t/x:v0", root=root)
    assert hub.import_(opened, "t/x:v0", root=root, follow_links=True)[:].tolist() == [0, 1, 2, 3]


def test_what_was_just_written_to_a_file_that_is_open_is_imported(root, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = np.arange(100_000)
        assert hub.import_(file["a"], "t/x:v0", root=root)[-1] == 99_999
        file["b"] = np.arange(200_000)
        assert hub.import_(file, "t/both:v0", root=root)["b"][-1] == 199_999


def test_a_file_in_memory_has_arrays_too(root):
    with h5py.File("nowhere.h5", "w", driver="core", backing_store=False) as file:
        file["a"] = np.arange(3)
        file["text"] = np.array(["a", "b"], h5py.string_dtype())
        assert hub.import_(file["a"], "t/x:v0", root=root)[:].tolist() == [0, 1, 2]
        assert hub.import_(file["text"], "t/text:v0", root=root)[:].tolist() == ["a", "b"]
