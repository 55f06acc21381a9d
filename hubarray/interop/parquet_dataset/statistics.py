"""The least and the most of columns, as a footer's statistics say them; checked before Arrow decodes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Types whose statistics are exact and compare as Python does; text may be cut, and is not used to prove equality.
_TYPES = ("INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")


def ranges(found: pq.FileMetaData, group: int, fields: Sequence[str]) -> dict[str, tuple[Any, Any, bool]]:
    """Of the fields of a row group the least value, the most, and whether there are nulls; of those it can tell.

    Arrow casts statistics to the column's type without looking, and ends the process where they are of another one: so
    the types of chunk and column are compared first.
    """
    row_group = found.row_group(group)
    schema = found.schema
    told: dict[str, tuple[Any, Any, bool]] = {}
    if row_group.num_columns != len(schema):
        return told
    for i in range(row_group.num_columns):
        column = schema.column(i)
        if column.path not in fields or column.max_repetition_level:
            continue
        chunk = row_group.column(i)
        if chunk.physical_type != column.physical_type or column.physical_type not in _TYPES:
            continue
        try:
            known = chunk.statistics
            if known is None or not known.has_min_max or not known.has_null_count:
                continue
            low, high = known.min, known.max
        except (pa.ArrowException, OSError, ValueError, OverflowError, UnicodeDecodeError):
            continue
        if any(isinstance(one, float) and math.isnan(one) for one in (low, high)):
            continue
        # Doubles may hide NaN, and byte arrays may be cut: they rule out, and prove nothing.
        exact = column.physical_type in ("INT32", "INT64")
        told[column.path] = (low, high, not exact or bool(known.null_count))
    return told
