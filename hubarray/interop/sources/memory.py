"""Sources in memory, or opened already: arrays, whatever gives itself as one, frames, and samples one by one."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hubarray import config
from hubarray.arrays.array import Array
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import check_sizes, readable, whole_parts
from hubarray.shown import shown_text
from hubarray.values.attributes import plain_value
from hubarray.values.foreign import TEXT, block_of, is_dask, plain_array, refuse_units, unmasked
from hubarray.values.objects import plain_list, plain_objects, refuse_objects

_SHOWN_COLUMNS = 5
# What NetCDF-4 calls the scale of a dimension that has no coordinates.
NETCDF_DIMENSION = "This is a netCDF dimension but not a netCDF variable"


@dataclass(frozen=True)
class Found:
    """Something like an array.

    Attributes
    ----------
    array : Any
        With shape, dtype and slices.
    attrs : dict
        JSON values that came along.
    dims : tuple of (str or None), or None
    fill : scalar or None
        What stands for elements that were never written.
    """

    array: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    dims: tuple[str | None, ...] | None = None
    fill: Any = None


def array_like(source: Any) -> Found | None:
    """An array made of a value that has a shape, or of a column of one dtype; None where it is something else.

    Raises
    ------
    ConfigError
        It is like an array, and cannot be stored as one.
    """
    source = unmasked(source)
    refuse_units(source)
    if isinstance(source, (np.ndarray, np.generic)):
        return Found(plain_objects(np.asarray(source)))
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _frame(source)
    package = type(source).__module__.partition(".")[0]
    if package == "xarray" and hasattr(source, "data_vars"):
        raise ConfigError(f"an xarray.Dataset is no array: give one of {', '.join(map(str, source.data_vars))}")
    if package == "xarray" and hasattr(source, "dims"):
        refuse_units(source.data)
        data = source.data if is_dask(source) else plain_objects(plain_array(source))
        return Found(data, json_attrs("xarray", source.attrs), tuple(map(str, source.dims)))
    if isinstance(source, Array):
        return Found(source, dict(source.attrs), source.dims, source.fill_value)
    if package == "netCDF4" and type(source).__name__ == "Variable":
        # Its dtype is that of the file, and not of the values that it gives.
        attrs, dims = json_attrs("netCDF4", _netcdf_attrs(source)), tuple(map(str, source.dimensions))
        return Found(plain_array(source), attrs, dims)
    if package == "netCDF4":
        raise ConfigError("a netCDF4.Dataset: give its path, or one of its variables")
    if package == "zarr" and hasattr(source, "metadata"):
        from hubarray.arrays.zarr_chain import bounded_array

        source = bounded_array(source, config.max_decoded_bytes())
        return Found(source, json_attrs("zarr", source.attrs), zarr_dims(source), source.fill_value)
    if package == "h5py" and hasattr(source, "shape"):
        return Found(source, json_attrs("h5py", source.attrs), hdf5_dims(source), source.fillvalue)
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, bytes)):
        return Found(plain_list(source))
    if is_dask(source):
        return Found(source)
    found = plain_array(source)
    return None if found is None else Found(plain_objects(found))


def _netcdf_attrs(variable: Any) -> dict[str, Any]:
    """Attributes of a variable of netCDF4, but for those that it has applied to its values itself."""
    applied = {"scale_factor", "add_offset", "_Unsigned"} if variable.scale else set()
    applied |= {"_FillValue", "missing_value"} if variable.mask else set()
    return {name: variable.getncattr(name) for name in variable.ncattrs() if name not in applied}


def _frame(frame: Any) -> Found:
    """A table of columns, where all are of one dtype."""
    names = [str(one) for one in frame.columns]
    dtypes = {str(one) for one in getattr(frame, "dtypes", [])}
    array = np.asarray(frame.to_numpy()) if len(dtypes) == 1 else None
    array = None if array is None else plain_objects(array)
    if array is not None and array.dtype.kind == "f" and not next(iter(dtypes)).lower().startswith("float"):
        raise ConfigError(
            f"a frame of {next(iter(dtypes))} with missing values, which would become {array.dtype}: fill them with "
            "fillna(...), or choose astype('float64')"
        )
    if array is not None and array.dtype == object:
        refuse_objects("the frame", array)
    if array is None:
        kinds = [str(one) for one in frame.dtypes]
        alike = [name for name, kind in zip(names, kinds, strict=True) if kind == kinds[0]]
        raise ConfigError(
            f"a frame whose columns are of {len(dtypes)} dtypes ({', '.join(sorted(dtypes))}): an array has one; store "
            f"columns of one dtype, frame[{alike[:_SHOWN_COLUMNS]!r}], or each as an array of its own"
        )
    return Found(array, {"columns": names})


def json_attrs(where: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that JSON can hold: text, numbers, and arrays of them. The others are left out, with a warning."""
    found: dict[str, Any] = {}
    left_out = []
    for name, value in attributes.items():
        try:
            if str(name) in found:
                raise ValueError("is there twice")
            found[str(name)] = plain_value(value, text_of_bytes=True)
        except (TypeError, ValueError, RecursionError):
            left_out.append(str(name))
    if left_out:
        shown = shown_text(", ".join(left_out))[:400]
        warnings.warn(f"{where}: attributes of a type that is not stored are left out: {shown}", stacklevel=3)
    return found


