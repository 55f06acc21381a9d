"""Bringing data in: from files, URLs, arrays and iterators, in bounded memory, taken up again where it stopped."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import blake3
import numpy as np

from hubarray import catalog
from hubarray.arrays import chunking
from hubarray.arrays.array import Array
from hubarray.arrays.attributes import checked_attrs
from hubarray.errors import AlreadyExistsError, ConflictError, NotFoundError, SourceError
from hubarray.interop import dask as dask_interop
from hubarray.interop.plain import plain_json
from hubarray.interop.sources import Source, open_source
from hubarray.interop.staged import NOTE, left_over, publish, removed_on_failure, staging_name
from hubarray.lookup import RootLike, locate
from hubarray.progress import progress

BLOCK_BYTES = 64 << 20


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

    Holds about 64 MiB of it at a time, beside what the reader of a format needs, such as a chunk of a Zarr. It
    appears under its name when all of it is there; until then it lies under the version ``<version>.importing``.
    Where an import of the same local source was interrupted, what was sent is kept; ``hub.delete`` of that version
    gives it up.

    Parameters
    ----------
    source : path, URL, array or iterable
        ``.npy``, ``.npz``; Zarr v2 and v3, anywhere fsspec reaches; HDF5; a TIFF stack; a folder or glob of images
        of equal size, sorted by name; audio (samples by channels) and video (frames) through PyAV; a NumPy or Dask
        array; any iterable of samples of equal shape and dtype, however many. Images are taken as they are stored,
        whatever their EXIF orientation; Pillow reads colour in 8 bits.
    name : str
        Must not exist.
    key : str, optional
        Which array, of a file that holds several.
    chunks, codec
        As for :func:`hubarray.array`.
    attrs : mapping, optional
        As for :func:`hubarray.array`, beside those of Zarr and HDF5 that JSON can hold, and rates of audio and video.
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
    checked_attrs(attrs)
    if catalog.exists(str(parsed), root=where):
        raise AlreadyExistsError(f"{parsed}: exists already; choose another version, or delete it first")
    if hasattr(source, "__dask_graph__"):
        return dask_interop.store(
            source, str(parsed), chunks=chunks, codec=codec, attrs=attrs, root=where, message=message
        )
    opened = open_source(source, key=key)
    alone = opened.fingerprint is None
    staged = staging_name(parsed, "importing", own=alone)
    try:
        with removed_on_failure(staged, where) if alone else contextlib.nullcontext():
            staging = _staged(opened, staged, chunks, codec, where)
            _fill(staging, opened)
    except (ConflictError, NotFoundError) as error:
        raise ConflictError(f"{parsed}: another import of this name is running, or ended just now ({error})") from error
    if opened.fingerprint is not None and open_source(source, key=key).fingerprint != opened.fingerprint:
        raise SourceError(f"{opened.where}: changed while it was read; import it again")
    named = plain_json(opened.attrs) | dict(attrs or {})
    return publish(staging, parsed, attrs=named, message=message or _printable(f"import {opened.where}"))


def _staged(source: Source, name: str, chunks: Any, codec: Any, root: Any) -> Array:
    """What is filled before it gets its name: left by an earlier import of the same source, or new."""
    rows = source.rows if source.rows is not None else 1 << 40
    sized = chunking.checked_chunks(chunks, (max(1, rows), *source.row_shape), source.dtype.itemsize)
    note = {"source": _digest(source)}
    there = left_over(name, root)
    if there is not None and source.fingerprint is not None:
        alike = (there.shape[1:], there.dtype, there.attrs[NOTE]) == (source.row_shape, source.dtype, note)
        if alike and len(there) <= rows and there.chunks == sized:
            return there
    return catalog.array(
        (0, *source.row_shape), name, source.dtype, chunks=sized, codec=codec, attrs={NOTE: note}, overwrite=True,
        root=root,
    )  # fmt: skip


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _digest(source: Source) -> str | None:
    if source.fingerprint is None:
        return None
    return blake3.blake3(json.dumps(source.fingerprint).encode("utf-8", "surrogateescape")).hexdigest()


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
            done += len(rows)
            if len(staging) != done:
                raise ConflictError(f"{staging.name}:{staging.version} has rows of another import")
            bar.update(rows.nbytes)
    if source.rows is not None and len(staging) != source.rows:
        raise SourceError(f"{source.where}: had {source.rows} rows at first, and {len(staging)} came; import it again")
