"""The dataset that users get: the handle on its arrays, with methods for other packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from hubarray import process
from hubarray.api import versions
from hubarray.datasets.handle import DatasetHandle
from hubarray.datasets.transaction import DatasetTransaction
from hubarray.extras import needed
from hubarray.handles.display import RowsShown
from hubarray.handles.member import DatasetArray
from hubarray.history.commits.handle import unpickled
from hubarray.names import Name
from hubarray.storage.url import Root

if TYPE_CHECKING:
    import tensorflow as tf
    import xarray as xr

    from hubarray.interop.zarr.group_store import HubGroupStore


class Dataset(DatasetHandle[DatasetArray], RowsShown):
    """Several arrays in a bucket, under one name and version, that are committed together.

    ==========================================================  ===================================================
    ``ds["image"]``, ``ds["image"][0:10]``                      an array, and its elements
    ``ds.append({"image": images, "label": labels})``           rows for all arrays of a dimension, in one commit
    ``with ds.transaction("why") as t: t["image"][3] = ...``    many writes to several arrays, one commit
    ``ds["mask"] = hub.ArraySpec(...)``, ``del ds["mask"]``     an array more or less, and ``ds.rename(old, new)``
    ``ds.dims``, ``ds.attrs``, ``list(ds)``, ``ds.log()``       what it is, and its history
    ==========================================================  ===================================================

    Made by :func:`hubarray.dataset` and :func:`hubarray.load`. Arrays that share the name of a dimension have the same
    length there, always. A handle follows its version, pickles, and may be used by many threads at once, as that of an
    array.
    """

    __slots__ = ()

    _array_class = DatasetArray

    def to_pytorch(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        transform: Callable[[Any], Any] | None = None,
        iterable: bool = False,
        rows: Any = None,
        **options: Any,
    ) -> Any:
        """A PyTorch dataset of the samples, each a dictionary of arrays' rows.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Arrays; by default :meth:`samples`.
        transform, iterable, rows, **options
            As of :meth:`hubarray.Array.to_pytorch`.

        Returns
        -------
        torch.utils.data.Dataset

        Raises
        ------
        ConfigError, MissingPackageError
        """
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.samples import dataset_to_pytorch
        return dataset_to_pytorch(self, columns, transform=transform, iterable=iterable, rows=rows, **options)

    def to_tensorflow(
        self, columns: str | Sequence[str] | None = None, *, rows: Any = None, **options: Any
    ) -> tf.data.Dataset:
        """A ``tf.data.Dataset`` of the samples: dictionaries; see :meth:`hubarray.Array.to_tensorflow`.

        Raises
        ------
        ConfigError, MissingPackageError
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import dataset_to_tensorflow
        return dataset_to_tensorflow(self, columns, rows=rows, **options)

    def to_xarray(self, *, decode_cf: bool = True) -> xr.Dataset:
        """The newest commit this handle sees as an ``xarray.Dataset``, lazily through Dask.

        Dimensions, coordinates and attributes are the arrays'; an array that has the name of its only dimension is the
        index of that. Axes without a name get one of their own.

        Parameters
        ----------
        decode_cf : bool
            Have xarray decode times, fill values and packed numbers by their attributes.

        Raises
        ------
        MissingPackageError
        """
        needed("xarray", extra="xarray", why="to_xarray")
        with process.importing:
            from hubarray.interop.xarray import to_xarray
        return to_xarray(self, decode_cf=decode_cf)

    def to_zarr_store(self, *, transaction: DatasetTransaction | None = None) -> HubGroupStore:
        """A Zarr v3 store over this version, a group: ``zarr.open_group(ds.to_zarr_store())``, ``xr.open_zarr(...)``.

        What is written through it are commits, a chunk each; with ``transaction=t`` all of it is part of that one. See
        :class:`hubarray.interop.zarr.group_store.HubGroupStore`.
        """
        needed("zarr", extra="zarr", why="to_zarr_store")
        with process.importing:
            from hubarray.interop.zarr.group_store import to_zarr_store
        return to_zarr_store(self, transaction=transaction)

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record()
        return _restored, (self._root, self._version.name, record.head.number, self._pinned is not None)

    def undo(self, steps: int = 1, *, message: str | None = None) -> Self:
        """Take back the newest changes, whichever arrays they are of, as a commit; see :func:`hubarray.undo`.

        Returns the dataset itself.

        Raises
        ------
        ReadOnlyError
            It is fixed at a commit.
        NotFoundError, ConflictError
        """
        self.newest_record()
        versions.undo(f"{self.name}:{self.version}", steps=steps, root=self.root, message=message)
        return self.refresh()

    def _repr_html_(self) -> str:
        with process.importing:
            from hubarray.interop.notebook.dataset_html import describe
        return describe(self)


def _restored(root: Root, name: Name, number: int, pinned: bool) -> Dataset:
    version, record = unpickled(root, name, number, pinned=pinned)
    return Dataset(root, version, record, pinned=pinned)
