"""The row loader that users get: reads of rows, with methods for other packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hubarray import process
from hubarray.extras import needed
from hubarray.storage.url import Root
from hubarray.tables.format.index_column import ServiceColumn
from hubarray.tables.read import known_roots
from hubarray.tables.read.loader import RowLoaderHandle
from hubarray.tables.read.row_fetch import Numbers
from hubarray.tables.read.row_reads import Row
from hubarray.tables.read.windows import EveryRow


class RowLoader(RowLoaderHandle):
    """Rows of one or several tables, by their position in an index: made by :func:`hubarray.row_loader`.

    Positions count from 0, and from the end where they are negative. A loader is pinned to the commits that its index
    was read from, pickles, survives forks, and may be used by several threads at once.
    """

    def to_pytorch(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        transform: Callable[[Row], Any] | None = None,
        iterable: bool = False,
        **options: Any,
    ) -> Any:
        """A dataset for PyTorch: by index, where a batch is one parallel fetch, or a stream of epochs.

        Parameters
        ----------
        columns
            As of :meth:`get_row`.
        transform : callable, optional
            Makes a sample of a row of NumPy values; what it returns becomes tensors. Where samples are of different
            shapes DataLoader needs a ``collate_fn`` that says how a batch is made of them.
        iterable : bool
            A stream that reads ahead, in an order of its own for each epoch: ``dataset.loader(num_workers=2)``. A batch
            is a dictionary of columns: tensors, and lists where rows have shapes of their own, of text and of nulls.
        **options
            Of streams: ``batch_size``, ``shuffle``, ``seed`` and the others of :meth:`hubarray.Array.to_pytorch`.

        Returns
        -------
        torch.utils.data.Dataset

        Raises
        ------
        ConfigError, MissingPackageError
        """
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.tables import to_pytorch
        return to_pytorch(self, columns, transform=transform, iterable=iterable, **options)

    def to_tensorflow(self, columns: str | Sequence[str] | None = None, **options: Any) -> Any:
        """A ``tf.data.Dataset`` of these rows: dictionaries of columns, by row or by batch.

        Parameters
        ----------
        columns
            As of :meth:`get_row`; without nulls.
        **options
            Those of :meth:`hubarray.Array.to_tensorflow`. Of a batch, columns whose rows have shapes of their own are
            ragged tensors.

        Returns
        -------
        tf.data.Dataset

        Raises
        ------
        ConfigError, MissingPackageError
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import table_to_tensorflow
        return table_to_tensorflow(self, columns, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process knows no roots of commits that were looked at here.
        noted = self._numbers if self._root is None else []
        roots = [(column.id, known_roots.of(column.id)) for column, _ in noted]
        return _remade, (self._numbers, sorted(self._index_names), self._root, roots)


def _remade(
    numbers: Sequence[tuple[ServiceColumn, Numbers | EveryRow]],
    names: Sequence[str],
    root: Root | None,
    roots: Sequence[tuple[str, Root | None]],
) -> RowLoader:
    for commit, where in roots:
        if where is not None:
            known_roots.note(commit, where)
    return RowLoader(numbers, names, root)
