"""Taking datasets out: a group of Zarr v3 anywhere, HDF5 and NetCDF-4 files."""

from __future__ import annotations

import json
import os
import warnings
from functools import partial
from typing import Any

import numpy as np

from hubarray import process
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import AlreadyExistsError, ConfigError, ObjectMissingError
from hubarray.extras import needed
from hubarray.history.commits.handle import seen_record
from hubarray.interop.export.arrays import (
    CLEARING,
    MARKER,
    OVERWRITE,
    Marker,
    array_to_zarr,
    group_at,
    to_file,
    write_hdf5_array,
    write_hdf5_attributes,
)
from hubarray.interop.zarr_attributes import zarr_group_json, zarr_json_in_group
from hubarray.redaction import shown_url
from hubarray.storage.url import Root, beside_the_root
from hubarray.values.attributes import has_type, typed_value

_SUFFIXES = {".h5": "hdf5", ".hdf5": "hdf5", ".nc": "netcdf", ".zarr": "zarr", "": "zarr"}
_MAX_DESCRIPTION_BYTES = 1 << 20


def export_dataset(
    dataset: DatasetHandle, target: Any, where: str, format: str | None, key: str | None, *, overwrite: bool
) -> None:
    """Write all arrays of a commit of a dataset: see :func:`hubarray.export`."""
    text = shown_url(where)
    suffix = os.path.splitext(where.partition("?")[0])[1].lower()
    kind = format or _SUFFIXES.get(suffix)
    if kind not in set(_SUFFIXES.values()):
        raise ConfigError(
            f"{text}: a dataset is written as Zarr, HDF5 or NetCDF; pass format='zarr', 'hdf5' or 'netcdf', and use "
            "np.save for an array of it"
        )
    if key is not None:
        raise ConfigError(f"{text}: key= is of single arrays; a dataset is a group of its own")
    if kind == "zarr":
        _to_zarr(dataset, target if isinstance(target, Root) else beside_the_root(where), overwrite)
        return
    if isinstance(target, Root) or "://" in text:
        raise ConfigError(f"{text}: {kind} is written to local files; export to Zarr, or copy the file there")
    to_file(where, partial(_write_netcdf if kind == "netcdf" else _write_hdf5, dataset), overwrite)


def _write_hdf5(dataset: DatasetHandle, path: str) -> None:
    h5py = needed("h5py", extra="hdf5", why="exporting HDF5")
    with h5py.File(path, "w") as file:
        for name, array in dataset.arrays.items():
            write_hdf5_array(h5py, array, name, file)
        _attach_scales(dataset, file)
        write_hdf5_attributes(file, dataset.attrs)


def _attach_scales(dataset: DatasetHandle, file: Any) -> None:
    """Make arrays that have the name of their axis its scale in all others, which xarray takes for coordinates."""
    coordinates = [name for name, array in dataset.items() if array.dims == (name,)]
    for name in coordinates:
        file[name].make_scale(name)
    for name, array in dataset.items():
        for axis, dim in enumerate(array.dims):
            if dim in coordinates and dim != name:
                file[name].dims[axis].attach_scale(file[dim])


def _write_netcdf(dataset: DatasetHandle, path: str) -> None:
    needed("h5netcdf", extra="hdf5", why="exporting NetCDF")
    needed("xarray", extra="xarray", why="exporting NetCDF")
    with process.importing:
        from hubarray.interop.xarray import to_xarray
    for name, array in dataset.items():
        if array.dtype.kind == "c" or array.dtype == np.float16:
            raise ConfigError(
                f"{dataset.name}:{dataset.version}: NetCDF has no {array.dtype}, which {name!r} is: store it as "
                "another dtype first"
            )
    try:
        _netcdf_like(to_xarray(dataset, decode_cf=False), dataset).to_netcdf(path, engine="h5netcdf")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{dataset.name}:{dataset.version}: NetCDF cannot hold it: {str(error)[:300]}") from None


