"""Arrays from everywhere: values, bounded memory, resuming, and sources that are broken."""

import os
import tracemalloc

import dask.array as da
import h5py
import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import hubarray as hub
from hubarray.errors import AlreadyExistsError, ConfigError, SourceError
from hubarray.interop.import_ import arrays as importing
from tests.optional import Optional

av = Optional("av")

VALUES = np.random.default_rng(0).integers(0, 255, (50, 12, 9), "u1")


def npy(folder):
    np.save(folder / "x.npy", VALUES)
    return folder / "x.npy", {}


def npz(folder):
    np.savez_compressed(folder / "x.npz", a=VALUES, b=np.zeros(3))
    return folder / "x.npz", {"key": "a"}


def zarr_v3(folder):
    zarr.create_array(str(folder / "x.zarr"), data=VALUES, chunks=(7, 12, 9), zarr_format=3)
    return folder / "x.zarr", {}


def zarr_v2_in_a_group(folder):
    group = zarr.create_group(str(folder / "group.zarr"), zarr_format=2)
    group.create_array("images/raw", data=VALUES, chunks=(7, 12, 9))
    group.create_array("labels", data=np.zeros(3))
    return folder / "group.zarr", {"key": "images/raw"}


def hdf5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file["volume/raw"] = VALUES
    return folder / "x.h5", {}


def tiff(folder):
    tifffile.imwrite(folder / "x.tiff", VALUES, photometric="minisblack")
    return str(folder / "x.tiff"), {}


def images(folder):
    for i, image in enumerate(VALUES):
        Image.fromarray(image).save(folder / f"{i:03d}.png")
    (folder / "notes.txt").write_text("not an image")
    return folder, {}


def a_glob(folder):
    images(folder)
    return str(folder / "*.png"), {}


def numpy_array(folder):
    return VALUES, {}


def dask_array(folder):
    return da.from_array(VALUES, chunks=(9, 5, 9)), {}


def iterator(folder):
    return iter(VALUES), {}


KINDS = [npy, npz, zarr_v3, zarr_v2_in_a_group, hdf5, tiff, images, a_glob, numpy_array, dask_array, iterator]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_source_gives_its_values_under_one_name(kind, root, tmp_path):
    source, options = kind(tmp_path)
    array = hub.import_(source, "t/x:v0", root=root, attrs={"from": "a test"}, **options)
    assert array.dtype == VALUES.dtype
    assert np.array_equal(array[...], VALUES)
    assert array.attrs["from"] == "a test"
    # Of several files their paths are kept, too.
    beside = ["t/x.files:v0"] if kind in (images, a_glob) else []
    assert hub.list(root=root) == [*beside, "t/x:v0"]


def test_attributes_come_along(root, tmp_path):
    known = {"unit": "mm", "spacing": [0.5, 2.0], "rate": 8, "channels": ["red", "green"], "missing": float("nan")}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["raw"] = VALUES
        file["other"] = h5py.SoftLink("/raw")
        file["raw"].attrs.update(known | {"scale": file["raw"].ref})
        file["null"] = h5py.Empty("f4")
        file["text"] = np.array(["a", "bcd"], h5py.string_dtype())
        file["elsewhere"] = h5py.ExternalLink("y.h5", "/raw")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["raw"] = VALUES
    zarr.create_array(str(tmp_path / "x.zarr"), data=VALUES, attributes=known)

    def is_known(attrs):
        return np.isnan(attrs["missing"]) and {**attrs, "missing": 0} == {**known, "missing": 0}

    with pytest.warns(UserWarning, match="left out: scale"):
        assert is_known(hub.import_(tmp_path / "x.h5", "t/h:v0", key="other", root=root).attrs)
    assert is_known(hub.import_(tmp_path / "x.zarr", "t/z:v0", root=root).attrs)
    assert np.array_equal(hub.load("t/h:v0", root=root)[...], VALUES)
    hub.export("t/h:v0", tmp_path / "back.h5", root=root)
    assert is_known(hub.import_(tmp_path / "back.h5", "t/back:v0", root=root).attrs)
    assert hub.import_(tmp_path / "x.h5", "t/text:v0", key="text", root=root)[...].tolist() == ["a", "bcd"]
    for key, words in [("null", "null dataset")]:
        with pytest.raises(ConfigError, match=words):
            hub.import_(tmp_path / "x.h5", "t/no:v0", key=key, root=root)


