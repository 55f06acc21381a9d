"""`store`: write arrays of Dask, xarray and others in parallel, as an array or a dataset, in one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import process
from hubarray.api import catalog, registry
from hubarray.api.resolve import RootLike, existing, locate
from hubarray.errors import ConfigError, NotFoundError
from hubarray.history.log.version import version_of
from hubarray.history.maintenance.staging_versions import NOTE, publish, removed_on_failure, staging_name
from hubarray.interop.dask import as_blocks, computed, delayed_writes
from hubarray.values.attributes import checked_attrs

if TYPE_CHECKING:
    import dask.array as da

    from hubarray.handles.array import Array

MAX_BLOCKS = 1 << 18
_MESSAGE = "store a Dask array"
_TEXT_BLOCK_BYTES = 4 << 20


def store(
    source: Any,
    name: str,
    *,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    encoding: Mapping[Any, Mapping[str, Any]] | None = None,
    root: RootLike = None,
    message: str | None = None,
) -> Any:
    """Write a Dask array, or another array, under a name. Workers upload in parallel; one commit shows everything.

    If the name exists with the same shape and dtype, the commit replaces its contents. Otherwise, the name appears at
    the end. Until then, the data is in a version ``<version>.storing-...``, which also stays after a kill until you
    delete it.

    Parameters
    ----------
    source : dask.array.Array, or array
        A Dask array with known chunk sizes. All chunks work; multiples of the chunks of the array are fastest. You can
        also pass arrays of NumPy, xarray, Zarr, h5py and PyTorch on the CPU, other objects with ``__array__``, and a
        DataFrame whose columns share a dtype. Names of axes and attributes are kept. An ``xarray.Dataset`` becomes a
        dataset with the chunks of Dask; ``chunks`` and ``codec`` can be mappings by variable. A ``DataArray`` with
        coordinates also becomes a dataset, unless it replaces the contents of an existing array. Its variable has its
        name, or ``value``.
    name : str
    chunks, codec, attrs, overwrite
        Same as in :func:`hubarray.array`.
    encoding : mapping of str to mapping, optional
        Encoding of the variables of an ``xarray.Dataset``, as in ``to_zarr``: ``dtype``, ``scale_factor``,
        ``_FillValue``, ...
    root : str, path or Root, optional
    message : str, optional
        Message of the commit in the log.

    Returns
    -------
    Array or Dataset

    Raises
    ------
    ConfigError
        The source is not an array, its shape is unknown, or the encoding of a variable would change its values.
    AlreadyExistsError
        The name belongs to an array with another description.

    Examples
    --------
    >>> import dask.array as da
    >>> import hubarray as hub
    >>> a = hub.store(da.arange(100, chunks=30), "docs/from-dask:v0", chunks=10)
    >>> a.commit, a[95:]
    (1, array([95, 96, 97, 98, 99]))
    """
    import dask.array as da

    with process.importing:
        from hubarray.interop.sources.array_likes import array_like
        from hubarray.values.objects import refuse_objects

    of_xarray = type(source).__module__.startswith("xarray.")
    if of_xarray and hasattr(source, "subtree"):
        raise ConfigError("a DataTree has several datasets: store each, hub.store(tree['train'].to_dataset(), name)")
    if has_coordinates(source):
        source = _with_coordinates(source, name, root)
    if of_xarray and hasattr(source, "data_vars"):
        with process.importing:
            from hubarray.interop import xarray

        return xarray.store(
            source, name, chunks=chunks, codec=codec, attrs=attrs, overwrite=overwrite, encoding=encoding, root=root,
            message=message,
        )  # fmt: skip
    if encoding is not None:
        raise ConfigError("encoding= is for the variables of an xarray.Dataset")
    as_array = array_like(source)
    if as_array is None:
        raise ConfigError(
            f"hub.store writes arrays, not {type(source).__name__}; use hub.import_ for an iterable of "
            "samples, and hub.copy, hub.transfer or hub.write_index for a table"
        )
    dtype = np.dtype(as_array.array.dtype)
    if dtype.hasobject and dtype.kind != "T":
        refuse_objects(f"the {type(source).__name__}", as_array.array)
    attrs = as_array.attrs | dict(attrs or {})
    source = as_array.array if isinstance(as_array.array, da.Array) else as_blocks(as_array.array)
    if any(n != n for n in source.shape):
        raise ConfigError(f"{name}: the Dask array's shape is unknown; call its compute_chunk_sizes() first")
    where, parsed = locate(name, root)
    checked_attrs(attrs)
    described: dict[str, Any] = {"chunks": chunks, "codec": codec}
    exists = catalog.exists(str(parsed), root=where)
    if exists and overwrite:
        registry.require(existing(where, parsed)[1], "array", "delete it first, or choose another version")
    if exists and not overwrite:
        array = catalog.array(
            source.shape, str(parsed), source.dtype, root=where, attrs=attrs, dims=as_array.dims, **described
        )
        _write_all(array, source, name, message)
        return array
    staged = version_of(where, staging_name(parsed, "storing", own=True))
    with removed_on_failure(staged):
        staging = catalog.array(
            source.shape,
            str(staged.name),
            source.dtype,
            attrs={NOTE: "store"},
            root=where,
            dims=as_array.dims,
            **described,
        )
        _write_all(staging, source, name, message)
    checked, target = checked_attrs(attrs), version_of(where, parsed)
    publish(staged, target, attrs=checked, message=message or _MESSAGE, overwrite=overwrite)
    return catalog.load(str(parsed), root=where)


def has_coordinates(source: Any) -> bool:
    """Return whether the source is an xarray.DataArray with coordinates, which an array cannot store."""
    of_xarray = type(source).__module__.startswith("xarray.")
    return of_xarray and not hasattr(source, "data_vars") and len(getattr(source, "coords", ())) > 0


def _with_coordinates(source: Any, name: str, root: RootLike) -> Any:
    """An xarray.DataArray as a dataset of it and its coordinates, unless an array of the name is there to be filled."""
    with contextlib.suppress(NotFoundError):
        if existing(*locate(name, root))[1].head.kind == "array":
            return source
    called = "value" if source.name is None or source.name in source.coords else source.name
    return source.to_dataset(name=called)


def _write_all(array: Array, source: da.Array, name: str, message: str | None) -> None:
    import dask

    with array.transaction(message or _MESSAGE) as transaction:
        tasks = delayed_writes(transaction.worker(), source)
        for part in computed(dask.delayed(list)(tasks), f"storing {name}"):
            transaction.add(part)
