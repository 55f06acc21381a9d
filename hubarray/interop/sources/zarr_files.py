"""Zarr, of formats 2 and 3: folders with arrays in them, and such behind URLs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hubarray import process
from hubarray.errors import SourceError
from hubarray.interop.sources.base import check_chunks, chosen, refuse_links_out, stamp, tree
from hubarray.interop.sources.found import Found, json_attrs
from hubarray.interop.sources.members import Members, is_no_dataset, refuse_many, storable, with_those_of_groups
from hubarray.interop.sources.sliced import Single, SlicedSource, rows_or_single
from hubarray.interop.sources.texts import Texts
from hubarray.interop.zarr_attributes import decoded_attributes
from hubarray.limits import parse_json

_MAX_METADATA_BYTES = 64 << 20
_SMALL_METADATA_BYTES = 1 << 20
_ZARR_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def is_zarr(where: str, suffix: str) -> bool:
    """Whether a path looks like a Zarr."""
    return suffix == ".zarr" or any(
        os.path.exists(os.path.join(where, name)) for name in ("zarr.json", ".zarray", ".zgroup")
    )


def open_zarr(
    where: str, shown: str, key: str | None, options: Mapping[str, Any], *, follow_links: bool, max_decoded_bytes: int
) -> SlicedSource | Single:
    """An array of a Zarr, of format 2 or 3, local or behind a URL.

    Raises
    ------
    SourceError
        Links in its folder lead out of it, and ``follow_links`` does not allow that.
    """
    opened, stamps = _opened_zarr(where, options, follow_links=follow_links)
    rows = partial(zarr_rows, shown, stamps=stamps, max_decoded_bytes=max_decoded_bytes)
    if hasattr(opened, "shape"):
        return rows(opened)
    sources = storable(shown, {path: partial(rows, array) for path, array in _zarr_tree(opened)[0].items()})
    opened_source: SlicedSource | Single = sources[chosen(shown, key.strip("/") if key else None, list(sources))]
    return opened_source


def zarr_members(
    where: str, shown: str, key: str | None, options: Mapping[str, Any], *, follow_links: bool, max_decoded_bytes: int
) -> Members | None:
    """All arrays of a Zarr, or of a group in it; None of one alone, or where is no group."""
    opened, stamps = _opened_zarr(where, options, follow_links=follow_links)
    group = opened if key is None or hasattr(opened, "shape") else opened.get(key.strip("/"))
    if group is None or hasattr(group, "shape"):
        return None
    named = f"{shown}/{key.strip('/')}" if key else shown
    return members_of_zarr(named, group, stamps, max_decoded_bytes, key=key, may_be_alone=key is None)


def members_of_zarr(
    named: str,
    group: Any,
    stamps: list[Any] | None,
    max_decoded_bytes: int,
    *,
    key: str | None = None,
    may_be_alone: bool = False,
) -> Members | None:
    """All arrays of a group that is open; None of one alone, unless a key named it."""
    arrays, groups = _zarr_tree(group)
    refuse_many(named, arrays | groups)
    its = json_attrs(named, group.attrs)
    of_groups = {path: json_attrs(named, node.attrs) for path, node in groups.items()}
    dims = _ome_dims(group.attrs, "")
    for path, node in groups.items():
        dims |= _ome_dims(node.attrs, f"{path}/")
    opened = {
        path: partial(zarr_rows, f"{named}/{path}", array, stamps, max_decoded_bytes, dims.get(path))
        for path, array in sorted(arrays.items())
    }
    sources = storable(named, opened)
    if is_no_dataset(sources, key, may_be_alone=may_be_alone and not its and not any(of_groups.values())):
        return None
    return Members(named, sources, with_those_of_groups(named, its, of_groups), _marks(stamps, group))


def _fitting(dims: tuple[str, ...] | None, array: Any) -> tuple[str, ...] | None:
    return dims if dims is not None and len(dims) == len(array.shape) else None


def _ome_dims(attributes: Any, below: str) -> dict[str, tuple[str, ...]]:
    """Names of axes that a group of OME-Zarr gives to its arrays, by their paths.

    Source: https://ngff.openmicroscopy.org, "multiscales" metadata, 0.1 to 0.5.
    """
    ome = attributes.get("ome")
    images = (ome if isinstance(ome, dict) else attributes).get("multiscales")
    dims_by_path: dict[str, tuple[str, ...]] = {}
    for image in images if isinstance(images, list) else ():
        # Before 0.3 the axes were always these.
        axes = image.get("axes", list("tczyx")) if isinstance(image, dict) else []
        names = (
            [axis.get("name") if isinstance(axis, dict) else axis for axis in axes] if isinstance(axes, list) else []
        )
        datasets = image.get("datasets") if isinstance(image, dict) else None
        texts = [name for name in names if isinstance(name, str)]
        if names and len(set(texts)) == len(names):
            for dataset in datasets if isinstance(datasets, list) else ():
                if isinstance(dataset, dict) and isinstance(dataset.get("path"), str):
                    dims_by_path[below + dataset["path"].strip("/")] = tuple(texts)
    return dims_by_path


def _opened_zarr(where: str, options: Mapping[str, Any], *, follow_links: bool) -> tuple[Any, list[Any] | None]:
    """The array or group there, and marks of its files, where they are local."""
    import zarr

    from hubarray.arrays.codecs import zarr_images

    zarr_images.register()
    local = os.path.isdir(where)
    files = tree(where) if local else []
    if not follow_links:
        refuse_links_out(where, files)
    for path in files:
        if os.path.basename(path) not in _ZARR_METADATA:
            continue
        if os.path.getsize(path) > _MAX_METADATA_BYTES:
            raise SourceError(f"{path}: has {os.path.getsize(path):,} bytes, and {_MAX_METADATA_BYTES:,} are read")
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
    arrays = {path: node for path, node in every.items() if hasattr(node, "shape")}
    return arrays, {path: node for path, node in every.items() if path not in arrays}


def zarr_rows(
    shown: str,
    opened: Any,
    stamps: list[Any] | None,
    max_decoded_bytes: int,
    dims: tuple[str, ...] | None = None,
) -> SlicedSource | Single:
    """An array that is open, as rows; ``stamps`` are the marks of its files, where they are local.

    Raises
    ------
    SourceError
    """
    stored_bytes = sum(size for _, size, _ in stamps) if stamps is not None else None
    opened_source = zarr_array(shown, opened, stored_bytes=stored_bytes, max_decoded_bytes=max_decoded_bytes, dims=dims)
    # Texts count what they take themselves.
    known_bytes = None if isinstance(opened_source.array, Texts) else stored_bytes
    return rows_or_single(shown, opened_source, _marks(stamps, opened), stored_bytes=known_bytes)


def zarr_array(
    shown: str,
    opened: Any,
    *,
    stored_bytes: int | None,
    max_decoded_bytes: int,
    dims: tuple[str, ...] | None = None,
) -> Found:
    """An array of Zarr and what its metadata say of it.

    Raises
    ------
    SourceError
        Its chunks are too large, or too many for ``stored_bytes``.
    """
    with process.importing:
        from hubarray.arrays.codecs.zarr_chain import bounded_array
    opened = bounded_array(opened, max_decoded_bytes)
    check_chunks(shown, opened, stored_bytes, max_decoded_bytes)
    attrs = json_attrs(shown, {name: value for name, value in opened.attrs.items() if not name.startswith("_ARRAY")})
    dtype = np.dtype(opened.dtype)
    if not opened.shape:
        return Found(opened, decoded_attributes(attrs, dtype))
    if dtype.kind in "TO":
        return Found(Texts(shown, opened, opened.shape, stored_bytes), attrs, _zarr_dims(opened))
    is_of_xarray = opened.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in opened.attrs
    if is_of_xarray and opened.fill_value is not None and dtype.kind in "iuf":
        # In format 2 xarray has no other place for it.
        attrs.setdefault("_FillValue", opened.fill_value.item())
    return Found(
        opened, decoded_attributes(attrs, dtype), _fitting(dims, opened) or _zarr_dims(opened), opened.fill_value
    )


def _zarr_dims(array: Any) -> tuple[str | None, ...] | None:
    """Axis names of a Zarr array: ``dimension_names`` in format 3, xarray's attribute in format 2."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    known = isinstance(names, (list, tuple)) and len(names) == len(array.shape)
    return tuple(None if name is None else str(name) for name in names) if known else None


def _marks(stamps: list[Any] | None, node: Any) -> list[Any] | None:
    """The marks of a Zarr's files, and which node of it is meant."""
    return None if stamps is None else [*stamps, node.path]


def refuse_links_of_store(node: Any) -> None:
    """Refuse links out of the folder of a store below a group or an array that is open; other stores have none."""
    folder = getattr(node.store, "root", None)
    if isinstance(folder, os.PathLike):
        refuse_links_out(os.fspath(folder), tree(os.path.join(folder, node.path)))
