"""To and from Dask: blocks of one commit as a Dask array, and a Dask array written by its workers as one commit."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray import process
from hubarray.api import catalog, registry
from hubarray.api.resolve import RootLike, existing, locate
from hubarray.arrays.array import Array
from hubarray.arrays.codecs.dtypes import planned_bytes
from hubarray.arrays.write.worker import Part, Worker
from hubarray.datasets.dataset import Dataset
from hubarray.errors import ConfigError, NotFoundError, SourceError
from hubarray.history.log.version import version_of
from hubarray.history.maintenance.staging_versions import NOTE, publish, removed_on_failure, staging_name
from hubarray.interop import blocks
from hubarray.storage.url import Root
from hubarray.values.attributes import checked_attrs
from hubarray.values.foreign import unmasked

if TYPE_CHECKING:
    import dask.array as da

MAX_BLOCKS = 1 << 18
_MESSAGE = "store a Dask array"
_TEXT_BLOCK_BYTES = 4 << 20


def to_dask(array: Array, *, block_bytes: int = 64 << 20) -> da.Array:
    """See :meth:`hubarray.Array.to_dask`."""
    pinned = array.snapshot()
    return as_dask(pinned, tuple(range(n) for n in pinned.shape), block_bytes=block_bytes)


def as_dask(pinned: Array, axes: tuple[blocks.Axis, ...], *, block_bytes: int) -> da.Array:
    """A view of one commit as a Dask array; the graph grows with the blocks in view, not with the array."""
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    block = blocks.block_shape(pinned.shape, pinned.chunks, planned_bytes(pinned.dtype), block_bytes)
    count = math.prod(blocks.piece_count(axis, size) for axis, size in zip(axes, block, strict=True))
    if count > MAX_BLOCKS:
        raise ConfigError(
            f"{pinned.name}:{pinned.version}: is {count:,} blocks of about {block_bytes >> 20} MiB, and Dask plans up "
            f"to {MAX_BLOCKS:,}: take a part of it, a.lazy[0:1000].mean() or a.lazy[0:1000].to_dask(), or larger "
            "blocks, to_dask(block_bytes=...)"
        )
    parts = [
        list(blocks.pieces(axis, size)) or [axis] if isinstance(axis, range) else [axis]
        for axis, size in zip(axes, block, strict=True)
    ]
    name = f"hubarray-{tokenize(pinned, axes, block)}"
    # Tasks open the array where they run: one that cannot is an error of its task, not of a message between workers.
    described = (pinned.root, f"{pinned.name}:{pinned.version}@{pinned.commit}", pinned.key)
    graph: dict[Any, Any] = {}
    for places in itertools.product(*(range(len(one)) for one in parts)):
        chosen = [one[i] for one, i in zip(parts, places, strict=True)]
        key = tuple(blocks.as_slice(one) if isinstance(one, range) else one for one in chosen)
        shown = tuple(i for i, one in zip(places, chosen, strict=True) if isinstance(one, range))
        graph[(name, *shown)] = (_read, *described, key)
    free = [[one for one in some if isinstance(one, range)] for some in parts]
    chunks = tuple(tuple(map(len, some)) for some in free if some)
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[])
    return da.Array(layers, name, chunks, dtype=pinned.dtype)


@functools.lru_cache(maxsize=64)
def _opened(root: Root, name: str, key: str | None) -> Array:
    found: Any = catalog.load(name, root=root)
    array: Array = found if key is None else found[key]
    return array


def _read(root: Root, name: str, key: str | None, at: tuple[Any, ...]) -> np.ndarray:
    return np.asarray(_opened(root, name, key)[at])


def store(
    source: Any,
    name: str,
    *,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    encoding: Mapping[Any, Mapping[str, Any]] | None = None,
    root: RootLike = None,
    message: str | None = None,
) -> Array | Dataset:
    """Write a Dask array, or any other, under a name: workers upload, in parallel, and one commit shows all of it.

    Where the name exists with the same shape and dtype, its contents are replaced in that commit; else it appears when
    all is there, and lies under a version ``<version>.storing-...`` until then (and after a kill, until it is deleted).

    Parameters
    ----------
    source : dask.array.Array, or array
        Of known chunk sizes. Rechunk it to multiples of the array's chunks for speed; any chunks are right. Arrays of
        NumPy, xarray, Zarr, h5py, PyTorch on the CPU and whatever has ``__array__`` are taken too, with names of axes
        and attributes where they have them; so is a frame whose columns are of one dtype. An ``xarray.Dataset`` becomes
        a dataset, with chunks as Dask has them; of that ``chunks`` and ``codec`` may be mappings by variable. So does a
        ``DataArray`` with coordinates, under its name or ``value``, unless it is the contents of an array that exists.
    name : str
    chunks, codec, attrs, overwrite
        As for :func:`hubarray.array`.
    encoding : mapping of str to mapping, optional
        Of an ``xarray.Dataset``, by variable, as for its ``to_zarr``: ``dtype``, ``scale_factor``, ``_FillValue``, ...
    root : str, path or Root, optional
    message : str, optional
        For the log.

    Returns
    -------
    Array

    Raises
    ------
    ConfigError
        Not an array, or one of unknown shape; or the encoding of a variable would change its values.
    AlreadyExistsError
        The name is taken by an array of another description.

    Examples
    --------
    >>> import dask.array as da
    >>> import hubarray as hub
    >>> a = hub.store(da.arange(100, chunks=30), "docs/from-dask:v0", chunks=10)
    >>> a.commit, a[95:]
    (1, array([95, 96, 97, 98, 99]))
    """
    import dask.array as da

    with process.importing:
        from hubarray.interop.sources.memory import array_like
        from hubarray.values.objects import refuse_objects

    of_xarray = type(source).__module__.startswith("xarray.")
    if of_xarray and hasattr(source, "subtree"):
        raise ConfigError("a DataTree has several datasets: store each, hub.store(tree['train'].to_dataset(), name)")
    if has_coordinates(source):
        source = _with_coordinates(source, name, root)
    if of_xarray and hasattr(source, "data_vars"):
        with process.importing:
            from hubarray.interop import xarray

        return xarray.store(
            source, name, chunks=chunks, codec=codec, attrs=attrs, overwrite=overwrite, encoding=encoding, root=root,
            message=message,
        )  # fmt: skip
    if encoding is not None:
        raise ConfigError("encoding= says how the variables of an xarray.Dataset are stored")
    found = array_like(source)
    if found is None:
        raise ConfigError(
            f"hub.store writes arrays, not {type(source).__name__}; of samples one by one hub.import_ makes one, and "
            "tables are given other names by hub.copy, hub.transfer and hub.write_index"
        )
    dtype = np.dtype(found.array.dtype)
    if dtype.hasobject and dtype.kind != "T":
        refuse_objects(f"the {type(source).__name__}", found.array)
    attrs = found.attrs | dict(attrs or {})
    source = found.array if isinstance(found.array, da.Array) else as_blocks(found.array)
    if any(n != n for n in source.shape):
        raise ConfigError(f"{name}: the Dask array's shape is unknown; call its compute_chunk_sizes() first")
    where, parsed = locate(name, root)
    checked_attrs(attrs)
    described: dict[str, Any] = {"chunks": chunks, "codec": codec}
    exists = catalog.exists(str(parsed), root=where)
    if exists and overwrite:
        registry.require(existing(where, parsed)[1], "array", "delete it first, or choose another version")
    if exists and not overwrite:
        array = catalog.array(
            source.shape, str(parsed), source.dtype, root=where, attrs=attrs, dims=found.dims, **described
        )
        _write_all(array, source, name, message)
        return array
    staged = version_of(where, staging_name(parsed, "storing", own=True))
    with removed_on_failure(staged):
        staging = catalog.array(
            source.shape,
            str(staged.name),
            source.dtype,
            attrs={NOTE: "store"},
            root=where,
            dims=found.dims,
            **described,
        )
        _write_all(staging, source, name, message)
    kept, target = checked_attrs(attrs), version_of(where, parsed)
    publish(staged, target, attrs=kept, message=message or _MESSAGE, overwrite=overwrite)
    return catalog.load(str(parsed), root=where)


def has_coordinates(source: Any) -> bool:
    """Whether something is an xarray.DataArray with coordinates, for which an array has no room."""
    of_xarray = type(source).__module__.startswith("xarray.")
    return of_xarray and not hasattr(source, "data_vars") and len(getattr(source, "coords", ())) > 0


def _with_coordinates(source: Any, name: str, root: RootLike) -> Any:
    """An xarray.DataArray as a dataset of it and its coordinates, unless an array of the name is there to be filled."""
    with contextlib.suppress(NotFoundError):
        if existing(*locate(name, root))[1].head.kind == "array":
            return source
    called = "value" if source.name is None or source.name in source.coords else source.name
    return source.to_dataset(name=called)


def as_blocks(array: Any) -> da.Array:
    """An array in memory, or opened elsewhere, as a Dask array of blocks of its own chunks."""
    import dask.array as da

    cut = getattr(array, "chunks", None) or "auto"
    if cut == "auto" and array.dtype.kind == "T":
        # Dask cannot tell how much text there is.
        cut = blocks.block_shape(array.shape, (1,) * array.ndim, planned_bytes(array.dtype), _TEXT_BLOCK_BYTES)
    # Not a hash of all its values, which Dask would take for a name.
    return da.from_array(array, chunks=cut, name=False)


def _write_all(array: Array, source: da.Array, name: str, message: str | None) -> None:
    import dask

    from hubarray.interop.lazy import computed

    with array.transaction(message or _MESSAGE) as transaction:
        tasks = delayed_writes(transaction.worker(), source)
        for part in computed(dask.delayed(list)(tasks), f"storing {name}"):
            transaction.add(part)


def delayed_writes(worker: Worker, source: da.Array) -> list[Any]:
    """Tasks by which Dask's workers write an array: one a block, each of which gives a part of the transaction."""
    import dask

    tasks = []
    delayed = source.to_delayed()
    begins = [np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist() for sizes in source.chunks]
    for place in np.ndindex(delayed.shape):
        key = tuple(slice(b[i], b[i] + sizes[i]) for b, i, sizes in zip(begins, place, source.chunks, strict=True))
        tasks.append(dask.delayed(_write, pure=False)(worker, key, source.dtype, delayed[place]))
    return tasks


def _write(worker: Worker, key: tuple[slice, ...], dtype: np.dtype[Any], block: np.ndarray) -> Part:
    expected = tuple(one.stop - one.start for one in key)
    # A block may be masked, whatever the array said of itself.
    values = np.asarray(unmasked(block))
    if values.shape != expected or not np.can_cast(values.dtype, dtype, "safe"):
        raise SourceError(
            f"a block of the Dask array is {values.dtype} of shape {values.shape}, and says that it is {dtype} of "
            f"{expected}; give map_blocks the right dtype and chunks"
        )
    with worker as writer:
        writer[key] = values
    return writer.part
