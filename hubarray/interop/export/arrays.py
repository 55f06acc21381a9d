"""Taking data out: arrays to Zarr v3 anywhere, to .npy and HDF5."""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from hubarray.arrays.codecs.dtypes import is_ml
from hubarray.arrays.codecs.image_codecs import is_image_codec
from hubarray.arrays.handle import ArrayHandle, snapshot_of
from hubarray.blobs.scheduling import run_all
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, HubError, ObjectMissingError
from hubarray.extras import needed
from hubarray.interop.zarr_attributes import DIMENSION_NAMES, number_attributes, zarr_json
from hubarray.progress import progress
from hubarray.redaction import shown_text
from hubarray.storage.base import Store
from hubarray.storage.url import Root
from hubarray.values.attributes import has_type, typed_value

MARKER = ".hubarray-export.json"
CLEARING = "clearing"
OVERWRITE = "overwrite=True (--overwrite)"
_EXPORT_STEP_BYTES = 32 << 20
_MAX_GROUP_BYTES = 64 << 20


def to_file(path: str, write: Callable[[str], None], overwrite: bool) -> None:
    """Write a file under another name, and give it its own once it is complete.

    Raises
    ------
    AlreadyExistsError, ConfigError
    """
    path = os.path.realpath(path)
    mode = None
    if os.path.lexists(path):
        if not overwrite:
            raise AlreadyExistsError(f"{path}: exists already; choose another path, or pass {OVERWRITE}")
        if not os.path.isfile(path):
            raise AlreadyExistsError(f"{path}: is not a file, so it is not replaced")
        mode = os.stat(path).st_mode
    partial_path = f"{path}.partial-{secrets.token_hex(4)}"
    try:
        write(partial_path)
        if mode is not None:
            os.chmod(partial_path, mode)
        os.replace(partial_path, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if os.path.exists(partial_path):
            os.remove(partial_path)


def _fill(array: ArrayHandle, out: Any, as_dtype: Any = None) -> None:
    """Copy by blocks of whole chunks, each as another dtype where the target knows no text of any length."""
    if not array.shape:
        out[...] = array[...] if as_dtype is None else np.asarray(array[...], as_dtype)
        return
    row_bytes = max(1, array.nbytes // max(1, len(array)))
    rows = max(1, _EXPORT_STEP_BYTES // (row_bytes * array.chunks[0])) * array.chunks[0]
    with progress(array.nbytes, f"exporting {array.name}:{array.version}") as bar:
        for first in range(0, len(array), rows):
            block = array[first : first + rows]
            out[first : first + len(block)] = block if as_dtype is None else block.astype(as_dtype)
            bar.update(block.nbytes)


def write_npy(array: ArrayHandle, path: str) -> None:
    """Write an array into a .npy file."""
    if array.dtype.kind == "T":
        raise ConfigError(
            f"{array.name}:{array.version}: .npy has no text of any length; save it with a width: "
            "np.save(path, a[...].astype('U32'))"
        )
    _require_dtype_of_numpy(array, ".npy")
    if not array.size:
        with open(path, "wb") as file:
            np.save(file, np.zeros(array.shape, array.dtype))
        return
    out = np.lib.format.open_memmap(path, "w+", array.dtype, array.shape)
    _fill(array, out)
    out.flush()


def _require_dtype_of_numpy(array: ArrayHandle, format: str) -> None:
    """Refuse a dtype of ml_dtypes, which would be raw bytes in the file."""
    if is_ml(array.dtype):
        raise ConfigError(
            f"{array.name}:{array.version}: {format} has no {array.dtype}: store it as another dtype first, "
            "hub.store(a[...].astype('float32'), ...)"
        )


def write_hdf5(array: ArrayHandle, key: str, path: str) -> None:
    """Write an array into an HDF5 file, as the dataset ``key``."""
    h5py = needed("h5py", extra="hdf5", why="exporting HDF5")
    with h5py.File(path, "w") as file:
        write_hdf5_array(h5py, array, key, file)


def write_hdf5_array(h5py: Any, array: ArrayHandle, key: str, file: Any) -> None:
    """A dataset of HDF5, chunked as the array and compressed, with its names of axes and its attributes.

    Raises
    ------
    ConfigError
        HDF5 has no such dtype, or text has a NUL.
    """
    chunks = tuple(min(c, n) for c, n in zip(array.chunks, array.shape, strict=True)) if array.size else None
    options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if chunks else {}
    is_text = array.dtype.kind in "TU"
    _require_dtype_of_numpy(array, "HDF5")
    dtype = h5py.string_dtype() if is_text else array.dtype
    try:
        dataset = file.create_dataset(key, array.shape, dtype, chunks=chunks or None, **options)
        _fill(array, dataset, object if is_text else None)
    except (TypeError, ValueError) as error:
        if isinstance(error, HubError):
            raise
        what = "no text with NUL" if is_text else f"no {array.dtype}"
        raise ConfigError(f"{array.name}:{array.version}: HDF5 has {what} ({error})") from None
    for axis, label in zip(dataset.dims, array.dims, strict=True):
        axis.label = label or ""
    write_hdf5_attributes(dataset, number_attributes(array.attrs, array.dtype), array.dtype)


def write_hdf5_attributes(target: Any, attributes: Mapping[str, Any], dtype: np.dtype[Any] | None = None) -> None:
    """Attributes of a dataset or a group, as JSON where HDF5 has nothing like them."""
    for name, value in attributes.items():
        typed = typed_value(name, value, dtype)
        try:
            target.attrs[name] = typed if isinstance(typed, np.ndarray) or _hdf5_holds(typed) else json.dumps(value)
        except (TypeError, ValueError) as error:
            # Of more than 64 KiB, say.
            raise ConfigError(f"HDF5 has no attribute like {shown_text(str(name))[:80]!r}: {error}"[:300]) from None


def _hdf5_holds(value: Any) -> bool:
    """Whether an attribute comes back from HDF5 as it is: text, a number, or a list of one kind of them."""
    kinds = {type(element) for element in value} if isinstance(value, list) else {type(value)}
    return kinds == {bool} or has_type(value)


def group_at(target: Root) -> str | None:
    """The kind of node that the description of a Zarr names; None where there is none."""
    try:
        group_json = json.loads(bytes(target.store.get("zarr.json", 0, _MAX_GROUP_BYTES)))
    except ObjectMissingError:
        return None
    except ValueError:
        return "damaged"
    return str(group_json.get("node_type")) if isinstance(group_json, dict) else "damaged"


def write_zarr_group(array: ArrayHandle, target: Root, key: str, overwrite: bool) -> None:
    """Write an array into a group, below a folder of its own, and the group's description where there is none."""
    if not key or key != key.strip("/.") or "/" in key or not key.isprintable():
        raise ConfigError(f"key={key!r}: give the array a plain name in the group, without '/'")
    kind = group_at(target)
    if kind not in (None, "group"):
        raise AlreadyExistsError(f"{target.url}: is not a Zarr group to write an array into; choose another place")
    named = zarr_json(array)
    names = named.get(DIMENSION_NAMES) or [None] * array.ndim
    # xarray opens nothing without names.
    named[DIMENSION_NAMES] = [f"dim_{axis}" if dim is None else dim for axis, dim in enumerate(names)]
    array_to_zarr(array, target.below(key), overwrite, named)
    if kind is None:
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        target.store.put("zarr.json", json.dumps(group, indent=1).encode())


def warn_of_images(what: str, arrays: Iterable[ArrayHandle]) -> None:
    """Tell who reads arrays as Zarr what encoded images among them want."""
    images = [array.key or str(array.name) for array in arrays if is_image_codec(array.codec[0]["name"])]
    if images:
        warnings.warn(
            f"{', '.join(images)[:200]}: are encoded images; a program that reads {what} needs the package "
            "imagecodecs-zarr, for all of its group",
            stacklevel=3,
        )


def array_to_zarr(array: ArrayHandle, target: Root, overwrite: bool, described: dict[str, Any]) -> None:
    """An array of its own: its chunks as they are stored, those that are not there yet, and last its description.

    Raises
    ------
    AlreadyExistsError, ConflictError, CorruptDataError, StorageError
    """
    warn_of_images("the export", [array])
    store = target.store
    state = snapshot_of(array)
    record, metadata = state.record, state.metadata
    marker = Marker(store, record.digest)
    sizes = {info.key: info.size_bytes for info in store.list("")}
    begun = marker.read()
    if begun == record.digest:
        marker.set()
    else:
        if sizes:
            _check_replaceable(target, sizes, overwrite or begun == CLEARING)
            # First of all: what an interruption leaves of the old array is never taken for chunks of the new one.
            marker.set(CLEARING)
        # Without its description the old array is none, whatever of its chunks an interruption leaves.
        store.delete(["zarr.json"])
        store.delete([key for key in sizes if key not in ("zarr.json", MARKER)])
        sizes = {}
        marker.set()
    chunks = size = 0
    with progress(None, f"exporting {array.name}:{array.version}") as bar:
        for coords, chosen in state.present(batch_bytes=_EXPORT_STEP_BYTES):
            keys = ["/".join(["c", *map(str, chunk_coords)]) for chunk_coords in coords.tolist()]
            marker.check()
            missing = [i for i, key in enumerate(keys) if sizes.get(key) != int(chosen["length"][i])]
            blobs = state.fetcher.blobs(chosen[missing], max_bytes=metadata.max_blob_bytes)
            run_all((len(blob), partial(store.put, keys[i], blob)) for i, blob in zip(missing, blobs, strict=True))
            bar.update(int(chosen["length"].sum()))
            chunks, size = chunks + len(keys), size + int(chosen["length"].sum())
    for info in store.list(""):
        if info.key not in ("zarr.json", MARKER):
            chunks, size = chunks - 1, size - info.size_bytes
    marker.check()
    if chunks or size:
        raise marker.conflict()
    store.put("zarr.json", json.dumps(described, indent=1).encode())
    store.delete([MARKER])


class Marker:
    """The note beside an unfinished export: of which commit it is, and of which attempt."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._source = source
        self._attempt = secrets.token_hex(8)

    def read(self) -> str | None:
        """The commit that somebody's unfinished export is of."""
        try:
            marker = json.loads(bytes(self._store.get(MARKER)))
        except (ObjectMissingError, ValueError):
            return None
        return marker.get("source") if isinstance(marker, dict) else None

    def set(self, source: str | None = None) -> None:
        """Make the place this attempt's."""
        body = {"hubarray": 1, "source": source or self._source, "attempt": self._attempt}
        self._store.put(MARKER, json.dumps(body).encode())

    def check(self) -> None:
        """Stop where another attempt has begun since."""
        try:
            ours = json.loads(bytes(self._store.get(MARKER))).get("attempt") == self._attempt
        except ObjectMissingError:
            ours = False
        if not ours:
            raise self.conflict()

    def conflict(self) -> ConflictError:
        """Two exports at one place."""
        return ConflictError(f"{self._store.url}: another export is being written here; wait for it and export again")


def _check_replaceable(target: Root, keys: Iterable[str], overwrite: bool) -> None:
    if not overwrite:
        raise AlreadyExistsError(f"{target.url}: is not empty; choose another place, or pass {OVERWRITE}")
    if not all(key in ("zarr.json", MARKER) or key == "c" or key.startswith("c/") for key in keys):
        raise AlreadyExistsError(
            f"{target.url}: holds other things than one Zarr array, so it is not replaced; empty it first"
        )
