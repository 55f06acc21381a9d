"""Metadata beside the files of a dataset: its schema as JSON, and a summary of the row groups."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hubarray.errors import ConfigError, SourceError
from hubarray.readers.fields.unischema import Unischema
from hubarray.readers.parquet import petastorm_metadata, summary
from hubarray.readers.parquet.files import Location, listed, located, write_small
from hubarray.readers.parquet.footers import footers_of
from hubarray.readers.parquet.pickling import pickled_unischema
from hubarray.readers.parquet.source import ParquetSource


def finish_dataset(location: Location, schema: Unischema | None) -> int:
    """Write the schema of a dataset, if there is one, and the summary of its row groups.

    Returns
    -------
    int
        How many files it has.
    """
    files = listed(location)
    footers, _ = footers_of(location, files, {}, None)
    if schema is not None:
        counts = {file.relative: len(footer.rows) for file, footer in zip(files, footers, strict=True)}
        added = {
            petastorm_metadata.SCHEMA_KEY: json.dumps(schema.to_json(), separators=(",", ":")).encode(),
            petastorm_metadata.ROW_GROUPS_KEY: json.dumps(counts).encode(),
        }
        petastorm_metadata.with_metadata(location, footers[0].schema, added | _for_petastorm(location, schema))
    write_small(location, summary.NAME, summary.summary_bytes(files, footers))
    return len(files)


def _for_petastorm(location: Location, schema: Unischema) -> dict[bytes, bytes]:
    """The schema as Petastorm reads it; none where it has its own already, or could not know a field."""
    known = petastorm_metadata.common_metadata(location) or {}
    if petastorm_metadata.SCHEMA_KEY not in known and any(
        key in known for key in petastorm_metadata.PICKLED_SCHEMA_KEYS
    ):
        return {}
    try:
        return {petastorm_metadata.PICKLED_SCHEMA_KEYS[0]: pickled_unischema(schema)}
    except ConfigError:
        return {}


def write_metadata(url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> int:
    """Write the summary of a dataset, so that it opens with one read; a pickled schema is written as JSON as well.

    Parameters
    ----------
    url : path or URL of a folder
    storage_options : mapping, optional

    Returns
    -------
    int
        How many files it has.

    Raises
    ------
    NotFoundError, SourceError
    """
    location = located(url, storage_options)
    files = listed(location)
    if len(files) == 1 and files[0].path == location.path:
        raise SourceError(f"{location.where}: is a file; a summary is stored beside the files of a folder")
    return finish_dataset(location, petastorm_metadata.schema_of(location))


def read_metadata(url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Facts of a dataset, as the command line shows them: schema, files, row groups and rows.

    Parameters
    ----------
    url : path or URL of a folder
    storage_options : mapping, optional

    Returns
    -------
    dict
    """
    location = located(url, storage_options)
    files = listed(location)
    schema = petastorm_metadata.schema_of(location)
    footers, _ = footers_of(location, files, summary.known_footers(location, files), None)
    arrow: pa.Schema = footers[0].schema
    # It refuses files whose columns disagree.
    keys = ParquetSource(location, files, footers, schema).key_fields
    return {
        "files": len(files),
        "row_groups": sum(len(footer.rows) for footer in footers),
        "rows": sum(sum(footer.rows) for footer in footers),
        "bytes": sum(file.size_bytes for file in files),
        "schema": None if schema is None else schema.to_json(),
        "columns": {name: str(arrow.field(name).type) for name in arrow.names},
        "partition_columns": {name: np.dtype(field.numpy_dtype).name for name, field in keys.items()},
    }
