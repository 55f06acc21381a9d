"""HDF5 and Zarr: files and folders with arrays in them, which may refer to data that lies elsewhere."""

from __future__ import annotations

import itertools
import math
import os
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hubarray import process
from hubarray.datasets.description import MAX_ARRAYS
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.missing import needed
from hubarray.interop.sources.base import (
    ALWAYS_BYTES,
    MAX_UNPACKED,
    chosen,
    link_refused,
    refuse_links_out,
    stamp,
    tree,
)
from hubarray.interop.sources.memory import NETCDF_DIMENSION, Found, Rows, Single, hdf5_dims, json_attrs, zarr_dims
from hubarray.interop.zarr_attributes import decoded_attributes
from hubarray.limits import Budget, parse_json
from hubarray.shown import shown_text
from hubarray.values.foreign import TEXT

# HDF5's and NetCDF's own, of which others see dimensions.
_HDF5_OWN = frozenset(
    ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
     "_nc3_strict", "_NCProperties")
)  # fmt: skip
_MOST_LINKS = 64
_NETCDF_PREFIX = "_nc4_non_coord_"
_ONLY_TEXT = np.dtypes.StringDType(coerce=False)
_MOST_METADATA_BYTES = 64 << 20
_SMALL_METADATA_BYTES = 1 << 20
_ZARR_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
# Of texts that are all as long as the file: what is read at a time; and of all that one call gives.
_TEXTS_BYTES = 128 << 20
_TEXTS_AT_A_TIME = (16, 4096, 65536)
_MOST_BLOCK_BYTES = 1 << 30
# Each chunk that is stored takes a byte at least; so many may be missing.
_ALWAYS_CHUNKS = 1 << 20


@dataclass(frozen=True)
class Members:
    """All arrays of a file or a group, by their paths in it.

    Attributes
    ----------
    where : str
        For messages, fit to be shown.
    arrays : dict of str to Rows, or Single
    attrs : dict
    fingerprint : list or None
        JSON that changes when the source does; None if that cannot be told.
    """

    where: str
    arrays: dict[str, Any]
    attrs: dict[str, Any]
    fingerprint: list[Any] | None


