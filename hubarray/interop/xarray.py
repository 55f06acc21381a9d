"""Datasets, and arrays, as xarray sees them: opened lazily, and stored by Dask's workers in one commit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.backends.common import AbstractDataStore
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing

from hubarray.api import catalog, datasets, registry
from hubarray.api.resolve import RootLike, existing, locate
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import ConfigError
from hubarray.history.log.version import version_of
from hubarray.history.maintenance.staging_versions import NOTE, publish, removed_on_failure, staging_name
from hubarray.interop.dask import as_blocks, computed, delayed_writes
from hubarray.interop.xarray_encoding import encoded
from hubarray.interop.zarr_attributes import decoded_attributes, number_attributes
from hubarray.redaction import named_type
from hubarray.values.attributes import checked_attrs, plain_value

if TYPE_CHECKING:
    from hubarray.handles.dataset import Dataset

_MESSAGE = "store"


def to_xarray(dataset: DatasetHandle, *, decode_cf: bool = True) -> xr.Dataset:
    """See :meth:`hubarray.Dataset.to_xarray`."""
    handle: Any = dataset.snapshot()
    return xr.open_dataset(handle, engine=HubarrayBackend, chunks={}, decode_cf=decode_cf)


class HubarrayBackend(BackendEntrypoint):
    """``xarray.open_dataset("lab/climate:v1", engine="hubarray")``: a dataset or an array, by name or by its handle.

    Nothing is read but the record, and the coordinates that index a dimension. Elements are fetched when they are
    asked for; with ``chunks={}`` through Dask. What is read is the commit that was the newest when it was opened.
    """

    description = "Datasets and arrays of hubarray, by name"
    # xarray finds them out only of backends that are given by name.
    open_dataset_parameters = (
        "filename_or_obj", "drop_variables", "mask_and_scale", "decode_times", "concat_characters", "decode_coords",
        "use_cftime", "decode_timedelta", "root",
    )  # fmt: skip

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        root: RootLike = None,
    ) -> xr.Dataset:
        """Open a name, ``owner/name:version@commit``, or a handle.

        Parameters
        ----------
        filename_or_obj : str, Dataset or Array
        drop_variables : str or sequence of str, optional
        root : str, path or Root, optional
            Where, if not under the configured root.
        mask_and_scale, decode_times, concat_characters, decode_coords, use_cftime, decode_timedelta
            As of ``xarray.open_dataset``.
        """
        handle = filename_or_obj
        if isinstance(handle, (str, os.PathLike)):
            handle = catalog.load(os.fspath(handle), root=root)
        if not isinstance(handle, (DatasetHandle, ArrayHandle)):
            raise ConfigError(f"engine='hubarray' opens names, datasets and arrays, not {named_type(handle)}")
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        opened: xr.Dataset = StoreBackendEntrypoint().open_dataset(
            _Variables(handle.snapshot(), dropped),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        return opened

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether something is a handle; names look like those of files, so they want ``engine="hubarray"``."""
        return isinstance(filename_or_obj, (DatasetHandle, ArrayHandle))


class _Variables(AbstractDataStore):
    """The arrays of one commit as variables."""

    def __init__(self, handle: DatasetHandle | ArrayHandle, dropped: set[str]) -> None:
        every = (
            handle.arrays
            if isinstance(handle, DatasetHandle)
            else {handle.key or handle.name.partition("/")[2]: handle}
        )
        self._arrays = {name: array for name, array in every.items() if name not in dropped}
        self._attrs = dict(handle.attrs) if isinstance(handle, DatasetHandle) else {}

    def get_variables(self) -> Any:
        """Each array as a variable whose elements are fetched when they are asked for."""
        return {name: _variable(name, array) for name, array in self._arrays.items()}

    def get_attrs(self) -> Any:
        """The dataset's attributes."""
        return self._attrs

    def get_dimensions(self) -> Any:
        """The length of each dimension."""
        return {dim: n for variable in self.get_variables().values() for dim, n in variable.sizes.items()}

    def get_encoding(self) -> Any:
        """Nothing of all."""
        return {}

    def close(self) -> None:
        """Handles hold nothing open."""


def _variable(name: str, array: ArrayHandle) -> xr.Variable:
    dims = tuple(f"{name}_{axis}" if dim is None else dim for axis, dim in enumerate(array.dims))
    lazy = indexing.LazilyIndexedArray(_Elements(array))
    chunks = tuple(max(1, min(n, size)) for n, size in zip(array.chunks, array.shape, strict=True))
    encoding = {"chunks": array.chunks, "preferred_chunks": dict(zip(dims, chunks, strict=True))}
    return xr.Variable(dims, lazy, number_attributes(array.attrs, array.dtype), encoding)


class _Elements(BackendArray):
    """An array's elements, indexed as xarray does."""

    def __init__(self, array: ArrayHandle) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return self._array[key]


