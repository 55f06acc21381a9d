"""What holds several columns, or comes with names of its own: taken as it is meant, or refused by name."""

import netCDF4
import numpy as np
import pandas as pd
import pint
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

import hubarray as hub

NAME = "lab/x:v1"
BEYOND_FLOATS = 2**53 + 1
MIXED = {
    "pandas": pd.DataFrame({"a": [BEYOND_FLOATS], "b": [1.0]}),
    "Arrow": pa.table({"a": [BEYOND_FLOATS], "b": [1.0]}),
    "Polars": pl.DataFrame({"a": [BEYOND_FLOATS], "b": [1.0]}),
}


@pytest.mark.parametrize("package", MIXED)
def test_no_column_of_a_frame_is_rounded_for_another(package, root):
    array = hub.array((1, 2), NAME, "i8", root=root)
    array[...] = MIXED[package]
    assert array[...].tolist() == [[BEYOND_FLOATS, 1]]
    with pytest.raises(hub.errors.ConfigError):
        hub.store(MIXED[package], "lab/y:v1", root=root)


@pytest.mark.parametrize(
    "table",
    [pa.table({"a": pa.array([0], pa.timestamp("s", "Asia/Tokyo"))}), pa.table({"a": [BEYOND_FLOATS, None]})],
    ids=["zone", "null"],
)
def test_a_table_of_arrow_is_checked_as_its_columns_are(table, root):
    with pytest.raises(hub.errors.ConfigError):
        hub.store(table, NAME, root=root)


@pytest.mark.parametrize(
    "rows",
    [pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int32, 2)), pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))],
    ids=["Polars", "Arrow"],
)
def test_lists_of_one_size_are_rows(rows, root):
    array = hub.array((2, 2), NAME, "i4", root=root)
    array[...] = rows
    assert array[...].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("write", [hub.store, hub.import_])
def test_an_array_of_hubarray_keeps_its_names_and_what_unpacks_it(write, root):
    attrs = {"scale_factor": 0.5, "_FillValue": -9}
    given = hub.array(2, "lab/given:v1", "i2", dims=("x",), attrs=attrs, root=root)
    result = write(given, NAME, root=root)
    assert (dict(result.attrs), result.dims) == (attrs, ("x",))


def test_a_variable_of_netcdf4_keeps_the_attributes_that_it_has_not_applied(root):
    file = netCDF4.Dataset("x.nc", "w", diskless=True)
    file.createDimension("x", 2)
    variable = file.createVariable("v", "i2", ("x",), fill_value=-9)
    variable.setncatts({"scale_factor": 0.5, "units": "K"})
    variable[:] = [1.0, 2.0]
    decoded = hub.store(variable, NAME, root=root)
    assert (dict(decoded.attrs), decoded.dims, decoded[...].tolist()) == ({"units": "K"}, ("x",), [1.0, 2.0])
    variable.set_auto_maskandscale(False)
    counts = hub.store(variable, "lab/y:v1", root=root)
    assert dict(counts.attrs) == {"_FillValue": -9, "scale_factor": 0.5, "units": "K"}
    assert counts[...].tolist() == [2, 4]
    with pytest.raises(hub.errors.ConfigError, match=r"a netCDF4\.Dataset: give its path"):
        hub.import_(file, "lab/z:v1", root=root)


VARIABLES = {
    "a unit": (lambda: np.array([1.0, 2.0]) * pint.get_application_registry().m, "has a unit"),
    "bytes that end with NUL": (lambda: np.array([b"a\0", b"b"], object), "bytes that end with NUL"),
    "a dtype of pandas": (lambda: pd.array([1, 2], dtype="Int64"), "which NumPy does not have"),
}


@pytest.mark.parametrize("kind", VARIABLES)
@pytest.mark.parametrize("write", [hub.store, hub.import_])
def test_a_variable_of_a_dataset_is_refused_as_an_array_is(write, kind, root):
    make, words = VARIABLES[kind]
    with pytest.raises(hub.errors.ConfigError, match=f"'v'.*{words}"):
        write(xr.Dataset({"v": ("x", make())}), NAME, root=root)
    assert hub.list(root=root) == []


def test_columns_of_polars_are_text_or_refused(root):
    categories = pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Categorical)})
    assert list(hub.import_table(categories, NAME, root=root)) == ["x", "y"]
    objects = pl.DataFrame({"a": pl.Series([1.5, 2.5], dtype=pl.Object)})
    with pytest.raises(hub.errors.ConfigError, match="'a' is of Python objects"):
        hub.import_table(objects, "lab/y:v1", root=root)


def test_a_series_is_no_frame_and_an_index_without_a_name_is_said_to_be_left_out(root):
    with pytest.raises(hub.errors.ConfigError, match="to_frame"):
        hub.import_table(pd.Series([1, 2]), NAME, root=root)
    with pytest.warns(UserWarning, match="rename_axis"):
        hub.import_table(pd.DataFrame({"a": [1]}, index=["station A"]), NAME, root=root)


@pytest.mark.parametrize("column", [pd.period_range("2020", periods=2), [2**70, 1]], ids=["periods", "2**70"])
def test_a_column_that_no_field_holds_is_refused_by_name(column, root):
    with pytest.raises(hub.errors.ConfigError, match="'a'"):
        hub.import_table(pd.DataFrame({"a": column}), NAME, root=root)
    with hub.table_writer(NAME, hub.Schema({"a": hub.Field("M8[D]")}), root=root) as w:
        with pytest.raises(hub.errors.ConfigError, match="'a'"), w.partition("p") as p:
            p.extend(pd.DataFrame({"a": column}))
        w.abort()


def test_times_of_int96_are_guessed_with_the_nanoseconds_that_they_have(root, tmp_path):
    when = np.datetime64("2020-01-01T00:00:00.123456789")
    pq.write_table(pa.table({"t": pa.array([when])}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert hub.import_table(tmp_path / "a.parquet", NAME, root=root)[0] == when


@pytest.mark.parametrize("value", [[2**64 - 1, -1], "a\0b", [1, 2.5]], ids=str)
@pytest.mark.parametrize("suffix", [".h5", ".nc"])
def test_attributes_that_a_format_has_no_type_for_are_not_changed_without_a_word(suffix, value, root, tmp_path):
    hub.dataset({"x": np.arange(3)}, NAME, {"a": value}, root=root)
    has_no_type = not (suffix == ".nc" and isinstance(value, list) and value[1] == 2.5)
    if suffix == ".nc" and has_no_type:
        with pytest.warns(UserWarning, match="no attributes like a"):
            hub.export(NAME, tmp_path / "x.nc", root=root)
    else:
        hub.export(NAME, tmp_path / f"x{suffix}", root=root)
    with xr.open_dataset(tmp_path / f"x{suffix}", engine="h5netcdf", phony_dims="sort") as result:
        kept = result.attrs.get("a")
    if not has_no_type:
        assert kept.tolist() == value
    else:
        assert kept is None if suffix == ".nc" else isinstance(kept, str)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f4", 1e300), ("M8[s]", np.datetime64("2020-01-01T00:00:00.5")), ("i4", 2.5), ("M8[D]", np.timedelta64(1, "D"))],
    ids=str,
)
def test_a_fill_value_that_would_be_changed_is_refused(dtype, fill, root):
    with pytest.raises(hub.errors.ConfigError, match="fill_value"):
        hub.array(1, NAME, dtype, fill_value=fill, root=root)
