"""Write and read Petastorm datasets with Spark, and feed DataFrames to training, under Petastorm's names."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import config
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.readers.factory import make_batch_reader
from hubarray.readers.fields.source import row_values
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.readers.parquet.files import located
from hubarray.readers.parquet.finishing import finish_dataset
from hubarray.readers.parquet.source import parquet_source
from hubarray.readers.parquet.writing import encode_row

if TYPE_CHECKING:
    import tensorflow as tf
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

# As Petastorm calls it.
CACHE_SETTING = "petastorm.spark.converter.parentCacheDirUrl"
_BLOCK_SIZE = "parquet.block.size"


@contextlib.contextmanager
def materialize_dataset(
    spark: SparkSession,
    dataset_url: str | os.PathLike[str],
    schema: Unischema,
    row_group_size_mb: float | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Write a dataset of a Unischema with Spark: write the DataFrame in the block, which then writes the metadata.

    ::

        with materialize_dataset(spark, url, schema, row_group_size_mb=32):
            rows = spark.sparkContext.parallelize(range(100)).map(lambda i: dict_to_spark_row(schema, make_row(i)))
            spark.createDataFrame(rows, schema.as_spark_schema()).write.parquet(url)

    Parameters
    ----------
    spark : SparkSession
    dataset_url : path or URL of a folder
    schema : Unischema
    row_group_size_mb : float, optional
        Size of row groups. The default is the setting of Spark.
    storage_options : mapping, optional
        Options of fsspec for the metadata, which this process writes.

    Raises
    ------
    NotFoundError
        The block has written nothing.
    SourceError
    """
    before = spark.conf.get(_BLOCK_SIZE, None)
    if row_group_size_mb is not None:
        if not row_group_size_mb > 0:
            raise ConfigError(f"row_group_size_mb={row_group_size_mb!r}: give a size above 0")
        spark.conf.set(_BLOCK_SIZE, str(int(row_group_size_mb * (1 << 20))))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_BLOCK_SIZE)
        else:
            spark.conf.set(_BLOCK_SIZE, before)
    finish_dataset(located(dataset_url, storage_options), schema)


def dict_to_spark_row(unischema: Unischema, row_dict: Mapping[str, Any]) -> Any:
    """Return a row for Spark, with each value checked and encoded by the codec of its field.

    Parameters
    ----------
    unischema : Unischema
    row_dict : mapping of str to value

    Returns
    -------
    pyspark.sql.Row

    Raises
    ------
    ConfigError
        A field is missing or unknown, or its value has another dtype or shape.
    """
    sql = needed("pyspark.sql", extra="spark", why="dict_to_spark_row")
    encoded = encode_row(unischema, row_dict)
    # In the order of the schema, as Spark takes rows by their places.
    return sql.Row(*unischema.fields)(*(encoded[name] for name in unischema.fields))


