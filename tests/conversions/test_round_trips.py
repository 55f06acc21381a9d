"""Every dtype by every format: what is exported comes back as it was, or what changes is said here."""

import warnings

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

import hubarray as hub
from hubarray.interop.export.export import EXPORT_FORMATS

TEXT = np.dtypes.StringDType()


def _numbers(dtype):
    if dtype.kind == "b":
        return np.array([True, False, True])
    if dtype.kind in "iu":
        return np.array([np.iinfo(dtype).min, 7, np.iinfo(dtype).max], dtype)
    smallest = np.finfo(dtype).smallest_subnormal
    return np.array([np.nan, -0.0, smallest], dtype)


VALUES = {
    **{name: _numbers(np.dtype(name)) for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")},
    "c8": np.array([complex(np.nan, 1), -0.0, 2 - 3j], "c8"),
    "c16": np.array([complex(1, np.inf), -0.0, 2 - 3j], "c16"),
    "bfloat16": np.array([np.nan, -0.0, 1.5], ml_dtypes.bfloat16),
    "float8_e4m3fn": np.array([np.nan, -0.0, 1.5], ml_dtypes.float8_e4m3fn),
    "S3": np.array([b"a\0b", b"", b"\xff"], "S3"),
    "U3": np.array(["é", "", "\U0001f600b"], "U3"),
    "str": np.array(["é", "", "a\0b\0"], TEXT),
    **{f"M8[{unit}]": np.array(["NaT", "1969-12-31", "2026-01-02"], f"M8[{unit}]") for unit in ("D", "s", "ms", "us", "ns")},
    "M8[h]": np.array(["NaT", "1969-12-31T05", "2026-01-02T03"], "M8[h]"),
    **{f"m8[{unit}]": np.array(["NaT", -5, 7], f"m8[{unit}]") for unit in ("D", "s", "ms", "us", "ns")},
    "V3": np.array([b"a\0\0", b"\0\0\0", b"abc"], "V3"),
    "structure": np.array([(1, np.nan, b"a"), (-2, 0.5, b""), (3, 0, b"bc")], [("x", "i4"), ("y", "f4"), ("z", "S2")]),
}  # fmt: skip


def of_an_array(format, suffix):
    def around(values, root, folder):
        hub.array(values.shape, "lab/x:v1", values.dtype, chunks=2, root=root)[...] = values
        hub.export("lab/x:v1", folder / f"x{suffix}", format=format, root=root)
        return hub.import_(folder / f"x{suffix}", "lab/y:v1", root=root)[...]

    return around


def _dataset(values, root):
    spec = hub.ArraySpec(values.shape, values.dtype, dims=("i",))
    ds = hub.dataset({"x": spec, "beside": np.arange(3)}, "lab/x:v1", root=root)
    ds["x"][...] = values
    return ds


def of_a_dataset(format, suffix):
    def around(values, root, folder):
        _dataset(values, root)
        hub.export("lab/x:v1", folder / f"x{suffix}", format=format, root=root)
        result = hub.import_(folder / f"x{suffix}", "lab/y:v1", root=root)
        # NetCDF says of numbers what times and bools they are, and xarray reads that.
        return result.to_xarray()["x"].values if format == "netcdf" else result["x"][...]

    return around


def _table(values, root):
    dtype = str if values.dtype.kind == "T" else values.dtype
    with hub.table_writer("lab/x:v1", hub.Schema({"x": hub.Field(dtype)}), root=root) as w, w.partition("p") as p:
        p.extend({"x": values})
    return hub.load("lab/x:v1", root=root)


def _column(table, like):
    result = table.loader().get_columns([0, 1, 2], ["x"])["x"]
    return np.array(result, TEXT) if like.dtype.kind == "T" else np.asarray(result)


def of_a_table(values, root, folder):
    _table(values, root)
    hub.export("lab/x:v1", folder / "x.parquet", root=root)
    return _column(hub.import_table(folder / "x.parquet", "lab/y:v1", root=root), values)


def of_a_table_as_a_strangers_file(values, root, folder):
    """Without the schema that hubarray adds to its files."""
    import pyarrow.parquet as pq

    _table(values, root)
    hub.export("lab/x:v1", folder / "x.parquet", root=root)
    pq.write_table(pq.read_table(folder / "x.parquet").replace_schema_metadata(), folder / "y.parquet")
    dtype = str if values.dtype.kind == "T" else values.dtype
    schema = hub.Schema({"x": hub.Field(dtype)})
    return _column(hub.import_table(folder / "y.parquet", "lab/y:v1", schema, root=root), values)


def of_columns_of_arrow(values, root, folder):
    """Columns of a table as Arrow, and another table of them."""
    rows = _table(values, root).loader().get_columns(range(3), as_="arrow")
    schema = hub.load("lab/x:v1", root=root).schema
    return _column(hub.import_table(rows, "lab/y:v1", schema, root=root), values)


def of_an_index(values, root, folder):
    """A DataFrame, and a table of it."""
    dtype = str if values.dtype.kind == "T" else values.dtype
    schema = hub.Schema({"x": hub.Field(dtype, index=True)})
    with hub.table_writer("lab/x:v1", schema, root=root) as w, w.partition("p") as p:
        p.extend({"x": values})
    frame = hub.read_index("lab/x:v1", root=root)[["x"]]
    assert isinstance(frame, pd.DataFrame)
    return _column(hub.import_table(frame.reset_index(drop=True), "lab/y:v1", schema, root=root), values)


def of_xarray(values, root, folder):
    return hub.store(_dataset(values, root).to_xarray(), "lab/y:v1", root=root).to_xarray()["x"].values


def of_dask(values, root, folder):
    array = hub.array(values.shape, "lab/x:v1", values.dtype, chunks=2, root=root)
    array[...] = values
    return hub.store(array.to_dask(), "lab/y:v1", root=root)[...]


WAYS = {
    "array zarr": of_an_array("zarr", ""),
    "array npy": of_an_array("npy", ".npy"),
    "array hdf5": of_an_array("hdf5", ".h5"),
    "dataset zarr": of_a_dataset("zarr", ""),
    "dataset hdf5": of_a_dataset("hdf5", ".h5"),
    "dataset netcdf": of_a_dataset("netcdf", ".nc"),
    "table parquet": of_a_table,
    "table parquet of a stranger": of_a_table_as_a_strangers_file,
    "Arrow": of_columns_of_arrow,
    "DataFrame": of_an_index,
    "xarray": of_xarray,
    "dask": of_dask,
}

_TIMES = [name for name in VALUES if name[:2] in ("M8", "m8")]
_LEARNING = ["bfloat16", "float8_e4m3fn"]
_DECODED = {name: "datetime64[ns]" for name in _TIMES if name.startswith("M8")} | {"m8[D]": "timedelta64[s]"}


def _each(ways, names, told):
    return {(way, name): told for way in ways for name in names}


# What a format does not have: the words of the error.
REFUSED = {
    # Zarr has a name for them, which zarr-python, by which it is imported, does not know.
    **_each(["array zarr", "dataset zarr"], _LEARNING, "No Zarr data type found"),
    **_each(["array npy"], _LEARNING, r"\.npy has no (bfloat16|float8_e4m3fn): store it as another dtype"),
    **_each(["array npy"], ["str"], r"\.npy has no text of any length"),
    **_each(["array hdf5", "dataset hdf5"], _LEARNING, "HDF5 has no (bfloat16|float8_e4m3fn): store it as another"),
    **_each(["array hdf5", "dataset hdf5"], ["str"], "HDF5 has no text with NUL"),
    **_each(["array hdf5", "dataset hdf5"], _TIMES, r"HDF5 has no (datetime|timedelta)64\["),
    **_each(["dataset netcdf"], [*_LEARNING, "str", "V3", "structure"], "NetCDF cannot hold it"),
    **_each(["dataset netcdf"], ["f2", "c8", "c16"], "NetCDF has no (float16|complex64|complex128), which 'x' is"),
    **_each(
        ["table parquet", "table parquet of a stranger", "Arrow"],
        ["c8", "c16", *_LEARNING, "V3", "structure"],
        "Arrow and Parquet lack ",
    ),
    **_each(
        ["DataFrame"], ["c8", "c16", *_LEARNING, "S3", "U3", "V3", "structure"], "the index has one number, time, text"
    ),
    **_each(["DataFrame"], ["M8[D]", "M8[s]", "M8[h]", "m8[D]", "m8[s]"], "times of the index are in ms, us, ns"),
}

# What comes back as another dtype, with the same values.
CHANGED = {
    # HDF5 has text of any length only.
    **_each(["array hdf5", "dataset hdf5"], ["U3"], "StringDType()"),
    ("dataset netcdf", "U3"): "object",
    ("xarray", "str"): "object",
    # What xarray decodes times to.
    **{(way, name): dtype for way in ("dataset netcdf", "xarray") for name, dtype in _DECODED.items()},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_a_dtype_comes_back_as_it_was(way, name, root, tmp_path):
    values = VALUES[name]
    words = REFUSED.get((way, name))
    if words is not None:
        with pytest.raises(hub.HubError, match=words):
            WAYS[way](values, root, tmp_path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # xarray's own, of times in days.
        warnings.filterwarnings("ignore", "Following pandas")
        result = WAYS[way](values, root, tmp_path)
    assert str(result.dtype) == CHANGED.get((way, name), str(values.dtype))
    assert result.shape == values.shape
    same = result.astype(values.dtype)
    assert same.tolist() == values.tolist() if name in ("S3", "U3", "str", "V3") else same.tobytes() == values.tobytes()


def test_every_format_is_tried():
    assert {way.split()[1] for way in WAYS if " " in way} == set(EXPORT_FORMATS)
