"""The public dataset: the handle on its arrays, with methods for other packages."""

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
from hubarray.history.commits.handle import newest_record, unpickled
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

    :func:`hubarray.dataset` and :func:`hubarray.load` return it. Arrays that share the name of a dimension always have
    the same length there. Like the handle of an array, it follows its version, pickles, and can be used by many threads
    at once.
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
        """Return a PyTorch dataset of the samples, which are dictionaries of rows.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Names of arrays. The default is :meth:`samples`.
        transform, iterable, rows, **options
            Same as in :meth:`hubarray.Array.to_pytorch`.

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
        """Return a ``tf.data.Dataset`` of dictionaries; see :meth:`hubarray.Array.to_tensorflow`.

        Raises
        ------
        ConfigError, MissingPackageError
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import dataset_to_tensorflow
        return dataset_to_tensorflow(self, columns, rows=rows, **options)

    def to_xarray(self, *, decode_cf: bool = True) -> xr.Dataset:
        """Return the newest commit that this handle sees as a lazy ``xarray.Dataset``.

        It has the dimensions, coordinates and attributes of the arrays. An array with the name of its only dimension
        becomes the index of this dimension. Axes without a name get a unique one.

        Parameters
        ----------
        decode_cf : bool
            Let xarray decode times, fill values and packed numbers by their attributes.

        Raises
        ------
        MissingPackageError
        """
        needed("xarray", extra="xarray", why="to_xarray")
        with process.importing:
            from hubarray.interop.xarray import to_xarray
        return to_xarray(self, decode_cf=decode_cf)

    def to_zarr_store(self, *, transaction: DatasetTransaction | None = None) -> HubGroupStore:
        """Return a Zarr v3 store of this version, a group: ``zarr.open_group(ds.to_zarr_store())``.

        Each chunk that is written through the store is a commit. With ``transaction=t``, all writes are part of the
        transaction. See :class:`hubarray.interop.zarr.group_store.HubGroupStore`.
        """
        needed("zarr", extra="zarr", why="to_zarr_store")
        with process.importing:
            from hubarray.interop.zarr.group_store import to_zarr_store
        return to_zarr_store(self, transaction=transaction)

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record()
        return _restored, (self._root, self._version.name, record.head.number, self._pinned is not None)

    def undo(self, steps: int = 1, *, message: str | None = None) -> Self:
        """Undo the newest changes to any arrays, as a commit, and return the dataset; see :func:`hubarray.undo`.


        Raises
        ------
        ReadOnlyError
            The handle is pinned to a commit.
        NotFoundError, ConflictError
        """
        newest_record(self)
        versions.undo(f"{self.name}:{self.version}", steps=steps, root=self.root, message=message)
        return self.refresh()

    def _repr_html_(self) -> str:
        with process.importing:
            from hubarray.interop.notebook.html import describe_dataset
        return describe_dataset(self)


def _restored(root: Root, name: Name, number: int, pinned: bool) -> Dataset:
    version, record = unpickled(root, name, number, pinned=pinned)
    return Dataset(root, version, record, pinned=pinned)
