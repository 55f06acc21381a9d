"""HDF5 and Zarr: files and folders with arrays in them, which may refer to data that lies elsewhere."""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, SourceError
from hubarray.interop.missing import needed
from hubarray.interop.sources.base import (
    MAX_CHUNK_BYTES,
    chosen,
    link_refused,
    refuse_links_out,
    stamp,
    tree,
)
from hubarray.interop.sources.memory import Found, Rows, hdf5_dims, json_attrs, zarr_dims
from hubarray.interop.zarr_attributes import decoded_attributes

_MOST_LINKS = 64


def open_hdf5(where: str, key: str | None, *, follow_links: bool) -> Rows:
    """A dataset of an HDF5 file.

    Raises
    ------
    SourceError
        Its data lies in another file, and ``follow_links`` does not allow that.
    """
    h5py = needed("h5py", extra="hdf5", why="importing HDF5")
    file = h5py.File(where, "r")
    keys: list[str] = []
    file.visititems(lambda name, one: keys.append(name) if isinstance(one, h5py.Dataset) else None)
    if key is not None and not follow_links:
        _refuse_external_links(h5py, file, key, where)
    linked = file.get(key) if key else None
    dataset = linked if isinstance(linked, h5py.Dataset) else file[chosen(where, key.strip("/") if key else None, keys)]
    named = f"{where}:{dataset.name}"
    if not follow_links and (dataset.external or dataset.is_virtual):
        raise link_refused(
            named, "its data lies in other files" if dataset.external else "is made up of other datasets"
        )
    if dataset.shape is None:
        raise ConfigError(f"{named}: is a null dataset, which has neither elements nor a shape")
    _check_chunk(named, dataset.chunks, dataset.dtype)
    found = Found(dataset, json_attrs(named, dataset.attrs), hdf5_dims(dataset))
    found.attrs.pop("DIMENSION_LABELS", None)
    return Rows(named, found, [*stamp(where), dataset.name])


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


def _check_chunk(where: str, chunks: Any, dtype: np.dtype[Any]) -> None:
    size = math.prod(chunks or ()) * dtype.itemsize
    if size > MAX_CHUNK_BYTES:
        raise SourceError(
            f"{where}: says that its chunks have {size:,} bytes, and they are read whole up to {MAX_CHUNK_BYTES:,}"
        )


def is_zarr(where: str, suffix: str) -> bool:
    """Whether a path looks like a Zarr."""
    return suffix == ".zarr" or any(
        os.path.exists(os.path.join(where, one)) for one in ("zarr.json", ".zarray", ".zgroup")
    )


def open_zarr(where: str, shown: str, key: str | None, options: Mapping[str, Any], *, follow_links: bool) -> Rows:
    """An array of a Zarr, of format 2 or 3, local or behind a URL.

    Raises
    ------
    SourceError
        Links in its folder lead out of it, and ``follow_links`` does not allow that.
    """
    import zarr

    local = os.path.isdir(where)
    files = tree(where) if local else []
    if not follow_links:
        refuse_links_out(where, files)
    opened = zarr.open(where, mode="r", storage_options=dict(options) or None)
    if isinstance(opened, zarr.Group):
        keys = [name for name, one in opened.members(max_depth=None) if isinstance(one, zarr.Array)]
        opened = opened[chosen(shown, key.strip("/") if key else None, keys)]
    _check_chunk(shown, opened.shards or opened.chunks, opened.dtype)
    kept = {name: value for name, value in opened.attrs.items() if not name.startswith("_ARRAY")}
    found = Found(opened, decoded_attributes(kept, opened.dtype), zarr_dims(opened))
    stamps = [stamp(path) for path in files if os.path.isfile(path)] if local else None
    return Rows(shown, found, stamps)
