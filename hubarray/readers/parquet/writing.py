"""Write datasets of a Unischema without Spark, in this process or with Dask."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from decimal import Decimal
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from hubarray.errors import AlreadyExistsError, ConfigError, NotFoundError
from hubarray.readers.fields.cell_codecs import ScalarCodec, cell_dtype, is_moment, shape_fits
from hubarray.readers.fields.spark_names import decimal_digits, spark_name
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.readers.parquet.files import Location, listed, located, readable, requested
from hubarray.readers.parquet.finishing import finish_dataset
from hubarray.readers.parquet.keys import check_keys, folder_of
from hubarray.redaction import counted
from hubarray.threads import Threads
from hubarray.values.elements import Target, as_elements
from hubarray.values.foreign import TEXT
from hubarray.values.objects import plain_list

T = TypeVar("T")

_MB = 1 << 20
_ABANDON_SECONDS = 1.5

log = logging.getLogger("hubarray.readers")


def encode_row(schema: Unischema, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row, after checking it against the schema.

    Parameters
    ----------
    schema : Unischema
    row : mapping of str to value
        A value for every field. Nullable fields can be None or missing.

    Returns
    -------
    dict

    Raises
    ------
    ConfigError
        A field is missing, unknown, None but not nullable, or has another dtype or shape.
    """
    unknown = [name for name in row if name not in schema.fields]
    if unknown:
        raise ConfigError(f"a row has a field {str(unknown[0])[:80]!r}, which the schema does not have")
    return {name: _cell(field, row.get(name)) for name, field in schema.fields.items()}


def _cell(field: UnischemaField, value: Any) -> Any:
    if value is None:
        if not field.nullable:
            raise ConfigError(f"field {field.name!r}: is missing or None, and it is not nullable")
        return None
    if field.codec is not None or not field.shape:
        cell = (field.codec or ScalarCodec()).encode(field, value)
        if cell is None and not field.nullable:
            # NaT, for which Parquet has nothing else than null.
            raise ConfigError(f"field {field.name!r}: is NaT, and it is not nullable")
        return cell
    dtype = np.dtype(field.numpy_dtype)
    # Text of no size is of any.
    target = TEXT if dtype == np.dtype(str) else dtype
    try:
        as_given = as_elements(value, Target(target)) if target.itemsize else plain_list(value)
        array = as_given.astype(target)
        if target.kind in "UT":
            # Half a surrogate pair is no text, for Arrow neither.
            "".join(array.ravel().tolist()).encode()
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"field {field.name!r}: {error}") from None
    if as_given.dtype.kind in "iuf" and array.dtype.kind in "iu" and not (array == as_given).all():
        raise ConfigError(f"field {field.name!r}: has values that {array.dtype} cannot hold")
    if array.ndim != 1 or not shape_fits(field.shape, array.shape):
        raise ConfigError(
            f"field {field.name!r}: without a codec it is a list of shape {field.shape}, not {array.shape}"
        )
    return array.tolist()


def arrow_schema(schema: Unischema) -> pa.Schema:
    """Return the Arrow schema of the cells of a dataset."""
    return pa.schema([pa.field(field.name, _arrow_type(field), field.nullable) for field in schema.fields.values()])


def _arrow_type(field: UnischemaField) -> pa.DataType:
    if field.codec is not None and not isinstance(field.codec, ScalarCodec):
        return pa.binary()
    spark_type = None if field.codec is None else spark_name(field.codec.spark_type)
    if field.numpy_dtype is Decimal:
        return pa.decimal128(*decimal_digits(spark_type))
    dtype = cell_dtype(field.numpy_dtype, spark_type)
    if dtype.kind == "M" and np.datetime_data(dtype)[0] == "generic":
        raise ConfigError(
            f"field {field.name!r}: times need a unit: give np.dtype('M8[us]'), or "
            "hub.petastorm.ScalarCodec('TimestampType')"
        )
    if is_moment(field.numpy_dtype, spark_type):
        return pa.timestamp(np.datetime_data(dtype)[0], "UTC")
    if dtype.kind in "US":
        single = pa.string() if dtype.kind == "U" else pa.binary()
    else:
        try:
            single = pa.from_numpy_dtype(dtype)
        except pa.ArrowNotImplementedError:
            message = f"field {field.name!r}: Parquet has no type for {dtype}; give it a codec, or leave it out"
            raise ConfigError(message) from None
    return pa.list_(single) if field.shape else single


