"""Petastorm's ``petastorm.spark_utils``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubarray.interop.spark import readers as spark_readers


def dataset_as_rdd(
    dataset_url: Any,
    spark_session: Any,
    schema_fields: Any = None,
    hdfs_driver: str = "libhdfs3",
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """As :func:`hubarray.petastorm.dataset_as_rdd`, called as Petastorm 0.13 is.

    Parameters
    ----------
    dataset_url, spark_session, schema_fields, storage_options
        Same as in :func:`hubarray.petastorm.dataset_as_rdd`.
    hdfs_driver : str
        Changes nothing.
    """
    return spark_readers.dataset_as_rdd(dataset_url, spark_session, schema_fields, storage_options=storage_options)


__all__ = ["dataset_as_rdd"]
