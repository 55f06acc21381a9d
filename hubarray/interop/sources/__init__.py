"""Sources of arrays: each tells its samples' shape and yields them in parts, from any row on."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hubarray.errors import ConfigError
from hubarray.interop.sources.base import Source, chosen, readable, require_file
from hubarray.interop.sources.hdf5 import hdf5_members, open_hdf5
from hubarray.interop.sources.images import IMAGE_SUFFIXES, TIFF_SUFFIXES, Images, Tiff
from hubarray.interop.sources.members import Members
from hubarray.interop.sources.memory import Samples, array_like
from hubarray.interop.sources.numpy_files import open_npy, open_npz, open_remote_npy
from hubarray.interop.sources.opened import opened_members, opened_rows
from hubarray.interop.sources.rows import Single, rows_or_single
from hubarray.interop.sources.zarr_files import is_zarr, open_zarr, zarr_members
from hubarray.limits import DEFAULT_DECODED_BYTES
from hubarray.shown import has_user, shown_url
from hubarray.storage.url import Root, fsspec_options

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".nc")
MEDIA_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".mp4", ".mkv", ".avi", ".mov", ".webm")
_LOCAL_SUFFIXES = (".npz", *HDF5_SUFFIXES, *MEDIA_SUFFIXES, *IMAGE_SUFFIXES)
AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg")


def open_source(
    source: Any, *, key: str | None = None, follow_links: bool = False, max_decoded_bytes: int = DEFAULT_DECODED_BYTES
) -> Source | Single:
    """The source that a value given to :func:`hubarray.import_` means.

    Raises
    ------
    SourceError
        It cannot be read, or refers to data elsewhere and ``follow_links`` does not allow that.
    ConfigError
        Nobody knows how to read such a thing, or it has several arrays and ``key`` does not say which.
    """
    limits: dict[str, Any] = {"follow_links": follow_links, "max_decoded_bytes": max_decoded_bytes}
    if isinstance(source, Root):
        return _opened(source.url, fsspec_options(source), key, **limits)
    if not isinstance(source, (str, os.PathLike)):
        if key is not None and hasattr(source, "data_vars"):
            source = source[chosen("the xarray.Dataset", key, list(map(str, source.data_vars)))]
        opened = opened_rows(source, **limits)
        if opened is not None:
            return opened
        found = array_like(source, max_decoded_bytes=max_decoded_bytes)
        if found is not None:
            return rows_or_single(f"the {type(source).__name__}", found)
        if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
            return Samples(source)
        raise ConfigError(f"{type(source).__name__}: give a path, a URL, an array, or an iterable of samples")
    where = os.fspath(source)
    return _opened(where, fsspec_options(where) if "://" in where else {}, key, **limits)


def open_members(
    source: Any, *, key: str | None = None, follow_links: bool = False, max_decoded_bytes: int = DEFAULT_DECODED_BYTES
) -> Members | None:
    """The arrays of a group of Zarr, or of an HDF5 or NetCDF-4 file, that has several; None of anything else.

    With a ``key`` those of a group below, if it names one.

    Raises
    ------
    SourceError, ConfigError
    """
    limits: dict[str, Any] = {"follow_links": follow_links, "max_decoded_bytes": max_decoded_bytes}
    if not isinstance(source, (str, os.PathLike, Root)):
        return opened_members(source, **limits)
    where = source.url if isinstance(source, Root) else os.fspath(source)
    options = fsspec_options(source if isinstance(source, Root) else where) if "://" in where else {}
    if where.startswith("file://"):
        where, options = Root(where).path, {}
    shown, suffix = shown_url(where), Path(where.split("?")[0]).suffix.lower()
    with readable(shown):
        if suffix in HDF5_SUFFIXES and "://" not in where:
            require_file(where)
            if _is_classic(where):
                raise ConfigError(
                    f"{shown}: is NetCDF of the classic format; open it with xarray, and hub.store what that gives"
                )
            return hdf5_members(where, key, **limits)
        if suffix not in (".npy", ".npz") and is_zarr(where, suffix) and not _has_credentials(where):
            return zarr_members(where, shown, key, options, **limits)
    return None


def _is_classic(where: str) -> bool:
    """Whether a file is of NetCDF's own format, before it was HDF5."""
    with open(where, "rb") as file:
        return file.read(3) == b"CDF"


def _has_credentials(where: str) -> bool:
    return "://" in where and not where.partition("://")[0].lower().startswith("http") and has_user(where)


def _opened(
    where: str, options: Mapping[str, Any], key: str | None, *, follow_links: bool, max_decoded_bytes: int
) -> Source | Single:
    if where.startswith("file://"):
        where = Root(where).path
    shown = shown_url(where)
    if _has_credentials(where):
        raise ConfigError(f"{shown}: credentials do not belong in a URL; pass them as storage options, in a hub.Root")
    suffix = Path(where.split("?")[0]).suffix.lower()
    if key is not None and not (suffix in (".npz", *HDF5_SUFFIXES, *TIFF_SUFFIXES) or is_zarr(where, suffix)):
        raise ConfigError(f"{shown}: holds one array, so key={key!r} (--key) means nothing")
    with readable(shown):
        require_file(where)
        if suffix == ".npy":
            return open_remote_npy(where, shown, options) if "://" in where else open_npy(where)
        if "://" in where and suffix in _LOCAL_SUFFIXES:
            raise ConfigError(f"{shown}: through URLs .npy and Zarr are read; download other files first")
        if suffix == ".npz":
            return open_npz(where, key)
        if suffix in HDF5_SUFFIXES:
            return open_hdf5(where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
        if suffix in MEDIA_SUFFIXES:
            from hubarray.interop.sources.media import Media

            return Media(where, "audio" if suffix in AUDIO_SUFFIXES else "video")
        if is_zarr(where, suffix):
            return open_zarr(
                where, shown, key, options, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes
            )  # fmt: skip
        if suffix in TIFF_SUFFIXES and not glob.has_magic(where):
            return Tiff(where, key)
        if os.path.isdir(where) or glob.has_magic(where) or suffix in IMAGE_SUFFIXES:
            return Images(where, follow_links=follow_links)
    raise ConfigError(
        f"{shown}: not known how to read; Parquet and CSV become tables, by hub.import_table; known are .npy, .npz, "
        "Zarr, HDF5, TIFF, folders and globs of images, audio and video"
    )
