"""What every opener of files keeps: the content says the kind, damage is an error or the values, Ctrl-C is resumed."""

import itertools
import shutil
import warnings
import zipfile

import h5py
import imageio.v3 as iio
import netCDF4
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
import zarr

import hubarray as hub
from hubarray.errors import HubError
from hubarray.interop.import_ import arrays as importing
from tests.interop.import_.test_import import write_media

VALUES = np.random.default_rng(0).integers(0, 255, (50, 12, 9), "u1")
ROWS = {"id": list(range(50)), "text": [f"row {i}" for i in range(50)], "list": [[i, i + 1] for i in range(50)]}


def npy(path):
    np.save(path, VALUES)


def npz(path):
    np.savez_compressed(path, a=VALUES)


def hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("volume", data=VALUES, chunks=(7, 12, 9), compression="gzip", fletcher32=True)


def netcdf(path):
    with netCDF4.Dataset(path, "w") as file:
        for name, size in zip("zyx", VALUES.shape, strict=True):
            file.createDimension(name, size)
        file.createVariable("volume", "u1", ("z", "y", "x"))[...] = VALUES


def tiff(path):
    tifffile.imwrite(path, VALUES, photometric="minisblack", compression="deflate")


def tiled_tiff(path):
    tifffile.imwrite(path, np.tile(VALUES[0], (8, 8)), tile=(16, 16), photometric="minisblack", compression="lzw")


def ome_tiff(path):
    tifffile.imwrite(path, VALUES, photometric="minisblack", ome=True)


def tiff_of_pages(path):
    with tifffile.TiffWriter(path) as file:
        for page in VALUES[:10]:
            file.write(page, photometric="minisblack", contiguous=False, metadata=None)


def png(path):
    iio.imwrite(path, VALUES[0])


def jpeg(path):
    iio.imwrite(path, np.tile(VALUES[0], (8, 8)), quality=90)


def flac(path):
    write_media(path, "audio")


def wav(path):
    write_media(path, "audio")


def mkv(path):
    write_media(path, "video")


def parquet(path):
    pq.write_table(pa.table(ROWS), path, row_group_size=10)


FILES = {
    npy: ".npy", npz: ".npz", hdf5: ".h5", netcdf: ".nc", tiff: ".tif", tiled_tiff: ".tif", ome_tiff: ".tif", tiff_of_pages: ".tif", png: ".png", jpeg: ".jpg",
    flac: ".flac", wav: ".wav", mkv: ".mkv", parquet: ".parquet",
}  # fmt: skip
TABLES = (parquet,)
names = itertools.count()


def opened(kind, path, root):
    """The values of a file, by the entry point that its kind has."""
    name = f"t/x{next(names)}:v0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind not in TABLES:
            result = hub.import_(path, name, root=root)
            # Damage may make several arrays of one, as where the pages of a TIFF seem to differ.
            arrays = result.values() if isinstance(result, hub.Dataset) else [result]
            return [array[...].tobytes() for array in arrays]
        hub.import_table(path, name, root=root)
        index = hub.read_index(name, root=root)
        loader = hub.row_loader(index)
        return str([loader.get_row(i) for i in range(len(index))])


@pytest.fixture(params=FILES, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture
def file(kind, tmp_path):
    path = tmp_path / f"x{FILES[kind]}"
    kind(path)
    return path


@pytest.mark.parametrize("suffix", ["", ".dat", ".tmp", ".jpg", ".h5", ".npy", ".parquet"])
def test_the_content_says_the_kind(kind, file, suffix, root):
    if kind in TABLES and suffix not in ("", ".dat", ".parquet"):
        suffix = FILES[kind]
    renamed = file.with_name(f"y{suffix}")
    expected = opened(kind, file, root)
    shutil.copy(file, renamed)
    assert opened(kind, renamed, root) == expected


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.9, 0.97, 0.999])
def test_a_file_that_is_cut_off_is_an_error_that_names_it(kind, file, share, root):
    expected = opened(kind, file, root)
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    try:
        result = opened(kind, file, root)
    except HubError as error:
        assert file.name in str(error)
    else:
        # As where the end is padding.
        assert result == expected


def test_flipped_bits_are_an_error_that_names_the_file_or_values(kind, file, root):
    data = file.read_bytes()
    rng = np.random.default_rng(len(data))
    outcomes = set()
    for n in range(60):
        damaged = bytearray(data)
        # Where headers are, and anywhere.
        for place in rng.integers(0, min(len(data), 400) if n % 2 else len(data), 3):
            damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        try:
            opened(kind, file, root)
            outcomes.add("values")
        except HubError as error:
            outcomes.add("error")
            assert file.name in str(error), error
    assert "error" in outcomes


def in_a_zarr(folder):
    zarr.create_array(str(folder / "x.zarr"), data=VALUES, chunks=(7, 12, 9))
    return folder / "x.zarr"


def in_a_folder(folder):
    (folder / "images").mkdir()
    for i, image in enumerate(VALUES):
        iio.imwrite(folder / "images" / f"{i}.png", image)
    return folder / "images"


def in_a_glob(folder):
    return f"{in_a_folder(folder)}/*.png"


def one_file(make):
    def made(folder):
        make(folder / f"x{FILES[make]}")
        return folder / f"x{FILES[make]}"

    made.__name__ = make.__name__
    return made


LONG = [*map(one_file, (npy, npz, hdf5, netcdf, tiff)), in_a_zarr, in_a_folder, in_a_glob]


@pytest.mark.parametrize("make", LONG, ids=lambda make: make.__name__)
def test_an_interrupted_import_goes_on_where_it_was(make, root, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "IMPORT_STEP_BYTES", 10 * VALUES[0].nbytes)
    source = make(tmp_path)
    real, appended = hub.Array.append, []

    def append(self, rows, **options):
        if len(appended) == 3:
            raise KeyboardInterrupt
        appended.append(len(rows))
        real(self, rows, **options)

    monkeypatch.setattr(hub.Array, "append", append)
    with pytest.raises(KeyboardInterrupt):
        hub.import_(source, "t/x:v0", root=root, chunks=(5, 12, 9))
    assert not hub.exists("t/x:v0", root=root)
    done = sum(appended)
    appended.clear()
    monkeypatch.setattr(hub.Array, "append", lambda self, rows: (appended.append(len(rows)), real(self, rows)))
    array = hub.import_(source, "t/x:v0", root=root, chunks=(5, 12, 9))
    assert np.array_equal(array[...], VALUES)
    assert sum(appended) == len(VALUES) - done


def test_an_archive_that_holds_a_damaged_member_names_it(root, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=VALUES, b=VALUES[:3])
    with zipfile.ZipFile(path) as archive:
        begin = archive.getinfo("a.npy").header_offset
    data = bytearray(path.read_bytes())
    data[begin + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(HubError, match=r"x\.npz"):
        hub.import_(path, "t/x:v0", root=root)
