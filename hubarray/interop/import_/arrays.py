"""Import from files, URLs, arrays and iterators, in bounded memory, and resume after interruptions."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import blake3
import numpy as np

from hubarray import config, process
from hubarray.api import catalog
from hubarray.api.resolve import RootLike, locate
from hubarray.arrays.metadata.spec import chunks_of
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, SourceError
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance.staging_versions import (
    NOTE,
    left_over,
    publish,
    remove,
    removed_on_failure,
    staging_name,
)
from hubarray.interop.plain import fitting_attrs
from hubarray.interop.store import has_coordinates, store
from hubarray.names import Name
from hubarray.progress import progress
from hubarray.redaction import shown_text
from hubarray.storage.url import Root
from hubarray.values.attributes import checked_attrs
from hubarray.values.foreign import is_dask

if TYPE_CHECKING:
    from hubarray.handles.array import Array
    from hubarray.interop.sources.base import ImportSource
    from hubarray.interop.sources.image_folders import Images
    from hubarray.interop.sources.sliced import Single

IMPORT_STEP_BYTES = 64 << 20
MAX_IMPORT_STEPS = 4

log = logging.getLogger("hubarray.interop")


def import_(
    source: Any,
    name: str,
    *,
    key: str | int | None = None,
    follow_links: bool = False,
    chunks: Any = "auto",
    codec: Any = "auto",
    attrs: Mapping[str, Any] | None = None,
    root: RootLike = None,
    message: str | None = None,
    max_decoded_bytes: int | None = None,
    orientation: str = "keep",
) -> Any:
    """Import an array, or a dataset if the source contains several arrays.

    The import holds about 64 MiB at a time, and what the format needs, such as a chunk of a Zarr array, a page or an
    image. A source that can only be read in whole rows is refused if a row takes more than 512 MiB. The name appears
    when the import is complete. Until then, the data is in the version ``<version>.importing``. If an import of a local
    source is interrupted or fails, its data is kept, and the same import continues from there. ``hub.delete`` of that
    version discards it.

    Parameters
    ----------
    source : path, URL, Root, array or iterable
        A file is recognized by its content, or else by its suffix. Supported are ``.npy`` and ``.npz``; Zarr v2 and v3,
        in every store of fsspec; HDF5 and NetCDF-4; TIFF, OME-TIFF and GeoTIFF, with pages of any size if they have
        tiles or strips; a folder or glob of images of equal size; audio (samples by channels) and video (frames) with
        PyAV; arrays of NumPy, Dask, xarray, Zarr, h5py and PyTorch on the CPU, and other objects with ``__array__``;
        open groups of Zarr and h5py; a DataFrame whose columns share a dtype; and any iterable of samples of equal
        shape and dtype. Images keep all bits. Masks that share a palette are class numbers, and CMYK becomes RGB. Pass
        a Root to set storage options. A URL in the bucket of the configured root uses its options.
    name : str
        The new name, which must not exist.
    key : str or int, optional
        The array or group of a file or xarray.Dataset to import. By default, all arrays become a dataset, in which the
        array ``a`` of a group ``train`` is called ``train.a``. Arrays that cannot be stored, such as references of
        HDF5, are left out with a warning. For a TIFF, it is the number of the series, from 0; overviews and masks are
        not counted.
    follow_links : bool
        Whether to read data from other files: through links that lead out of a folder, and external and virtual
        datasets of HDF5. A source from somebody else could use them to import any file of this machine.
    chunks, codec
        Same as in :func:`hubarray.array`. For a dataset, they can be mappings from names of arrays.
    attrs : mapping, optional
        Same as in :func:`hubarray.array`. The import adds the attributes of Zarr, HDF5 and xarray that JSON can
        represent; physical sizes and tags of TIFF; GDAL's metadata of bands as ``scale_factor``, ``add_offset``,
        ``_FillValue`` and ``long_name`` of CF; a palette as ``colormap``; and the rates of audio and video. Names of
        axes become ``a.dims``.
    root : str, path or Root, optional
    message : str, optional
        Message of the commit in the log.
    max_decoded_bytes : int, optional
        How many bytes a chunk of Zarr or HDF5 may decode to. The setting of this name is 1 GiB by default.
    orientation : "keep" or "apply"
        Store images as they are in their files, or turn them upright, as EXIF and TIFF say.

    Returns
    -------
    Array or Dataset
        Several images are sorted by the numbers in their names, and ``<name>.files`` has their paths. If they are in
        folders by class, ``a.attrs["classes"]`` has the names of the classes, and ``<name>.labels`` the class of each
        image.

    Raises
    ------
    SourceError
        The source cannot be read, or has changed during the import. The name is unchanged.
    AlreadyExistsError, ConfigError, MissingPackageError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.import_((np.full(4, i) for i in range(10)), "docs/imported:v0")
    >>> a.shape, a[9].tolist()
    ((10, 4), [9, 9, 9, 9])
    """
    with process.importing:
        from hubarray.interop.import_.datasets import import_members
        from hubarray.interop.sources import open_members, open_source
        from hubarray.interop.sources.open_files import opened_at
    where, parsed = locate(name, root)
    checked_attrs(attrs)
    key = None if key is None else str(key)
    limits: dict[str, Any] = {
        "follow_links": follow_links, "max_decoded_bytes": config.max_decoded_bytes(max_decoded_bytes),
        "upright": orientation == "apply",
    }  # fmt: skip
    if orientation not in ("keep", "apply"):
        raise ConfigError(f"orientation={orientation!r}: give 'keep' or 'apply'")
    if catalog.exists(str(parsed), root=where):
        raise AlreadyExistsError(f"{parsed}: exists already; choose another version, or delete it first")
    if is_dask(source):
        stored: Any = store(source, str(parsed), chunks=chunks, codec=codec, attrs=attrs, root=where, message=message)
        array: Array = stored
        return array
    if key is None and (hasattr(source, "data_vars") or has_coordinates(source)):
        return store(source, str(parsed), chunks=chunks, codec=codec, attrs=attrs, root=where, message=message)
    source, key = opened_at(source, key, follow_links=follow_links)
    members = open_members(source, key=key, **limits)
    if members is not None:
        again = partial(open_members, source, key=key, **limits)
        return import_members(
            members, again, parsed, chunks=chunks, codec=codec, attrs=attrs, root=where, message=message
        )
    return _import_array(
        partial(open_source, source, key=key, **limits), parsed, where, chunks=chunks, codec=codec,
        attrs=attrs, message=message,
    )  # fmt: skip


def _import_array(
    opening: Callable[[], ImportSource | Single], parsed: Name, where: Root, *, chunks: Any, codec: Any,
    attrs: Mapping[str, Any] | None, message: str | None,
) -> Array:  # fmt: skip
    from hubarray.interop.sources.image_folders import Images
    from hubarray.interop.sources.sliced import Single

    opened = opening()
    if isinstance(opened, Single):
        named = fitting_attrs(opened.where, opened.attrs, attrs)
        note = message or f"import {shown_text(opened.where)}"
        stored: Any = store(
            opened.value, str(parsed), chunks=chunks, codec=codec, attrs=named, root=where, message=note
        )
        single: Array = stored
        return single
    alone = opened.fingerprint is None
    staged = version_of(where, staging_name(parsed, "importing", own=alone))
    try:
        with removed_on_failure(staged) if alone else contextlib.nullcontext():
            staging = _staged(opened, staged, chunks, codec, where)
            _fill(staging, opened)
    except (ConflictError, NotFoundError) as error:
        raise ConflictError(f"{parsed}: another import of this name is running, or ended just now ({error})") from error
    except SourceError as error:
        raise SourceError(f"{error}{_left(staged, where)}") from error.__cause__
    with warnings.catch_warnings():
        # The first opening has already warned.
        warnings.simplefilter("ignore")
        again = None if alone else opening()
    if again is not None and again.fingerprint != opened.fingerprint:
        remove(staged)
        raise SourceError(f"{opened.where}: changed while it was read; import it again")
    named = fitting_attrs(opened.where, opened.attrs, attrs)
    if isinstance(opened, Images) and (opened.classes or len(opened.names) > 1):
        _add_companions(opened, parsed, where)
    publish(staged, version_of(where, parsed), attrs=named, message=message or f"import {shown_text(opened.where)}")
    return catalog.load(str(parsed), root=where)


def _left(staged: Version, root: Root) -> str:
    """Finish a failed import: remove it if it has no rows, and otherwise say how to continue."""
    if left_over(staged) is None:
        return ""
    stored, name = catalog.load(str(staged.name), root=root), str(staged.name)
    if not len(stored):
        remove(staged)
        return ""
    return (
        f"; the first {len(stored):,} rows are kept as {name}: fix the source and import it again, which starts "
        f"again, or remove them with hub.delete({name!r})"
    )


def _add_companions(source: Images, name: Name, root: Any) -> None:
    """The path, and the class, of each image, as arrays beside it: there first, so that nobody finds images without."""
    labels = {"labels": np.asarray(source.labels)} if source.classes else {}
    for suffix, values in (labels | {"files": np.asarray(source.names)}).items():
        beside = str(replace(name, name=f"{name.name}.{suffix}"))
        attrs = {"classes": source.classes} if suffix == "labels" else {}
        store(values, beside, attrs=attrs, overwrite=True, root=root, message=f"import {source.where}")


def _staged(source: ImportSource, staged: Version, chunks: Any, codec: Any, root: Root) -> Array:
    """The staging version to fill before it gets its name: an earlier import's of the same source, or a new one."""
    rows = source.rows if source.rows is not None else 1 << 40
    sized = chunks_of(chunks, codec, (max(1, rows), *source.row_shape), source.dtype)
    note = {"source": _digest(source, codec)}
    if left_over(staged) is not None and source.fingerprint is not None:
        stored = catalog.load(str(staged.name), root=root)
        alike = (stored.shape[1:], stored.dtype, stored.attrs[NOTE]) == (source.row_shape, source.dtype, note)
        if alike and len(stored) <= rows and stored.chunks == sized:
            return stored
    return catalog.array(
        (0, *source.row_shape), str(staged.name), source.dtype, chunks=sized, codec=codec, attrs={NOTE: note},
        overwrite=True, root=root, dims=source.dims, fill_value=getattr(source, "fill", None),
    )  # fmt: skip


