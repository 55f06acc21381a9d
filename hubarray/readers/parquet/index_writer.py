"""Building indexes of row groups; :mod:`hubarray.readers.parquet.indexes` has their format."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.pools import core_count
from hubarray.errors import ConfigError
from hubarray.readers.fields.source import row_values
from hubarray.readers.fields.unischema import no_field
from hubarray.readers.parquet.files import read_small, write_small
from hubarray.readers.parquet.indexes import (
    MAX_BYTES,
    NAME,
    VALUES,
    FieldNotNullIndexer,
    SingleFieldIndexer,
    files_of,
    parse_indexes,
)
from hubarray.readers.parquet.source import parquet_source
from hubarray.redaction import named_type
from hubarray.threads import Threads


def build_rowgroup_index(
    url: str | os.PathLike[str],
    indexers: Sequence[SingleFieldIndexer | FieldNotNullIndexer],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Index the row groups of a Parquet or Petastorm dataset, for ``rowgroup_selector=`` of a reader.

    Reads the fields that are indexed, and writes a file of JSON beside the data; indexes of other names stay.

    Parameters
    ----------
    url : path or URL of a folder
    indexers : list of SingleFieldIndexer or FieldNotNullIndexer
    storage_options : mapping, optional
        Same as in :func:`hubarray.make_reader`.

    Raises
    ------
    ConfigError
        A field does not exist, or its values are not text, numbers or booleans.
    NotFoundError, SourceError
    """
    source = parquet_source(url, storage_options=storage_options)
    if not isinstance(indexers, (list, tuple)) or not indexers:
        raise ConfigError("indexers: give a list of at least one")
    for indexer in indexers:
        if indexer.index_field not in source.schema.fields:
            raise no_field(source.schema, indexer.index_field, source.where)
    if len(source.files) == 1 and source.files[0].path == source.location.path:
        raise ConfigError(f"{source.where}: is a file; an index is stored beside the files of a folder")
    names = sorted({indexer.index_field for indexer in indexers})
    bounds = source.unit_bounds
    assert bounds is not None

    def unit_values_of(unit: int) -> dict[str, set[Any]]:
        columns = source.read(np.arange(bounds[unit], bounds[unit + 1]), names)
        return {name: _values(columns[name], name) for name in names}

    with Threads(core_count(), "hubarray-index") as threads:
        units = list(threads.map(unit_values_of, range(len(source.units))))
    files = files_of(source)
    data = read_small(source.location, NAME, MAX_BYTES)
    old = {} if data is None else parse_indexes(data, f"{source.where}/{NAME}", len(source.units))
    indexes = dict(old["indexes"]) if old and old["files"] == files else {}
    for indexer in indexers:
        if isinstance(indexer, FieldNotNullIndexer):
            rows = [i for i, unit in enumerate(units) if unit[indexer.index_field]]
            indexes[indexer.index_name] = {"field": indexer.index_field, "rows": rows}
            continue
        values: dict[Any, list[int]] = {}
        for i, unit in enumerate(units):
            for value in unit[indexer.index_field]:
                values.setdefault(value, []).append(i)
        indexes[indexer.index_name] = {
            "field": indexer.index_field,
            "values": [[key, rows] for key, rows in values.items()],
        }
    made = json.dumps({"version": 1, "files": files, "indexes": indexes}, separators=(",", ":")).encode()
    write_small(source.location, NAME, made)


def _values(column: Any, name: str) -> set[Any]:
    unit_values: set[Any] = set()
    for value in row_values(column):
        if value is None:
            continue
        several = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for each in several if isinstance(several, list) else [several]:
            if not isinstance(each, VALUES):
                raise ConfigError(f"{name!r}: is indexed by text, numbers or booleans, and holds {named_type(each)}")
            unit_values.add(each)
    return unit_values
