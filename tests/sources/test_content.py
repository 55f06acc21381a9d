"""A file is what its content says, whatever it is called."""

import io
import wave

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
from PIL import Image

import hubarray as hub
from hubarray.sources import content

VALUES = np.arange(30, dtype="u1").reshape(5, 6)


def pillow(kind):
    sink = io.BytesIO()
    Image.fromarray(VALUES).save(sink, kind)
    return sink.getvalue()


def hdf5(**options):
    sink = io.BytesIO()
    with h5py.File(sink, "w", **options) as file:
        file["x"] = VALUES
    return sink.getvalue()


def saved(save, *given, **named):
    sink = io.BytesIO()
    save(sink, *given, **named)
    return sink.getvalue()


def wav():
    sink = io.BytesIO()
    with wave.open(sink, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(1600))
    return sink.getvalue()


FILES = {
    "npy": (saved(np.save, VALUES), content.NPY),
    "npz": (saved(np.savez, x=VALUES), content.NPZ),
    "an empty npz": (saved(np.savez), None),
    "hdf5": (hdf5(), content.HDF5),
    "hdf5 behind a block of the user's": (hdf5(userblock_size=2048), content.HDF5),
    "tiff": (saved(tifffile.imwrite, VALUES), content.TIFF),
    "bigtiff": (saved(tifffile.imwrite, VALUES, bigtiff=True), content.TIFF),
    "tiff of the other order": (saved(tifffile.imwrite, VALUES, byteorder=">"), content.TIFF),
    "png": (pillow("PNG"), content.IMAGE),
    "jpeg": (pillow("JPEG"), content.IMAGE),
    "gif": (pillow("GIF"), content.IMAGE),
    "webp": (pillow("WEBP"), content.IMAGE),
    "wav": (wav(), content.AUDIO),
    "parquet": (saved(lambda sink: pq.write_table(pa.table({"x": [1]}), sink)), content.PARQUET),
    "classic NetCDF": (b"CDF\x01" + bytes(40), content.CLASSIC_NETCDF),
    "nonsense": (b"nonsense" * 1000, None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("name", FILES)
def test_the_first_bytes_tell_the_kind_of_a_file_under_any_name(tmp_path, name):
    data, kind = FILES[name]
    for suffix in ("", ".bin", ".h5", ".png"):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(data)
        assert content.kind_of(str(path)) == (kind or content.kind_of_name(str(path)))


@pytest.mark.parametrize("name", ["npy", "npz", "hdf5", "hdf5 behind a block of the user's", "bigtiff", "png", "gif"])
@pytest.mark.parametrize("suffix", ["", ".dat", ".nc4", ".tif", ".npy", ".jpg", ".wav"])
def test_a_file_is_imported_under_any_suffix(root, tmp_path, name, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(FILES[name][0])
    result = hub.import_(path, "t/x:v1", root=root)
    np.testing.assert_array_equal(result[...].reshape(VALUES.shape), VALUES)


@pytest.mark.parametrize("suffix", [".nc", ".h5", "", ".png"])
def test_classic_netcdf_is_named_under_any_suffix(root, tmp_path, suffix):
    (tmp_path / f"x{suffix}").write_bytes(FILES["classic NetCDF"][0])
    with pytest.raises(hub.errors.ConfigError, match="NetCDF of the classic format"):
        hub.import_(tmp_path / f"x{suffix}", "t/x:v1", root=root)
