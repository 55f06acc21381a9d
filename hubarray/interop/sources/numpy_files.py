"""``.npy`` and ``.npz``."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from hubarray.arrays.codecs.foreign_dtypes import check_header
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import MAX_ROW_BYTES, check_sizes, chosen, readable, row_bytes, stamp, whole_parts
from hubarray.interop.sources.found import Found
from hubarray.interop.sources.members import Members, refuse_many, storable
from hubarray.interop.sources.sliced import Single, SlicedSource, rows_or_single
from hubarray.redaction import shown_text

_PASSED_BYTES = 1 << 20
_MAX_HEADER_BYTES = 64 << 10
_UTF8_VERSION = 3
# Of HTTP, S3, GCS and others, as their filesystems of fsspec call them.
_MARKS = frozenset(("etag", "last-modified", "lastmodified", "generation", "md5hash", "content-md5", "mtime"))


def open_npy(where: str) -> SlicedSource | Single:
    """A local ``.npy``, mapped into memory."""
    with open(where, "rb") as file:
        _header(file, where)
    mapped = np.load(where, mmap_mode="r", allow_pickle=False)
    return rows_or_single(where, Found(mapped), stamp(where), stored_bytes=os.path.getsize(where))


class RemoteNpy:
    """A ``.npy`` behind a URL, read in ranges, or from its beginning where a server knows none.

    Parameters
    ----------
    url : str
    shown : str
        The URL as it may be shown.
    options : mapping
        Of fsspec's filesystem.
    """

    def __init__(self, url: str, shown: str, options: Mapping[str, Any]) -> None:
        import fsspec

        self.where = shown
        ranged, whole = (
            partial(fsspec.open, url, "rb", **options),
            partial(fsspec.open, url, "rb", block_size=0, **options),
        )
        self._open: Callable[[], Any] = ranged
        try:
            shape, fortran, self.dtype, self._size = self._described(shown)
        except ValueError as error:
            if "range" not in str(error):
                raise
            self._open = whole
            shape, fortran, self.dtype, self._size = self._described(shown)
        if fortran and len(shape) > 1:
            raise ConfigError(f"{shown}: is in Fortran order, which can be imported from a local file only")
        self.rows: int | None = shape[0]
        self.row_shape = shape[1:]
        self.attrs: dict[str, Any] = {}
        self.dims: tuple[str | None, ...] | None = None
        marks = _marks(url, options)
        # With its query, which says what is meant and is not shown. Only a digest of it is ever stored.
        self.fingerprint: list[Any] | None = [url, self._size, marks] if marks else None
        check_sizes(self, whole_rows=True, stored_bytes=self._size)

    def _described(self, shown: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int | None]:
        with self._open() as file:
            return (*_header(file, shown), getattr(file, "size", None))

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        size = row_bytes(self)
        with readable(self.where), self._open() as file:
            _header(file, self.where)
            _pass_over(file, start * size)
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                yield _rows_of(file.read(count * size), count, self.row_shape, self.dtype, self.where)

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)


def _marks(url: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The marks of a file that a server says, which change when the file does; none, where it says no such thing."""
    from fsspec.core import url_to_fs

    with contextlib.suppress(OSError, ValueError, NotImplementedError):
        system, path = url_to_fs(url, **options)
        return {name: str(value) for name, value in system.info(path).items() if name.lower() in _MARKS and value}
    return {}


class Npz:
    """One array of a ``.npz``, compressed or not, read from its beginning on; one in Fortran order whole."""

    fill: Any = None

    def __init__(
        self, where: str, archive: zipfile.ZipFile, member: str, shape: tuple[int, ...], dtype: np.dtype[Any],
        *, fortran: bool = False,
    ) -> None:  # fmt: skip
        self.where, self._archive, self._member, self.dtype, self._fortran = where, archive, member, dtype, fortran
        self.rows: int | None = shape[0]
        self.shape, self.row_shape = shape, shape[1:]
        self.attrs: dict[str, Any] = {}
        self.dims: tuple[str | None, ...] | None = None
        self.fingerprint: list[Any] | None = [*stamp(where), member]
        # The member, open at a row: going back in it means to decompress it anew.
        self._open: tuple[int, Any] | None = None
        check_sizes(self, whole_rows=True, stored_bytes=os.path.getsize(where))

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        size = row_bytes(self)
        with readable(self.where):
            if self._fortran:
                whole = self._whole()
                for first in range(start, self.rows or 0, block_rows):
                    yield whole[first : first + block_rows]
                return
            file = self._at(start)
            for first in range(start, self.rows or 0, block_rows):
                count = min(block_rows, (self.rows or 0) - first)
                rows = _rows_of(file.read(count * size), count, self.row_shape, self.dtype, self.where)
                self._open = (first + count, file) if first + count < (self.rows or 0) else None
                yield rows

    def _whole(self) -> np.ndarray:
        """Read all of it, because its first axis varies fastest."""
        with self._archive.open(self._member) as file:
            _header(file, self.where)
            data = file.read(math.prod(self.shape) * self.dtype.itemsize)
        return _rows_of(data, self.shape[-1], self.shape[-2::-1], self.dtype, self.where).T

    def _at(self, row: int) -> Any:
        known, self._open = self._open, None
        if known is not None and known[0] == row:
            return known[1]
        file = self._archive.open(self._member)
        _header(file, self.where)
        file.seek(row * row_bytes(self), os.SEEK_CUR)
        return file

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)


