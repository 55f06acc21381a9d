"""Petastorm's ``petastorm.spark_utils``."""

from hubarray.interop.spark_readers import dataset_as_rdd

__all__ = ["dataset_as_rdd"]
