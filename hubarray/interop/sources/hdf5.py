"""HDF5 and NetCDF-4: files with arrays in them, which may refer to data that lies elsewhere."""

from __future__ import annotations

import os
import posixpath
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from hubarray.datasets.description import MAX_ARRAYS
from hubarray.errors import SourceError
from hubarray.extras import needed
from hubarray.interop.sources.base import check_chunks, chosen, link_refused, stamp
from hubarray.interop.sources.found import Found, json_attrs
from hubarray.interop.sources.members import Members, is_no_dataset, refuse_many, storable, with_those_of_groups
from hubarray.interop.sources.sliced import Single, SlicedSource, rows_or_single
from hubarray.interop.sources.texts import Texts
from hubarray.interop.zarr_attributes import decoded_attributes
from hubarray.redaction import shown_text

# HDF5's and NetCDF's own, of which others see dimensions.
_HDF5_OWN = frozenset(
    ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
     "_nc3_strict", "_NCProperties")
)  # fmt: skip
_MAX_LINKS = 64
_SHOWN_LETTERS = 400
_NETCDF_PREFIX = "_nc4_non_coord_"
# What NetCDF-4 calls the scale of a dimension that has no coordinates.
_NETCDF_DIMENSION = "This is a netCDF dimension but not a netCDF variable"


