"""Petastorm's ``petastorm.etl.dataset_metadata``."""

from hubarray.interop.spark_readers import materialize_dataset

__all__ = ["materialize_dataset"]