class Texts:
    """Text of any length, as NumPy's StringDType.

    Parameters
    ----------
    source : array
        Of ``str`` objects, or what NumPy turns into them.
    shape : tuple of int
    stored_bytes : int or None
        What the source takes, which no text is longer than: so many are read at a time, and so much in all, that a file
        whose texts are all the same long one is no bomb.
    """

    dtype = TEXT

    def __init__(self, where: str, source: Any, shape: tuple[int, ...], stored_bytes: int | None) -> None:
        least, usual, most = _TEXTS_AT_A_TIME
        texts = usual if stored_bytes is None else min(max(_TEXTS_BYTES // max(1, stored_bytes), least), most)
        self.shape = shape
        self._where, self._source, self._found_bytes = where, source, 0
        self._most_bytes = math.inf if stored_bytes is None else max(ALWAYS_BYTES, MAX_UNPACKED * stored_bytes)
        self._texts_at_a_time = texts

    def __getitem__(self, key: Any) -> np.ndarray:
        if not isinstance(key, slice):
            return self._texts(key)
        first, end, _ = key.indices(self.shape[0])
        out = np.empty((end - first, *self.shape[1:]), TEXT)
        held = 0
        for box in _boxes(out.shape, self._texts_at_a_time):
            begin = box[0]
            part = self._texts((slice(first + begin.start, first + begin.stop), *box[1:]))
            held += 4 * int(np.strings.str_len(part).sum())
            if held > _MOST_BLOCK_BYTES:
                raise SourceError(
                    f"{self._where}: its texts take more than {_MOST_BLOCK_BYTES:,} bytes in {end - first:,} rows; "
                    "make the array with hub.array, and assign them in parts"
                )
            out[box] = part
        return out

    def _texts(self, key: Any) -> np.ndarray:
        values = np.asarray(self._source[key])
        try:
            texts = values.astype(_ONLY_TEXT).astype(TEXT)
        except ValueError:
            raise ConfigError("text of any length among other things; give all of it one type") from None
        self._found_bytes += 4 * int(np.strings.str_len(texts).sum())
        if self._found_bytes > self._most_bytes:
            raise SourceError(
                f"{self._where}: its texts have more than {self._found_bytes:,} bytes, and its file {MAX_UNPACKED} "
                "times fewer; make the array with hub.array, and assign what is there"
            )
        return texts


def _boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most so many elements, which together are an array of this shape.

    Examples
    --------
    >>> list(_boxes((3, 2), 4))
    [(slice(0, 2, None), slice(0, 2, None)), (slice(2, 3, None), slice(0, 2, None))]
    """
    steps = list(shape)
    for axis, length in enumerate(shape):
        steps[axis] = max(1, min(length, most // max(1, math.prod(shape[axis + 1 :]))))
    begins = (range(0, length, step) for length, step in zip(shape, steps, strict=True))
    for corner in itertools.product(*begins):
        yield tuple(slice(at, min(at + step, n)) for at, step, n in zip(corner, steps, shape, strict=True))


def open_hdf5(where: str, key: str | None, *, follow_links: bool, max_decoded_bytes: int) -> Rows | Single:
    """A dataset of an HDF5 file.

    Raises
    ------
    SourceError
        Its data lies in another file, and ``follow_links`` does not allow that.
    """
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    file = h5py.File(where, "r")
    dataset = _hdf5_at(h5py, file, where, key, follow_links=follow_links)
    if not isinstance(dataset, h5py.Dataset):
        there, _ = _hdf5_tree(h5py, file)
        dataset = there[chosen(where, key.strip("/") if key else None, list(there))]
    found: Rows | Single = _hdf5_rows(
        h5py, where, dataset, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes
    )
    return found


def hdf5_members(where: str, key: str | None, *, follow_links: bool, max_decoded_bytes: int) -> Members | None:
    """All datasets of an HDF5 or NetCDF-4 file, or those of a group in it; None of one alone, or where is no group."""
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    group = _hdf5_at(h5py, h5py.File(where, "r"), where, key, follow_links=follow_links)
    if not isinstance(group, h5py.Group):
        return None
    return _hdf5_members(
        h5py, group, where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes,
        may_be_alone=key is None,
    )  # fmt: skip


def _hdf5_at(h5py: Any, file: Any, where: str, key: str | None, *, follow_links: bool) -> Any:
    """The object that a key names, which may be None; the file where there is no key."""
    if key is None:
        return file
    folder, slash, name = key.rstrip("/").rpartition("/")
    for one in (key, f"{folder}{slash}{_NETCDF_PREFIX}{name}"):
        if not follow_links:
            _refuse_external_links(h5py, file, one, where)
        found = file.get(one)
        if not isinstance(found, h5py.Dataset) or not _is_only_a_dimension(found):
            return found
    return None


def _hdf5_members(
    h5py: Any,
    group: Any,
    where: str,
    key: str | None,
    *,
    follow_links: bool,
    max_decoded_bytes: int,
    may_be_alone: bool = False,
) -> Members | None:
    every, groups = _hdf5_tree(h5py, group)
    _refuse_many(where, every | groups)
    kept = {path: one for path, one in every.items() if key is not None or not _has_no_array(h5py, one)}
    left_out = shown_text(", ".join(path for path in every if path not in kept))
    if left_out:
        warnings.warn(
            f"{where}: {left_out[:400]} cannot be stored and are left out: they have neither elements nor a shape, or "
            "rows of unequal sizes, which belong into a table",
            stacklevel=5,
        )
    netcdf = _is_netcdf(group.file)
    its = _hdf5_attrs(where, group.attrs, netcdf=netcdf)
    of_groups = {path: _hdf5_attrs(where, one.attrs, netcdf=netcdf) for path, one in groups.items()}
    if _is_no_dataset(kept, key, may_be_alone=may_be_alone and not its and not any(of_groups.values())):
        return None
    arrays = {
        path: _hdf5_rows(h5py, where, kept[path], follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
        for path in sorted(kept)
    }
    attributes = _with_those_of_groups(where, its, of_groups)
    return Members(f"{where}:{key}" if key else where, arrays, attributes, [*stamp(where), group.name])


def opened_at(source: Any, key: str | None, *, follow_links: bool) -> tuple[Any, str | None]:
    """The array or group that a key names in one that h5py or zarr-python has open; anything else as it is.

    Raises
    ------
    SourceError
        It lies in another file, and ``follow_links`` does not allow that.
    ConfigError
    """
    package = type(source).__module__.partition(".")[0]
    if key is None or package not in ("h5py", "zarr") or hasattr(source, "shape"):
        return source, key
    if package == "h5py" and not follow_links:
        h5py = needed("h5py", extra="hdf5", why="importing HDF5")
        _refuse_external_links(h5py, source.file, posixpath.join(source.name, key.strip("/")), source.file.filename)
    if package == "zarr" and not follow_links:
        _refuse_links_of_store(source)
    try:
        found = source[key.strip("/")]
    except KeyError:
        raise ConfigError(f"key={key!r}: there is no such array or group") from None
    if package == "h5py" and hasattr(found, "shape") and not follow_links:
        _refuse_data_elsewhere(f"{source.file.filename}:{found.name}", found)
    return found, None


def opened_members(source: Any, *, follow_links: bool, max_decoded_bytes: int) -> Members | None:
    """All arrays of a group that somebody has opened with h5py or zarr-python; None of anything else.

    Raises
    ------
    SourceError, ConfigError
    """
    package = type(source).__module__.partition(".")[0]
    if hasattr(source, "shape") or not hasattr(source, "attrs"):
        return None
    if package == "h5py":
        where = source.file.filename
        if not os.path.isfile(where):
            raise ConfigError("an HDF5 file that is in memory: write it to a folder, and import it by its path")
        h5py = needed("h5py", extra="hdf5", why="importing HDF5")
        key = source.name.strip("/") or None
        return _hdf5_members(h5py, source, where, key, follow_links=follow_links, max_decoded_bytes=max_decoded_bytes)
    if package == "zarr" and hasattr(source, "members"):
        shown = shown_text(str(source.store_path))
        if not follow_links:
            _refuse_links_of_store(source)
        return _zarr_members(shown, source, None, max_decoded_bytes)
    return None


def _has_no_array(h5py: Any, dataset: Any) -> bool:
    """Whether a dataset is none that could be stored: without a shape, or of rows of unequal sizes."""
    return dataset.shape is None or h5py.check_vlen_dtype(dataset.dtype) not in (None, str, bytes)


def _refuse_many(where: str, found: Mapping[str, Any]) -> None:
    if len(found) > MAX_ARRAYS:
        raise SourceError(
            f"{where}: has more than {MAX_ARRAYS:,} arrays and groups, and no dataset has more arrays; choose a group "
            "or an array with key="
        )


def _is_no_dataset(found: Mapping[str, Any], key: str | None, *, may_be_alone: bool) -> bool:
    """Whether the arrays of a group make no dataset.

    They do not where a group that is named has none. Nor does one array alone, unless it is a single value, or what it
    is in has attributes, for which an array has no room.
    """
    alone = may_be_alone and len(found) == 1 and next(iter(found.values())).shape != ()
    return alone or (key is not None and not found)


def _hdf5_tree(h5py: Any, group: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The datasets and groups below a group that lie in the file, by their paths; of too many the first."""
    datasets: dict[str, Any] = {}
    groups: dict[str, Any] = {}

    def visit(path: str, one: Any) -> bool | None:
        if isinstance(one, h5py.Group):
            groups[path] = one
        elif isinstance(one, h5py.Dataset) and not _is_only_a_dimension(one):
            datasets[_netcdf_name(path)] = one
        return True if len(datasets) + len(groups) > MAX_ARRAYS else None

    group.visititems(visit)
    return datasets, groups


def _with_those_of_groups(
    where: str, attributes: dict[str, Any], of_groups: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Attributes of a source, with those of each group below it under the group's name."""
    found = dict(attributes)
    for path, its in of_groups.items():
        name = path.strip("/").replace("/", ".")
        if its and name in found:
            warnings.warn(
                f"{where}: the attributes of the group {shown_text(path)} are left out: an attribute has its name",
                stacklevel=6,
            )
        elif its:
            found[name] = dict(its)
    return found


def _netcdf_name(path: str) -> str:
    """The path of a variable as NetCDF says it, which has a prefix where a dimension that is not its own has its name.

    Source: the NetCDF-4 file format, "Coordinate variables and dimensions".
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.removeprefix(_NETCDF_PREFIX)}"


def _is_only_a_dimension(dataset: Any) -> bool:
    """Whether NetCDF keeps nothing but the length of a dimension there."""
    name = dataset.attrs.get("NAME", b"")
    return bytes(name if isinstance(name, bytes) else str(name).encode()).startswith(NETCDF_DIMENSION.encode())


def _is_netcdf(file: Any) -> bool:
    """Whether a file is NetCDF-4, whose attributes of one element are that element."""
    return "_NCProperties" in file.attrs


def _hdf5_attrs(where: str, attributes: Any, *, netcdf: bool) -> dict[str, Any]:
    found = json_attrs(where, _readable(attributes, netcdf=netcdf))
    return {name: value for name, value in found.items() if name not in _HDF5_OWN}


def _readable(attributes: Any, *, netcdf: bool) -> dict[str, Any]:
    """Attributes without those that refer to other objects, which are HDF5's own."""
    found = {name: attributes[name] for name in attributes if name not in _HDF5_OWN}
    alone = {name: value[0] for name, value in found.items() if getattr(value, "shape", None) == (1,)}
    return found | alone if netcdf else found


def _hdf5_rows(h5py: Any, where: str, dataset: Any, *, follow_links: bool, max_decoded_bytes: int) -> Any:
    named = f"{where}:{dataset.name}"
    if not follow_links:
        _refuse_data_elsewhere(named, dataset)
    if dataset.shape is None:
        raise ConfigError(f"{named}: is a null dataset, which has neither elements nor a shape")
    stored_bytes = None if follow_links else os.path.getsize(where)
    _check_chunks(named, dataset, stored_bytes, max_decoded_bytes)
    stamps = [*stamp(where), dataset.name]
    attrs, dims = _hdf5_attrs(named, dataset.attrs, netcdf=_is_netcdf(dataset.file)), hdf5_dims(dataset)
    attrs = decoded_attributes(attrs, dataset.dtype)
    text = h5py.check_string_dtype(dataset.dtype)
    is_text = text is not None and (text.length is None or text.encoding == "utf-8")
    if not dataset.shape:
        return Single(named, Found(dataset.asstr() if is_text else dataset, attrs))
    if is_text:
        return Rows(named, Found(Texts(named, dataset.asstr(), dataset.shape, stored_bytes), attrs, dims), stamps)
    found = Found(dataset, attrs, dims, dataset.fillvalue)
    return Rows(named, found, stamps, stored_bytes=stored_bytes)


def _refuse_links_of_store(group: Any) -> None:
    """Refuse links out of the folder that a Zarr group is in; other stores have none."""
    folder = getattr(group.store, "root", None)
    if isinstance(folder, os.PathLike):
        refuse_links_out(os.fspath(folder), tree(os.fspath(folder)))


def _refuse_data_elsewhere(named: str, dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise link_refused(
            named, "its data lies in other files" if dataset.external else "is made up of other datasets"
        )


def _refuse_external_links(h5py: Any, file: Any, key: str, where: str) -> None:
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
            if links > _MOST_LINKS:
                raise SourceError(f"{where}:{key}: its links lead on and on")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.path))
            waiting, done = [*[part for part in target.split("/") if part], *waiting], "/"


def _check_chunks(where: str, array: Any, stored_bytes: int | None, max_decoded_bytes: int) -> None:
    """Refuse, by what is declared, chunks that are too large to be decoded whole, or too many to be looked for."""
    chunks = array.chunks or array.shape
    decoded = getattr(array, "shards", None) or array.chunks or ()
    Budget(max_decoded_bytes, f"{where}: a chunk").take(math.prod(decoded) * array.dtype.itemsize)
    count = math.prod(-(-n // max(1, size)) for n, size in zip(array.shape, chunks, strict=True))
    if stored_bytes is not None and count > max(_ALWAYS_CHUNKS, stored_bytes):
        raise SourceError(
            f"{where}: says that it has {count:,} chunks, and its files have {stored_bytes:,} bytes in all; make the "
            "array with hub.array, and assign what is there"
        )


def is_zarr(where: str, suffix: str) -> bool:
    """Whether a path looks like a Zarr."""
    return suffix == ".zarr" or any(
        os.path.exists(os.path.join(where, one)) for one in ("zarr.json", ".zarray", ".zgroup")
    )


def open_zarr(
    where: str, shown: str, key: str | None, options: Mapping[str, Any], *, follow_links: bool, max_decoded_bytes: int
) -> Rows | Single:
    """An array of a Zarr, of format 2 or 3, local or behind a URL.

    Raises
    ------
    SourceError
        Links in its folder lead out of it, and ``follow_links`` does not allow that.
    """
    opened, stamps = _opened_zarr(where, options, follow_links=follow_links)
    if not hasattr(opened, "shape"):
        opened = opened[chosen(shown, key.strip("/") if key else None, list(_zarr_tree(opened)[0]))]
    found: Rows | Single = _zarr_rows(shown, opened, stamps, max_decoded_bytes)
    return found


def zarr_members(
    where: str, shown: str, key: str | None, options: Mapping[str, Any], *, follow_links: bool, max_decoded_bytes: int
) -> Members | None:
    """All arrays of a Zarr, or of a group in it; None of one alone, or where is no group."""
    opened, stamps = _opened_zarr(where, options, follow_links=follow_links)
    group = opened if key is None or hasattr(opened, "shape") else opened.get(key.strip("/"))
    if group is None or hasattr(group, "shape"):
        return None
    named = f"{shown}/{key.strip('/')}" if key else shown
    return _zarr_members(named, group, stamps, max_decoded_bytes, key=key, may_be_alone=key is None)


def _zarr_members(
    named: str,
    group: Any,
    stamps: list[Any] | None,
    max_decoded_bytes: int,
    *,
    key: str | None = None,
    may_be_alone: bool = False,
) -> Members | None:
    arrays, groups = _zarr_tree(group)
    _refuse_many(named, arrays | groups)
    its = json_attrs(named, group.attrs)
    of_groups = {path: json_attrs(named, one.attrs) for path, one in groups.items()}
    if _is_no_dataset(arrays, key, may_be_alone=may_be_alone and not its and not any(of_groups.values())):
        return None
    dims = _ome_dims(group.attrs, "")
    for path, one in groups.items():
        dims |= _ome_dims(one.attrs, f"{path}/")
    found = {
        path: _zarr_rows(f"{named}/{path}", one, stamps, max_decoded_bytes, dims.get(path))
        for path, one in sorted(arrays.items())
    }
    return Members(named, found, _with_those_of_groups(named, its, of_groups), _marks(stamps, group))


def _fitting(dims: tuple[str, ...] | None, array: Any) -> tuple[str, ...] | None:
    return dims if dims is not None and len(dims) == len(array.shape) else None


def _ome_dims(attributes: Any, below: str) -> dict[str, tuple[str, ...]]:
    """Names of axes that a group of OME-Zarr gives to its arrays, by their paths.

    Source: https://ngff.openmicroscopy.org, "multiscales" metadata, 0.1 to 0.5.
    """
    ome = attributes.get("ome")
    images = (ome if isinstance(ome, dict) else attributes).get("multiscales")
    found: dict[str, tuple[str, ...]] = {}
    for image in images if isinstance(images, list) else ():
        # Before 0.3 the axes were always these.
        axes = image.get("axes", list("tczyx")) if isinstance(image, dict) else []
        names = [one.get("name") if isinstance(one, dict) else one for one in axes] if isinstance(axes, list) else []
        datasets = image.get("datasets") if isinstance(image, dict) else None
        texts = [one for one in names if isinstance(one, str)]
        if names and len(set(texts)) == len(names):
            for one in datasets if isinstance(datasets, list) else ():
                if isinstance(one, dict) and isinstance(one.get("path"), str):
                    found[below + one["path"].strip("/")] = tuple(texts)
    return found


def _opened_zarr(where: str, options: Mapping[str, Any], *, follow_links: bool) -> tuple[Any, list[Any] | None]:
    """The array or group there, and marks of its files, where they are local."""
    import zarr

    from hubarray.interop import zarr_images

    zarr_images.register()
    local = os.path.isdir(where)
    files = tree(where) if local else []
    if not follow_links:
        refuse_links_out(where, files)
    for path in files:
        if os.path.basename(path) not in _ZARR_METADATA:
            continue
        if os.path.getsize(path) > _MOST_METADATA_BYTES:
            raise SourceError(f"{path}: has {os.path.getsize(path):,} bytes, and {_MOST_METADATA_BYTES:,} are read")
        if os.path.getsize(path) > _SMALL_METADATA_BYTES:
            try:
                parse_json(Path(path).read_bytes())
            except ValueError as error:
                raise SourceError(f"{path}: {error}") from None
    opened = zarr.open(where, mode="r", storage_options=dict(options) or None)
    return opened, [stamp(path) for path in files if os.path.isfile(path)] if local else None


def _zarr_tree(group: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the groups below a group, by their paths."""
    every = dict(group.members(max_depth=None))
    arrays = {path: one for path, one in every.items() if hasattr(one, "shape")}
    return arrays, {path: one for path, one in every.items() if path not in arrays}


def _zarr_rows(
    shown: str,
    opened: Any,
    stamps: list[Any] | None,
    max_decoded_bytes: int,
    dims: tuple[str, ...] | None = None,
) -> Any:
    with process.importing:
        from hubarray.arrays.zarr_chain import bounded_array
    opened = bounded_array(opened, max_decoded_bytes)
    stored_bytes = sum(size for _, size, _ in stamps) if stamps is not None else None
    _check_chunks(shown, opened, stored_bytes, max_decoded_bytes)
    kept = {name: value for name, value in opened.attrs.items() if not name.startswith("_ARRAY")}
    if not opened.shape:
        return Single(shown, Found(opened, decoded_attributes(kept, np.dtype(opened.dtype))))
    if np.dtype(opened.dtype).kind in "TO" and opened.shape:
        texts = Texts(shown, opened, opened.shape, stored_bytes)
        return Rows(shown, Found(texts, json_attrs(shown, kept), zarr_dims(opened)), _marks(stamps, opened))
    is_of_xarray = opened.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in opened.attrs
    if is_of_xarray and opened.fill_value is not None and opened.dtype.kind in "iuf":
        # In format 2 xarray has no other place for it.
        kept.setdefault("_FillValue", opened.fill_value.item())
    found = Found(
        opened, decoded_attributes(kept, opened.dtype), _fitting(dims, opened) or zarr_dims(opened), opened.fill_value
    )
    return Rows(shown, found, _marks(stamps, opened), stored_bytes=stored_bytes)


def _marks(stamps: list[Any] | None, node: Any) -> list[Any] | None:
    """The marks of a Zarr's files, and which node of it is meant."""
    return None if stamps is None else [*stamps, node.path]
