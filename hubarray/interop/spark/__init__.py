"""Tables and Petastorm's datasets in Spark."""

from hubarray.interop.spark.tables import to_dataframe, write_partitions

__all__ = ["to_dataframe", "write_partitions"]
