"""The public array: the handle on its elements, with statistics and methods for other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from hubarray import process
from hubarray.api import versions
from hubarray.arrays.handle import ArrayHandle
from hubarray.extras import needed
from hubarray.handles.display import Viewed
from hubarray.history.commits.handle import newest_record, unpickled
from hubarray.interop.statistics.methods import Statistics
from hubarray.interop.statistics.numpy_functions import NumpyProtocols
from hubarray.names import Name
from hubarray.storage.url import Root

if TYPE_CHECKING:
    import dask.array as da
    import tensorflow as tf

    from hubarray.arrays.write.transaction import Transaction
    from hubarray.interop.decoded import DecodedView
    from hubarray.interop.statistics.lazy import LazyView
    from hubarray.interop.zarr import HubStore


class Array(ArrayHandle, Statistics, NumpyProtocols, Viewed):
    """An N-dimensional array in a bucket, under a name and a version.

    ==================================================  =====================================================
    ``a[0:10, ..., ::2]``, ``a[mask]``, ``a["field"]``  read, with all of NumPy's indexing
    ``a[0:10] = values``, ``a.append(rows)``            write: a commit, in the bucket when it returns
    ``with a.transaction("why") as t: t[...] = ...``    many writes, one commit
    ``a.shape``, ``a.dtype``, ``a.dims``, ``a.attrs``   what it is
    ``a.log()``, ``a.undo()``, ``a.snapshot()``         its history
    ``a.mean(axis=0)``, ``a.lazy[0:1000].std()``        statistics, block by block
    ``a.to_pytorch()``, ``a.to_dask()``, ...            other packages
    ==================================================  =====================================================

    :func:`hubarray.array` and :func:`hubarray.load` return it. Reading supports all of NumPy's indexing and returns
    NumPy arrays. An assignment is a commit, durable and visible to every machine when it returns. Many threads can use
    an array at once. It pickles to its root, name and commit, so you can send it to workers. The pickle contains the
    ``storage_options`` of the root, so keep it as secret as they are.

    Python's operators raise an error, because they would read everything. Write ``a[...] + 1`` or ``a[0:10] == 0``.

    A handle follows its version. It sees commits of this process at once, and commits of other machines after
    ``max_staleness_seconds`` (1 by default) or after :meth:`refresh`. A handle from ``name@number`` or :meth:`snapshot`
    stays at its commit and is read-only.
    """

    __slots__ = ()

    @property
    def lazy(self) -> LazyView:
        """A lazy view of the newest commit that this handle sees: ``a.lazy[0:10_000, ..., 0].mean()``."""
        with process.importing:
            from hubarray.interop.statistics.lazy import LazyView
        return LazyView(self)

    @property
    def decoded(self) -> DecodedView:
        """The physical values of a packed array, decoded at each read: ``np.asarray(a.decoded[0:10])``.

        Raises
        ------
        ConfigError
            The array is not packed.
        """
        with process.importing:
            from hubarray.interop.decoded import DecodedView
        return DecodedView(self)

    def undo(self, steps: int = 1, *, message: str | None = None) -> Self:
        """Undo the newest changes, as a commit, and return the array; see :func:`hubarray.undo`."""
        newest_record(self)
        versions.undo(f"{self.name}:{self.version}", steps=steps, root=self.root, message=message)
        return self.refresh()

    def to_dask(self, *, block_bytes: int = 64 << 20) -> da.Array:
        """Return the newest commit that this handle sees as a Dask array. Call ``a.refresh()`` first to see newer ones.

        Parameters
        ----------
        block_bytes : int
            Approximate size of a Dask block, which consists of whole chunks.

        Returns
        -------
        dask.array.Array
            It has the same name for the same commit in every process. Each worker reads its own blocks.

        Examples
        --------
        >>> import hubarray as hub
        >>> a = hub.array((1000, 8), "docs/to-dask:v0", dtype="int64", chunks=(10, 8))
        >>> a[:] = 3
        >>> int(a.to_dask()[::2].sum().compute())
        12000
        """
        with process.importing:
            from hubarray.interop.dask import to_dask
        return to_dask(self, block_bytes=block_bytes)

    def to_pytorch(self, *others: Array, **options: Any) -> Any:
        """Return a PyTorch dataset of the samples of this array, or of several arrays together.

        Parameters
        ----------
        *others : Array
            Other arrays of the same length, such as labels. Samples are then tuples.
        transform : callable, optional
            A function of a NumPy sample, or of a tuple if there are several arrays, that returns the sample to use.
        iterable : bool, default False
            False makes a map-style dataset: ``DataLoader(dataset, batch_size=32, shuffle=True,
            collate_fn=dataset.collate)`` reads each batch in one parallel fetch. True makes a stream that reads groups
            of chunks ahead, which is faster if the data is far away: ``for images, labels in
            dataset.loader(num_workers=2): ...``

        rows : slice, mask or list of int, optional
            Use only these rows, in this order, such as those of a training part.

        The other parameters apply to streams.

        batch_size : int, optional
            Rows in a batch of one rank. By default, the stream gives single samples.
        global_batch_size : int, optional
            Rows in a batch of all ranks together, instead of ``batch_size``.
        shuffle : bool, default True
            Shuffle the order of chunks, and the rows within a buffer.
        seed : int, optional
            Makes the order reproducible, for each epoch and for all ranks together.
        drop_last : bool, default False
            Drop a last batch that is not full.
        rank, world_size : int, optional
            By default those of torch.distributed, if it is initialized.
        intervals : int, optional
            A multiple of every number of ranks that should see the same global batches, such as 48 for 4, 8 and 16
            ranks. The default is the number of ranks. A rank reads and holds ``intervals / world_size`` groups at a
            time.
        shard_balance : "exact", "drop" or "pad", optional
            "exact" gives every row once, and ranks differ by at most one row. "drop" gives only whole batches and
            leaves out other rows in each epoch. "pad" gives whole batches and repeats some rows. The default is "exact"
            for one rank and "drop" for more.
        buffer_bytes : int, optional
            Memory for the three groups that a rank of one interval uses, reads and still holds. The default is 192 MiB,
            or more if two chunks of each array need it. Rows are shuffled within a group. Arrays that fit into one
            group are read once and kept.

        Returns
        -------
        torch.utils.data.Dataset

        Raises
        ------
        ConfigError
            The lengths differ, or torch does not have the dtype.
        MissingPackageError
            PyTorch is not installed.

        Notes
        -----
        The dataset reads the newest commit that this handle sees, and ignores later writes. It works with fork,
        forkserver and spawn. Each worker has its own memory cache; all share the disk cache.
        """
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.samples import to_pytorch
        return to_pytorch(self, others, **options)

    def to_tensorflow(self, *others: Array, **options: Any) -> tf.data.Dataset:
        """Return a ``tf.data.Dataset`` of the samples of this array, or of several arrays together.

        Parameters
        ----------
        *others : Array
            Other arrays of the same length, such as labels. Elements are then tuples.
        batch_size : int, optional
            Rows in an element. This is cheaper than ``.batch()``, which copies them again.
        shuffle : bool, default False
            Shuffle the order of chunks, and the rows within a buffer, differently in each pass. You can also use
            ``shuffle`` of tf.data.
        seed : int, optional
            Makes the order of each pass reproducible.
        drop_last : bool, default False
            Drop a last batch that is not full. TensorFlow then knows the length of the batch axis.
        buffer_bytes, intervals, shard_balance, global_batch_size : optional
            Same as in :meth:`to_pytorch`.
        rows : slice, mask or list of int, optional
            Use only these rows, in this order.
        rank, world_size : int, optional
            The number of this process, and of all processes. Each gets its own rows. Use the same ``seed`` everywhere.

        Raises
        ------
        ConfigError
            The lengths differ, or TensorFlow does not have the dtype.
        MissingPackageError
            TensorFlow is not installed.
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import to_tensorflow
        return to_tensorflow(self, others, **options)

    def to_zarr_store(self, *, variable: str | None = None, transaction: Transaction | None = None) -> HubStore:
        """Return a Zarr v3 store of this version: ``zarr.open_array(a.to_zarr_store())`` reads and writes it.

        With ``variable="x"``, the store is a group that contains the array under this name, for ``xarray.open_zarr``.

        Each chunk that is written through the store is a commit. With ``transaction=t``, all writes are part of the
        transaction: ``with a.transaction() as t: ds.to_zarr(a.to_zarr_store(variable="x", transaction=t), mode="r+")``.
        :class:`hubarray.interop.zarr.HubStore` describes its keys.
        """
        with process.importing:
            from hubarray.interop.zarr.array_store import to_zarr_store
        return to_zarr_store(self, variable=variable, transaction=transaction)

    def show(self, *key: Any, ax: Any = None, **options: Any) -> Any:
        """Draw a part of the array with matplotlib: an image, a grid of images, a curve, or three slices of a volume.

        Parameters
        ----------
        *key
            Same as in ``a[key]``: ``a.show(0, 3)`` draws ``a[0, 3]``, and ``a.show()`` draws everything, up to 256 MiB.
            It costs as much as ``a[key]``.
        ax : matplotlib Axes, optional
            Where to draw an image or a curve. By default, this is a new figure.
        **options
            Passed to ``imshow`` or ``plot``, such as ``cmap`` and ``vmin``.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ConfigError
            There is nothing to draw, or too much.
        MissingPackageError
        """
        whole = key or (...,)
        with process.importing:
            from hubarray.interop.notebook.plots import show
        return show(self, whole[0] if len(whole) == 1 else whole, ax=ax, **options)

    def _repr_html_(self) -> str:
        """For notebooks."""
        with process.importing:
            from hubarray.interop.notebook.html import describe_array
        return describe_array(self)

    def _statistic(self, name: str, **options: Any) -> Any:
        return self.lazy._statistic(name, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record()
        return _restored, (self._root, self._version.name, record.head.number, self._pinned is not None)


def _restored(root: Root, name: Name, number: int, pinned: bool) -> Array:
    version, record = unpickled(root, name, number, pinned=pinned)
    return Array(root, version, record, pinned=pinned)
