"""Sources in memory, or opened already: whatever gives itself as an array, frames, and samples one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hubarray import config
from hubarray.arrays.handle import ArrayHandle
from hubarray.errors import ConfigError, SourceError
from hubarray.interop.sources.base import whole_parts
from hubarray.interop.sources.found import Found, json_attrs
from hubarray.interop.sources.open_files import opened_array
from hubarray.values.foreign import TEXT, block_of, is_dask, plain_array, refuse_units, unmasked
from hubarray.values.objects import plain_list, plain_objects, refuse_objects

_SHOWN_COLUMNS = 5


def array_like(source: Any, *, max_decoded_bytes: int | None = None) -> Found | None:
    """An array made of a value that has a shape, or of a column of one dtype; None where it is something else.

    Parameters
    ----------
    source : Any
    max_decoded_bytes : int, optional
        How many bytes a chunk of an open array of h5py or zarr-python may decode to. The default is the setting of this
        name.

    Raises
    ------
    ConfigError
        It is like an array, and cannot be stored as one.
    SourceError
        Its chunks are too large to be decoded.
    """
    source = unmasked(source)
    refuse_units(source)
    if isinstance(source, (np.ndarray, np.generic)):
        return Found(plain_objects(np.asarray(source)))
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _frame(source)
    package = type(source).__module__.partition(".")[0]
    if package == "xarray" and hasattr(source, "data_vars"):
        raise ConfigError(f"an xarray.Dataset is not an array: give one of {', '.join(map(str, source.data_vars))}")
    if package == "xarray" and hasattr(source, "dims"):
        refuse_units(source.data)
        data = source.data if is_dask(source) else plain_objects(plain_array(source))
        return Found(data, json_attrs("xarray", source.attrs), tuple(map(str, source.dims)))
    if isinstance(source, ArrayHandle):
        return Found(source, dict(source.attrs), source.dims, source.fill_value)
    if package == "netCDF4" and type(source).__name__ == "Variable":
        # Its dtype is that of the file, and not of the values that it gives.
        attrs, dims = json_attrs("netCDF4", _netcdf_attrs(source)), tuple(map(str, source.dimensions))
        return Found(plain_array(source), attrs, dims)
    if package == "netCDF4":
        raise ConfigError("a netCDF4.Dataset: give its path, or one of its variables")
    if package in ("h5py", "zarr") and hasattr(source, "shape"):
        return opened_array(source, config.max_decoded_bytes(max_decoded_bytes))
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, bytes)):
        return Found(plain_list(source))
    if is_dask(source):
        return Found(source)
    opened = plain_array(source)
    return None if opened is None else Found(plain_objects(opened))


def _netcdf_attrs(variable: Any) -> dict[str, Any]:
    """Attributes of a variable of netCDF4, but for those that it has applied to its values itself."""
    applied = {"scale_factor", "add_offset", "_Unsigned"} if variable.scale else set()
    applied |= {"_FillValue", "missing_value"} if variable.mask else set()
    return {name: variable.getncattr(name) for name in variable.ncattrs() if name not in applied}


def _frame(frame: Any) -> Found:
    """A table of columns, where all are of one dtype."""
    names = [str(column) for column in frame.columns]
    dtypes = {str(dtype) for dtype in getattr(frame, "dtypes", [])}
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
        kinds = [str(dtype) for dtype in frame.dtypes]
        alike = [name for name, kind in zip(names, kinds, strict=True) if kind == kinds[0]]
        raise ConfigError(
            f"a frame whose columns are of {len(dtypes)} dtypes ({', '.join(sorted(dtypes))}): an array has one; store "
            f"columns of one dtype, frame[{alike[:_SHOWN_COLUMNS]!r}], or each as an array of its own"
        )
    return Found(array, {"columns": names})


class IteratedSource:
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
        while block := list(itertools.islice(samples, block_rows)):
            rows = np.empty((len(block), *self.row_shape), self.dtype)
            for i, sample in enumerate(block):
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

    def parts(self, row: int, max_bytes: int) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
        """See :class:`Source`."""
        return whole_parts(self, row)


def _sample(value: Any) -> np.ndarray:
    if isinstance(value, str):
        return np.array(value, TEXT)
    as_array = array_like(value)
    if as_array is None:
        return plain_list(value)
    return as_array.array if isinstance(as_array.array, np.ndarray) else block_of(as_array.array, ())
