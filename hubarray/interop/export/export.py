"""`export`: choose the format of a target for each kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from hubarray import process
from hubarray.api import catalog
from hubarray.api.resolve import RootLike
from hubarray.arrays.handle import ArrayHandle
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError
from hubarray.interop.export.arrays import array_to_zarr, to_file, write_hdf5, write_npy, write_zarr_group
from hubarray.interop.zarr_attributes import zarr_json
from hubarray.redaction import shown_url
from hubarray.storage.url import Root, beside_the_root

EXPORT_FORMATS = ("zarr", "npy", "hdf5", "netcdf", "parquet")


def export(
    name: str,
    target: str | os.PathLike[str] | Root,
    *,
    format: str | None = None,
    key: str | None = None,
    columns: str | Sequence[str] | None = None,
    overwrite: bool = False,
    root: RootLike = None,
) -> None:
    """Write an array, dataset or table, or one of its commits, to a file or folder of another format.

    The export holds about 64 MiB at a time. Chunks of Zarr are the stored blobs, which are checked and copied. An
    interrupted export to Zarr continues when you repeat it. Files appear when they are complete.

    Parameters
    ----------
    name : str
        ``owner/name:version``, with ``@number`` or ``@tag`` for a commit.
    target : path, URL or Root
        For an array ``x.npy``, ``x.h5``, or a folder or URL for Zarr v3; for a dataset ``x.h5``, ``x.nc``, or a folder
        or URL for a Zarr v3 group; for a table ``x.parquet``. Pass a Root to set storage options. A URL in the bucket
        of the configured root uses its options.
    format : {"zarr", "npy", "hdf5", "netcdf", "parquet"}, optional
        The default depends on the suffix of the target. Other suffixes mean Zarr, and tables are always Parquet.
    key : str, optional
        The name of the dataset in HDF5, ``data`` by default. For Zarr, the name of the array in a new or existing
        group, which ``xarray.open_zarr`` can open. The default is a Zarr array without a group.
    columns : str or sequence of str, optional
        Names or patterns of columns of a table; all by default.
    overwrite : bool
        Replace the existing file, with everything in it, or the existing Zarr array.
    root : str, path or Root, optional
        The root of ``name``.

    Raises
    ------
    AlreadyExistsError
        The target exists.
    ConfigError, NotFoundError, CorruptDataError, StorageError

    Examples
    --------
    >>> import tempfile, zarr
    >>> import hubarray as hub
    >>> a = hub.array((10, 4), "docs/exported:v0", dtype="int64", chunks=(5, 4))
    >>> a[:] = 3
    >>> folder = tempfile.mkdtemp() + "/x.zarr"
    >>> hub.export("docs/exported:v0", folder)
    >>> int(zarr.open_array(folder, mode="r")[...].sum())
    120
    """
    handle = catalog.load(name, root=root)
    where = target.url if isinstance(target, Root) else os.fspath(target)
    if isinstance(handle, DatasetHandle):
        with process.importing:
            from hubarray.interop.export.datasets import export_dataset
        if columns is not None:
            raise ConfigError(f"{shown_url(name)}: is a dataset; columns= is of tables")
        export_dataset(handle.snapshot(), target, where, format, key, overwrite=overwrite)
        return
    if not isinstance(handle, ArrayHandle):
        _export_table(handle.snapshot(), target, where, format, key, columns, overwrite)
        return
    if columns is not None:
        raise ConfigError(f"{shown_url(name)}: is an array; columns= is of tables")
    array = handle.snapshot()
    text = shown_url(where)
    kinds = {".npy": "npy", ".h5": "hdf5", ".hdf5": "hdf5"}
    suffix = os.path.splitext(where.partition("?")[0])[1].lower()
    kind = format or kinds.get(suffix, "zarr")
    if kind in ("parquet", "netcdf"):
        what = "Parquet are tables" if kind == "parquet" else "NetCDF are datasets"
        raise ConfigError(f"{shown_url(name)}: is an array, and what is written as {what}")
    if kind not in EXPORT_FORMATS:
        raise ConfigError(f"format={format!r}: choose one of {', '.join(EXPORT_FORMATS)}")
    if format is None and suffix not in (*kinds, ".zarr", ""):
        raise ConfigError(f"{text}: arrays cannot be written as {suffix}; pass format='zarr', 'npy' or 'hdf5'")
    if kind == "zarr":
        place = target if isinstance(target, Root) else beside_the_root(where)
        if key is None:
            array_to_zarr(array, place, overwrite, zarr_json(array))
        else:
            write_zarr_group(array, place, key, overwrite)
        return
    if isinstance(target, Root) or "://" in text:
        raise ConfigError(f"{text}: {kind} is written to local files; export to Zarr, or copy the file there")
    write = partial(write_npy, array) if kind == "npy" else partial(write_hdf5, array, key or "data")
    to_file(where, write, overwrite)


def _export_table(
    table: Any, target: Any, where: str, format: str | None, key: str | None, columns: Any, overwrite: bool
) -> None:
    text = shown_url(where)
    if format not in (None, "parquet") or key is not None:
        raise ConfigError(f"{table.name}:{table.version}: is a table, which is written as Parquet, without key=")
    if isinstance(target, Root) or "://" in text:
        raise ConfigError(f"{text}: a table is written to a local file, such as rows.parquet")
    if os.path.splitext(where)[1].lower() not in (".parquet", ".pq"):
        raise ConfigError(f"{text}: a table is written to a local file of Parquet, such as rows.parquet")
    # Arrow is imported where it is needed.
    with process.importing:
        from hubarray.interop.export.parquet import write_parquet
    to_file(where, lambda path: write_parquet(table, path, columns), overwrite)
