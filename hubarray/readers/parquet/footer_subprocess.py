"""Read facts about column chunks in a separate process: ``python -P footer_subprocess.py FIELD...``.

Arrow ends the process at some damage of a footer as soon as Python looks at a column chunk, and nothing can catch that.
The caller sends footers to this process, each as its length and its bytes, and reads an Arrow stream for each. It
imports nothing of hubarray, to start in a fifth of a second.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LENGTH = struct.Struct("<Q")
# Types whose statistics compare as Python does.
_TYPES = ("INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")


def chunk_facts(metadata: pq.FileMetaData, fields: Sequence[str]) -> pa.Table:
    """Return the ranges of the fields in each row group.

    A row has the file, the number of the field, and its minimum and maximum. A flag says whether these prove nothing
    about single rows. Unknown values are null.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns: dict[str, pa.Array] = {"file": pa.array([_file_of(group) for group in groups], pa.string())}
    for number, name in enumerate(fields):
        ranges = [_range(metadata, group, name) for group in groups]
        try:
            low, high = (pa.array([None if bounds is None else bounds[i] for bounds in ranges]) for i in (0, 1))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
        loose = pa.array([None if bounds is None else bounds[2] for bounds in ranges], pa.bool_())
        columns |= {f"{number} low": low, f"{number} high": high, f"{number} loose": loose}
    return pa.table(columns)


def _file_of(group: Any) -> str:
    return str(group.column(0).file_path) if group.num_columns else ""


def _range(metadata: pq.FileMetaData, group: Any, field: str) -> tuple[Any, Any, bool] | None:
    schema = metadata.schema
    if group.num_columns != len(schema):
        return None
    for i in range(group.num_columns):
        column = schema.column(i)
        if column.path != field or column.max_repetition_level:
            continue
        chunk = group.column(i)
        if chunk.physical_type != column.physical_type or column.physical_type not in _TYPES:
            return None
        try:
            known = chunk.statistics
            if known is None or not known.has_min_max or not known.has_null_count:
                return None
            low, high = known.min, known.max
        except (pa.ArrowException, OSError, ValueError, OverflowError):
            return None
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            return None
        # Floats may hide NaN, and byte arrays may be cut: they rule out, and prove nothing.
        exact = column.physical_type in ("INT32", "INT64")
        return low, high, not exact or bool(known.null_count)
    return None


def _footers(stream: Any) -> Iterator[bytes]:
    while len(first := stream.read(LENGTH.size)) == LENGTH.size:
        yield stream.read(LENGTH.unpack(first)[0])


def main(fields: Sequence[str]) -> None:
    """Answer on stdout what comes on stdin."""
    for data in _footers(sys.stdin.buffer):
        sink = pa.BufferOutputStream()
        table = chunk_facts(pq.read_metadata(pa.BufferReader(data)), fields)
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        answer = sink.getvalue()
        sys.stdout.buffer.write(LENGTH.pack(answer.size))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
