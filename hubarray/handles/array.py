"""The array that users get: the handle on its elements, with statistics and methods for other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from hubarray import process
from hubarray.api import versions
from hubarray.arrays.handle import ArrayHandle
from hubarray.extras import needed
from hubarray.handles.display import Viewed
from hubarray.history.commits.handle import unpickled
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

    Made by :func:`hubarray.array` and :func:`hubarray.load`. Reading takes all
    of NumPy's indexing and returns plain NumPy arrays; assigning is a commit,
    durable and visible to every machine when it returns. It may be used by many
    threads at once, and sent to workers: it pickles to its root, name and
    commit. A root's ``storage_options``, where they were given, travel in that
    pickle, so it is as secret as they are.

    Python's operators are refused, because they would have to read everything:
    write ``a[...] + 1`` or ``a[0:10] == 0``.

    A handle follows its version: it sees this process's commits at once and
    other machines' after ``max_staleness_seconds`` (default 1), or after
    :meth:`refresh`. One made by ``name@number`` or :meth:`snapshot` stays at
    its commit and cannot be written.
    """

    __slots__ = ()

    @property
    def lazy(self) -> LazyView:
        """The newest commit this handle sees, nothing of it read yet, as in ``a.lazy[0:10_000, ..., 0].mean()``."""
        with process.importing:
            from hubarray.interop.statistics.lazy import LazyView
        return LazyView(self)

    @property
    def decoded(self) -> DecodedView:
        """The physical values of a packed array, decoded when they are read: ``np.asarray(a.decoded[0:10])``.

        Raises
        ------
        ConfigError
            The array is not packed.
        """
        with process.importing:
            from hubarray.interop.decoded import DecodedView
        return DecodedView(self)

    def undo(self, steps: int = 1, *, message: str | None = None) -> Self:
        """Take back the newest changes, as a commit; see :func:`hubarray.undo`. Returns the array itself."""
        self.newest_state()
        versions.undo(f"{self.name}:{self.version}", steps=steps, root=self.root, message=message)
        return self.refresh()

    def to_dask(self, *, block_bytes: int = 64 << 20) -> da.Array:
        """The newest commit this handle sees (``a.refresh()`` looks for one now), as a Dask array.

        Parameters
        ----------
        block_bytes : int
            About how large Dask's blocks are; they are whole chunks.

        Returns
        -------
        dask.array.Array
            Its name is the same for the same commit, in every process. Workers read for themselves.

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
        """A PyTorch dataset of this array's samples, or of several arrays' samples together.

        Parameters
        ----------
        *others : Array
            Read along with this one, such as labels; of equal length. Samples are then tuples.
        transform : callable, optional
            Given a sample as NumPy has it (a tuple where there are several arrays), gives what to return.
        iterable : bool, default False
            False: a map-style dataset; ``DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=dataset.collate)``
            reads each batch in one parallel fetch. True: a stream that reads groups of chunks ahead, the faster
            way through data that is far away: ``for images, labels in dataset.loader(num_workers=2): ...``

        rows : slice, mask or list of int, optional
            Only these rows, in this order, as if they were all: a training part, say.

        The rest is for streams.

        batch_size : int, optional
            Rows in a batch of one rank; the default gives single samples.
        global_batch_size : int, optional
            Rows in a batch of all ranks together, instead.
        shuffle : bool, default True
            Chunks in random order, and rows within a buffer.
        seed : int, optional
            For an order that is the same each time: epoch by epoch, and for all ranks together.
        drop_last : bool, default False
            Leave out a last batch that is not full.
        rank, world_size : int, optional
            By default torch.distributed's, where it is initialized.
        intervals : int, optional
            A multiple of every number of ranks that is to see the same global batches, such as 48 for 4, 8 and 16; by
            default the number of ranks. A rank reads ``intervals / world_size`` groups side by side, and holds as many.
        shard_balance : "exact", "drop" or "pad", optional
            Every row once, where ranks differ by at most one row; whole batches alone, others left out in each epoch;
            or whole batches, for which some rows are repeated. By default "exact" for one rank, and "drop" for more.
        buffer_bytes : int, optional
            Of the three groups that a rank of one interval uses, reads and still holds, together; 192 MiB, or what two
            chunks of each need. Rows are shuffled within a group; arrays that fit one are read once, and kept.

        Returns
        -------
        torch.utils.data.Dataset

        Raises
        ------
        ConfigError
            Lengths differ, or torch has no such dtype.
        MissingPackageError
            PyTorch is not installed.

        Notes
        -----
        The newest commit this handle sees is read, whatever is written meanwhile. Works under fork, forkserver and
        spawn; each worker has caches of its own in memory, and all share the one on disk.
        """
        needed("torch", extra="torch", why="to_pytorch")
        with process.importing:
            from hubarray.interop.torch.samples import to_pytorch
        return to_pytorch(self, others, **options)

    def to_tensorflow(self, *others: Array, **options: Any) -> tf.data.Dataset:
        """A ``tf.data.Dataset`` of this array's samples, or of several arrays' samples together.

        Parameters
        ----------
        *others : Array
            Read along with this one, such as labels; of equal length. Elements are then tuples.
        batch_size : int, optional
            Rows in an element; cheaper than ``.batch()``, which copies them once more.
        shuffle : bool, default False
            Chunks in random order and rows within a buffer, anew in each pass. tf.data's own ``shuffle`` works too.
        seed : int, optional
            For an order that is the same each time, pass by pass.
        drop_last : bool, default False
            Leave out a last batch that is not full; the batch axis is then known.
        buffer_bytes, intervals, shard_balance, global_batch_size : optional
            As of :meth:`to_pytorch`.
        rows : slice, mask or list of int, optional
            Only these rows, in this order, as if they were all.
        rank, world_size : int, optional
            This process of how many, each of which gets rows of its own; needs the same ``seed`` everywhere.

        Raises
        ------
        ConfigError
            Lengths differ, or TensorFlow has no such dtype.
        MissingPackageError
            TensorFlow is not installed.
        """
        needed("tensorflow", extra="tensorflow", why="to_tensorflow")
        with process.importing:
            from hubarray.interop.tensorflow.epochs import to_tensorflow
        return to_tensorflow(self, others, **options)

    def to_zarr_store(self, *, variable: str | None = None, transaction: Transaction | None = None) -> HubStore:
        """A Zarr v3 store over this version: ``zarr.open_array(a.to_zarr_store())`` reads and writes it.

        With ``variable="x"`` it is a group that holds the array under that name, for ``xarray.open_zarr``.

        What is written through it are commits, a chunk each; with ``transaction=t`` all of it is part of that one:
        ``with a.transaction() as t: ds.to_zarr(a.to_zarr_store(variable="x", transaction=t), mode="r+")``.
        See :class:`hubarray.interop.zarr.HubStore` for what it holds.
        """
        with process.importing:
            from hubarray.interop.zarr.array_store import to_zarr_store
        return to_zarr_store(self, variable=variable, transaction=transaction)

    def show(self, *key: Any, ax: Any = None, **options: Any) -> Any:
        """Draw a part of it with matplotlib: an image, a grid of images, a curve, or three cuts of a volume.

        Parameters
        ----------
        *key
            As of ``a[key]``: ``a.show(0, 3)`` is of ``a[0, 3]``, and ``a.show()`` of all. At most 256 MiB; costs what
            ``a[key]`` does.
        ax : matplotlib Axes, optional
            Where to draw an image or a curve; by default in a new figure.
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
            from hubarray.interop.notebook.html import describe
        return describe(self)

    def _statistic(self, name: str, **options: Any) -> Any:
        return self.lazy._statistic(name, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record()
        return _restored, (self._root, self._version.name, record.head.number, self._pinned is not None)


def _restored(root: Root, name: Name, number: int, pinned: bool) -> Array:
    version, record = unpickled(root, name, number, pinned=pinned)
    return Array(root, version, record, pinned=pinned)