def zarr_dims(array: Any) -> tuple[str | None, ...] | None:
    """Axis names of a Zarr array: ``dimension_names`` in format 3, xarray's attribute in format 2."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    known = isinstance(names, (list, tuple)) and len(names) == len(array.shape)
    return tuple(None if one is None else str(one) for one in names) if known else None


def hdf5_dims(dataset: Any) -> tuple[str | None, ...] | None:
    """Axis names of an HDF5 dataset: labels of its dimensions, or the names of scales attached to them."""
    if dataset.is_scale and len(dataset.shape) == 1 and not dataset.dims[0].label:
        return (dataset.name.rpartition("/")[2],)
    names: list[str | None] = []
    for one in dataset.dims:
        scales = [name for name in one.keys() if name] if not one.label else []  # noqa: SIM118 - h5py's own
        if scales and scales[0].startswith(NETCDF_DIMENSION):
            scales = [one[0].name.rpartition("/")[2]]
        names.append(one.label or (scales[0] if scales else None))
    return tuple(names) if any(names) else None


def rows_or_single(where: str, found: Found, fingerprint: list[Any] | None = None, **sizes: Any) -> Rows | Single:
    """A source of rows, or the single value that has none."""
    if not len(found.array.shape):
        return Single(where, found)
    return Rows(where, found, fingerprint, **sizes)


class Single:
    """A single value, without rows."""

    shape: tuple[int, ...] = ()
    dims: tuple[str | None, ...] | None = ()
    fill: Any = None

    fingerprint: list[Any] | None = None

    def __init__(self, where: str, found: Found) -> None:
        self.where, self.attrs = where, found.attrs
        with readable(where):
            value = block_of(found.array, ())
        if value.dtype.kind in "TO" and isinstance(value.item(), (str, bytes)):
            value = np.asarray(plain_list([value.item()])[0])
        if value.dtype.hasobject or value.shape:
            refuse_objects(where, value)
        self.value, self.dtype = value, value.dtype


class Rows:
    """Anything that is sliced along its first axis."""

    def __init__(
        self, where: str, found: Found, fingerprint: list[Any] | None = None, *, stored_bytes: int | None = None
    ) -> None:
        array = found.array
        self.where = where
        self.rows: int | None = int(array.shape[0])
        self.row_shape = tuple(map(int, array.shape[1:]))
        self.shape = (int(array.shape[0]), *self.row_shape)
        self.dtype = np.dtype(array.dtype)
        if self.dtype.hasobject and self.dtype.kind != "T":
            refuse_objects(where, array)
        self.attrs = found.attrs
        self.dims = found.dims
        self.fill = found.fill
        self.fingerprint = fingerprint
        self._array = array
        check_sizes(self, whole_rows=not self.row_shape, stored_bytes=stored_bytes)

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        for first in range(start, self.rows or 0, block_rows):
            with readable(self.where):
                yield block_of(self._array, slice(first, first + block_rows))

    def parts(self, row: int, most_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        for key in _parts_of(self.row_shape, self.dtype.itemsize, most_bytes):
            with readable(self.where):
                yield key, block_of(self._array, (row, *key))


def _parts_of(shape: tuple[int, ...], itemsize: int, most_bytes: int) -> Iterator[tuple[slice, ...]]:
    """Slices that cut a shape into boxes of about so many bytes, along its leading axes.

    Examples
    --------
    >>> list(_parts_of((2, 5), 1, 3))
    [(slice(0, 1, None), slice(0, 3, None)), (slice(0, 1, None), slice(3, 5, None)), \
(slice(1, 2, None), slice(0, 3, None)), (slice(1, 2, None), slice(3, 5, None))]
    """
    steps = []
    below = itemsize
    for length in reversed(shape):
        step = max(1, min(length, most_bytes // below)) if length else 1
        steps.append(step)
        below *= length if step == length else step
    for begins in itertools.product(*(range(0, n, step) for n, step in zip(shape, reversed(steps), strict=True))):
        sizes = zip(begins, shape, reversed(steps), strict=True)
        yield tuple(slice(begin, min(begin + step, n)) for begin, n, step in sizes)


class Samples:
    """Samples of equal shape from an iterator, however many."""

    def __init__(self, samples: Iterable[Any]) -> None:
        self.where = "the iterable"
        self._samples = iter(samples)
        first = next(self._samples, None)
        if first is None:
            raise SourceError("the iterable has no samples, so their shape is unknown; create an empty array instead")
        self._first = _sample(first)
        self.rows: int | None = None
        self.row_shape = self._first.shape
        self.dtype = self._first.dtype
        self.attrs: dict[str, Any] = {}
        self.dims: tuple[str | None, ...] | None = None
        self.fingerprint: list[Any] | None = None

    def blocks(self, start: int, block_rows: int) -> Iterator[np.ndarray]:
        """See :class:`Source`."""
        samples = itertools.chain([self._first], self._samples)
        number = 0
        while some := list(itertools.islice(samples, block_rows)):
            rows = np.empty((len(some), *self.row_shape), self.dtype)
            for i, sample in enumerate(some):
                value = _sample(sample)
                if value.shape != self.row_shape or not np.can_cast(value.dtype, self.dtype, "safe"):
                    raise SourceError(
                        f"sample {number} is {value.dtype} of shape {value.shape}, and the first one {self.dtype} of "
                        f"{self.row_shape}; give all of them one dtype and shape, or make a table: "
                        f"hub.table_writer(name, hub.Field({self.dtype.name!r}, ...))"
                    )
                rows[i] = value
                number += 1
            yield rows

    def parts(self, row: int, most_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)


def _sample(value: Any) -> np.ndarray:
    if isinstance(value, str):
        return np.array(value, TEXT)
    found = array_like(value)
    return plain_list(value) if found is None else np.asarray(found.array)