def _digest(source: ImportSource, codec: Any) -> str | None:
    """Return the fingerprint of a source and its storage, which must be equal to continue an attempt."""
    if source.fingerprint is None:
        return None
    text = json.dumps([source.fingerprint, codec], default=str)
    return blake3.blake3(text.encode("utf-8", "surrogateescape")).hexdigest()


def _fill(staging: Array, source: ImportSource) -> None:
    from hubarray.interop.sources.base import row_bytes

    size = row_bytes(source)
    total = None if source.rows is None else source.rows * size
    if size > IMPORT_STEP_BYTES:
        _fill_by_parts(staging, source, total)
        return
    block_rows = max(1, IMPORT_STEP_BYTES // (size * staging.chunks[0])) * staging.chunks[0]
    if block_rows * size > MAX_IMPORT_STEPS * IMPORT_STEP_BYTES:
        # Chunks of many rows that are cut along other axes: they are written part by part.
        block_rows = max(1, IMPORT_STEP_BYTES // size)
    done = len(staging) - len(staging) % staging.chunks[0]
    if done != len(staging):
        staging.resize((done, *staging.shape[1:]))
    with progress(total, f"importing {shown_text(source.where)}") as bar:
        bar.update(done * size)
        for rows in source.blocks(done, block_rows):
            staging.append(rows)
            done += len(rows)
            if len(staging) != done:
                raise ConflictError(f"{staging.name}:{staging.version} has rows of another import")
            bar.update(rows.nbytes)
    if source.rows is not None and len(staging) != source.rows:
        raise SourceError(f"{source.where}: had {source.rows} rows at first, and {len(staging)} came; import it again")


def _fill_by_parts(staging: Array, source: ImportSource, total: int | None) -> None:
    """Rows that are too large to be held, one after the other; the last one that is there may not be whole."""
    from hubarray.interop.sources.base import row_bytes

    done = max(0, len(staging) - 1)
    with progress(total, f"importing {shown_text(source.where)}") as bar:
        bar.update(done * row_bytes(source))
        while source.rows is None or done < source.rows:
            staging.resize((done + 1, *source.row_shape))
            came = 0
            for place, values in source.parts(done, IMPORT_STEP_BYTES):
                staging[(done, *place)] = values
                came += values.nbytes
                bar.update(values.nbytes)
            if not came:
                staging.resize((done, *source.row_shape))
                return
            done += 1
