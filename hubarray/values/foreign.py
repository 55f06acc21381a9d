"""Values of other packages as NumPy arrays, without losing what these say: masks, missing values, zones, names. Pure.

Every value that becomes elements passes :func:`plain_array`: nothing else turns a foreign value into an array.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.redaction import named_type, shown_text

TEXT = np.dtypes.StringDType()
"""Text of any length."""

_MASKED = (
    "the value is a masked array, and masks are not stored; fill it first: value.filled(...), or of Dask "
    "da.ma.filled(value, ...)"
)
_MAX_DEPTH = 64
_PANDAS_MISSING = ("NAType", "NaTType")


def plain_array(value: Any) -> np.ndarray | None:
    """Return a foreign array as one of NumPy, read whole; None of Python's own objects.

    Missing values of pandas, polars and Arrow are None in an array of objects, NaN among floats and NaT among times.

    Parameters
    ----------
    value
        An array of NumPy, Dask, xarray, pandas, polars, Arrow, PyTorch, TensorFlow, h5py, netCDF4, Zarr or hubarray, or
        whatever has ``__array__``.

    Raises
    ------
    ConfigError
        It is masked, has a unit or a time zone, or is on a device.
    """
    value = single(unmasked(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, (list, tuple)) and value and all(map(is_tensor, value)):
        # What has gradients gives NumPy nothing by itself.
        return np.stack([tensor_array(tensor) for tensor in value])
    if isinstance(value, (str, bytes, int, float, complex, list, tuple)) or value is None:
        return None
    refuse_units(value)
    if is_tensor(value):
        return tensor_array(value)
    package = type(value).__module__.partition(".")[0]
    if package == "pandas":
        return _of_pandas(value)
    if package == "pyarrow" and hasattr(value, "column_names"):
        return _of_columns([_of_arrow(column) for column in value.columns])
    if package == "pyarrow" and hasattr(value, "null_count"):
        return _of_arrow(value)
    if package == "polars" and hasattr(value, "get_columns"):
        return _of_columns([_of_arrow(column.to_arrow()) for column in value.get_columns()])
    if package == "polars" and hasattr(value, "to_arrow"):
        return _of_arrow(value.to_arrow())
    if package == "xarray" and hasattr(value, "data") and hasattr(value, "dims"):
        return plain_array(value.data)
    if is_dask(value):
        computed = value.compute()
        if is_dask(computed):
            raise ConfigError(f"the value's compute() gives {named_type(computed)}, which is to be computed again")
        return plain_array(computed)
    if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__") or isinstance(value, memoryview)):
        return None
    if hasattr(value, "shape") and hasattr(value, "dtype") and package not in ("tensorflow", "jax", "jaxlib", "cupy"):
        return _read_whole(value)
    return _as_it_gives_itself(value)


def single(value: Any) -> Any:
    """Return one value of Arrow as one of Python's; all else as it is."""
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "as_py"):
        return value.as_py()
    return value


