"""Petastorm's ``petastorm.spark.spark_dataset_converter``."""

from __future__ import annotations

from typing import Any

from hubarray.interop.spark import readers as spark_readers
from hubarray.interop.spark.readers import SparkDatasetConverter


def make_spark_converter(
    df: Any,
    parquet_row_group_size_bytes: int = 32 << 20,
    compression_codec: str | None = None,
    dtype: str | None = "float32",
    **options: Any,
) -> SparkDatasetConverter:
    """As :func:`hubarray.petastorm.make_spark_converter`, called as Petastorm 0.13 is.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    parquet_row_group_size_bytes : int
    compression_codec : str, optional
        As Spark knows it; uncompressed by default.
    dtype : "float32", "float64" or None
    **options
        ``parent_cache_dir_url`` and ``storage_options``, same as in :func:`hubarray.petastorm.make_spark_converter`.
    """
    return spark_readers.make_spark_converter(
        df, parquet_row_group_size_bytes=parquet_row_group_size_bytes,
        compression_codec=compression_codec or "uncompressed", dtype=dtype, **options,
    )  # fmt: skip


__all__ = ["SparkDatasetConverter", "make_spark_converter"]
