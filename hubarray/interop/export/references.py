"""References: chunks of a commit as ranges of its packs, so that others can read them without an export."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import unquote

from hubarray.api import catalog
from hubarray.api.resolve import RootLike
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.blobs.ref import blob_place
from hubarray.datasets.handle import DatasetHandle
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.interop.export.arrays import to_file, warn_of_images
from hubarray.interop.zarr_attributes import zarr_json, zarr_json_in_group
from hubarray.progress import progress
from hubarray.redaction import shown_url

_FOR_OTHERS = ("file://", "s3://", "gs://", "http://", "https://")


def references(name: str, target: str | os.PathLike[str], *, overwrite: bool = False, root: RootLike = None) -> None:
    """Write the positions of the chunks of a commit, as a Zarr v3 hierarchy of kerchunk references.

    With them, zarr-python and xarray read the data from the bucket through the reference filesystem of fsspec, without
    hubarray: ``xr.open_zarr("reference://", storage_options={"fo": "refs.json"}, consolidated=False)``. If the bucket
    needs credentials, add ``"remote_options": {"asynchronous": True, "key": ...}``.

    A reader loads the whole of a ``.json`` file. Use a ``.parquet`` folder for millions of chunks: a reader loads only
    the parts that it needs. This requires the option ``"remote_protocol": "s3"`` (or ``"file"``) and the package
    fastparquet. An array is then in a group, under the last part of its name.

    An array of encoded images (``codec="png"`` and so on) needs the package imagecodecs-zarr. Without it, zarr-python
    cannot open this array, and xarray cannot open a group that contains it. A warning says so.

    Costs reading the manifest. No data is read or moved. The references are valid as long as the commit exists. Tag the
    commit, so that it does not expire.

    Parameters
    ----------
    name : str
        A dataset, which becomes a group, or an array: ``owner/name:version``, with ``@number`` or ``@tag`` for a
        commit.
    target : path
        A ``.json`` file, or a ``.parquet`` folder.
    overwrite : bool
        Replace the existing file or folder of references.
    root : str, path or Root, optional
        A folder or bucket that the readers can access.

    Raises
    ------
    ConfigError, AlreadyExistsError, NotFoundError, CorruptDataError, StorageError

    Examples
    --------
    >>> import json, tempfile
    >>> import hubarray as hub
    >>> a = hub.array((4, 2), "docs/referred:v0", dtype="int64", chunks=(2, 2))
    >>> a[:2] = 7
    >>> path = tempfile.mkdtemp() + "/refs.json"
    >>> hub.references("docs/referred:v0", path)
    >>> sorted(json.load(open(path))["refs"])
    ['c/0/0', 'zarr.json']
    """
    handle: Any = catalog.load(name, root=root)
    where = os.fspath(target)
    if "://" in where:
        raise ConfigError(f"{shown_url(where)}: references are written to a file of this machine; copy it there after")
    suffix = os.path.splitext(where.rstrip("/"))[1].lower()
    if suffix not in (".json", ".parquet"):
        raise ConfigError(f"{shown_url(where)}: references are written to a .json file, or a folder named .parquet")
    if not isinstance(handle, (ArrayHandle, DatasetHandle)):
        raise ConfigError(
            f"{shown_url(name)}: is a {handle.kind}, whose blocks Zarr does not know; hub.export writes it"
        )
    pinned = handle.snapshot()
    if not pinned.root.url.startswith(_FOR_OTHERS):
        raise ConfigError(f"{shown_url(pinned.root.url)}: nobody else can read there")
    warn_of_images("the references", [pinned] if isinstance(pinned, ArrayHandle) else pinned.arrays.values())
    if suffix == ".json":
        to_file(where, partial(_write, pinned), overwrite)
        return
    _to_folder(pinned, where.rstrip("/"), overwrite)


def _to_folder(handle: ArrayHandle | DatasetHandle, where: str, overwrite: bool) -> None:
    from hubarray.interop.export.references_parquet import write_references

    if os.path.lexists(where):
        if not overwrite:
            raise AlreadyExistsError(f"{shown_url(where)}: is there already; overwrite=True replaces it")
        if not os.path.isfile(f"{where}/.zmetadata"):
            raise AlreadyExistsError(f"{shown_url(where)}: holds no references, so it is not replaced")
    arrays = {handle.name.rpartition("/")[2]: handle} if isinstance(handle, ArrayHandle) else dict(handle.arrays)
    attributes = {} if isinstance(handle, ArrayHandle) else dict(handle.attrs)
    write_references(arrays, attributes, where, _place(handle), overwrite=overwrite)


def _write(handle: ArrayHandle | DatasetHandle, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file, progress(None, f"referring to {handle.name}") as bar:
        file.write('{"version": 1, "refs": {')
        for i, (key, value) in enumerate(_references(handle)):
            file.write(f"{',' if i else ''}\n{json.dumps(key)}: {json.dumps(value)}")
            bar.update(1)
        file.write("\n}}\n")


def _references(handle: ArrayHandle | DatasetHandle) -> Iterator[tuple[str, Any]]:
    if isinstance(handle, ArrayHandle):
        yield from _of_array(handle, "")
        return
    group = {"zarr_format": 3, "node_type": "group", "attributes": dict(handle.attrs)}
    yield "zarr.json", json.dumps(group)
    for name, array in handle.arrays.items():
        yield from _of_array(array, f"{name}/")


def _place(handle: ArrayHandle | DatasetHandle) -> str:
    """The root as fsspec takes it, which takes what follows ``file://`` for a path as it is."""
    place = handle.root.url.rstrip("/")
    return unquote(place) if place.startswith("file://") else place


def _of_array(array: ArrayHandle, before: str) -> Iterator[tuple[str, Any]]:
    described = zarr_json_in_group(array) if before else zarr_json(array)
    yield f"{before}zarr.json", json.dumps(described)
    place = _place(array)
    for coords, refs in snapshot_of(array).present():
        for chunk_coords, ref in zip(coords.tolist(), refs, strict=True):
            blob = blob_place(ref)
            yield "/".join([f"{before}c", *map(str, chunk_coords)]), [f"{place}/{blob.key}", blob.offset, blob.length]