def dataset_as_rdd(
    dataset_url: str | os.PathLike[str] | Sequence[str],
    spark_session: SparkSession,
    schema_fields: Sequence[UnischemaField | str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> RDD[Any]:
    """Return the rows of a Petastorm dataset or other Parquet as an RDD of named tuples.

    Parameters
    ----------
    dataset_url : path or URL, or a list of them
    spark_session : SparkSession
    schema_fields : list of UnischemaField or str, optional
        Same as in :func:`hubarray.make_reader`.
    storage_options : mapping, optional
        Options of fsspec, also for executors.

    Raises
    ------
    ConfigError, NotFoundError, SourceError
    """
    source = parquet_source(dataset_url, storage_options=storage_options)
    schema = source.schema if schema_fields is None else source.schema.create_schema_view(list(schema_fields))
    names = list(schema.fields)
    bounds = source.unit_bounds
    assert bounds is not None

    def rows(units: Any) -> Iterator[Any]:
        make = schema.row_type._make
        for unit in units:
            columns = source.read(np.arange(bounds[unit], bounds[unit + 1]), names)
            yield from map(make, zip(*(row_values(columns[name]) for name in names), strict=True))

    context = spark_session.sparkContext
    count = len(source.units)
    return context.parallelize(range(count), max(1, min(count, 4 * context.defaultParallelism))).mapPartitions(rows)


class SparkDatasetConverter:
    """A Spark DataFrame that is stored as Parquet for training; see :func:`make_spark_converter`.

    Attributes
    ----------
    cache_dir_url : str
        The folder of the files; :meth:`delete` removes it.
    dataset_size : int
        Number of rows.
    PARENT_CACHE_DIR_URL_CONF : str
        The setting of Spark for the parent of such folders.
    """

    PARENT_CACHE_DIR_URL_CONF = CACHE_SETTING

    def __init__(self, cache_dir_url: str, dataset_size: int, storage_options: Mapping[str, Any] | None) -> None:
        self.cache_dir_url, self.dataset_size = cache_dir_url, dataset_size
        self._storage_options = storage_options

    @property
    def file_urls(self) -> list[str]:
        """The Parquet files."""
        source = parquet_source(self.cache_dir_url, storage_options=self._storage_options)
        return [f"{self.cache_dir_url}/{file.relative}" for file in source.files]

    def __len__(self) -> int:
        return self.dataset_size

    @contextlib.contextmanager
    def make_torch_dataloader(
        self,
        batch_size: int = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int = 0,
        data_loader_fn: Any = None,
        *,
        cur_shard: int | str | None = None,
        shard_count: int | None = None,
        transform_spec: Any = None,
        **reader_options: Any,
    ) -> Iterator[Any]:
        """Return a context manager with a loader of batches of tensors. ``num_epochs=None`` repeats forever.

        Parameters
        ----------
        batch_size : int
        num_epochs, workers_count, cur_shard, shard_count, transform_spec, **reader_options
            Same as in :func:`hubarray.make_batch_reader`.
        shuffling_queue_capacity : int
            Number of rows that are shuffled together.
        data_loader_fn : callable, optional
            A loader to use instead of :class:`hubarray.interop.torch.BatchedDataLoader`.
        """
        loaders = needed("hubarray.interop.torch.readers", extra="torch", why="make_torch_dataloader")
        with self._reader(num_epochs, workers_count, cur_shard, shard_count, transform_spec, reader_options) as reader:
            make = data_loader_fn or loaders.BatchedDataLoader
            yield make(reader, batch_size=batch_size, shuffling_queue_capacity=shuffling_queue_capacity)

    @contextlib.contextmanager
    def make_tf_dataset(
        self,
        batch_size: int | None = 32,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        *,
        cur_shard: int | str | None = None,
        shard_count: int | None = None,
        transform_spec: Any = None,
        **reader_options: Any,
    ) -> Iterator[tf.data.Dataset]:
        """Return a context manager with a ``tf.data.Dataset`` of batches. ``batch_size=None`` gives single rows.

        Parameters
        ----------
        batch_size, prefetch : int, optional
        shuffling_queue_capacity : int, optional
            Number of rows that are shuffled together.
        num_epochs, workers_count, cur_shard, shard_count, transform_spec, **reader_options
            Same as in :func:`hubarray.make_batch_reader`.
        """
        tensorflow = needed("tensorflow", extra="tensorflow", why="make_tf_dataset")
        from hubarray.interop.tensorflow.readers import make_petastorm_dataset

        with self._reader(num_epochs, workers_count, cur_shard, shard_count, transform_spec, reader_options) as reader:
            if shuffling_queue_capacity:
                reader.set_group_rows(int(shuffling_queue_capacity))
            dataset = make_petastorm_dataset(reader).unbatch()
            if batch_size is not None:
                dataset = dataset.batch(batch_size)
            yield dataset.prefetch(tensorflow.data.AUTOTUNE if prefetch is None else prefetch)

    @contextlib.contextmanager
    def _reader(
        self, num_epochs: Any, workers_count: Any, cur_shard: Any, shard_count: Any, transform_spec: Any,
        options: Mapping[str, Any],
    ) -> Iterator[Any]:  # fmt: skip
        reader = make_batch_reader(
            self.cache_dir_url, num_epochs=num_epochs, workers_count=workers_count, cur_shard=cur_shard,
            shard_count=shard_count, transform_spec=transform_spec, storage_options=self._storage_options, **options,
        )  # fmt: skip
        with reader:
            yield reader

    def delete(self) -> None:
        """Remove the folder of the files."""
        location = located(self.cache_dir_url, self._storage_options)
        location.client.filesystem.delete_dir(location.path)
        with _lock:
            _converters[:] = [converter for converter in _converters if converter[2] is not self]


# DataFrames that were written, with what options, and where.
_converters: list[tuple[DataFrame, tuple[Any, ...], SparkDatasetConverter]] = []
_lock = threading.Lock()


def make_spark_converter(
    df: DataFrame,
    parent_cache_dir_url: str | os.PathLike[str] | None = None,
    *,
    parquet_row_group_size_bytes: int = 32 << 20,
    compression_codec: str = "zstd",
    dtype: str | None = "float32",
    storage_options: Mapping[str, Any] | None = None,
) -> SparkDatasetConverter:
    """Write a Spark DataFrame as Parquet for training. An equal one that is already stored is reused.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The DataFrame. Vectors of Spark ML become lists.
    parent_cache_dir_url : path or URL, optional
        A folder that the executors and this process can access. The default is the Spark setting
        ``petastorm.spark.converter.parentCacheDirUrl``, or else a folder of hubarray's cache on this machine.
    parquet_row_group_size_bytes : int
    compression_codec : str
        A name that Spark knows.
    dtype : "float32", "float64" or None
        The precision of all floats. None does not change them.
    storage_options : mapping, optional
        Options of fsspec for reading.

    Returns
    -------
    SparkDatasetConverter

    Raises
    ------
    ConfigError, MissingPackageError
    """
    if dtype not in ("float32", "float64", None):
        raise ConfigError(f"dtype={dtype!r}: give 'float32', 'float64' or None")
    spark = df.sparkSession
    frame = _of_precision(_without_vectors(df), dtype)
    parent = parent_cache_dir_url or spark.conf.get(CACHE_SETTING, None) or os.path.join(
        config.current().cache_dir, "spark"
    )  # fmt: skip
    place = os.fspath(parent).rstrip("/")
    cache_key = (place, parquet_row_group_size_bytes, compression_codec, spark.sparkContext.applicationId)
    with _lock:
        for known, options, converter in _converters:
            if options == cache_key and known.sameSemantics(frame):
                return converter
        url = f"{place}/{spark.sparkContext.applicationId}-{uuid.uuid4().hex[:12]}"
        writer = frame.write.option("compression", compression_codec)
        writer.option(_BLOCK_SIZE, str(parquet_row_group_size_bytes)).parquet(url)
        # The summary that readers open it with; the rows are counted by it.
        finish_dataset(located(url, storage_options), None)
        rows = parquet_source(url, storage_options=storage_options).rows
        made = SparkDatasetConverter(url, rows, storage_options)
        _converters.append((frame, cache_key, made))
        return made


def _without_vectors(frame: DataFrame) -> DataFrame:
    names = [field.name for field in frame.schema if type(field.dataType).__name__ == "VectorUDT"]
    if not names:
        return frame
    functions = needed("pyspark.ml.functions", extra="spark", why="vectors in a DataFrame")
    for name in names:
        frame = frame.withColumn(name, functions.vector_to_array(frame[name]))
    return frame


def _of_precision(frame: DataFrame, dtype: str | None) -> DataFrame:
    if dtype is None:
        return frame
    own_type, other = ("float", "double") if dtype == "float32" else ("double", "float")
    for name, kind in frame.dtypes:
        quoted = "`" + name.replace("`", "``") + "`"
        if kind == other:
            frame = frame.withColumn(name, frame[quoted].cast(own_type))
        elif kind == f"array<{other}>":
            frame = frame.withColumn(name, frame[quoted].cast(f"array<{own_type}>"))
    return frame