def open_hdf5(where: str, key: str | None, *, follow_links: bool, max_decoded_bytes: int) -> SlicedSource | Single:
    """A dataset of an HDF5 file.

    Raises
    ------
    SourceError
        Its data lies in another file, and ``follow_links`` does not allow that.
    """
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    file = h5py.File(where, "r")
    dataset = _hdf5_at(h5py, file, where, key, follow_links=follow_links)
    opened = partial(hdf5_rows, where, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
    if isinstance(dataset, h5py.Dataset):
        return opened(dataset)
    every, _ = _hdf5_tree(h5py, file)
    sources = storable(where, {path: partial(opened, dataset) for path, dataset in every.items()})
    opened_source: SlicedSource | Single = sources[chosen(where, key.strip("/") if key else None, list(sources))]
    return opened_source


def hdf5_members(where: str, key: str | None, *, follow_links: bool, max_decoded_bytes: int) -> Members | None:
    """All datasets of an HDF5 or NetCDF-4 file, or those of a group in it; None of one alone, or where is no group."""
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    group = _hdf5_at(h5py, h5py.File(where, "r"), where, key, follow_links=follow_links)
    if not isinstance(group, h5py.Group):
        return None
    return members_of_group(
        h5py, group, where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes,
        may_be_alone=key is None,
    )  # fmt: skip


def _hdf5_at(h5py: Any, file: Any, where: str, key: str | None, *, follow_links: bool) -> Any:
    """The object that a key names, which may be None; the file where there is no key."""
    if key is None:
        return file
    folder, slash, name = key.rstrip("/").rpartition("/")
    for candidate in (key, f"{folder}{slash}{_NETCDF_PREFIX}{name}"):
        if not follow_links:
            refuse_external_links(h5py, file, candidate, where)
        node = file.get(candidate)
        if not isinstance(node, h5py.Dataset) or not _is_only_a_dimension(node):
            return node
    return None


def members_of_group(
    h5py: Any,
    group: Any,
    where: str,
    key: str | None,
    *,
    follow_links: bool,
    max_decoded_bytes: int,
    may_be_alone: bool = False,
) -> Members | None:
    """All datasets of a group of a file that is open; None of one alone, unless a key named it."""
    every, groups = _hdf5_tree(h5py, group)
    refuse_many(where, every | groups)
    opened = partial(hdf5_rows, where, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
    _warn_of_links(where, group, groups, every)
    arrays = storable(where, {path: partial(opened, dataset) for path, dataset in sorted(every.items())})
    netcdf = _is_netcdf(group.file)
    its = _hdf5_attrs(where, group.attrs, netcdf=netcdf)
    of_groups = {path: _hdf5_attrs(where, member.attrs, netcdf=netcdf) for path, member in groups.items()}
    if is_no_dataset(arrays, key, may_be_alone=may_be_alone and not its and not any(of_groups.values())):
        return None
    attributes = with_those_of_groups(where, its, of_groups)
    return Members(f"{where}:{key}" if key else where, arrays, attributes, [*stamp(where), group.name])


def _hdf5_tree(h5py: Any, group: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The datasets and groups below a group that lie in the file, by their paths; of too many the first."""
    datasets: dict[str, Any] = {}
    groups: dict[str, Any] = {}

    netcdf = _is_netcdf(group.file)

    def visit(path: str, node: Any) -> bool | None:
        if isinstance(node, h5py.Group):
            groups[path] = node
        elif isinstance(node, h5py.Dataset) and not _is_only_a_dimension(node):
            datasets[_netcdf_name(path) if netcdf else path] = node
        return True if len(datasets) + len(groups) > MAX_ARRAYS else None

    group.visititems(visit)
    return datasets, groups


def _warn_of_links(where: str, group: Any, groups: Mapping[str, Any], every: Mapping[str, Any]) -> None:
    """Warn of links that are left out: HDF5 visits each object under one name, and none in other files."""
    seen = {node.name for node in (*groups.values(), *every.values())}
    links = [
        posixpath.join(folder.name, name)
        for folder in (group, *groups.values())
        for name in folder
        if posixpath.join(folder.name, name) not in seen and _is_link(folder, name)
    ]
    if links:
        warnings.warn(
            f"{where}: {len(links):,} links are left out: {shown_text(', '.join(links))[:_SHOWN_LETTERS]}. "
            "Import what a link leads to with key=.",
            stacklevel=6,
        )


def _is_link(folder: Any, name: str) -> bool:
    """Return whether a name is a link to a dataset or a group that has another name."""
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    if not isinstance(folder.get(name, getlink=True), h5py.HardLink):
        return True
    kind = folder.get(name, getclass=True)
    return kind is h5py.Group or (kind is h5py.Dataset and not _is_only_a_dimension(folder[name]))


def _netcdf_name(path: str) -> str:
    """The path of a variable as NetCDF says it, which has a prefix where a dimension that is not its own has its name.

    Source: the NetCDF-4 file format, "Coordinate variables and dimensions".
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.removeprefix(_NETCDF_PREFIX)}"


def _is_only_a_dimension(dataset: Any) -> bool:
    """Whether NetCDF keeps nothing but the length of a dimension there."""
    name = dataset.attrs.get("NAME", b"")
    return bytes(name if isinstance(name, bytes) else str(name).encode()).startswith(_NETCDF_DIMENSION.encode())


def _is_netcdf(file: Any) -> bool:
    """Whether a file is NetCDF-4, whose attributes of one element are that element."""
    return "_NCProperties" in file.attrs


def _hdf5_attrs(where: str, attributes: Any, *, netcdf: bool) -> dict[str, Any]:
    attrs = json_attrs(where, _readable(attributes, netcdf=netcdf))
    return {name: value for name, value in attrs.items() if name not in _HDF5_OWN}


def _readable(attributes: Any, *, netcdf: bool) -> dict[str, Any]:
    """Attributes without those that refer to other objects, which are HDF5's own."""
    own = {name: attributes[name] for name in attributes if name not in _HDF5_OWN}
    alone = {name: value[0] for name, value in own.items() if getattr(value, "shape", None) == (1,)}
    return own | alone if netcdf else own


def hdf5_rows(where: str, dataset: Any, *, follow_links: bool, max_decoded_bytes: int) -> SlicedSource | Single:
    """A dataset of a file that is open, as rows.

    Raises
    ------
    SourceError, ConfigError
    """
    named = shown_text(f"{where}:{dataset.name}")
    if not follow_links:
        refuse_data_elsewhere(named, dataset)
    stored_bytes = None if follow_links else os.path.getsize(where)
    opened = hdf5_array(named, dataset, stored_bytes=stored_bytes, max_decoded_bytes=max_decoded_bytes)
    # Texts count what they take themselves.
    known_bytes = None if isinstance(opened.array, Texts) else stored_bytes
    return rows_or_single(named, opened, [*stamp(where), dataset.name], stored_bytes=known_bytes)


def hdf5_array(named: str, dataset: Any, *, stored_bytes: int | None, max_decoded_bytes: int) -> Found:
    """A dataset of HDF5 and what its file says of it.

    Raises
    ------
    SourceError
        Its chunks are too large, or too many for ``stored_bytes``.
    ConfigError
        It has no shape at all.
    """
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    check_chunks(named, dataset, stored_bytes, max_decoded_bytes)
    attrs = decoded_attributes(_hdf5_attrs(named, dataset.attrs, netcdf=_is_netcdf(dataset.file)), dataset.dtype)
    named_values = h5py.check_enum_dtype(dataset.dtype)
    if named_values and "enum" not in attrs:
        attrs["enum"] = {str(name): int(value) for name, value in named_values.items()}
    text = h5py.check_string_dtype(dataset.dtype)
    is_text = text is not None and (text.length is None or text.encoding == "utf-8")
    array = dataset.asstr() if is_text else dataset
    if not dataset.shape:
        return Found(array, attrs)
    dims = _hdf5_dims(dataset)
    if is_text:
        return Found(Texts(named, array, dataset.shape, stored_bytes), attrs, dims)
    return Found(array, attrs, dims, dataset.fillvalue)


def _hdf5_dims(dataset: Any) -> tuple[str | None, ...] | None:
    """Axis names of an HDF5 dataset: labels of its dimensions, or the names of scales attached to them."""
    if dataset.is_scale and len(dataset.shape) == 1 and not dataset.dims[0].label:
        return (dataset.name.rpartition("/")[2],)
    names: list[str | None] = []
    for dim in dataset.dims:
        scales = [name for name in dim.keys() if name] if not dim.label else []  # noqa: SIM118 - h5py's own
        if scales and scales[0].startswith(_NETCDF_DIMENSION):
            scales = [dim[0].name.rpartition("/")[2]]
        names.append(dim.label or (scales[0] if scales else None))
    return tuple(names) if any(names) else None


def refuse_data_elsewhere(named: str, dataset: Any) -> None:
    """Refuse a dataset whose elements lie in other files, or in other datasets.

    Raises
    ------
    SourceError
    """
    if dataset.external or dataset.is_virtual:
        raise link_refused(named, "its data is in other files" if dataset.external else "is made up of other datasets")


def refuse_external_links(h5py: Any, file: Any, key: str, where: str) -> None:
    """Go along a path as HDF5 would, without opening what it leads to."""
    waiting, done, links = [part for part in key.split("/") if part], "/", 0
    while waiting:
        path = posixpath.join(done, waiting.pop(0))
        link = file.get(path, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise link_refused(f"{where}:{path}", f"is a link into another file, {link.filename}")
        done = path
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > _MAX_LINKS:
                raise SourceError(f"{where}:{key}: its links lead on and on")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.path))
            waiting, done = [*[part for part in target.split("/") if part], *waiting], "/"
