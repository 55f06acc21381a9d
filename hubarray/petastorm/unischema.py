"""Petastorm's ``petastorm.unischema``."""

from __future__ import annotations

from typing import Any

from hubarray.errors import ConfigError
from hubarray.interop.spark.readers import dict_to_spark_row
from hubarray.readers.fields.unischema import Unischema, UnischemaField, match_unischema_fields
from hubarray.readers.parquet.writing import encode_row


def insert_explicit_nulls(unischema: Unischema, row_dict: dict[str, Any]) -> None:
    """Set the nullable fields that a row has not to None, in place.

    Raises
    ------
    ConfigError
        A field is missing that is not nullable.
    """
    for name, field in unischema.fields.items():
        if name not in row_dict and not field.nullable:
            raise ConfigError(f"field {name!r}: is missing, and it is not nullable")
        row_dict.setdefault(name, None)


__all__ = [
    "Unischema", "UnischemaField", "dict_to_spark_row", "encode_row", "insert_explicit_nulls", "match_unischema_fields",
]  # fmt: skip