class ParquetWriter:
    """Write rows of a Unischema to Parquet files, for hubarray and Petastorm.

    This is a context manager; see :func:`hubarray.parquet_writer`. At the end of the block, it writes the schema and a
    summary of the row groups beside the files, and the dataset is complete. If the block raises, its files are removed.
    """

    def __init__(
        self,
        location: Location,
        schema: Unischema,
        partition_by: Sequence[str],
        row_group_bytes: int,
        rows_per_row_group: int | None,
        rows_per_file: int | None,
        *,
        finish: bool = True,
        run: str | None = None,
    ) -> None:
        check_keys(schema, partition_by)
        self._run = uuid.uuid4().hex[:12] if run is None else run
        self._location, self._schema, self._partition_by = location, schema, list(partition_by)
        self._row_group_bytes, self._rows_per_row_group = row_group_bytes, rows_per_row_group
        self._rows_per_file, self._finish = rows_per_file, finish
        stored = [field for field in schema.fields.values() if field.name not in self._partition_by]
        self._arrow = arrow_schema(Unischema("stored", stored))
        self._files: dict[tuple[Any, ...], _File] = {}
        self._written: list[str] = []
        self._calls = _Calls(location)
        self._closed = False

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a row.

        Raises
        ------
        ConfigError
            The row does not fit the schema.
        SourceError
            The store has refused a request.
        """
        if self._closed:
            raise ConfigError(f"{self._location.where}: the writer is closed")
        cells = encode_row(self._schema, row)
        key = tuple(cells.pop(name) for name in self._partition_by)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._opened(key)
        file.add(cells)
        if self._rows_per_file is not None and file.rows >= self._rows_per_file:
            self._files.pop(key).close()

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows."""
        for row in rows:
            self.write(row)

    def _opened(self, key: tuple[Any, ...]) -> _File:
        name = f"part-{len(self._written):05d}-{self._run}.parquet"
        if key:
            name = f"{folder_of(self._schema, self._partition_by, key)}/{name}"
        self._written.append(name)
        return _File(self._location, name, self._arrow, self._row_group_bytes, self._rows_per_row_group, self._calls)

    def close(self) -> None:
        """Write the remaining rows, the schema and the summary."""
        if self._closed:
            return
        try:
            for file in self._files.values():
                file.close()
            if self._finish:
                if not self._written:
                    raise ConfigError(f"{self._location.where}: no rows were written, so there is no dataset")
                finish_dataset(self._location, self._schema)
        except Exception:
            self.abort()
            raise
        except BaseException:
            self._abandon()
            raise
        self._files.clear()
        self._closed = True

    def abort(self) -> None:
        """Remove the files of this writer."""
        self._closed = True
        self._calls.make(self._remove)

    def _abandon(self) -> None:
        """Remove the files after Ctrl-C. If the store does not answer soon, the log says which files may stay."""
        self._closed = True
        if not self._calls.make_within(self._remove, _ABANDON_SECONDS):
            log.warning(
                "%s: the store did not answer, so files whose names end in -%s.parquet may stay there; delete them",
                self._location.where, self._run,
            )  # fmt: skip

    def _remove(self) -> None:
        for file in self._files.values():
            file.abandon()
        filesystem = self._location.client.filesystem
        for name in self._written:
            try:
                filesystem.delete_file(f"{self._location.path}/{name}")
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("%s/%s: was not removed (%s); delete it", self._location.where, name, type(error).__name__)

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, Exception):
            self.abort()
        else:
            self._abandon()


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Encodings that are read fast: dictionaries for scalars alone, and LZ4, which decodes twice as fast as snappy."""
    scalars = [field.name for field in schema if not pa.types.is_binary(field.type)]
    return {"use_dictionary": scalars or False, "compression": "lz4"}


class _Calls:
    """Calls of Arrow, one after the other.

    Those for a distant store are made by a thread, as Ctrl-C would otherwise wait for them. A call that it left behind
    may still use a file when the files are to be removed, so the removal has to come after it.
    """

    def __init__(self, location: Location) -> None:
        self._thread = None if location.client.is_local else Threads(1, "hubarray-writer")

    def make(self, call: Callable[[], T]) -> T:
        """Return what a call gives."""
        if self._thread is None:
            return call()
        future = self._thread.submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def make_within(self, call: Callable[[], None], max_seconds: float) -> bool:
        """Make a call after those that were left behind, and return whether it was done in time."""
        if self._thread is None:
            call()
            return True
        future = self._thread.submit(call)
        if wait([future], max_seconds).not_done:
            return False
        future.result()
        return True


class _File:
    """A Parquet file that is being written, row group after row group."""

    def __init__(
        self,
        location: Location,
        name: str,
        schema: pa.Schema,
        row_group_bytes: int,
        rows_per_row_group: int | None,
        calls: _Calls,
    ) -> None:
        self._calls = calls
        self.rows = 0
        self._where, self._schema = f"{location.where}/{name}", schema
        self._row_group_bytes, self._rows_per_row_group = row_group_bytes, rows_per_row_group
        path = f"{location.path}/{name}"
        folder = path.rpartition("/")[0]
        requested(location, self._where, lambda: location.client.filesystem.create_dir(folder, recursive=True))
        with readable(self._where):
            self._sink, self._writer = calls.make(lambda: self._begun(location.client.patient_filesystem, path))
        self._pending: list[dict[str, Any]] = []
        self._pending_bytes = 0

    def _begun(self, filesystem: pafs.FileSystem, path: str) -> tuple[pa.NativeFile, pq.ParquetWriter]:
        sink = filesystem.open_output_stream(path)
        return sink, pq.ParquetWriter(sink, self._schema, **_encodings(self._schema))

    def add(self, cells: dict[str, Any]) -> None:
        self._pending.append(cells)
        self.rows += 1
        self._pending_bytes += sum(len(cell) if isinstance(cell, (bytes, str)) else 8 for cell in cells.values())
        full = self._rows_per_row_group is not None and len(self._pending) >= self._rows_per_row_group
        if full or self._pending_bytes >= self._row_group_bytes:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        with readable(self._where):
            table = pa.Table.from_pylist(self._pending, schema=self._schema)
            rows = len(self._pending)
            self._calls.make(lambda: self._writer.write_table(table, row_group_size=rows))
        self._pending, self._pending_bytes = [], 0

    def close(self) -> None:
        self._flush()
        with readable(self._where):
            self._calls.make(self._end)

    def _end(self) -> None:
        self._writer.close()
        self._sink.close()

    def abandon(self) -> None:
        """End the file, as the last of its calls."""
        try:
            self._end()
        except (OSError, pa.ArrowException):
            return


def parquet_writer(
    url: str | os.PathLike[str],
    schema: Unischema,
    *,
    partition_by: Sequence[str] = (),
    row_group_size_mb: float = 32,
    rows_per_row_group: int | None = None,
    rows_per_file: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ParquetWriter:
    """Write a dataset of a Unischema without Spark.

    Parameters
    ----------
    url : path or URL
        A folder that does not exist, or has no Parquet files.
    schema : Unischema
    partition_by : list of str
        Scalar fields that become folders (``name=value``). Predicates on them do not read files.
    row_group_size_mb : float
        Size of a row group before compression. A worker reads a row group at a time.
    rows_per_row_group, rows_per_file : int, optional
        Maximum number of rows.
    storage_options : mapping, optional
        Options of fsspec.

    Returns
    -------
    ParquetWriter

    Raises
    ------
    AlreadyExistsError
        The folder has Parquet files.
    ConfigError

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import hubarray as hub
    >>> from hubarray.petastorm import NdarrayCodec, Unischema, UnischemaField
    >>> fields = [UnischemaField("id", np.int64), UnischemaField("x", np.float32, (None,), NdarrayCodec())]
    >>> folder = tempfile.mkdtemp()
    >>> with hub.parquet_writer(folder, Unischema("Frames", fields)) as writer:
    ...     for i in range(3):
    ...         writer.write({"id": i, "x": np.zeros(i, np.float32)})
    >>> with hub.make_reader(folder, shuffle_row_groups=False) as reader:
    ...     [row.x.shape for row in reader]
    [(0,), (1,), (2,)]
    """
    location = located(url, storage_options)
    try:
        known = listed(location)
    except NotFoundError:
        known = []
    if known:
        raise AlreadyExistsError(
            f"{location.where}: has {counted(len(known), 'Parquet file')}; write to another folder"
        )
    return _writer(location, schema, partition_by, row_group_size_mb, rows_per_row_group, rows_per_file)


def _writer(
    location: Location,
    schema: Unischema,
    partition_by: Sequence[str],
    row_group_size_mb: float,
    rows_per_row_group: int | None = None,
    rows_per_file: int | None = None,
    *,
    finish: bool = True,
    run: str | None = None,
) -> ParquetWriter:
    for name in partition_by:
        field = schema.fields.get(name)
        if field is None or field.shape or not (field.codec is None or isinstance(field.codec, ScalarCodec)):
            raise ConfigError(f"partition_by: {name!r} is not a scalar field of the schema")
    if len(partition_by) == len(schema.fields):
        raise ConfigError("partition_by: names every field, so that nothing is left for the files")
    for option, value in (("rows_per_row_group", rows_per_row_group), ("rows_per_file", rows_per_file)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(f"{option}={value!r}: give at least one row")
    if not row_group_size_mb > 0:
        raise ConfigError(f"row_group_size_mb={row_group_size_mb!r}: give a size above 0")
    row_group_bytes = max(1, int(row_group_size_mb * _MB))
    return ParquetWriter(
        location, schema, partition_by, row_group_bytes, rows_per_row_group, rows_per_file, finish=finish, run=run
    )  # fmt: skip


def write_dask(
    rows: Any,
    url: str | os.PathLike[str],
    schema: Unischema,
    *,
    partition_by: Sequence[str] = (),
    row_group_size_mb: float = 32,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a Dask bag of rows as a dataset. Each worker writes its partitions, one file each.

    For a Dask DataFrame, pass ``frame.to_bag(format="dict")``.

    Parameters
    ----------
    rows : dask.bag.Bag of dict
    url, schema, partition_by, row_group_size_mb, storage_options
        Same as in :func:`hubarray.parquet_writer`.

    Raises
    ------
    AlreadyExistsError
        The folder has Parquet files.

    Examples
    --------
    >>> import dask.bag
    >>> import tempfile
    >>> import numpy as np
    >>> import hubarray as hub
    >>> folder = tempfile.mkdtemp()
    >>> rows = dask.bag.range(6, npartitions=2).map(lambda i: {"id": i})
    >>> hub.write_dask(rows, folder, hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("id", np.int64)]))
    >>> with hub.make_reader(folder, shuffle_row_groups=False) as reader:
    ...     [int(row.id) for row in reader]
    [0, 1, 2, 3, 4, 5]
    """
    import dask

    location = located(url, storage_options)
    try:
        known = listed(location)
    except NotFoundError:
        known = []
    if known:
        raise AlreadyExistsError(
            f"{location.where}: has {counted(len(known), 'Parquet file')}; write to another folder"
        )
    write = dask.delayed(_write_part, pure=False)
    # Named by their number, so that a task that is run again, after its worker died, writes over its own files.
    parts = enumerate(rows.to_delayed())
    dask.compute(
        [write(part, f"{i:06d}", location, schema, list(partition_by), row_group_size_mb) for i, part in parts]
    )
    finish_dataset(location, schema)


def _write_part(
    rows: Iterable[Mapping[str, Any]],
    run: str,
    location: Location,
    schema: Unischema,
    partition_by: Sequence[str],
    row_group_size_mb: float,
) -> None:
    with _writer(location, schema, partition_by, row_group_size_mb, finish=False, run=run) as writer:
        writer.write_rows(rows)
