"""Kinds of values, each three elements long with what is doubtful at the end, and what they are written to."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cftime
import dask.array as da
import h5py
import netCDF4
import numpy as np
import pandas as pd
import pint
import polars as pl
import pyarrow as pa
import xarray as xr
import zarr

import hubarray as hub
from tests.optional import Optional

tf = Optional("tensorflow")
torch = Optional("torch")

DIM = "sample"
POINT = np.dtype([("x", "<i4"), ("name", "<U3")])
ZONE = datetime.timezone(datetime.timedelta(hours=2))
DAY = datetime.datetime(2026, 1, 31)


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes
    ----------
    value : callable
        Makes it: three elements, in whatever holds them.
    dtype : str or dtype
        Of the array or field that it is written to.
    casts : bool
        Whether NumPy's assignment would change the value, as from 3.5 to 3.
    """

    value: Callable[[], Any]
    dtype: Any
    casts: bool = False

    @property
    def shown_dtype(self) -> str:
        """The dtype as text."""
        return "str" if self.dtype is str else str(np.dtype(self.dtype))


def h5py_dataset(values: Any) -> Any:
    file = h5py.File.in_memory() if hasattr(h5py.File, "in_memory") else h5py.File(
        f"{uuid.uuid4().hex}.h5", "w", driver="core", backing_store=False
    )  # fmt: skip
    return file.create_dataset("x", data=values)


# Whose files are kept: the library is not safe for threads, and a thread that collects garbage would close them.
_netcdf4_files: list[Any] = []


def netcdf4_variable(values: Any, dtype: str) -> Any:
    file = netCDF4.Dataset(f"{uuid.uuid4().hex}.nc", "w", diskless=True)
    file.createDimension(DIM, len(values))
    variable = file.createVariable("x", dtype, (DIM,), fill_value=-9)
    variable[:] = values
    _netcdf4_files.append(file)
    return variable


def hubarray_array(values: Any) -> Any:
    return hub.import_(np.asarray(values), "kinds/x:v1", root=tempfile.mkdtemp())


def masked(values: Any, *, hidden: bool) -> Any:
    return np.ma.MaskedArray(values, mask=[False, False, hidden])


def big_endian(values: Any) -> Any:
    return np.array(values, ">i4")


def objects(*values: Any) -> np.ndarray:
    return np.array([*values, None], object)[:-1]