def _netcdf_like(source: Any, dataset: DatasetHandle) -> Any:
    """Variables and attributes as NetCDF has them: with the types that CF asks for, and without what it cannot hold."""
    import xarray as xr

    left_out = [
        f"{name}.{key}" for name, variable in source.variables.items() for key in _not_of_netcdf(variable.attrs)
    ]
    left_out += _not_of_netcdf(source.attrs)
    if left_out:
        warnings.warn(
            f"{dataset.name}:{dataset.version}: NetCDF has no attributes like {', '.join(left_out)[:300]}, which are "
            "left out; store them as text or numbers",
            stacklevel=4,
        )
    variables = {}
    for name, variable in source.variables.items():
        attrs = {key: typed_value(key, value, variable.dtype) for key, value in _of_netcdf(variable.attrs).items()}
        if variable.dtype == "S1" and variable.ndim and variable.shape[-1]:
            # Letters, which xarray would give an axis of one more: words, whose letters are the last axis again.
            words = np.ascontiguousarray(variable.values).view(f"S{variable.shape[-1]}")[..., 0]
            variables[name] = xr.Variable(variable.dims[:-1], words, attrs, {"char_dim_name": variable.dims[-1]})
        else:
            variables[name] = xr.Variable(variable.dims, variable.data, attrs, variable.encoding)
    coordinates = {name: variable for name, variable in variables.items() if name in source.coords}
    others = {name: variable for name, variable in variables.items() if name not in source.coords}
    return xr.Dataset(others, coordinates, _of_netcdf(source.attrs))


def _not_of_netcdf(attributes: Any) -> list[str]:
    return [key for key in attributes if key not in _of_netcdf(attributes)]


def _of_netcdf(attributes: Any) -> dict[str, Any]:
    """The attributes that NetCDF holds: text, numbers, and lists of one of them."""
    stored = {}
    for key, value in attributes.items():
        kinds = {type(element) for element in value} if isinstance(value, list) else {type(value)}
        # Whole numbers beside floats become floats.
        is_same = kinds == {int, float} and all(
            type(element) is float or int(float(element)) == element for element in value
        )
        if has_type(value) or is_same or kinds == {np.ndarray}:
            stored[key] = value
    return stored


def _to_zarr(dataset: DatasetHandle, target: Root, overwrite: bool) -> None:
    """A folder for each array, and last of all the group that names them."""
    store, record = target.store, seen_record(dataset)
    marker = Marker(store, record.digest)
    begun, kind = marker.read(), group_at(target)
    folders = {info.key.partition("/")[0] for info in store.list("") if info.key not in ("zarr.json", MARKER)}
    others = sorted(folders - set(dataset))
    if kind not in (None, "group") or others:
        what = f"{others[0]!r} beside it" if others else "something else than a Zarr group"
        raise AlreadyExistsError(f"{target.url}: holds {what}, which is not replaced; choose another place")
    if (kind == "group" or (folders and begun is None)) and not overwrite:
        raise AlreadyExistsError(f"{target.url}: is not empty; choose another place, or pass {OVERWRITE}")
    same = begun == record.digest and kind is None
    if not same:
        marker.set(CLEARING)
        # An interrupted export is no group, and no array of the old one is taken for one of the new one.
        store.delete(["zarr.json", *(f"{folder}/zarr.json" for folder in sorted(folders))])
    marker.set()
    described = {name: zarr_json_in_group(array) for name, array in dataset.arrays.items()}
    for name, array in dataset.arrays.items():
        marker.check()
        if not (same and _is_there(target.below(name), described[name])):
            array_to_zarr(array.snapshot(), target.below(name), overwrite or begun is not None, described[name])
    marker.check()
    store.put("zarr.json", json.dumps(zarr_group_json(dict(dataset.attrs), described), indent=1).encode())
    store.delete([MARKER])


def _is_there(target: Root, described: dict[str, Any]) -> bool:
    """Whether an array was written to its end: its description comes last."""
    try:
        group_json = json.loads(bytes(target.store.get("zarr.json", 0, _MAX_DESCRIPTION_BYTES)))
    except (ObjectMissingError, ValueError):
        return False
    return bool(group_json == json.loads(json.dumps(described)))
