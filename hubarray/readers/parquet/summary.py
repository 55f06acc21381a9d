"""A summary of all footers in one file: `_hubarray_summary.json`, or Parquet's own `_metadata`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hubarray.errors import NotFoundError, SourceError
from hubarray.limits import parse_json
from hubarray.parquet_limits import arrow_schema
from hubarray.readers.parquet import statistics
from hubarray.readers.parquet.files import DataFile, Location, modified_ns, read_small, readable
from hubarray.readers.parquet.footers import MAX_GROUP_ROWS, Footer

NAME = "_hubarray_summary.json"
PARQUET_NAME = "_metadata"
MAX_BYTES = 1 << 30
_MAX_VALUES, _MAX_VALUES_OF_FILE = 1 << 18, 1 << 12
# Mostly the schema, of which files usually share one.
_MAX_SUMMARY_BYTES, _MAX_BYTES_OF_FILE = 4 << 20, 1 << 20


def known_footers(location: Location, files: Sequence[DataFile]) -> dict[str, Footer]:
    """Footers, from a summary, of files that are as they were when it was written; by their relative paths.

    Raises
    ------
    SourceError
        There is a summary, and it is damaged.
    """
    data = read_small(location, NAME, min(MAX_BYTES, _MAX_SUMMARY_BYTES + _MAX_BYTES_OF_FILE * len(files)))
    if data is not None:
        return _of_json(data, files, f"{location.where}/{NAME}")
    data = read_small(location, PARQUET_NAME, MAX_BYTES)
    if data is None:
        return {}
    known = _of_parquet(data, f"{location.where}/{PARQUET_NAME}")
    # It says neither sizes nor times: a file that was written after it is looked at itself.
    written_ns = modified_ns(location, PARQUET_NAME)
    later = {file.relative for file in files if not 0 < file.modified_ns <= written_ns}
    return {path: footer for path, footer in known.items() if path not in later}


def ranges(location: Location, files: Sequence[DataFile], fields: Sequence[str]) -> dict[str, statistics.Ranges]:
    """Ranges of fields in the row groups of files that ``_metadata`` knows as they are; by their relative paths.

    One file is read for all of them. It proves nothing where it is absent or damaged: who asks looks at the files.
    """
    try:
        data = read_small(location, PARQUET_NAME, MAX_BYTES)
        written_ns = 0 if data is None else modified_ns(location, PARQUET_NAME)
    except (SourceError, NotFoundError):
        return {}
    if data is None:
        return {}
    unchanged = {file.relative for file in files if 0 < file.modified_ns <= written_ns}
    ranges_by_path: dict[str, statistics.Ranges] = {}
    for path, ranges_of_group in statistics.summed(data, fields):
        if path in unchanged:
            ranges_by_path.setdefault(path, []).append(ranges_of_group)
    return ranges_by_path


def summary_bytes(files: Sequence[DataFile], footers: Sequence[Footer]) -> bytes:
    """A summary of some files."""
    schemas: list[str] = []
    file_entries: list[Any] = []
    for file, footer in zip(files, footers, strict=True):
        footer_json = footer.to_json()
        schema = footer_json.pop("schema")
        if schema not in schemas:
            schemas.append(schema)
        file_entries.append({"path": file.relative, "size": file.size_bytes, "modified_ns": file.modified_ns,
                     "schema": schemas.index(schema)} | footer_json)  # fmt: skip
    return json.dumps({"version": 1, "schemas": schemas, "files": file_entries}, separators=(",", ":")).encode()


def _of_json(data: bytes, files: Sequence[DataFile], where: str) -> dict[str, Footer]:
    states = {file.relative: (file.size_bytes, file.modified_ns) for file in files}
    try:
        # Of a file a summary has some five values, and two for each row group.
        parsed = parse_json(data, max_values=_MAX_VALUES + _MAX_VALUES_OF_FILE * len(files))
        if parsed["version"] != 1:
            raise SourceError(f"{where}: was written by a newer hubarray; upgrade, or delete it")
        footers = {}
        schemas: dict[int, Any] = {}
        for entry in parsed["files"]:
            if states.get(entry["path"]) != (entry["size"], entry["modified_ns"]):
                continue
            number = entry["schema"]
            if type(number) is not int or not 0 <= number < len(parsed["schemas"]):
                raise ValueError("a file names no schema")
            schema = _NO_SCHEMA if number in schemas else parsed["schemas"][number]
            footer = Footer.from_json(entry | {"schema": schema}, where)
            schemas.setdefault(number, footer.schema)
            footers[entry["path"]] = Footer(footer.rows, footer.sizes, schemas[number])
        return footers
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{where}: is damaged: {str(error)[:200]}. Delete it: footers are then read") from None


def _of_parquet(data: bytes, where: str) -> dict[str, Footer]:
    with readable(where):
        metadata = pq.read_metadata(pa.BufferReader(data))
        schema = arrow_schema(metadata)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    for group, path in zip(groups, statistics.file_paths(data) or [""] * len(groups), strict=True):
        rows.setdefault(path, []).append(group.num_rows)
        sizes.setdefault(path, []).append(max(0, group.total_byte_size))
    if any(not 0 <= n <= MAX_GROUP_ROWS for row_counts in rows.values() for n in row_counts):
        raise SourceError(f"{where}: declares impossible row groups; delete it, and footers are read instead")
    return {path: Footer(tuple(row_counts), tuple(sizes[path]), schema) for path, row_counts in rows.items() if path}


_NO_SCHEMA = Footer((), (), pa.schema([])).to_json()["schema"]
