"""References as Parquet: kerchunk's lazy layout, of which a reader opens the part that a chunk is told in.

The layout is that of fsspec's ``LazyReferenceMapper``: a folder with ``.zmetadata`` and, of each array, a file for so
many chunks in the order of the grid. It was made for Zarr v2, whose chunks are named ``array/0.1``; Zarr v3 metadata
that says so, with a stub of v2's beside it that tells the mapper the grid, is read through it as well.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.blobs.ref import blob_place
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.interop.zarr_attributes import zarr_group_json, zarr_json_in_group

RECORD_CHUNKS = 10_000
# Of a chunk of fill values, which stands where a file tells of other chunks and not of one.
_MAX_FILL_BYTES = 4 << 20
# Their numbers are int64.
_MAX_CHUNKS = (1 << 63) - 1


def write_references(
    arrays: Mapping[str, ArrayHandle], attributes: Mapping[str, Any], path: str, place: str, *, overwrite: bool
) -> None:
    """Write the references of a group of arrays into a folder, which is there once all of it is.

    Raises
    ------
    ConfigError
        An array has a chunk shape that such references cannot tell.
    AlreadyExistsError
        Something is there by now, and nothing was to be overwritten.
    """
    made, before = (f"{path}.{uuid.uuid4().hex[:8]}.tmp" for _ in range(2))
    os.makedirs(made)
    try:
        nodes = {name: _described(array) for name, array in arrays.items()}
        group_json: dict[str, Any] = {"zarr.json": zarr_group_json(dict(attributes), nodes)}
        for name, array in arrays.items():
            group_json[f"{name}/zarr.json"] = nodes[name]
            group_json[f"{name}/.zarray"] = {"shape": list(array.shape), "chunks": list(array.chunks)}
            os.makedirs(f"{made}/{name}")
            for record, table in _records(array, name, place):
                pq.write_table(table, f"{made}/{name}/refs.{record}.parq", compression="zstd", store_schema=False)
        with open(f"{made}/.zmetadata", "w", encoding="utf-8") as file:
            json.dump({"metadata": group_json, "record_size": RECORD_CHUNKS}, file)
        if overwrite and os.path.lexists(path):
            # A folder that is not empty gives its name to no other.
            os.rename(path, before)
        try:
            os.rename(made, path)
        except OSError:
            if os.path.lexists(before):
                os.rename(before, path)
            if not os.path.lexists(path):
                raise
            raise AlreadyExistsError(f"{path}: is there already; overwrite=True replaces it") from None
        shutil.rmtree(before, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _described(array: ArrayHandle) -> dict[str, Any]:
    described: dict[str, Any] = zarr_json_in_group(array)
    described["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
    return described


def _records(array: ArrayHandle, name: str, place: str) -> Iterator[tuple[int, pa.Table]]:
    """The files of an array that tell of a chunk at least, by their numbers."""
    counts = tuple(-(-length // chunk) for length, chunk in zip(array.shape, array.chunks, strict=True))
    if math.prod(counts) > _MAX_CHUNKS:
        raise ConfigError(f"{name!r}: has {math.prod(counts):,} chunks, more than such references can name; use .json")
    column_parts: list[tuple[np.ndarray, np.ndarray]] = []
    for coords, refs in snapshot_of(array).present():
        axes = tuple(coords.T.astype(np.int64))
        numbers = np.ravel_multi_index(axes, counts) if counts else np.zeros(len(refs), np.int64)
        column_parts.append((np.asarray(numbers, np.int64), refs))
    if not column_parts:
        return
    numbers, refs = (np.concatenate(parts) for parts in zip(*column_parts, strict=True))
    order = np.argsort(numbers, kind="stable")
    numbers, refs = numbers[order], refs[order]
    bounds = np.flatnonzero(np.diff(numbers // RECORD_CHUNKS, prepend=-1))
    for first, stop in zip(bounds.tolist(), [*bounds[1:].tolist(), len(numbers)], strict=True):
        record = int(numbers[first]) // RECORD_CHUNKS
        begin = record * RECORD_CHUNKS
        rows = min(RECORD_CHUNKS, max(1, math.prod(counts)) - begin)
        yield record, _record(array, name, place, numbers[first:stop] - begin, refs[first:stop], rows)


def _record(array: ArrayHandle, name: str, place: str, at: np.ndarray, refs: np.ndarray, rows: int) -> pa.Table:
    paths, offsets, sizes = [""] * rows, np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for i, ref in zip(at.tolist(), refs, strict=True):
        blob = blob_place(ref)
        paths[i], offsets[i], sizes[i] = f"{place}/{blob.key}", blob.offset, blob.length
    columns = {"path": pa.array(paths), "offset": pa.array(offsets), "size": pa.array(sizes)}
    if len(at) < rows:
        # A chunk that is not stored: no null is told alike by all versions of pandas.
        fill = _fill_chunk(array, name)
        raw: list[bytes | None] = [fill] * rows
        for i in at.tolist():
            raw[i] = None
        columns["raw"] = pa.array(raw, pa.binary())
    return pa.table(columns)


def _fill_chunk(array: ArrayHandle, name: str) -> bytes:
    chunk = np.full(array.chunks, array.fill_value, array.dtype)
    encoded = bytes(snapshot_of(array).metadata.codec.encode(np.ascontiguousarray(chunk)))
    if len(encoded) > _MAX_FILL_BYTES:
        raise ConfigError(
            f"{name!r}: a chunk of its fill value takes {len(encoded):,} bytes, and such references hold at most "
            f"{_MAX_FILL_BYTES:,} for a chunk that is not stored; use .json"
        )
    return encoded
