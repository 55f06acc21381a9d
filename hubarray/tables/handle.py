"""The table: a handle on the rows of tensors of a version or a commit."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from hubarray.errors import ConfigError
from hubarray.history.commits.handle import Handle
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.redaction import counted
from hubarray.storage.url import Root
from hubarray.tables.format.metadata import metadata_of
from hubarray.tables.format.schema import Schema
from hubarray.tables.index import index
from hubarray.tables.read import known_roots
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.read.windows import EveryRow
from hubarray.tables.snapshot.snapshot import TableSnapshot

LoaderT = TypeVar("LoaderT", bound=RowLoaderHandle)


class TableHandle(Handle, Generic[LoaderT]):
    """Rows of tensors: :class:`hubarray.Table` without the methods for other packages."""

    __slots__ = ("_loader", "_loader_commit")

    # Of what class its loader is.
    _loader_class: ClassVar[type[Any]] = RowLoaderHandle

    def __init__(self, root: Root, version: Version, record: Record, *, pinned: bool) -> None:
        super().__init__(root, version, record, pinned=pinned)
        metadata_of(record)
        self._loader: LoaderT | None = None
        self._loader_commit = ""

    @property
    def schema(self) -> Schema:
        """The fields, their types and their column groups."""
        return metadata_of(self._record()).schema

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the table, read-only."""
        return MappingProxyType(json.loads(json.dumps(self._record().attrs)))

    @property
    def nbytes(self) -> int:
        """Stored bytes of all blocks, including shared ones. A row takes about ``nbytes / len(t)``."""
        return sum(metadata_of(self._record()).stored_bytes.values())

    @property
    def partition_count(self) -> int:
        """Number of partitions."""
        return sum(append.partitions for append in metadata_of(self._record()).appends)

    @property
    def partitions(self) -> list[Any]:
        """The keys of the partitions, in the order of the rows."""
        state = self._state()
        return [key for append in state.metadata.appends for key in state.partitions(append).column(0).to_pylist()]

    @property
    def partition_rows(self) -> dict[Any, range]:
        """The row numbers of each partition: positions in :meth:`loader` and in ``t[...]``."""
        return dict(self._state().rows_of_partitions())

    def index(self, columns: str | Sequence[str] | None = None, filters: Any = None, *, as_: str = "pandas") -> Any:
        """Read the index of this commit; see :func:`hubarray.read_index`."""
        state = self._state()
        known_roots.note(state.record.head.id, self.root)
        return index.as_kind(index.read(state, columns, filters), as_)

    def loader(self) -> LoaderT:
        """Return a loader of all rows, in the order of their numbers, without reading the index."""
        state = self._state()
        loader = self._loader
        if loader is None or self._loader_commit != state.record.head.id:
            every = EveryRow(state.metadata.rows)
            loader = self._loader_class([(index.service_column(state), every)], (), self.root)
            self._loader, self._loader_commit = loader, state.record.head.id
        return loader

    def _only_field(self) -> str | None:
        return next(iter(self.schema)) if len(self.schema) == 1 else None

    def snapshot(self) -> Self:
        """Return a handle that stays at this commit."""
        record = self._record()
        return type(self)(self.root, self._version, record, pinned=True)

    def __len__(self) -> int:
        return metadata_of(self._record()).rows

    def __getitem__(self, key: Any) -> Any:
        """Read a row, or a list of rows in one coalesced fetch. If the table has one field, read its values."""
        loader = self.loader()
        if isinstance(key, slice):
            return self._values(loader.get_batch(range(*key.indices(len(loader)))))
        if isinstance(key, (list, tuple, np.ndarray, range)):
            chosen = np.asarray(key)
            if chosen.dtype == bool:
                if chosen.shape != (len(loader),):
                    raise IndexError(f"a mask of {chosen.shape} for {len(loader)} rows")
                chosen = np.flatnonzero(chosen)
            return self._values(loader.get_batch(chosen if chosen.size else []))
        try:
            at = operator.index(key)
        except TypeError:
            raise ConfigError(f"a table is indexed by row numbers, not by {key!r}; t.index() can be queried") from None
        return self._values([loader.get_row(at)])[0]

    def __iter__(self) -> Iterator[Any]:
        for row in self.loader().iter_rows():
            yield self._values([row])[0]

    def _values(self, rows: list[dict[str, Any]]) -> list[Any]:
        """Rows as they are given out: of a table of one field, its values."""
        if len(self.schema) > 1:
            return rows
        (name,) = self.schema
        return [row[name] for row in rows]

    def _state(self) -> TableSnapshot:
        return TableSnapshot.of(self._version, self._record())

    def __repr__(self) -> str:
        record = self._record()
        table = metadata_of(record)
        at = f"@{record.head.number}" if self._pinned is not None else ""
        lines = [
            f"<hubarray.Table {self.name}:{self.version}{at}: {counted(table.rows, 'row')} in "
            f"{counted(self.partition_count, 'partition')}, {counted(len(table.schema), 'field')}"
            f"{', frozen' if record.head.frozen else ''}>"
        ]
        shown = list(table.schema)[:_SHOWN_FIELDS]
        width = max(map(len, shown))
        lines += [f"  {name:<{width}}  {field_text(table.schema, name)}" for name in shown]
        more = len(table.schema) - len(shown)
        return "\n".join([*lines, f"  and {more} more"] if more else lines)


_SHOWN_FIELDS = 40


def field_text(schema: Schema, name: str) -> str:
    """Describe a field in a line: type, shape, codec and where it is stored."""
    field = schema[name]
    shape = f" {['?' if n is None else n for n in field.shape]}".replace("'", "") if field.shape else ""
    codec = f" {field.codec['name']}" if field.codec else ""
    groups = schema.groups_of(name)
    where = ", ".join([*(["index"] if field.index else []), *groups])
    null = ", nullable" if field.nullable else ""
    return f"{field.dtype if field.dtype is not None else field.kind}{shape}{codec} ({where}{null})"
