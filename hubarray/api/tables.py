"""The front door of tables: write them, read their indexes and rows, merge and publish."""

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
    """Write a table: partition by partition, here or on many machines, visible as a whole at the end.

    Parameters
    ----------
    name : str
        ``owner/name:version``, which must not exist.
    schema : Schema or Field, optional
        Its fields; a single Field makes a table of one, the ragged array. Left out, the table is one that was made with
        ``growing=True``, and the partitions are added to it.
    reference : str or sequence of str, optional
        Tables under the same root. Blocks that they have of the same partition are not stored again.
    attrs : mapping, optional
        JSON values, at most 64 KiB.
    message : str, optional
        For the log.
    growing : bool
        Whether partitions can be added later; else the table is frozen from its first commit.
    resume : bool
        Go on where an earlier attempt, made with ``resume=True`` too, was interrupted: ``key in w`` says which
        partitions are there.
    on_duplicate : "error" or "first"
        What happens where a partition is written twice with different rows: ConflictError, or the earlier counts.
    check : "headers" or "decode"
        How JPEG and PNG that come as the bytes of their files are checked: headers and the checksums of PNG, or also by
        decoding every pixel.
    grace_seconds : float, optional
        How long unreferenced parts are safe from collection; default 7 days.
    root : str, path or Root, optional

    Returns
    -------
    TableWriter
        A context manager, which publishes at the end.

    Raises
    ------
    AlreadyExistsError
        The name is taken. Also at the end, if somebody else was faster.
    ConfigError, NotFoundError, FrozenError, StorageError

    Notes
    -----
    Costs a few requests for a small table besides its packs: one record. A partition that is written for long enough
    waits in a version beside it, ``name:version.writing``, which the end removes.

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
    """Make a writer, which resumes only an attempt of the same ``source``: see :func:`table_writer`."""
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
            raise NotFoundError(f"{parsed}: there is no such table; a schema makes one{suggestions(where, parsed)}")
        if growing or attrs is not None:
            raise ConfigError(f"{parsed}: growing= and attrs= are said when a table is made, with its schema")
        check_writable(base, AddParts([]))
        wanted = metadata_of(base).schema
    else:
        if live and base is not None:
            raise AlreadyExistsError(
                f"{parsed}: exists already; write another version, or, of a table that grows, leave the schema out"
            )
        wanted = checked_schema(Schema({_VALUE: schema}) if isinstance(schema, Field) else _schema(schema))
    return TableWriter(
        where, version, wanted, base=base, attrs=checked_attrs(attrs), message=message, growing=growing,
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
    """The index of a table: a row for each of its rows, with the fields that can be queried, and nothing heavy.

    Filter it, sort it, sample, concatenate or merge it, write it to Parquet and back: :func:`row_loader` reads the rows
    of whatever is left, by the column ``hubarray:...``, 8 bytes a row.

    Parameters
    ----------
    name : str
        ``owner/name:version``, or ``...@number`` or ``...@tag``.
    columns : str or sequence of str, optional
        Names or patterns; by default the partition and every field of ``index=True``.
    filters : list of tuples, list of lists, or pyarrow.compute.Expression
        As of ``pyarrow.parquet.read_table``: ``[("log_id", "==", "a")]``. Of such lists only the slabs whose ranges may
        have a row that passes are fetched; an expression is asked of all rows.
    as_ : "pandas", "arrow" or "polars"
    root : str, path or Root, optional

    Returns
    -------
    DataFrame or table

    Notes
    -----
    Costs opening the table, and a request for each 131,072 rows, in parallel; kept in the disk cache.

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
    """A loader of the rows of an index, however it was filtered, sorted and merged.

    Parameters
    ----------
    index : DataFrame, Arrow table, or what speaks Arrow's C stream
        Of :func:`read_index` and :func:`merge`: it needs its column ``hubarray:...``.
    root : str, path or Root, optional
        Where the tables are. By default where this process read the index from, else the configured root.

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
        raise ConfigError(f"schema: give a hub.Schema, or one hub.Field, not a {type(schema).__name__}")
    return schema


def _table(name: str, root: RootLike) -> tuple[Root, TableSnapshot]:
    where, parsed = locate(name, root, commit_allowed=True)
    version, record = existing(where, parsed) if parsed.commit is None else (version_of(where, parsed), None)
    record = record or version.cached(parsed.commit or 0)
    if record.head.kind == "array":
        raise ConfigError(f"{parsed}: is an array; hub.load reads it, and read_index is of tables")
    return where, TableSnapshot.of(version, record)


def _references(reference: str | Sequence[str] | None, where: Root) -> list[tuple[Version, Record]]:
    found = []
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
        found.append((version, record))
    return found


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
    """Publish a filtered, sorted or merged index as a table of its own, without moving a block.

    That is also how columns are added to a table: merge their table with it, and publish the result. Rows are cut into
    partitions by the column ``partition``, and keep their order within each.

    Parameters
    ----------
    index : DataFrame or Arrow table
        With the column ``partition``.
    name : str
        ``owner/name:version``, which must not exist.
    columns : str or sequence of str, optional
        Names or patterns of the fields that the new table has; by default all. Fields that are stored together in one
        block are published together.
    move : bool
        Copy the blocks, byte for byte, next to each other: for a table that is to stand alone. Blocks that are under
        another root are always copied, and how many bytes they have is said first.
    attrs, message, grace_seconds, root
        As of :func:`table_writer`; ``root`` is where the new table goes.

    Returns
    -------
    Table

    Raises
    ------
    AlreadyExistsError
        The name is taken.
    ConfigError
        Two tables have a field of one name, the index has no partition of a row, or a column of it has other values
        than the rows: blocks are published as they are stored.

    Warns
    -----
    UserWarning
        The index has columns that are of none of its tables: they are left out.

    Notes
    -----
    Costs reading the locations and digests of the rows, and writing those of the new table. A name whose blocks are
    shared is told so, so that its collector leaves them; it may be deleted.
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
            "table of their own, and merge it",
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
