"""Write tables, read their indexes and rows, and publish selections."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hubarray import names
from hubarray.api import registry
from hubarray.api.resolve import RootLike, checked_grace, existing, locate, suggestions
from hubarray.errors import AlreadyExistsError, ConfigError, NotFoundError, ReadOnlyError
from hubarray.history.commits.commit import check_message, check_writable
from hubarray.history.log.version import Version, version_of
from hubarray.history.records.record import Record
from hubarray.redaction import named_type
from hubarray.storage.url import Root, resolve
from hubarray.tables.format.metadata import metadata_of
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.index.index import as_kind, read
from hubarray.tables.index.join_keys import refuse_edited
from hubarray.tables.index.publish import write_index as publish_index
from hubarray.tables.read import known_roots
from hubarray.tables.read.columns import matching
from hubarray.tables.read.index_rows import partition_column, row_numbers
from hubarray.tables.read.loader import loader_of
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.operations import AddParts
from hubarray.tables.write.writer import TableWriter, checked_schema
from hubarray.values.attributes import checked_attrs

if TYPE_CHECKING:
    from hubarray.handles.loader import RowLoader
    from hubarray.handles.table import Table

_VALUE = "value"
_ON_DUPLICATE = ("error", "first")
_CHECKS = ("headers", "decode")


def table_writer(
    name: str,
    schema: Schema | Field | None = None,
    *,
    reference: str | Sequence[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    message: str | None = None,
    growing: bool = False,
    resume: bool = False,
    on_duplicate: str = "error",
    check: str = "headers",
    grace_seconds: float | None = None,
    root: RootLike = None,
) -> TableWriter:
    """Write a table, one partition after another, in one process or on many machines; it appears as a whole at the end.

    Parameters
    ----------
    name : str
        ``owner/name:version``, which must not exist.
    schema : Schema or Field, optional
        The fields of the table. A single Field makes a ragged array. Without a schema, the partitions are added to an
        existing table that was made with ``growing=True``.
    reference : str or sequence of str, optional
        Tables under the same root. Blocks that they already have for the same partition are not stored again.
    attrs : mapping, optional
        JSON values, at most 64 KiB.
    message : str, optional
        Message of the commit in the log.
    growing : bool
        Whether partitions can be added later. If not, the table is frozen from its first commit.
    resume : bool
        Continue an interrupted attempt that also used ``resume=True``. ``key in w`` tells which partitions exist.
    on_duplicate : "error" or "first"
        What to do if a partition is written twice with different rows: raise ConflictError, or keep the first.
    check : "headers" or "decode"
        How to check JPEG and PNG files that are passed as bytes: their headers and the checksums of PNG, or also every
        pixel, by decoding it.
    grace_seconds : float, optional
        How long unreferenced data is safe from collection; 7 days by default.
    root : str, path or Root, optional

    Returns
    -------
    TableWriter
        A context manager that publishes the table at the end of its block.

    Raises
    ------
    AlreadyExistsError
        The name is taken. This can also be raised at the end, if somebody else was faster.
    ConfigError, NotFoundError, FrozenError, StorageError

    Notes
    -----
    Costs one record and the packs of the data. Partitions of a long write wait in a version beside the table,
    ``name:version.writing``, which the end of the block removes.

    Examples
    --------
    >>> import numpy as np
    >>> import hubarray as hub
    >>> schema = hub.Schema({"time": hub.Field("int64", index=True), "scan": hub.Field("float32", (None,))})
    >>> with hub.table_writer("docs/drives:v1", schema) as w, w.partition("monday") as p:
    ...     for i in range(3):
    ...         p.append({"time": i, "scan": np.full(i, 0.5, "float32")})
    >>> hub.load("docs/drives:v1")[2]["scan"]
    array([0.5, 0.5], dtype=float32)
    """
    return writer_of(
        name, schema, reference=reference, attrs=attrs, message=message, growing=growing, resume=resume,
        on_duplicate=on_duplicate, check=check, grace_seconds=grace_seconds, root=root,
    )  # fmt: skip


def writer_of(
    name: str,
    schema: Any,
    *,
    reference: str | Sequence[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    message: str | None = None,
    growing: bool = False,
    resume: bool = False,
    on_duplicate: str = "error",
    check: str = "headers",
    grace_seconds: float | None = None,
    root: RootLike = None,
    source: str | None = None,
) -> TableWriter:
    """Make a writer that resumes only an attempt with the same ``source``; see :func:`table_writer`."""
    where, parsed = locate(name, root)
    if where.store.read_only:
        raise ReadOnlyError(f"{where.url}: this root can only be read")
    if on_duplicate not in _ON_DUPLICATE:
        raise ConfigError(f"on_duplicate={on_duplicate!r}: give 'error' or 'first'")
    if check not in _CHECKS:
        raise ConfigError(f"check={check!r}: give 'headers' or 'decode'")
    check_message(message)
    version = version_of(where, parsed)
    base = version.newest()
    live = base is not None and base.head.kind != "deleted"
    if schema is None:
        if not live or base is None:
            raise NotFoundError(
                f"{parsed}: there is no such table; give schema= to create it{suggestions(where, parsed)}"
            )
        if growing or attrs is not None:
            raise ConfigError(f"{parsed}: growing= and attrs= are said when a table is made, with its schema")
        check_writable(base, AddParts([]))
        required = metadata_of(base).schema
    else:
        if live and base is not None:
            raise AlreadyExistsError(
                f"{parsed}: exists already; write another version, or, of a table that grows, leave the schema out"
            )
        required = checked_schema(Schema({_VALUE: schema}) if isinstance(schema, Field) else _schema(schema))
    return TableWriter(
        where, version, required, base=base, attrs=checked_attrs(attrs), message=message, growing=growing,
        references=_references(reference, where), on_duplicate=on_duplicate, resume=resume,
        grace_seconds=None if grace_seconds is None else checked_grace(grace_seconds),
        decodes_images=check == "decode", source=source,
    )  # fmt: skip


def read_index(
    name: str,
    columns: str | Sequence[str] | None = None,
    filters: Any = None,
    *,
    as_: str = "pandas",
    root: RootLike = None,
) -> Any:
    """Read the index of a table: one row per row of the table, with the fields that can be queried.

    You can filter, sort, sample, concatenate and join it, or write it to Parquet and read it again. :func:`row_loader`
    reads the rows that are left, by the column ``hubarray:...`` of 8 bytes per row.

    Parameters
    ----------
    name : str
        ``owner/name:version``, or ``...@number`` or ``...@tag``.
    columns : str or sequence of str, optional
        Names or patterns. The default is the partition and every field with ``index=True``.
    filters : list of tuples, list of lists, or pyarrow.compute.Expression
        Same as in ``pyarrow.parquet.read_table``: ``[("log_id", "==", "a")]``. With lists, slabs whose ranges exclude
        every row are not fetched. An expression is evaluated on all rows.
    as_ : "pandas", "arrow" or "polars"
    root : str, path or Root, optional

    Returns
    -------
    DataFrame or table

    Notes
    -----
    Costs opening the table, and one request per 131,072 rows, in parallel. The disk cache keeps the result.

    Examples
    --------
    >>> import numpy as np
    >>> import hubarray as hub
    >>> schema = hub.Schema({"time": hub.Field("int64", index=True), "scan": hub.Field("float32", (None,))})
    >>> with hub.table_writer("docs/indexed:v1", schema) as w, w.partition("monday") as p:
    ...     p.extend({"time": i, "scan": np.zeros(i, "float32")} for i in range(5))
    >>> index = hub.read_index("docs/indexed:v1", filters=[("time", ">", 2)])
    >>> index["time"].tolist()
    [3, 4]
    >>> hub.row_loader(index).get_row(0)["scan"].shape
    (3,)
    """
    where, table = _table(name, root)
    known_roots.note(table.record.head.id, where)
    return as_kind(read(table, columns, filters), as_)


def row_loader(index: Any, root: RootLike = None) -> RowLoader:
    """Make a loader for the rows of an index that you may have filtered, sorted or joined.

    Parameters
    ----------
    index : DataFrame, Arrow table, or what speaks Arrow's C stream
        From :func:`read_index` or :func:`join`. It must have its column ``hubarray:...``.
    root : str, path or Root, optional
        Root of the tables. The default is the root from which this process read the index, or else the configured root.

    Returns
    -------
    RowLoader

    Raises
    ------
    ConfigError
    """
    numbers, names = row_numbers(index)
    loader: RowLoader = registry.row_loader(numbers, names, None if root is None else resolve(root))
    return loader


def _schema(schema: Any) -> Schema:
    if isinstance(schema, Mapping):
        return Schema(schema)
    if not isinstance(schema, Schema):
        raise ConfigError(f"schema: give a hub.Schema, or one hub.Field, not {named_type(schema)}")
    return schema


def _table(name: str, root: RootLike) -> tuple[Root, TableSnapshot]:
    where, parsed = locate(name, root, commit_allowed=True)
    version, record = existing(where, parsed) if parsed.commit is None else (version_of(where, parsed), None)
    record = record or version.cached(parsed.commit or 0)
    if record.head.kind == "array":
        raise ConfigError(f"{parsed}: is an array; read it with hub.load")
    return where, TableSnapshot.of(version, record)


def _references(reference: str | Sequence[str] | None, where: Root) -> list[tuple[Version, Record]]:
    references = []
    for name in [reference] if isinstance(reference, str) else list(reference or ()):
        its_root, parsed = locate(name, None if names.split_root(name)[0] else where, commit_allowed=True)
        if its_root != where:
            raise ConfigError(
                f"reference={parsed}: is under another root, whose blocks cannot be shared; hub.transfer brings it here"
            )
        version = version_of(its_root, parsed)
        try:
            record = version.base_record(parsed.commit) if parsed.commit else existing(its_root, parsed)[1]
        except NotFoundError as error:
            raise NotFoundError(
                f"reference={parsed}: {error}; references are under the table's own root, and hub.transfer brings one "
                "there"
            ) from None
        metadata_of(record)
        references.append((version, record))
    return references


def write_index(
    index: Any,
    name: str,
    *,
    columns: str | Sequence[str] | None = None,
    move: bool = False,
    attrs: Mapping[str, Any] | None = None,
    message: str | None = None,
    grace_seconds: float | None = None,
    root: RootLike = None,
) -> Table:
    """Publish a filtered, sorted or joined index as a table, without copying blocks.

    This is also how you add columns to a table: join it with a table of the columns, and publish the result. The column
    ``partition`` assigns rows to partitions. Rows keep their order within a partition.

    Parameters
    ----------
    index : DataFrame or Arrow table
        It must have the column ``partition``.
    name : str
        ``owner/name:version``, which must not exist.
    columns : str or sequence of str, optional
        Names or patterns of the fields of the new table; all by default. Fields that share a block are published
        together.
    move : bool
        Copy the blocks, byte for byte, next to each other, so that the table is independent. Blocks of another root are
        always copied; a message first says how many bytes.
    attrs, message, grace_seconds, root
        Same as in :func:`table_writer`. ``root`` is the root of the new table.

    Returns
    -------
    Table

    Raises
    ------
    AlreadyExistsError
        The name is taken.
    ConfigError
        Two tables have a field with the same name, a row has no partition, or a column has other values than the stored
        rows. Blocks are published as they are stored.

    Warns
    -----
    UserWarning
        The index has columns that belong to none of its tables. They are left out.

    Notes
    -----
    Costs reading the locations and digests of the rows, and writing those of the new table. A referrer protects shared
    blocks from the collector of their name. You may delete that name.
    """
    where, parsed = locate(name, root)
    if where.store.read_only:
        raise ReadOnlyError(f"{where.url}: this root can only be read")
    check_message(message)
    if not isinstance(move, bool):
        raise ConfigError(f"move={move!r}: give True or False")
    loader = loader_of(index, None)
    left_out = loader.foreign_columns()
    if left_out:
        warnings.warn(
            f"{parsed}: the columns {', '.join(left_out)[:300]} are of no table and are not published; write them as a "
            "table of their own, and join it",
            stacklevel=2,
        )
    version = version_of(where, parsed)
    base = version.newest()
    if base is not None and base.head.kind != "deleted":
        raise AlreadyExistsError(f"{parsed}: exists already; write another version")
    refuse_edited(index, loader)
    record = publish_index(
        loader, partition_column(index), version, attrs=checked_attrs(attrs), message=message, move=move, base=base,
        columns=None if columns is None else matching(columns, loader.columns),
        grace_seconds=None if grace_seconds is None else checked_grace(grace_seconds),
    )  # fmt: skip
    return registry.handle(where, version, record)
