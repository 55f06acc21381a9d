"""Petastorm's ``petastorm.etl.rowgroup_indexers``."""

from hubarray.readers.parquet.indexes import FieldNotNullIndexer, SingleFieldIndexer

__all__ = ["FieldNotNullIndexer", "SingleFieldIndexer"]