KINDS = {
    # Numbers, and what is like them.
    "whole numbers": Kind(lambda: [1, 2, 3], "i4"),
    "array of the dtype": Kind(lambda: np.array([1, 2, 3], "i4"), "i4"),
    "array of big-endian numbers": Kind(lambda: np.array([1, 2, 3], ">i4"), "i4"),
    "array of every second": Kind(lambda: np.arange(6, dtype="i4")[::2], "i4"),
    "array of bools": Kind(lambda: np.array([True, False, True]), "i4"),
    "range": Kind(lambda: range(3), "i4"),
    "whole numbers that are too large": Kind(lambda: [1, 2, 1 << 40], "i4"),
    "array of whole numbers that are too large": Kind(lambda: np.array([1, 2, 1 << 40]), "i4", casts=True),
    "whole numbers beyond 64 bits": Kind(lambda: [1, 2, 1 << 70], "i8"),
    "whole numbers below zero": Kind(lambda: [1, 2, -3], "u1"),
    "array of floats": Kind(lambda: np.array([1.0, 2.0, 3.0]), "i4"),
    "array of fractions": Kind(lambda: np.array([1.0, 2.0, 3.5]), "i4", casts=True),
    "floats with more digits": Kind(lambda: np.array([1.0, 2.0, 0.1]), "f4", casts=True),
    "NaN among floats": Kind(lambda: [1.0, np.nan, np.inf], "f8"),
    "NaN into integers": Kind(lambda: [1.0, 2.0, np.nan], "i4"),
    "array of NaN into integers": Kind(lambda: np.array([1.0, 2.0, np.nan]), "i4"),
    "infinity into integers": Kind(lambda: np.array([1.0, 2.0, np.inf], "f4"), "u1"),
    "array of NaN into bools": Kind(lambda: np.array([1.0, 0.0, np.nan]), "?"),
    "infinity into bools": Kind(lambda: [True, False, math.inf], "?"),
    "NaN into bools": Kind(lambda: [True, False, np.nan], "?"),
    "None into integers": Kind(lambda: [1, 2, None], "i4"),
    "None into floats": Kind(lambda: [1.0, 2.0, None], "f8"),
    "None into bools": Kind(lambda: [True, False, None], "?"),
    "None among objects into integers": Kind(lambda: objects(1, 2, None), "i4"),
    "None among objects into floats": Kind(lambda: objects(1.0, 2.0, None), "f8"),
    "complex numbers": Kind(lambda: [1, 2, 3 + 4j], "c16"),
    "complex numbers into floats": Kind(lambda: [1, 2, 3 + 4j], "f8"),
    "decimals": Kind(lambda: [decimal.Decimal(1), decimal.Decimal(2), decimal.Decimal("0.5")], "f8", casts=True),
    "fractions of Python": Kind(lambda: [fractions.Fraction(1), fractions.Fraction(2), fractions.Fraction(1, 2)], "f8", casts=True),
    "digits as text": Kind(lambda: ["1", "2", "3"], "i4", casts=True),
    "words into numbers": Kind(lambda: ["1", "2", "three"], "f8"),
    "words into bools": Kind(lambda: ["yes", "no", "x"], "?"),
    "lists of several lengths": Kind(lambda: [[1], [2], [3, 4]], "i4"),
    "mappings": Kind(lambda: [{}, {}, {"a": 1}], "i4"),
    "sets": Kind(lambda: [{1}, {2}, {3}], "f8"),
    "a generator": Kind(lambda: (i for i in range(3)), "i4"),
    # Masks.
    "masked array": Kind(lambda: masked([1.0, 2.0, 3.0], hidden=True), "f8"),
    "masked array of which nothing is masked": Kind(lambda: masked([1.0, 2.0, 3.0], hidden=False), "f8"),
    "masked in a list": Kind(lambda: [1.0, 2.0, np.ma.masked], "f8"),
    "masked array of text": Kind(lambda: masked(["a", "b", "c"], hidden=True), "U3"),
    "masked structures": Kind(
        lambda: np.ma.array(np.array([(1, "a"), (2, "b"), (3, "c")], POINT), mask=[(0, 0), (0, 0), (0, 1)]), POINT
    ),
    "masked array of Dask": Kind(lambda: da.ma.masked_equal(da.from_array([1.0, 2.0, 3.0], chunks=2), 3.0), "f8"),
    "blocks of Dask that compute to masked arrays": Kind(
        lambda: da.from_array([1.0, 2.0, 3.0], chunks=2).map_blocks(
            lambda block: np.ma.masked_equal(block, 3.0), dtype="f8", meta=np.empty(0)
        ),
        "f8",
    ),
    "variable of netCDF4 with a fill value": Kind(lambda: netcdf4_variable([1, 2, -9], "i4"), "i4"),
    "variable of netCDF4": Kind(lambda: netcdf4_variable([1, 2, 3], "i4"), "i4"),
    # Of other packages.
    "labeled array": Kind(lambda: xr.DataArray([1, 2, 3], dims=DIM), "i4"),
    "labeled array of another dimension": Kind(lambda: xr.DataArray([1, 2, 3], dims="lat"), "i4"),
    "Dask": Kind(lambda: da.arange(3, chunks=2), "i4"),
    "tensor of PyTorch": Kind(lambda: torch.tensor([1.0, 2.0, 3.5]), "f4"),
    "tensor of bfloat16": Kind(lambda: torch.tensor([1.0, 2.0, 3.5], dtype=torch.bfloat16), "f4", casts=True),
    "sparse tensor": Kind(lambda: torch.tensor([0.0, 0.0, 3.5]).to_sparse(), "f4"),
    "tensor with gradients": Kind(lambda: torch.tensor([1.0, 2.0, 3.5], requires_grad=True), "f4"),
    "tensor of TensorFlow": Kind(lambda: tf.constant([1.0, 2.0, 3.5]), "f4"),
    "variable of TensorFlow": Kind(lambda: tf.Variable([1.0, 2.0, 3.5]), "f4"),
    "dataset of h5py": Kind(lambda: h5py_dataset([1, 2, 3]), "i4"),
    "array of Zarr": Kind(lambda: zarr.create_array({}, data=np.array([1, 2, 3])), "i4"),
    "array of hubarray": Kind(lambda: hubarray_array([1, 2, 3]), "i4"),
    "values with a unit": Kind(lambda: pint.get_application_registry().Quantity(np.array([1.0, 2.0, 3.0]), "m"), "f8"),
    "values with a unit in a list": Kind(lambda: [pint.get_application_registry().Quantity(1.0, "m")] * 3, "f8"),
    "series of pandas": Kind(lambda: pd.Series([1, 2, 3]), "i8"),
    "NA of pandas into integers": Kind(lambda: pd.Series([1, 2, None], dtype="Int64"), "i8"),
    "NA of pandas into floats": Kind(lambda: pd.Series([1, 2, None], dtype="Int64"), "f8"),
    "NA of pandas into bools": Kind(lambda: pd.Series([True, False, None], dtype="boolean"), "?"),
    "NA of pandas into text": Kind(lambda: pd.Series(["a", "b", None], dtype="string"), "U3"),
    "NA of pandas in a list": Kind(lambda: [1, 2, pd.NA], "i4"),
    "NA of pandas among floats in a list": Kind(lambda: [1.0, 2.0, pd.NA], "f8"),
    "categories of pandas": Kind(lambda: pd.Series(["a", "b", "a"], dtype="category"), "U3"),
    "Arrow": Kind(lambda: pa.array([1, 2, 3]), "i8"),
    "null of Arrow into integers": Kind(lambda: pa.array([1, 2, None]), "i8"),
    "null of Arrow into floats": Kind(lambda: pa.array([1.0, 2.0, None]), "f8"),
    "null of Arrow into text": Kind(lambda: pa.array(["a", "b", None]), "U3"),
    "dictionary of Arrow": Kind(lambda: pa.array(["a", "b", "a"]).dictionary_encode(), "U3"),
    "categories of Polars": Kind(lambda: pl.Series(["a", "b", "a"], dtype=pl.Categorical), "U3"),
    "series of Polars": Kind(lambda: pl.Series([1, 2, 3]), "i8"),
    "null of Polars into integers": Kind(lambda: pl.Series([1, 2, None]), "i8"),
    "null of Polars into text": Kind(lambda: pl.Series(["a", "b", None]), "U3"),
    # Text and bytes.
    "text that fits": Kind(lambda: ["a", "bc", "déf"], "U3"),
    "text that is too long": Kind(lambda: ["a", "bc", "defg"], "U3"),
    "array of text that is too long": Kind(lambda: np.array(["a", "bc", "defg"]), "U3"),
    "numbers into text": Kind(lambda: [1, 2, 3], "U3"),
    "array of numbers into text": Kind(lambda: np.array([1, 2, 3]), "U3"),
    "bools into text": Kind(lambda: [True, False, True], "U3"),
    "times into text": Kind(lambda: np.array(["2026-01-01"] * 3, "M8[D]"), "U12"),
    "None into text": Kind(lambda: ["a", "b", None], "U3"),
    "NaN into text": Kind(lambda: ["a", "b", np.nan], "U3"),
    "half a surrogate pair": Kind(lambda: ["a", "b", "\ud800"], "U3"),
    "bytes that fit": Kind(lambda: [b"a", b"bc", b"def"], "S3"),
    "bytes that are too long": Kind(lambda: [b"a", b"bc", b"defg"], "S3"),
    "bytes that end with NUL": Kind(lambda: [b"a", b"b", b"c\0"], "S3"),
    "text that ends with NUL": Kind(lambda: ["a", "b", "c\0"], "U3"),
    "bytes into text": Kind(lambda: [b"a", b"b", b"c"], "U3", casts=True),
    "text into bytes": Kind(lambda: ["a", "b", "é"], "S3"),
    "text of any length": Kind(lambda: ["a", "", "d" * 100], str),
    "array of text of any length": Kind(lambda: np.array(["a", "b", "c" * 50], np.dtypes.StringDType()), str),
    "None into text of any length": Kind(lambda: ["a", "b", None], str),
    "missing text of NumPy": Kind(
        lambda: np.array(["a", "b", None], np.dtypes.StringDType(na_object=None)), str
    ),
    "numbers into text of any length": Kind(lambda: [1, 2, 3], str),
    "bytes into text of any length": Kind(lambda: [b"a", b"b", b"c"], str),
    "NUL within text of any length": Kind(lambda: ["a", "b", "c\0d\0"], str),
    # Times.
    "times": Kind(lambda: np.array(["2026-01-01", "2026-01-02", "NaT"], "M8[D]"), "M8[D]"),
    "times of a finer unit": Kind(lambda: np.array(["2026-01-01T01", "2026-01-02T02", "2026-01-03T03"], "M8[s]"), "M8[D]", casts=True),
    "times of a coarser unit": Kind(lambda: np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[D]"), "M8[us]"),
    "times of Python": Kind(lambda: [DAY, DAY, DAY.replace(microsecond=5)], "M8[us]"),
    "dates of Python": Kind(lambda: [DAY.date(), DAY.date(), DAY.date()], "M8[D]"),
    "times of Python with a zone": Kind(lambda: [DAY.replace(tzinfo=ZONE)] * 3, "M8[us]"),
    "times of pandas": Kind(lambda: pd.Series(pd.date_range("2026-01-01", periods=3)), "M8[us]"),
    "times of pandas with a zone": Kind(lambda: pd.Series(pd.date_range("2026-01-01", periods=3, tz="Europe/Berlin")), "M8[us]"),
    "times of Arrow with a zone": Kind(lambda: pa.array([DAY] * 3, pa.timestamp("us", "UTC")), "M8[us]"),
    "NaT of pandas": Kind(lambda: pd.Series([DAY, DAY, pd.NaT]), "M8[us]"),
    "None into times": Kind(lambda: [DAY, DAY, None], "M8[us]"),
    "times into integers": Kind(lambda: np.array(["2026-01-01"] * 3, "M8[D]"), "i8"),
    "times of Python into integers": Kind(lambda: [DAY] * 3, "i8"),
    "times into floats": Kind(lambda: np.array(["2026-01-01"] * 3, "M8[D]"), "f8"),
    "integers into times": Kind(lambda: np.array([1, 2, 3]), "M8[D]", casts=True),
    "lengths of time": Kind(lambda: [datetime.timedelta(days=1)] * 3, "m8[s]"),
    "lengths of time into times": Kind(lambda: np.array([1, 2, 3], "m8[D]"), "M8[D]"),
    "times in a list into floats": Kind(lambda: [np.datetime64("2026-01-01")] * 3, "f8"),
    "lengths of time in a list into times": Kind(lambda: [np.timedelta64(5, "s")] * 3, "M8[s]"),
    "times in a list into lengths of time": Kind(lambda: [np.datetime64("2026-01-01")] * 3, "m8[s]"),
    "times beyond the range": Kind(lambda: np.array(["2026-01-01", "2026-01-02", "3000-01-01"], "M8[D]"), "M8[ns]"),
    "times of another calendar": Kind(lambda: [cftime.Datetime360Day(2026, 1, 30)] * 3, "M8[s]"),
    "times with a zone as text": Kind(lambda: ["2026-01-01T00:00", "2026-01-01T00:00", "2026-01-01T00:00+02:00"], "M8[s]"),
    "NaT of pandas in a list": Kind(lambda: [DAY, DAY, pd.NaT], "M8[us]"),
    "text into times": Kind(lambda: ["2026-01-01", "2026-01-02", "tomorrow"], "M8[D]"),
    # Structures.
    "structures": Kind(lambda: np.array([(1, "a"), (2, "b"), (3, "c")], POINT), POINT),
    "tuples into structures": Kind(lambda: [(1, "a"), (2, "b"), (3, "c")], POINT),
    "long text in structures": Kind(lambda: [(1, "a"), (2, "b"), (3, "long")], POINT),
    "array of long text in structures": Kind(
        lambda: np.array([(1, "a"), (2, "b"), (3, "long")], [("x", "i4"), ("name", "U4")]), POINT
    ),
    "None in structures": Kind(lambda: [(1, "a"), (2, "b"), (3, None)], POINT),
    "numbers into text of structures": Kind(lambda: [(1, "a"), (2, "b"), (3, 4)], POINT),
    "NaN into integers of structures": Kind(
        lambda: np.array([(1, "a"), (2, "b"), (np.nan, "c")], [("x", "f4"), ("name", "U3")]), POINT
    ),
}  # fmt: skip


def each(value: Any) -> list[Any]:
    """All elements, as whatever holds them gives them."""
    if hasattr(value, "iloc"):
        return [value.iloc[i] for i in range(3)]
    return list(value) if hasattr(value, "send") else [value[i] for i in range(3)]


def element(value: Any) -> Any:
    """The last of the elements, as whatever holds them gives it."""
    return each(value)[-1]


def plain(one: Any) -> Any:
    """One element as a Python object to compare: None where it is missing, and times in UTC."""
    if type(one).__module__ == "torch" and one.dtype == torch.bfloat16:
        one = one.float()
    for method in ("as_py", "compute", "numpy"):
        if hasattr(one, method) and not isinstance(one, (np.generic, pint.Quantity)):
            one = getattr(one.detach() if method == "numpy" and hasattr(one, "detach") else one, method)()
    if isinstance(one, (xr.DataArray, zarr.Array, np.ndarray)):
        one = np.asarray(one)[()]
    if one is pd.NA or one is pd.NaT:
        return None
    if isinstance(one, datetime.datetime):
        one = np.datetime64(one.astimezone(datetime.UTC).replace(tzinfo=None) if one.tzinfo else one)
    if isinstance(one, (np.datetime64, np.timedelta64)):
        return None if np.isnat(one) else one
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(one, tuple):
        return tuple(map(plain, one))
    return None if isinstance(one, float) and one != one else one
