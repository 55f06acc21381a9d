"""Petastorm's ``petastorm.etl.rowgroup_indexers``."""

from hubarray.interop.parquet_dataset.indexes import FieldNotNullIndexer, SingleFieldIndexer

__all__ = ["FieldNotNullIndexer", "SingleFieldIndexer"]
