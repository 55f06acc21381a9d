"""Petastorm's metadata beside the files: the schema, and indexes of row groups; as Petastorm wrote it, or as JSON."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.errors import SourceError
from hubarray.limits import parse_json
from hubarray.readers.fields.unischema import Unischema
from hubarray.readers.parquet.files import DataFile, Location, read_small, readable, requested, write_small
from hubarray.readers.parquet.pickled import pickled_schema
from hubarray.redaction import shown_text

COMMON = "_common_metadata"
MAX_COMMON_BYTES = 256 << 20
SCHEMA_KEY = b"hubarray.unischema.v1"
PICKLED_SCHEMA_KEYS = (b"dataset-toolkit.unischema.v1", b"unischema.v1")
PICKLED_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"
ROW_GROUPS_KEY = b"dataset-toolkit.num_row_groups_per_file.v1"


def common_metadata(location: Location) -> dict[bytes, bytes] | None:
    """Return the metadata of ``_common_metadata``, or None if the file does not exist.

    Raises
    ------
    SourceError
    """
    data = read_small(location, COMMON, MAX_COMMON_BYTES)
    if data is None:
        return None
    with readable(f"{location.where}/{COMMON}"):
        return dict(pq.read_metadata(pa.BufferReader(data)).metadata or {})


def schema_of(location: Location) -> Unischema | None:
    """The Unischema of a dataset, or None where it is plain Parquet.

    Raises
    ------
    SourceError
        There is one, and it cannot be read.
    """
    metadata = common_metadata(location)
    return None if metadata is None else schema_in(metadata, f"{location.where}/{COMMON}")


def schema_in_file(location: Location, file: DataFile, *, skip_errors: bool = False) -> Unischema | None:
    """The Unischema in the metadata of a single file, or None; with ``skip_errors`` also if it cannot be read."""
    where = location.where

    def read() -> dict[bytes, bytes]:
        with location.client.filesystem.open_input_file(file.path) as opened:
            return pq.read_metadata(opened).metadata or {}

    try:
        metadata = requested(location, where, read)
    except SourceError:
        if skip_errors:
            return None
        raise
    return schema_in(metadata, where)


def schema_above(location: Location, file: DataFile) -> Unischema | None:
    """The Unischema of the dataset that a file or a folder of partitions is of, which lies in a folder above it."""
    # Only what is above the place that was named has not been looked at; above a folder, if it is one of partitions.
    named = file.path if file.is_named else location.path if "=" in os.path.basename(location.path) else ""
    folder = os.path.dirname(named)
    while folder.strip("/"):
        is_whole = location.client.is_local or "://" in folder
        where = folder if is_whole else f"{location.client.scheme}://{folder}"
        stored_schema = schema_of(Location(location.client, folder, shown_text(where)))
        if stored_schema is not None:
            return stored_schema
        if "=" not in os.path.basename(folder):
            break
        folder = os.path.dirname(folder)
    return None


def schema_in(metadata: dict[bytes, bytes], where: str) -> Unischema | None:
    """The Unischema of some metadata: our JSON, else Petastorm's pickle."""
    if SCHEMA_KEY in metadata:
        try:
            return Unischema.from_json(parse_json(metadata[SCHEMA_KEY]))
        except ValueError as error:
            raise SourceError(f"{where}: its schema is not a Unischema: {str(error)[:200]}") from None
    for key in PICKLED_SCHEMA_KEYS:
        if key in metadata:
            return pickled_schema(metadata[key], where)
    return None


def with_metadata(location: Location, schema: pa.Schema, added: dict[bytes, bytes]) -> None:
    """Rewrite ``_common_metadata`` with additional metadata.

    Raises
    ------
    SourceError
        The store refused.
    """
    known: dict[bytes, Any] = common_metadata(location) or {}
    merged = {**known, **added}
    # What Arrow adds by itself.
    merged.pop(b"ARROW:schema", None)
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema.with_metadata(merged), sink)
    write_small(location, COMMON, sink.getvalue())
