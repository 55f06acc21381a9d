"""The public row loader: reads of rows, with methods for other packages."""

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
    """A loader of rows of one or several tables, by their position in an index; see :func:`hubarray.row_loader`.

    Positions count from 0, or from the end if they are negative. A loader is pinned to the commits of its index. It
    pickles, survives forks, and can be used by several threads at once.
    """

    def to_pytorch(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        transform: Callable[[Row], Any] | None = None,
        iterable: bool = False,
        **options: Any,
    ) -> Any:
        """Return a PyTorch dataset: by index, with one parallel fetch per batch, or a stream of epochs.

        Parameters
        ----------
        columns
            Same as in :meth:`get_row`.
        transform : callable, optional
            A function of a row of NumPy values. Its result becomes tensors. If samples have different shapes,
            DataLoader needs a ``collate_fn``.
        iterable : bool
            Make a stream that reads ahead, in a different order in each epoch: ``dataset.loader(num_workers=2)``. A
            batch is a dictionary of columns. Columns are tensors; ragged columns, text and columns with nulls are
            lists.
        **options
            Options of streams: ``batch_size``, ``shuffle``, ``seed`` and the others of
            :meth:`hubarray.Array.to_pytorch`.

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
        """Return a ``tf.data.Dataset`` of the rows: dictionaries of columns, by row or by batch.

        Parameters
        ----------
        columns
            Same as in :meth:`get_row`. Columns must not contain nulls.
        **options
            Same as in :meth:`hubarray.Array.to_tensorflow`. In batches, ragged columns are ragged tensors.

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
