"""Methods that join an array to other packages. The only calls upward: by name, resolved when first used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import process
from hubarray.arrays.statistics import Statistics

if TYPE_CHECKING:
    import dask.array as da
    import tensorflow as tf

    from hubarray.arrays.array import Array
    from hubarray.arrays.write.transaction import Transaction
    from hubarray.interop.statistics.decoded import DecodedView
    from hubarray.interop.statistics.lazy import LazyView
    from hubarray.interop.zarr.store import HubStore

_PLACES = {
    "to_dask": "hubarray.interop.dask:to_dask",
    "lazy": "hubarray.interop.statistics.lazy:LazyView",
    "decoded": "hubarray.interop.statistics.decoded:DecodedView",
    "numpy": "hubarray.interop.statistics.numpy_functions:call",
    "to_pytorch": "hubarray.interop.torch.rows:to_pytorch",
    "table_to_pytorch": "hubarray.interop.torch.tables:to_pytorch",
    "to_tensorflow": "hubarray.interop.tensorflow.streams:to_tensorflow",
    "table_to_tensorflow": "hubarray.interop.tensorflow.streams:table_to_tensorflow",
    "to_zarr_store": "hubarray.interop.zarr.store:to_zarr_store",
    "dataset_to_pytorch": "hubarray.interop.torch.rows:dataset_to_pytorch",
    "dataset_to_tensorflow": "hubarray.interop.tensorflow.streams:dataset_to_tensorflow",
    "dataset_to_xarray": "hubarray.interop.xarray:to_xarray",
    "dataset_to_zarr_store": "hubarray.interop.zarr.group_store:to_zarr_store",
    "needed": "hubarray.interop.missing:needed",
    "html": "hubarray.interop.notebook.html:describe",
    "table_html": "hubarray.interop.notebook.table_html:describe",
    "dataset_html": "hubarray.interop.notebook.dataset_html:describe",
    "show": "hubarray.interop.notebook.plots:show",
    "show_row": "hubarray.interop.notebook.plots:show_row",
    "view": "hubarray.viewer.serving:view_handle",
    "undo": "hubarray.api.versions:undo",
}


def adapter(name: str) -> Any:
    """The function behind a name of the table."""
    module, _, attribute = _PLACES[name].partition(":")
    with process.importing:
        return getattr(importlib.import_module(module), attribute)


def needed_adapter(name: str, package: str) -> Any:
    """An adapter whose module imports a package that may not be there."""
    adapter("needed")(package, extra=package, why=name)
    return adapter(name)


class Viewed:
    """Handles that are looked at in the browser."""

    __slots__ = ()

    def view(self, **options: Any) -> Any:
        """This name in the browser, and its commit if it is fixed to one: :func:`hubarray.view` with its options."""
        return adapter("view")(self, **options)


class RowsShown(Viewed):
    """Handles on rows, of which one is drawn at a time."""

    __slots__ = ()

    def show(self, row: int, columns: str | Sequence[str] | None = None) -> Any:
        """Draw the images, points and curves of one row with matplotlib: boxes over images, points from above.

        Parameters
        ----------
        row : int
        columns : str or sequence of str, optional
            As rows are read; all by default.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ConfigError
            There is nothing to draw.
        MissingPackageError
        """
        return adapter("show_row")(self, row, columns)


class NumpyProtocols:
    """How NumPy's functions find their way: statistics by blocks, arithmetic refused."""

    __slots__ = ()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return adapter("numpy")(function, args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"np.{ufunc.__name__} would have to read the whole array; read first, such as a[...] or a[0:10]"
        )


class Adapters(Statistics, NumpyProtocols, Viewed):
    """Base class of an array's methods for other packages, and of its statistics.

    Statistics are computed block by block through Dask, on all cores or on the cluster whose client is
    active, without the array in memory; they are what NumPy's functions give, and take the same arguments.
    """

    __slots__ = ()

    @property
    def lazy(self) -> LazyView:
        """The newest commit this handle sees, nothing of it read yet, as in ``a.lazy[0:10_000, ..., 0].mean()``."""
        view: LazyView = adapter("lazy")(self)
        return view

    @property
    def decoded(self) -> DecodedView:
        """The physical values of a packed array, decoded when they are read: ``np.asarray(a.decoded[0:10])``.

        Raises
        ------
        ConfigError
            The array is not packed.
        """
        view: DecodedView = adapter("decoded")(self)
        return view

    def undo(self, steps: int = 1, *, message: str | None = None) -> Array:
        """Take back the newest changes, as a commit; see :func:`hubarray.undo`. Returns the array itself."""
        array: Any = self
        array.newest_state()
        adapter("undo")(f"{array.name}:{array.version}", steps=steps, root=array.root, message=message)
        refreshed: Array = array.refresh()
        return refreshed

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
        lazy: da.Array = adapter("to_dask")(self, block_bytes=block_bytes)
        return lazy

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
        return needed_adapter("to_pytorch", "torch")(self, others, **options)

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
        dataset: tf.data.Dataset = needed_adapter("to_tensorflow", "tensorflow")(self, others, **options)
        return dataset

    def to_zarr_store(self, *, variable: str | None = None, transaction: Transaction | None = None) -> HubStore:
        """A Zarr v3 store over this version: ``zarr.open_array(a.to_zarr_store())`` reads and writes it.

        With ``variable="x"`` it is a group that holds the array under that name, for ``xarray.open_zarr``.

        What is written through it are commits, a chunk each; with ``transaction=t`` all of it is part of that one:
        ``with a.transaction() as t: ds.to_zarr(a.to_zarr_store(variable="x", transaction=t), mode="r+")``.
        See :class:`hubarray.interop.zarr.HubStore` for what it holds.
        """
        store: HubStore = adapter("to_zarr_store")(self, variable=variable, transaction=transaction)
        return store

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
        return adapter("show")(self, whole[0] if len(whole) == 1 else whole, ax=ax, **options)

    def _repr_html_(self) -> str:
        """For notebooks."""
        text: str = adapter("html")(self)
        return text

    def _statistic(self, name: str, **options: Any) -> Any:
        return self.lazy._statistic(name, **options)
