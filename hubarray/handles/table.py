"""The public table: the handle on its rows, with methods for other packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hubarray import process
from hubarray.extras import needed
from hubarray.handles.display import RowsShown
from hubarray.handles.loader import RowLoader
from hubarray.history.log.version import version_of
from hubarray.names import Name
from hubarray.storage.url import Root
from hubarray.tables.handle import TableHandle


class Table(TableHandle[RowLoader], RowsShown):
    """Rows of tensors in a bucket, under a name and a version.

    ==========================================  ================================================================
    ``t.schema``, ``len(t)``, ``t.attrs``       what it is
    ``t.index()``, ``t.loader()``               the index as a DataFrame, and rows of all of it
    ``t[i]``, ``t[a:b]``, ``t[[...]]``          rows; of a table of one field, its values
    ``t.log()``, ``t.commit``, ``t.frozen``     its history
    ==========================================  ================================================================

    :func:`hubarray.load` and :func:`hubarray.write_index` return it; :func:`hubarray.table_writer` writes one. Most
    tables are frozen from their first commit. The handle of a growing table follows it, like the handle of an array.
    """

    __slots__ = ()

    _loader_class = RowLoader

    def to_pytorch(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        transform: Callable[[Any], Any] | None = None,
        iterable: bool = False,
        **options: Any,
    ) -> Any:
        """Return a PyTorch dataset, by index or as a stream. If the table has one field, samples are its values.

        See :meth:`RowLoader.to_pytorch`, which works with the rows of any index.

        Parameters
        ----------
        columns
            Same as in :meth:`RowLoader.get_row`. Samples are then dictionaries.
        transform : callable, optional
            A function of a row, or of a value, that returns the sample.
        iterable : bool
        **options
            Options of streams, same as in :meth:`RowLoader.to_pytorch`.
        """
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.tables import to_pytorch
        return to_pytorch(
            self.loader(), columns, transform=transform, value=self._only_field() if columns is None else None,
            iterable=iterable, **options,
        )  # fmt: skip

    def to_tensorflow(self, **options: Any) -> Any:
        """Return a ``tf.data.Dataset`` of the rows. If the table has one field, elements are its values.

        See :meth:`RowLoader.to_tensorflow`, which works with chosen columns and the rows of any index.
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import table_to_tensorflow
        return table_to_tensorflow(self.loader(), value=self._only_field(), **options)

    def _repr_html_(self) -> str:
        with process.importing:
            from hubarray.interop.notebook.html import describe_table
        return describe_table(self)

    def __reduce__(self) -> tuple[Any, ...]:
        number = self._pinned.head.number if self._pinned is not None else None
        return _unpickled, (self.root, self._version.name, self._record().head.number, number is not None)


def _unpickled(root: Root, name: Name, number: int, pinned: bool) -> Table:
    version = version_of(root, name)
    return Table(root, version, version.cached(number), pinned=pinned)