def store(
    source: xr.Dataset,
    name: str,
    *,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    encoding: Mapping[Any, Mapping[str, Any]] | None = None,
    root: RootLike = None,
    message: str | None = None,
) -> Dataset:
    """Write an xarray.Dataset under a name: see :func:`hubarray.store`, which comes here.

    Variables are encoded as for a file: times as numbers with their units, packed values packed, coordinates named in
    the attributes.
    """
    variables, attributes = encoded(source, encoding or {})
    attributes = checked_attrs(_plain(attributes) | dict(attrs or {}))
    _refuse_unknown(variables, {"chunks": chunks, "codec": codec})
    cuts = {key: how["chunks"] for key, how in (encoding or {}).items() if how.get("chunks") is not None}
    chunks = {**cuts, **chunks} if isinstance(chunks, Mapping) else cuts if cuts and chunks == "auto" else chunks
    specs = {key: _spec(key, variable, chunks, codec) for key, variable in variables.items()}
    where, parsed = locate(name, root)
    exists = catalog.exists(str(parsed), root=where)
    if exists and overwrite:
        registry.require(existing(where, parsed)[1], "dataset", "delete it first, or choose another version")
    if exists and not overwrite:
        dataset = datasets.dataset(specs, str(parsed), root=where)
        stored_attrs = {key: dict(dataset[key].attrs) for key in specs}
        if dict(dataset.attrs) == attributes and stored_attrs == {
            key: spec.attributes() for key, spec in specs.items()
        }:
            _write_all(dataset, variables, name, message)
            return dataset
        # Values and what decodes them change in one commit, or nobody could read what is there meanwhile.
        overwrite = True
    staged = version_of(where, staging_name(parsed, "storing", own=True))
    with removed_on_failure(staged):
        staging = datasets.dataset(specs, str(staged.name), {NOTE: "store"}, root=where)
        _write_all(staging, variables, name, message)
    target = version_of(where, parsed)
    publish(staged, target, attrs=attributes, message=message or _MESSAGE, overwrite=overwrite)
    handle: Any = catalog.load(str(parsed), root=where)
    return handle


def _refuse_unknown(variables: Mapping[Any, Any], encoding: Mapping[str, Any]) -> None:
    for option, named in encoding.items():
        for key in named if isinstance(named, Mapping) else ():
            if key not in variables:
                known = ", ".join(map(str, variables))
                raise ConfigError(f"{option}: there is no variable {key!r}; there are {known}"[:400])


def _spec(key: Any, variable: xr.Variable, chunks: Any, codec: Any) -> ArraySpec:
    if not isinstance(key, str):
        raise ConfigError(f"{key!r}: the name of a variable has to be text")
    cut = chunks.get(key, "auto") if isinstance(chunks, Mapping) else chunks
    if (
        isinstance(cut, str)
        and cut == "auto"
        and variable.chunks
        and all(len(set(lengths[:-1])) < 2 for lengths in variable.chunks)
    ):
        # As Dask has it, where its blocks are no larger than chunks should be.
        blocks = tuple(lengths[0] for lengths in variable.chunks)
        cut = blocks if _are_small(blocks, variable.dtype) else cut
    missing = variable.attrs.get("_FillValue") if variable.dtype.kind in "biuf" else None
    return ArraySpec(
        variable.shape,
        variable.dtype,
        chunks=cut,
        codec=codec.get(key, "auto") if isinstance(codec, Mapping) else codec,
        # What grows is missing until it is written.
        fill_value=0 if missing is None else missing,
        dims=tuple(str(dim) for dim in variable.dims),
        attrs=decoded_attributes(_plain(variable.attrs), variable.dtype),
    )


def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes of xarray in Python's own types.

    Raises
    ------
    ConfigError
        One is of a type that is not stored, or two would become one; it is named.
    """
    specs: dict[str, Any] = {}
    for name, value in attributes.items():
        if str(name) in specs:
            raise ConfigError(f"attrs: two keys would both become {str(name)!r}")
        try:
            specs[str(name)] = plain_value(value, text_of_bytes=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"attrs: {str(name)!r}: {error}") from None
    return specs


def _are_small(blocks: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return 0 < int(np.prod(blocks, dtype=np.int64)) * dtype.itemsize <= 8 << 20


def _write_all(dataset: DatasetHandle, variables: Mapping[Any, xr.Variable], name: str, message: str | None) -> None:
    import dask
    import dask.array as da

    with dataset.transaction(message or _MESSAGE) as transaction:
        keys: list[str] = []
        tasks: list[Any] = []
        for key, variable in variables.items():
            if variable.size:
                array = variable.data if isinstance(variable.data, da.Array) else as_blocks(np.asarray(variable.data))
                tasks += delayed_writes(transaction[key].worker(), array)
                keys += [key] * (len(tasks) - len(keys))
        for key, part in zip(keys, computed(dask.delayed(list)(tasks), f"storing {name}"), strict=True):
            transaction[key].add(part)
