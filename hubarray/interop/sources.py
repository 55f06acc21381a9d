"""What arrays are imported from: each source tells its samples' shape and yields them in blocks, from any row on."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import logging
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hubarray.errors import ConfigError, HubError, SourceError
from hubarray.interop.missing import needed
from hubarray.interop.plain import plain_json

log = logging.getLogger("hubarray.interop")

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
TIFF_SUFFIXES = (".tif", ".tiff")
HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".nc")
MEDIA_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".mp4", ".mkv", ".avi", ".mov", ".webm")
AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg")
_SINGLE = "is a single value, without rows; make an array of shape () with hub.array and assign it"


class Source(Protocol):
    """Rows to import.

    Attributes
    ----------
    where : str
        For messages.
    rows : int or None
        How many, if it is known before they are read.
    row_shape : tuple of int
    dtype : dtype
    attrs : dict
        JSON values that came along.
    fingerprint : list or None
        JSON that changes when the source does; None if that cannot be told, or it can be read only once.
    """

    where: str
    rows: int | None
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attrs: dict[str, Any]
    fingerprint: list[Any] | None

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """Rows from ``start`` on, at most so many at a time."""


@contextlib.contextmanager
def readable(where: str) -> Iterator[None]:
    """Whatever goes wrong in a library that reads a source, in our terms."""
    try:
        yield
    except (HubError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise SourceError(f"{where}: there is no such file ({error})") from None
    except Exception as error:
        raise SourceError(f"{where}: cannot be read: {type(error).__name__}: {error}") from error


def open_source(source: Any, *, key: str | None = None) -> Source:
    """What a value given to :func:`hubarray.import_` means.

    Raises
    ------
    SourceError
        It cannot be read.
    ConfigError
        Nobody knows how to read such a thing, or it has several arrays and ``key`` does not say which.
    """
    if isinstance(source, np.ma.MaskedArray):
        raise ConfigError("a masked array: masks are not stored; fill it first: source.filled(...)")
    if isinstance(source, np.ndarray):
        return Rows("an array in memory", source, None)
    if not isinstance(source, (str, os.PathLike)):
        if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
            return Samples(source)
        raise ConfigError(
            f"{type(source).__name__}: give a path, a URL, a NumPy or Dask array, or an iterable of samples"
        )
    where = os.fspath(source)
    suffix = Path(where.split("?")[0]).suffix.lower()
    if key is not None and not (suffix in (".npz", *HDF5_SUFFIXES) or _is_zarr(where, suffix)):
        raise ConfigError(f"{where}: holds one array, so key={key!r} means nothing")
    with readable(where):
        if suffix == ".npy":
            return _npy(where)
        if suffix == ".npz":
            return Npz(where, key)
        if suffix in HDF5_SUFFIXES:
            return _hdf5(where, key)
        if suffix in MEDIA_SUFFIXES:
            from hubarray.interop.media import open_media

            return open_media(where, audio=suffix in AUDIO_SUFFIXES)
        if _is_zarr(where, suffix):
            return _zarr(where, key)
        if suffix in TIFF_SUFFIXES and not glob.has_magic(where):
            return Tiff(where)
        if os.path.isdir(where) or glob.has_magic(where) or suffix in IMAGE_SUFFIXES:
            return Images(where)
    raise ConfigError(
        f"{where}: not known how to read; known are .npy, .npz, Zarr, HDF5, TIFF, folders and globs of images, audio "
        "and video"
    )


def stamp(path: str) -> list[Any]:
    """What changes when a local file does."""
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


class Rows:
    """Anything that is sliced along its first axis."""

    def __init__(
        self, where: str, array: Any, fingerprint: list[Any] | None, attrs: dict[str, Any] | None = None
    ) -> None:
        if not len(array.shape):
            raise ConfigError(f"{where}: {_SINGLE}")
        self.where = where
        self.rows: int | None = int(array.shape[0])
        self.row_shape = tuple(map(int, array.shape[1:]))
        self.dtype = np.dtype(array.dtype)
        if self.dtype.hasobject:
            raise ConfigError(f"{where}: holds text of variable length or Python objects; store it with a plain dtype")
        self.attrs = attrs or {}
        self.fingerprint = fingerprint
        self._array = array

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        for first in range(start, self.rows or 0, block_rows):
            with readable(self.where):
                yield np.asarray(self._array[first : first + block_rows])


class Samples:
    """Samples of equal shape from an iterator, however many."""

    def __init__(self, samples: Iterable[Any]) -> None:
        self.where = "the iterable"
        self._samples = iter(samples)
        first = next(self._samples, None)
        if first is None:
            raise SourceError("the iterable has no samples, so their shape is unknown; create an empty array instead")
        self._first = np.asarray(first)
        self.rows: int | None = None
        self.row_shape = self._first.shape
        self.dtype = self._first.dtype
        self.attrs: dict[str, Any] = {}
        self.fingerprint: list[Any] | None = None

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        samples = itertools.chain([self._first], self._samples)
        number = 0
        while some := list(itertools.islice(samples, block_rows)):
            rows = np.empty((len(some), *self.row_shape), self.dtype)
            for i, sample in enumerate(some):
                value = np.asarray(sample)
                if value.shape != self.row_shape or not np.can_cast(value.dtype, self.dtype, "safe"):
                    raise SourceError(
                        f"sample {number} is {value.dtype} of shape {value.shape}, and the first one {self.dtype} of "
                        f"{self.row_shape}; give all of them one dtype; samples of different shapes belong in a table"
                    )
                rows[i] = value
                number += 1
            yield rows


def _npy(where: str) -> Source:
    if "://" not in where:
        return Rows(where, np.load(where, mmap_mode="r", allow_pickle=False), stamp(where))
    return RemoteNpy(where)


class RemoteNpy:
    """A ``.npy`` behind a URL, read in ranges."""

    def __init__(self, where: str) -> None:
        import fsspec

        self.where = where
        self._open: Callable[[], Any] = lambda: fsspec.open(where, "rb")
        with self._open() as file:
            shape, fortran, self.dtype = _npy_header(file, where)
            self._offset, self._size = file.tell(), file.size
        if fortran and len(shape) > 1:
            raise ConfigError(f"{where}: is in Fortran order, which can be imported from a local file only")
        self.rows: int | None = shape[0]
        self.row_shape = shape[1:]
        self.attrs: dict[str, Any] = {}
        self.fingerprint: list[Any] | None = [where, self._size]

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize
        with readable(self.where), self._open() as file:
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                file.seek(self._offset + first * row_bytes)
                yield _rows_of(file.read(count * row_bytes), count, self.row_shape, self.dtype, self.where)


def _npy_header(file: Any, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ConfigError(f"{where}: holds Python objects, which are never loaded; save it with a plain dtype")
    if not shape:
        raise ConfigError(f"{where}: {_SINGLE}")
    return shape, fortran, dtype


def _rows_of(data: bytes, count: int, row_shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    if len(data) != count * int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize:
        raise SourceError(f"{where}: is cut short")
    return np.frombuffer(data, dtype).reshape(count, *row_shape)


class Npz:
    """One array of a ``.npz``, compressed or not, read from its beginning on."""

    def __init__(self, where: str, key: str | None) -> None:
        self.where = where
        with zipfile.ZipFile(where) as archive:
            keys = [name.removesuffix(".npy") for name in archive.namelist()]
            self._member = f"{_chosen(where, key, keys)}.npy"
            with archive.open(self._member) as file:
                shape, fortran, self.dtype = _npy_header(file, where)
        if fortran and len(shape) > 1:
            raise ConfigError(f"{where}: is in Fortran order; save it in C order")
        self.rows: int | None = shape[0]
        self.row_shape = shape[1:]
        self.attrs: dict[str, Any] = {}
        self.fingerprint: list[Any] | None = [*stamp(where), self._member]

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize
        with readable(self.where), zipfile.ZipFile(self.where) as archive, archive.open(self._member) as file:
            _npy_header(file, self.where)
            file.seek(start * row_bytes, os.SEEK_CUR)
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                yield _rows_of(file.read(count * row_bytes), count, self.row_shape, self.dtype, self.where)


def _chosen(where: str, key: str | None, keys: list[str]) -> str:
    """The one of several arrays that is meant."""
    if key is None and len(keys) == 1:
        return keys[0]
    if key not in keys:
        given = "say which with key=" if key is None else f"not {key!r}"
        raise ConfigError(f"{where}: holds {', '.join(sorted(keys)) or 'no array'}; {given}")
    return key


def _hdf5(where: str, key: str | None) -> Source:
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    file = h5py.File(where, "r")
    keys: list[str] = []
    file.visititems(lambda name, one: keys.append(name) if isinstance(one, h5py.Dataset) else None)
    linked = file.get(key) if key else None
    if isinstance(linked, h5py.Dataset):
        if linked.file.filename != file.filename:
            raise ConfigError(f"{where}: {key} lies in another file; import it from {linked.file.filename}")
        dataset = linked
    else:
        dataset = file[_chosen(where, key.strip("/") if key else None, keys)]
    named = f"{where}:{dataset.name}"
    if dataset.shape is None:
        raise ConfigError(f"{named}: is a null dataset, which has neither elements nor a shape")
    return Rows(named, dataset, [*stamp(where), dataset.name], _hdf5_attrs(named, dataset))


def _hdf5_attrs(where: str, dataset: Any) -> dict[str, Any]:
    """Attributes that JSON can hold: text, numbers, and arrays of them."""
    found, left_out = {}, []
    for name, value in dataset.attrs.items():
        plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        try:
            json.dumps(plain_json(plain))
            found[name] = plain
        except TypeError:
            left_out.append(name)
    if left_out:
        log.warning("%s: attributes that JSON cannot hold are left out: %s", where, ", ".join(left_out))
    return found


def _is_zarr(where: str, suffix: str) -> bool:
    return suffix == ".zarr" or any(
        os.path.exists(os.path.join(where, one)) for one in ("zarr.json", ".zarray", ".zgroup")
    )


def _zarr(where: str, key: str | None) -> Source:
    import zarr

    opened = zarr.open(where, mode="r")
    if isinstance(opened, zarr.Group):
        keys = [name for name, one in opened.members(max_depth=None) if isinstance(one, zarr.Array)]
        opened = opened[_chosen(where, key.strip("/") if key else None, keys)]
    attrs = {name: value for name, value in opened.attrs.items() if not name.startswith("_ARRAY")}
    return Rows(where, opened, _tree_stamp(where), attrs)


def _tree_stamp(where: str) -> list[Any] | None:
    """What changes when any file of a local folder does; None elsewhere."""
    if not os.path.isdir(where):
        return None
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(where) for name in names)
    return [stamp(path) for path in files]


class Tiff:
    """The pages of a TIFF file, as one stack."""

    def __init__(self, where: str) -> None:
        tifffile = needed("tifffile", extra="images", why="importing TIFF")
        self.where = where
        self._open: Callable[[], Any] = lambda: tifffile.TiffFile(where)
        with self._open() as file:
            shapes = {(page.shape, page.dtype) for page in file.pages}
            if sum(math.prod(one.shape) for one in file.series) > sum(math.prod(page.shape) for page in file.pages):
                raise SourceError(f"{where}: is cut short: pages are missing")
            if len(shapes) > 1:
                raise ConfigError(
                    f"{where}: its pages differ: {sorted(map(str, shapes))}; such images belong in a table"
                )
            self.rows: int | None = len(file.pages)
            self.row_shape, self.dtype = tuple(file.pages[0].shape), np.dtype(file.pages[0].dtype)
        self.attrs: dict[str, Any] = {}
        self.fingerprint: list[Any] | None = stamp(where)

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        with readable(self.where), self._open() as file:
            for first in range(start, self.rows or 0, block_rows):
                pages = range(first, min(first + block_rows, self.rows or 0))
                yield np.stack([file.pages[i].asarray() for i in pages])


class Images:
    """Image files of equal size, sorted by name."""

    def __init__(self, where: str) -> None:
        self._pillow = needed("PIL.Image", extra="images", why="importing images")
        self.where = where
        pattern = os.path.join(glob.escape(where), "*") if os.path.isdir(where) else where
        self._paths = [
            path for path in sorted(glob.glob(pattern, recursive=True)) if Path(path).suffix.lower() in IMAGE_SUFFIXES
        ]
        if not self._paths:
            raise SourceError(f"{where}: there are no images")
        first = self._image(self._paths[0])
        self.row_shape, self.dtype = first.shape, first.dtype
        for path in self._paths:
            with readable(path), self._pillow.open(path) as image:
                if getattr(image, "n_frames", 1) > 1:
                    raise ConfigError(
                        f"{path}: has {image.n_frames} frames; import it by itself, as a TIFF stack or a video"
                    )
                if (image.height, image.width) != self.row_shape[:2]:
                    raise ConfigError(
                        f"{path} is {image.height} x {image.width} and {self._paths[0]} is {self.row_shape[0]} x "
                        f"{self.row_shape[1]}; images of different sizes belong in a table"
                    )
        self.rows: int | None = len(self._paths)
        self.attrs: dict[str, Any] = {}
        self.fingerprint: list[Any] | None = [stamp(path) for path in self._paths]

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        for first in range(start, len(self._paths), block_rows):
            rows = [self._image(path) for path in self._paths[first : first + block_rows]]
            for path, row in zip(self._paths[first:], rows, strict=False):
                if (row.shape, row.dtype) != (self.row_shape, self.dtype):
                    raise SourceError(
                        f"{path} is {row.dtype} of shape {row.shape} and {self._paths[0]} {self.dtype} of "
                        f"{self.row_shape}; such images belong in a table"
                    )
            yield np.stack(rows)

    def _image(self, path: str) -> np.ndarray:
        with readable(path), self._pillow.open(path) as image:
            plain = image.convert("RGBA" if "transparency" in image.info else "RGB") if image.mode == "P" else image
            return np.asarray(plain)
