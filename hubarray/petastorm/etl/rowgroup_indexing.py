"""Petastorm's ``petastorm.etl.rowgroup_indexing``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubarray.readers.parquet import index_writer


def build_rowgroup_index(
    dataset_url: str, spark_context: Any, indexers: Sequence[Any], hdfs_driver: str = "libhdfs3", **options: Any
) -> None:
    """Index row groups as :func:`hubarray.petastorm.build_rowgroup_index` does, in this process.

    Parameters
    ----------
    dataset_url : str
    spark_context
        Not needed any more.
    indexers : list of SingleFieldIndexer or FieldNotNullIndexer
    hdfs_driver : str
        Changes nothing.
    **options
        Those of :func:`hubarray.petastorm.build_rowgroup_index`.
    """
    index_writer.build_rowgroup_index(dataset_url, indexers, **options)


__all__ = ["build_rowgroup_index"]
