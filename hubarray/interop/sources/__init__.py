"""Sources of arrays: each tells its samples' shape and yields them in parts, from any row on."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.array_likes import IteratedSource, array_like
from hubarray.interop.sources.base import ImportSource, chosen, readable, require_file
from hubarray.interop.sources.hdf5 import hdf5_members, open_hdf5
from hubarray.interop.sources.image_folders import Images
from hubarray.interop.sources.members import Members
from hubarray.interop.sources.numpy_files import npz_members, open_npy, open_npz, open_remote_npy
from hubarray.interop.sources.open_files import opened_members, opened_rows
from hubarray.interop.sources.sliced import Single, rows_or_single
from hubarray.interop.sources.tiff import Tiff, tiff_members
from hubarray.interop.sources.zarr_files import is_zarr, open_zarr, zarr_members
from hubarray.limits import DEFAULT_DECODED_BYTES
from hubarray.redaction import has_user, shown_url
from hubarray.sources import content
from hubarray.storage.url import Root, fsspec_options

_LOCAL_KINDS = (content.NPZ, content.HDF5, content.TIFF, content.IMAGE, content.AUDIO, content.VIDEO)
_KINDS_WITH_KEYS = (content.NPZ, content.HDF5, content.TIFF)


def open_source(
    source: Any,
    *,
    key: str | None = None,
    follow_links: bool = False,
    max_decoded_bytes: int = DEFAULT_DECODED_BYTES,
    upright: bool = False,
) -> ImportSource | Single:
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
        return _opened(source.url, fsspec_options(source), key, upright=upright, **limits)
    if not isinstance(source, (str, os.PathLike)):
        if key is not None and hasattr(source, "data_vars"):
            source = source[chosen("the xarray.Dataset", key, list(map(str, source.data_vars)))]
        with readable(f"the {type(source).__name__}"):
            opened = opened_rows(source, **limits)
        if opened is not None:
            return opened
        source_of_array = array_like(source, max_decoded_bytes=max_decoded_bytes)
        if source_of_array is not None:
            return rows_or_single(f"the {type(source).__name__}", source_of_array)
        if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
            return IteratedSource(source)
        raise ConfigError(f"{type(source).__name__}: give a path, a URL, an array, or an iterable of samples")
    where = os.fspath(source)
    return _opened(where, fsspec_options(where) if "://" in where else {}, key, upright=upright, **limits)


def open_members(
    source: Any,
    *,
    key: str | None = None,
    follow_links: bool = False,
    max_decoded_bytes: int = DEFAULT_DECODED_BYTES,
    upright: bool = False,
) -> Members | None:
    """The arrays of a group of Zarr, or of an HDF5, NetCDF-4, NPZ or TIFF file, that has several; None of others.

    With a ``key`` those of a group below, if it names one.

    Raises
    ------
    SourceError, ConfigError
    """
    limits: dict[str, Any] = {"follow_links": follow_links, "max_decoded_bytes": max_decoded_bytes}
    if not isinstance(source, (str, os.PathLike, Root)):
        with readable(f"the {type(source).__name__}"):
            return opened_members(source, **limits)
    where = source.url if isinstance(source, Root) else os.fspath(source)
    options = fsspec_options(source if isinstance(source, Root) else where) if "://" in where else {}
    if where.startswith("file://"):
        where, options = Root(where).path, {}
    shown = shown_url(where)
    with readable(shown):
        kind = _kind(where)
        if "://" not in where:
            if kind == content.CLASSIC_NETCDF:
                raise ConfigError(
                    f"{shown}: is NetCDF of the classic format; open it with xarray, and hub.store what that gives"
                )
            if kind == content.HDF5:
                return hdf5_members(where, key, **limits)
            if kind in (content.NPZ, content.TIFF) and key is None:
                return npz_members(where) if kind == content.NPZ else tiff_members(where, upright=upright)
        if kind != content.NPY and is_zarr(where, _suffix(where)) and not _has_credentials(where):
            return zarr_members(where, shown, key, options, **limits)
    return None


def _suffix(where: str) -> str:
    return Path(where.split("?")[0]).suffix.lower()


def _kind(where: str) -> str | None:
    """The kind of a file; None of folders, patterns, and of what is not known."""
    if "://" in where:
        return content.kind_of_name(where)
    require_file(where)
    return content.kind_of(where) if os.path.isfile(where) else None


def _has_credentials(where: str) -> bool:
    return "://" in where and not where.partition("://")[0].lower().startswith("http") and has_user(where)


def _opened(
    where: str,
    options: Mapping[str, Any],
    key: str | None,
    *,
    follow_links: bool,
    max_decoded_bytes: int,
    upright: bool,
) -> ImportSource | Single:
    if where.startswith("file://"):
        where = Root(where).path
    shown = shown_url(where)
    if _has_credentials(where):
        raise ConfigError(f"{shown}: credentials do not belong in a URL; pass them as storage options, in a hub.Root")
    with readable(shown):
        kind, looks_like_zarr = _kind(where), is_zarr(where, _suffix(where))
        if key is not None and kind not in _KINDS_WITH_KEYS and not looks_like_zarr:
            raise ConfigError(f"{shown}: holds one array, so key={key!r} (--key) means nothing")
        if kind == content.NPY:
            return open_remote_npy(where, shown, options) if "://" in where else open_npy(where)
        if "://" in where and kind in _LOCAL_KINDS:
            raise ConfigError(f"{shown}: through URLs .npy and Zarr are read; download other files first")
        if kind == content.NPZ:
            return open_npz(where, key)
        if kind == content.HDF5:
            return open_hdf5(where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
        if kind in (content.AUDIO, content.VIDEO):
            from hubarray.interop.sources.media import Media

            return Media(where, "audio" if kind == content.AUDIO else "video")
        if looks_like_zarr:
            return open_zarr(
                where, shown, key, options, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes
            )  # fmt: skip
        if kind == content.TIFF:
            return Tiff(where, key, upright=upright)
        if os.path.isdir(where) or kind == content.IMAGE or (kind is None and glob.has_magic(where)):
            return Images(where, follow_links=follow_links, upright=upright)
        if "://" not in where and not os.path.exists(where):
            raise SourceError(f"{shown}: there is no such file or folder")
    raise ConfigError(
        f"{shown}: is in no format that is imported as an array; hub.import_table (hubarray import-table) takes "
        "Parquet, CSV and Arrow; hub.import_ takes .npy, .npz, Zarr, HDF5, TIFF, folders and globs of images, audio "
        "and video"
    )