def open_remote_npy(url: str, shown: str, options: Mapping[str, Any]) -> RemoteNpy | Single:
    """A ``.npy`` behind a URL."""
    import fsspec

    with fsspec.open(url, "rb", **options) as file:
        shape, _, dtype = _header(file, shown)
        if not shape:
            return Single(shown, Found(_rows_of(file.read(dtype.itemsize), 1, (), dtype, shown).reshape(())))
    return RemoteNpy(url, shown, options)


def open_npz(where: str, key: str | None) -> Npz | Single:
    """One array of a ``.npz``."""
    archive, names = _opened_npz(where)
    keys = [name.removesuffix(".npy") for name in names]
    return _member(where, archive, f"{chosen(where, key, keys)}.npy")


def npz_members(where: str) -> Members | None:
    """The arrays of a ``.npz`` that has several; None of one alone."""
    archive, names = _opened_npz(where)
    refuse_many(where, dict.fromkeys(names))
    if len(names) == 1:
        return None
    arrays = {name.removesuffix(".npy"): partial(_member, where, archive, name) for name in names}
    return Members(where, storable(where, arrays), {}, stamp(where))


def _opened_npz(where: str) -> tuple[zipfile.ZipFile, list[str]]:
    """The file, which all of its arrays share and which ends with them, and the names in it."""
    archive = zipfile.ZipFile(where)
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise SourceError(f"{where}: has two arrays of one name")
    return archive, names


def _member(where: str, archive: zipfile.ZipFile, name: str) -> Npz | Single:
    with archive.open(name) as file:
        shape, fortran, dtype = _header(file, where)
        if not shape:
            return Single(where, Found(_rows_of(file.read(dtype.itemsize), 1, (), dtype, where).reshape(())))
    fortran = fortran and len(shape) > 1
    if fortran and math.prod(shape) * dtype.itemsize > MAX_ROW_BYTES:
        raise ConfigError(
            f"{where}: {shown_text(name)} is in Fortran order, in which up to {MAX_ROW_BYTES:,} bytes are read; "
            "save it in C order, or as .npy"
        )
    return Npz(where, archive, name, shape, dtype, fortran=fortran)


def _header(file: Any, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    major, _ = np.lib.format.read_magic(file)
    announced = file.read(2 if major == 1 else 4)
    length = int.from_bytes(announced, "little")
    if length > _MAX_HEADER_BYTES:
        raise SourceError(f"{where}: declares a header of {length:,} bytes, and {_MAX_HEADER_BYTES:,} are read")
    length_bytes = file.read(length)
    header = io.BytesIO(announced + length_bytes)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    try:
        check_header(length_bytes.decode("latin1"))
        # Names of fields are UTF-8 since version 3, of which NumPy has no public reader.
        shape, fortran, dtype = read(header) if major < _UTF8_VERSION else _parsed(length_bytes.decode("utf-8"))
    except (MemoryError, RecursionError, OverflowError):
        # Python's parser, of brackets or signs without end; NumPy's, of numbers.
        raise SourceError(f"{where}: its header cannot be read") from None
    if dtype.hasobject:
        raise ConfigError(f"{where}: holds Python objects, which are never loaded; save it with a plain dtype")
    if any(length < 0 for length in shape):
        raise SourceError(f"{where}: declares the shape {shape}")
    return shape, fortran, dtype


def _parsed(text: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    header = ast.literal_eval(text)
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("it is not a header")
    shape = header["shape"]
    if not isinstance(shape, tuple) or not all(type(length) is int for length in shape):
        raise ValueError("its shape is not valid")
    return shape, bool(header["fortran_order"]), np.lib.format.descr_to_dtype(header["descr"])


def _pass_over(file: Any, size: int) -> None:
    """Skip bytes of a file that may not be able to seek."""
    if file.seekable():
        file.seek(size, os.SEEK_CUR)
        return
    while size > 0 and (piece := file.read(min(size, _PASSED_BYTES))):
        size -= len(piece)


def _rows_of(data: bytes, count: int, row_shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    if len(data) != count * int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize:
        raise SourceError(f"{where}: is cut short")
    return np.frombuffer(data, dtype).reshape(count, *row_shape)
