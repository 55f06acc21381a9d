"""Petastorm's ``petastorm.unischema``."""

from hubarray.interop.parquet_dataset.writing import encode_row
from hubarray.interop.spark_readers import dict_to_spark_row
from hubarray.readers.unischema import Unischema, UnischemaField, match_unischema_fields

__all__ = ["Unischema", "UnischemaField", "dict_to_spark_row", "encode_row", "match_unischema_fields"]
