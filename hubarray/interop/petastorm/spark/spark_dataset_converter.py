"""Petastorm's ``petastorm.spark.spark_dataset_converter``."""

from hubarray.interop.spark_readers import SparkDatasetConverter, make_spark_converter

__all__ = ["SparkDatasetConverter", "make_spark_converter"]