def test_chunks_are_judged_by_the_sources_shape(root, tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    with pytest.raises(ConfigError, match=r"1 axis and the shape \(50, 12, 9\) has 3"):
        hub.import_(tmp_path / "x.npy", "t/x:v0", chunks=(1,), root=root)


def test_remote_sources_are_read_in_ranges(s3_root, tmp_path):
    import fsspec

    np.save(tmp_path / "x.npy", VALUES)
    with fsspec.open("memory://imported/x.npy", "wb") as file:
        file.write((tmp_path / "x.npy").read_bytes())
    assert np.array_equal(hub.import_("memory://imported/x.npy", "t/x:v0", root=s3_root)[...], VALUES)


def write_media(path, kind):
    with av.open(str(path), "w") as file:
        if kind == "audio":
            stream = file.add_stream("flac" if path.suffix == ".flac" else "pcm_s16le", rate=8000, layout="stereo")
            tone = (10_000 * np.sin(np.arange(16_000) / 9)).astype("i2")
            frame = av.AudioFrame.from_ndarray(np.stack([tone, -tone], 1).reshape(1, -1), "s16", "stereo")
            frame.sample_rate = 8000
            frames, result = [frame], np.stack([tone, -tone], 1)
        else:
            stream = file.add_stream("libx264rgb" if kind == "video" else kind, rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
            stream.options = {"crf": "0", "qp": "0"}
            result = np.repeat(np.arange(0, 240, 8, dtype="u1"), 48 * 64 * 3).reshape(30, 48, 64, 3)
            frames = [av.VideoFrame.from_ndarray(item, "rgb24") for item in result]
        for frame in frames:
            for packet in stream.encode(frame):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
    return result


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_audio_comes_sample_by_sample_with_its_rate(suffix, root, tmp_path):
    expected = write_media(tmp_path / f"x{suffix}", "audio")
    array = hub.import_(tmp_path / f"x{suffix}", "t/x:v0", root=root)
    assert array.attrs["sample_rate"] == 8000
    assert np.array_equal(array[...].astype("i4") if array.dtype.kind == "i" else array[...], expected)


def test_video_comes_frame_by_frame_with_its_rate(root, tmp_path):
    expected = write_media(tmp_path / "x.mkv", "video")
    array = hub.import_(tmp_path / "x.mkv", "t/x:v0", root=root)
    assert array.attrs["frame_rate"] == 10
    assert array.shape == expected.shape
    assert np.abs(array[...].astype("i4") - expected).max() <= 2


def test_what_another_import_left_is_replaced_and_what_is_yours_is_not(root, tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    left = hub.array((5, 12, 9), "t/x:v0.importing", "u1", root=root, attrs={"hubarray.staging": {"source": "another"}})
    left[...] = 77
    assert np.array_equal(hub.import_(tmp_path / "x.npy", "t/x:v0", root=root)[...], VALUES)
    hub.array(3, "t/y:v0.importing", root=root)[...] = 7
    with pytest.raises(AlreadyExistsError, match="yours"):
        hub.import_(tmp_path / "x.npy", "t/y:v0", root=root)
    assert hub.load("t/y:v0.importing", root=root)[...].tolist() == [7, 7, 7]


def test_samples_that_do_not_fit_the_first_ones_dtype_are_refused(root):
    for first, second in [
        (np.int32(1), np.int64(2**40)),
        (np.uint8(1), np.int16(300)),
        ("a", "abc"),
        (np.float32(1), 1e300),
    ]:
        with pytest.raises(SourceError, match="sample 1 is"):
            hub.import_(iter([np.array([first]), np.array([second])]), "t/x:v0", root=root)
    assert hub.import_(range(5), "t/numbers:v0", root=root)[...].tolist() == [0, 1, 2, 3, 4]


def test_a_zarr_that_changes_is_noticed_at_the_end_and_before_going_on(root, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 10 * VALUES[0].nbytes)
    source = zarr.create_array(str(tmp_path / "x.zarr"), data=VALUES, chunks=(5, 12, 9))
    real, calls = hub.Array.append, []

    def append(self, rows, **options):
        calls.append(len(rows))
        if len(calls) == 3:
            source[0] = 0
        real(self, rows, **options)

    monkeypatch.setattr(hub.Array, "append", append)
    with pytest.raises(SourceError, match="changed while it was read"):
        hub.import_(tmp_path / "x.zarr", "t/x:v0", root=root, chunks=(5, 12, 9))
    again = hub.import_(tmp_path / "x.zarr", "t/x:v0", root=root, chunks=(5, 12, 9))
    assert np.array_equal(again[...], source[...])


def test_thousands_of_images_are_imported(root, tmp_path):
    for i in range(1500):
        Image.fromarray(np.full((2, 2), i % 256, "u1")).save(tmp_path / f"{i:04d}.bmp")
    assert hub.import_(tmp_path, "t/x:v0", root=root)[1499, 0, 0] == 1499 % 256


def test_sources_with_parts_missing_are_refused(root, tmp_path):
    tifffile.imwrite(tmp_path / "cut.tiff", VALUES, photometric="minisblack")
    os.truncate(tmp_path / "cut.tiff", (tmp_path / "cut.tiff").stat().st_size - 3000)
    write_media(tmp_path / "cut.wav", "audio")
    os.truncate(tmp_path / "cut.wav", 30_000)
    (tmp_path / "stacks").mkdir()
    tifffile.imwrite(tmp_path / "stacks" / "a.tif", VALUES, photometric="minisblack")
    for name, error, words in [
        ("cut.tiff", SourceError, "cut short|cannot be read"),
        ("cut.wav", SourceError, "cut short"),
        ("stacks", SourceError, "frames"),
    ]:
        with pytest.raises(error, match=words):
            hub.import_(tmp_path / name, f"t/{name[:3]}:v0", root=root)
    with pytest.raises(ConfigError, match="masks are not stored"):
        hub.import_(np.ma.masked_greater(np.arange(5), 3), "t/m:v0", root=root)


def test_a_large_import_holds_little(root, tmp_path):
    large = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", "u1", (400, 1 << 20))
    large[::7] = 3
    large.flush()
    tracemalloc.start()
    try:
        array = hub.import_(tmp_path / "large.npy", "t/large:v0", root=root)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
    assert array[7, 5] == 3


def test_what_is_broken_or_unequal_is_refused_and_the_name_stays_free(root, tmp_path):
    def refused(source, error, words, **options):
        with pytest.raises(error, match=words):
            hub.import_(source, "t/bad:v0", root=root, **options)
        assert not hub.exists("t/bad:v0", root=root)

    np.save(tmp_path / "cut.npy", VALUES)
    os.truncate(tmp_path / "cut.npy", 2000)
    (tmp_path / "no.npy").write_bytes(b"nonsense")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", a=np.array([{}], object), b=np.array([None]))
    (tmp_path / "x.docx").write_bytes(b"nonsense")
    (tmp_path / "no.h5").write_bytes(b"nonsense")
    (tmp_path / "no.wav").write_bytes(b"nonsense")
    folder = tmp_path / "images"
    folder.mkdir()
    Image.fromarray(VALUES[0]).save(folder / "a.png")
    Image.fromarray(VALUES[0, :5]).save(folder / "b.png")
    refused(tmp_path / "cut.npy", SourceError, "cannot be read")
    refused(tmp_path / "no.npy", SourceError, "cannot be read")
    refused(tmp_path / "missing.npy", SourceError, "no such file")
    refused(tmp_path / "objects.npy", ConfigError, "objects|pickle|Object")
    refused(tmp_path / "objects.npz", ConfigError, "objects|pickle|Object")
    refused(tmp_path / "no.h5", SourceError, "cannot be read")
    refused(tmp_path / "no.wav", SourceError, "cannot be read")
    refused(folder, SourceError, "hub.import_table")
    refused(tmp_path / "x.docx", ConfigError, "in no format that is imported")
    refused(7, ConfigError, "give a path")
    refused([], SourceError, "no samples")
    refused(iter([np.zeros(3), np.zeros(4)]), SourceError, "sample 1 is float64 of shape")
    damaged = folder / "b.png"
    Image.fromarray(VALUES[1]).save(damaged)
    data = damaged.read_bytes()
    damaged.write_bytes(data[: len(data) // 2])
    refused(folder, SourceError, r"b\.png: cannot be read")


def test_a_source_that_changes_halfway_is_noticed(root, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", VALUES)
    real = hub.Array.append

    def append(self, rows, **options):
        os.utime(tmp_path / "x.npy", ns=(1, 1))
        real(self, rows, **options)

    monkeypatch.setattr(hub.Array, "append", append)
    with pytest.raises(SourceError, match="changed while it was read"):
        hub.import_(tmp_path / "x.npy", "t/x:v0", root=root)
    assert not hub.exists("t/x:v0", root=root)


def test_a_name_that_is_taken_stays_as_it_is(root):
    hub.array(3, "t/x:v0", root=root)
    with pytest.raises(AlreadyExistsError):
        hub.import_(VALUES, "t/x:v0", root=root)


def test_what_was_never_written_is_the_sources_fill_value(root, tmp_path):
    sparse = zarr.create_array(str(tmp_path / "x.zarr"), shape=(40,), chunks=(10,), dtype="i4", fill_value=-1)
    sparse[0:3] = 7
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", shape=(40,), dtype="i4", chunks=(10,), fillvalue=-1)[0:3] = 7
    for name in ("x.zarr", "x.h5"):
        array = hub.import_(tmp_path / name, f"t/{name}:v0", root=root, chunks=10)
        assert array.fill_value == -1
        array.resize((41,))
        assert array[...].tolist() == [7] * 3 + [-1] * 38


def test_text_of_any_length_stays_so(root, tmp_path):
    texts = np.array([["a", "bcd"], ["", "é" * 40]], object)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=texts, dtype=h5py.string_dtype())
    zarr.create_array(str(tmp_path / "x.zarr"), shape=(2, 2), chunks=(1, 2), dtype="str")[...] = texts
    for name in ("x.h5", "x.zarr"):
        array = hub.import_(tmp_path / name, f"t/{name}:v0", root=root)
        assert array.dtype == np.dtypes.StringDType()
        assert array[...].tolist() == texts.tolist()


def _image(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 5), value, "u1")).save(path)


def test_no_image_is_left_out_without_a_word(root, tmp_path):
    _image(tmp_path / "mixed" / "top.png", 1)
    _image(tmp_path / "mixed" / "cat" / "1.png", 2)
    _image(tmp_path / "classes" / "cat" / "1.png", 1)
    _image(tmp_path / "classes" / "cat" / "old" / "2.png", 2)
    _image(tmp_path / "split" / "train" / "cat" / "1.png", 1)
    _image(tmp_path / "fine" / "cat" / "1.png", 1)
    _image(tmp_path / "fine" / ".thumbnails" / "deep" / "1.png", 1)
    for folder in ("mixed", "classes", "split"):
        with pytest.raises(SourceError, match=r"at several depths.*\.png"):
            hub.import_(tmp_path / folder, "t/x:v0", root=root)
    assert hub.import_(tmp_path / "fine", "t/x:v0", root=root).attrs["classes"] == ["cat"]


@pytest.mark.filterwarnings("ignore:.*have no names here")
def test_series_become_a_dataset_and_one_of_them_is_chosen_by_its_number(root, tmp_path):
    small, large = np.arange(60, dtype="u1").reshape(3, 4, 5), np.arange(96, dtype="u2").reshape(8, 12)
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        file.write(small, photometric="minisblack")
        file.write(large, photometric="minisblack")
    both = hub.import_(tmp_path / "x.tif", "t/both:v0", root=root)
    assert np.array_equal(both["series0"][...], small)
    assert np.array_equal(both["series1"][0], large)
    for i, values in enumerate((small, large)):
        array = hub.import_(tmp_path / "x.tif", f"t/x:v{i}", key=str(i), root=root)
        assert array.dtype == values.dtype
        assert np.array_equal(array[...].reshape(values.shape), values)
    with pytest.raises(ConfigError, match="not '2'"):
        hub.import_(tmp_path / "x.tif", "t/x:v2", key="2", root=root)


def test_large_rows_of_an_iterator_are_imported(root):
    assert hub.import_((np.zeros((1100, 1100)) for _ in range(2)), "t/large:v0", root=root).shape == (2, 1100, 1100)