def is_dask(value: Any) -> bool:
    """Return whether something is an array of Dask, or an xarray.DataArray around one."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "dtype") and value.__dask_graph__() is not None


def refuse_units(value: Any) -> None:
    """Refuse a value with a unit, such as one of pint.

    Raises
    ------
    ConfigError
    """
    if hasattr(value, "magnitude") and hasattr(value, "units"):
        raise ConfigError(
            "the value has a unit, which would be lost: assign its magnitude, and store the unit as an attribute"
        )


def block_of(array: Any, key: Any) -> np.ndarray:
    """Return a part of a source that is read piece by piece, with the same rules as :func:`plain_array`.

    Raises
    ------
    ConfigError
        A mask hides some of it.
    """
    return np.asarray(unmasked(array[key]))


def _read_whole(value: Any) -> np.ndarray:
    """A variable of a file, whose mask only an index gives: ``netCDF4.Variable.__array__`` drops it."""
    try:
        read = value[...] if len(value.shape) else value[()]
    except (TypeError, IndexError, KeyError, ValueError):
        read = value
    return np.asarray(unmasked(read)) if read is not value else _as_it_gives_itself(value)


def _as_it_gives_itself(value: Any) -> np.ndarray:
    try:
        return np.asarray(unmasked(value))
    except ConfigError:
        raise
    except Exception as error:
        kind = type(value)
        raise ConfigError(
            f"the value, a {kind.__module__}.{kind.__qualname__}, does not give itself as an array: "
            f"{type(error).__name__}: {shown_text(str(error))[:200]}"
        ) from error


def unmasked(value: Any, depth: int = 0) -> Any:
    """Return a value in which nothing is masked, without its mask; lists are looked through.

    Raises
    ------
    ConfigError
        Something is masked: what is under a mask is not data.
    """
    # Nobody has a masked array who has not imported them, which takes long.
    ma = sys.modules.get("numpy.ma")
    if ma is None:
        return value
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, (list, tuple, ma.MaskedArray)) for item in value):
            if depth > _MAX_DEPTH:
                raise ConfigError(f"the value is nested more than {_MAX_DEPTH} deep, and arrays have at most 64 axes")
            for item in value:
                unmasked(item, depth + 1)
        return value
    if not isinstance(value, ma.MaskedArray):
        return value
    if value is ma.masked or _is_masked(ma.getmask(value)):
        raise ConfigError(_MASKED)
    return ma.getdata(value)


def _is_masked(mask: np.ndarray) -> bool:
    if mask.dtype.names is not None:
        return any(_is_masked(mask[name]) for name in mask.dtype.names)
    return bool(mask.any())


def is_missing(value: Any) -> bool:
    """Return whether one object stands for a missing value: None, NaN, NaT, or NA of pandas."""
    if value is None or type(value).__name__ in _PANDAS_MISSING:
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _of_pandas(value: Any) -> np.ndarray:
    if hasattr(value, "columns"):
        return _of_columns([_of_pandas(value.iloc[:, i]) for i in range(value.shape[1])])
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return np.asarray(value)
    if getattr(dtype, "tz", None) is not None:
        raise ConfigError(
            "the value has times with a zone, and the zone would be lost; convert them first: .dt.tz_convert(None) "
            "gives UTC"
        )
    if isinstance(dtype, np.dtype):
        return np.asarray(value)
    kind = getattr(dtype, "kind", "O")
    missing = np.asarray(value.isna())
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    if kind in "biuf" and isinstance(numpy_dtype, np.dtype) and hasattr(value, "to_numpy"):
        if not missing.any():
            return np.asarray(value.to_numpy(dtype=numpy_dtype))
        if kind == "f":
            return np.asarray(value.to_numpy(dtype=numpy_dtype, na_value=np.nan))
    objects = np.asarray(value, dtype=object)
    if missing.any():
        objects = objects.copy()
        objects[missing] = None
    return objects


def _of_columns(columns: list[np.ndarray]) -> np.ndarray:
    """Columns side by side: of several dtypes as objects, which no column's numbers are rounded for."""
    if not columns:
        return np.zeros((0, 0))
    if len({column.dtype for column in columns}) == 1:
        return np.stack(columns, axis=1)
    objects = np.empty((len(columns[0]), len(columns)), object)
    for i, column in enumerate(columns):
        objects[:, i] = column
    return objects


def _of_arrow(value: Any) -> np.ndarray:
    import pyarrow as pa

    kind = value.type
    if pa.types.is_dictionary(kind):
        value = value.cast(kind.value_type)
        kind = value.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        raise ConfigError(
            "the value has times with a zone, and the zone would be lost; cast them first: .cast('timestamp[us]'), or "
            "of Polars .dt.replace_time_zone(None)"
        )
    if pa.types.is_fixed_size_list(kind) and not value.null_count:
        # Arrays of one shape, in rows.
        whole = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        return _of_arrow(whole.flatten()).reshape(len(whole), kind.list_size)
    if isinstance(kind, pa.FixedShapeTensorType) and not value.null_count:
        whole = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        return np.asarray(whole.to_numpy_ndarray())
    plain = pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    if value.null_count and not plain:
        return np.array([*value.to_pylist(), None], object)[:-1]
    if isinstance(value, pa.ChunkedArray):
        return np.asarray(value.to_numpy())
    return np.asarray(value.to_numpy(zero_copy_only=False))


def is_tensor(value: Any) -> bool:
    """Return whether something is a tensor of PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def tensor_array(tensor: Any) -> np.ndarray:
    """Return a tensor of PyTorch as an array, with a type of ml_dtypes where NumPy has none.

    Raises
    ------
    ConfigError
        It is on a device, sparse or quantized.
    """
    if tensor.device.type != "cpu":
        raise ConfigError(f"a tensor on {tensor.device}: bring it to memory first: tensor.cpu()")
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized:
        raise ConfigError("a sparse or quantized tensor: make it a plain one first: .to_dense() or .dequantize()")
    name = str(tensor.dtype).removeprefix("torch.")
    known = _ml_dtype(name)
    try:
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        if known is None:
            return np.asarray(tensor.numpy())
    except RuntimeError:
        raise ConfigError(f"{named_type(tensor)} of PyTorch that is not a plain array; make it one first") from None
    import torch

    bits = {1: torch.uint8, 2: torch.int16}[known.itemsize]
    return np.asarray(tensor.view(bits).numpy().view(known))


def _ml_dtype(name: str) -> np.dtype[Any] | None:
    if not name.startswith(("bfloat16", "float8")):
        return None
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar_type = getattr(ml_dtypes, name, None)
    return None if scalar_type is None else np.dtype(scalar_type)
