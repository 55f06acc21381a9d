"""Bringing data in: from files, URLs, arrays and iterators, in bounded memory, taken up again where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hubarray import catalog
from hubarray.arrays import chunking
from hubarray.arrays.array import Array
from hubarray.errors import AlreadyExistsError, FrozenError, NotFoundError, SourceError
from hubarray.history.version import version_of
from hubarray.interop import dask as dask_interop
from hubarray.interop.sources import Source, open_source
from hubarray.lookup import RootLike, locate, newest
from hubarray.progress import progress

BLOCK_BYTES = 64 << 20
_STAGING = ".importing"
_NOTE = "hubarray.import"


def import_(
    source: Any,
    name: str,
    *,
    key: str | None = None,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    root: RootLike = None,
    message: str | None = None,
) -> Array:
    """Make an array of what is elsewhere.

    Holds about 64 MiB of it at a time. It appears under its name when all of it is there; until then it lies under
    the version ``<version>.importing``. Where an import of the same source was interrupted, what was sent is kept.

    Parameters
    ----------
    source : path, URL, array or iterable
        ``.npy``, ``.npz``; Zarr v2 and v3, anywhere fsspec reaches; HDF5; a TIFF stack; a folder or glob of images
        of equal size, sorted by name; audio (samples by channels) and video (frames) through PyAV; a NumPy or Dask
        array; any iterable of samples of equal shape, however many.
    name : str
        Must not exist.
    key : str, optional
        Which array, of a file that holds several.
    chunks, codec, attrs
        As for :func:`hubarray.array`. Zarr's attributes, and rates of audio and video, come along.
    root : str, path or Root, optional
    message : str, optional
        For the log.

    Returns
    -------
    Array

    Raises
    ------
    SourceError
        The source cannot be read, or changed meanwhile; the name is as it was.
    AlreadyExistsError, ConfigError, MissingPackageError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.import_((np.full(4, i) for i in range(10)), "docs/imported:v0")
    >>> a.shape, a[9].tolist()
    ((10, 4), [9, 9, 9, 9])
    """
    where, parsed = locate(name, root)
    there = newest(version_of(where, parsed))
    if there is not None and there.head.kind != "deleted":
        raise AlreadyExistsError(f"{parsed}: exists already; choose another version, or delete it first")
    if hasattr(source, "__dask_graph__"):
        return dask_interop.store(
            source, str(parsed), chunks=chunks, codec=codec, attrs=attrs, root=where, message=message
        )
    opened = open_source(source, key=key)
    staging = _staged(opened, str(replace(parsed, version=parsed.version + _STAGING)), chunks, codec, where)
    _fill(staging, opened)
    if opened.fingerprint is not None and open_source(source, key=key).fingerprint != opened.fingerprint:
        raise SourceError(f"{opened.where}: changed while it was read; import it again")
    staging.attrs.clear()
    staging.attrs.update(opened.attrs | dict(attrs or {}))
    staged = f"{staging.name}:{staging.version}"
    array = catalog.copy(staged, str(parsed), root=where, message=message or f"import {opened.where}")
    catalog.delete(staged, root=where)
    return array


def _staged(source: Source, name: str, chunks: Any, codec: Any, root: Any) -> Array:
    """What is filled before it gets its name: left by an earlier import of the same source, or new."""
    rows = source.rows if source.rows is not None else 1 << 40
    sized = chunks
    if chunks == "auto":
        sized = chunking.checked_chunks("auto", (max(1, rows), *source.row_shape), source.dtype.itemsize)
    note = json.loads(json.dumps({"source": source.fingerprint}))
    try:
        there = catalog.load(name, root=root)
        alike = (there.shape[1:], there.dtype, there.attrs.get(_NOTE)) == (source.row_shape, source.dtype, note)
        same_chunks = chunks == "auto" or there.chunks == tuple(np.broadcast_to(chunks, len(there.shape)).tolist())
        if alike and same_chunks and source.fingerprint is not None:
            return there
    except (NotFoundError, FrozenError):
        pass
    return catalog.array(
        (0, *source.row_shape),
        name,
        source.dtype,
        chunks=sized,
        codec=codec,
        attrs={_NOTE: note},
        overwrite=True,
        root=root,
    )


def _fill(staging: Array, source: Source) -> None:
    row_bytes = max(1, int(np.prod(source.row_shape, dtype=np.int64)) * source.dtype.itemsize)
    block_rows = max(1, BLOCK_BYTES // (row_bytes * staging.chunks[0])) * staging.chunks[0]
    total = None if source.rows is None else source.rows * row_bytes
    done = len(staging) - len(staging) % staging.chunks[0]
    if done != len(staging):
        staging.resize((done, *staging.shape[1:]))
    with progress(total, f"importing {source.where}") as bar:
        bar.update(done * row_bytes)
        for rows in source.blocks(done, block_rows):
            staging.append(rows)
            bar.update(rows.nbytes)
    if source.rows is not None and len(staging) != source.rows:
        raise SourceError(f"{source.where}: had {source.rows} rows at first, and {len(staging)} came; import it again")
