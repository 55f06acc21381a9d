"""Spark: rows of a DataFrame into the partitions of a table, and rows of tables into a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hubarray import errors
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.readers.open_source import open_source
from hubarray.readers.table_source import TableSource
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.write.worker import TableWorker
from hubarray.tables.write.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_A_BATCH = 1024
_RAISED = re.compile(r"hubarray\.errors\.(ConfigError|ConflictError|ReadOnlyError|NotFoundError): (.*)")


def write_partitions(
    writer: TableWriter, frame: DataFrame, *, partition: str, order_by: str | Sequence[str] = ()
) -> None:
    """Write the rows of a Spark DataFrame into a table: executors upload them, the driver sees a few bytes a partition.

    ::

        with hub.table_writer("lab/drives:v1", schema) as w:
            spark.write_partitions(w, frame, partition="log_id", order_by="time")

    The DataFrame is shuffled so that each partition's rows meet on one executor, in order, and is streamed there
    through Arrow: an executor holds one of Spark's batches (``spark.sql.execution.arrow.maxBytesPerBatch``) and what a
    partition writer holds. Tasks that fail are run again by Spark. With ``resume=True`` executors commit what they
    finished, so that a driver that dies loses no partition.

    Parameters
    ----------
    writer : TableWriter
        Of :func:`hubarray.table_writer`. Partitions that it has already are left out.
    frame : pyspark.sql.DataFrame
        With a column for each field of the schema, of which every value fits; images may be the bytes of their files.
    partition : str
        The column of the partitions' keys, text or integers; it need not be a field.
    order_by : str or sequence of str
        Columns that order the rows of a partition; they need not be fields. Without them their order is Spark's, which
        may differ from run to run.

    Raises
    ------
    ConfigError
        A column is missing, unknown, or has a value that its field does not take; partition, row and field are named.
    ConflictError
        A partition was written twice with other rows, and ``on_duplicate`` is not "first".
    MissingPackageError
        pyspark is not installed.
    """
    functions = needed("pyspark.sql.functions", extra="spark", why="writing from Spark")
    order = [order_by] if isinstance(order_by, str) else list(order_by)
    names = list(writer.schema)
    _check_columns(frame.columns, names, partition, order)

    def column(name: str) -> Any:
        return functions.col("`" + name.replace("`", "``") + "`")

    # Spark takes a dot in a name for a field of a struct, so columns travel by their positions.
    chosen = [column(partition).alias("key"), *(column(name).alias(f"c{i}") for i, name in enumerate(names))]
    sorted_rows = frame.repartition(column(partition)).sortWithinPartitions(
        *(column(name) for name in (partition, *order))
    )
    write = _Write(writer.worker(), frozenset(writer.keys), staging=writer.resumable)
    try:
        written = sorted_rows.select(*chosen).mapInArrow(write, "part binary").collect()
    except Exception as error:
        raised = _RAISED.search(str(error))
        if raised is None:
            raise
        raise getattr(errors, raised[1])(raised[2].strip()) from error
    for row in written:
        writer.add(bytes(row["part"]))


def to_dataframe(
    index: Any, spark: SparkSession | None = None, columns: str | Sequence[str] | None = None, *, root: Any = None
) -> DataFrame:
    """The rows of a table, or of an index, as a Spark DataFrame; executors fetch them as Spark asks for them.

    Arrays are lists within lists, JPEG and PNG the bytes that are stored; unsigned numbers are of the next larger type,
    and times in microseconds, as Spark has no others. Executors reach the root with what this
    process was given.

    Parameters
    ----------
    index : str, Table or index
        The name of a table, or an index that was filtered and merged as you like.
    spark : SparkSession, optional
        By default the active one.
    columns : str or sequence of str, optional
        Same as in :meth:`hubarray.RowLoader.get_row`.
    root : optional
        For a name.

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    ConfigError
        A column is of a dtype that Arrow has not.
    NotFoundError, MissingPackageError
    """
    types = needed("pyspark.sql.pandas.types", extra="spark", why="to_dataframe")
    spark = spark or needed("pyspark.sql", extra="spark", why="to_dataframe").SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("to_dataframe: there is no active SparkSession; create one, or pass it")
    source = open_source(index, root=root)
    if not isinstance(source, TableSource):
        raise ConfigError(f"{source.where}: is not a table; arrays go through to_dask or a reader")
    loader = source.loader
    names = loader.check_columns(columns)
    schema = loader.get_columns([], names, as_="arrow").schema
    spark_schema = pa.schema([field.with_type(_spark_type(field.type)) for field in schema])
    rows = len(loader)
    tasks = max(1, min(-(-rows // _ROWS_A_BATCH), 4 * spark.sparkContext.defaultParallelism))
    numbers = spark.range(0, rows, 1, tasks)
    return numbers.mapInArrow(_Read(loader, names, spark_schema), types.from_arrow_schema(spark_schema))


class _Read:
    """A task: the rows of the numbers that it gets, as Arrow."""

    def __init__(self, loader: RowLoaderHandle, names: Sequence[str], spark_schema: pa.Schema) -> None:
        self._loader, self._names, self._spark_schema = loader, list(names), spark_schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            for first in range(0, len(numbers), _ROWS_A_BATCH):
                row_numbers = numbers[first : first + _ROWS_A_BATCH]
                rows = self._loader.get_columns(row_numbers, self._names, as_="arrow")
                yield from rows.cast(self._spark_schema).to_batches()


# Spark has no unsigned numbers, no half floats, and no time finer than microseconds.
_SPARK_TYPES = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}  # fmt: skip


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for an Arrow one."""
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return _SPARK_TYPES.get(kind, kind)


def _check_columns(columns: Sequence[str], fields: Sequence[str], partition: str, order: Sequence[str]) -> None:
    missing = [name for name in dict.fromkeys([partition, *order, *fields]) if name not in columns]
    if missing:
        raise ConfigError(f"the DataFrame has no column {missing[0]!r}; it has {', '.join(map(repr, columns))}")
    unknown = [name for name in columns if name not in {partition, *order, *fields}]
    if unknown:
        raise ConfigError(
            f"the DataFrame has a column {unknown[0]!r}, which the schema does not know; select the others"
        )
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise ConfigError(f"the DataFrame has two columns of the name {twice[0]!r}")


class _Write:
    """A task: writes its rows, which are sorted by key, and gives out a part for each key."""

    def __init__(self, worker: TableWorker, done: frozenset[Any], *, staging: bool) -> None:
        self._worker, self._done, self._staging = worker, done, staging

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = []
        for key, runs in groupby(_runs(batches), key=itemgetter(0)):
            if key in self._done:
                continue
            with self._worker.partition(key) as partition:
                for _, rows in runs:
                    partition.extend(rows.rename_columns(list(self._worker.schema)))
            parts.append(partition.part)
        if self._staging and parts:
            self._worker.stage(parts)
        yield pa.RecordBatch.from_pydict({"part": pa.array([bytes(part) for part in parts], pa.binary())})


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Neighbouring rows of one key, and the key."""
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = batch.column(0)
        if keys.null_count:
            raise ConfigError("the column of the partitions' keys has nulls; filter those rows out, or name them")
        values = keys.to_numpy(zero_copy_only=False)
        begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
        for begin, end in pairwise(begins):
            yield keys[begin].as_py(), batch.slice(begin, end - begin).select(range(1, batch.num_columns))
