"""What an encoding of xarray would lose is refused: numbers beyond a dtype's range, and what is missing."""

import numpy as np
import pytest
import xarray as xr

import hubarray as hub

NAME = "lab/encoded:v1"
FLOATS = np.array([1.0, 2.5, np.nan])
TIMES = np.array(["2020-01-01", "2021-01-01", "NaT"], "M8[ns]")
DAYS = {"units": "days since 2000-01-01"}

REFUSED = {
    "NaN as a whole number": (FLOATS, {"dtype": "i2"}, "has missing values"),
    "NaN as a packed number": (FLOATS, {"dtype": "i2", "scale_factor": 0.5}, "has missing values"),
    "a missing time as a small number": (TIMES, {"dtype": "i4", **DAYS}, "has missing values"),
    "a float that is too large": (np.array([1.0, 40_000.0]), {"dtype": "i2"}, "int16 does not hold"),
    "infinity": (np.array([1.0, np.inf]), {"dtype": "i4"}, "int32 does not hold"),
    "a negative float": (np.array([1.0, -1.0]), {"dtype": "u1"}, "uint8 does not hold"),
    "a packed number that is too large": (
        np.array([1.0, 400.0]), {"dtype": "i1", "scale_factor": 2.0, "_FillValue": -128}, "int8 does not hold",
    ),
    "an unsigned number that is too large": (
        np.array([1.0, 256.0]), {"dtype": "i1", "_Unsigned": "true", "_FillValue": np.int8(-1)}, "uint8 does not hold",
    ),
    "a whole number that is too large": (np.array([1, 300]), {"dtype": "u1"}, "uint8 does not hold"),
    "a float of 64 bits": (np.array([1.0, 1e300]), {"dtype": "f4"}, "float32 does not hold"),
    "a time that is too late": (TIMES[:2], {"dtype": "i2", "units": "seconds since 2000-01-01"}, "int16 does not hold"),
    "whole numbers that are divided": (np.array([1000]), {"dtype": "u1", "scale_factor": 1000}, "cannot be encoded"),
    "a number that means what is missing": (np.array([1.0, 5.0]), {"dtype": "i2", "_FillValue": 5}, "'_FillValue'"),
}  # fmt: skip
KEPT = {
    "NaN with a fill value": (FLOATS, {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}),
    "NaN with a missing value": (FLOATS, {"dtype": "i2", "scale_factor": 0.5, "missing_value": -1}),
    "the whole range": (np.array([-32768.0, 32767.0]), {"dtype": "i2"}),
    "unsigned numbers": (np.array([1.0, 254.0]), {"dtype": "i1", "_Unsigned": "true", "_FillValue": np.int8(-1)}),
    "whole numbers": (np.array([0, 255]), {"dtype": "u1"}),
    "packed whole numbers": (np.array([1000, 2000]), {"dtype": "u1", "scale_factor": 1000.0}),
    "times": (TIMES[:2], {"dtype": "i2", **DAYS}),
    "times with a fill value": (TIMES, {"dtype": "i4", "_FillValue": -1, **DAYS}),
    "NaT": (TIMES, {"dtype": "i8", **DAYS}),
    "floats": (np.array([1.0, np.inf, np.nan]), {"dtype": "f4"}),
}


def _given(values, encoding, how):
    source = xr.Dataset({"a": ("x", values)})
    if how == "own encoding":
        source["a"].encoding = encoding
        return source, {}
    return source, {"encoding": {"a": encoding}}


@pytest.mark.parametrize("how", ["own encoding", "argument"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_an_encoding_would_change_is_refused_and_nothing_is_stored(root, what, how):
    values, encoding, words = REFUSED[what]
    source, options = _given(values, encoding, how)
    with pytest.raises(hub.errors.ConfigError, match=words):
        hub.store(source, NAME, root=root, **options)
    assert hub.list(root=root) == []


@pytest.mark.parametrize("what", [name for name in REFUSED if "time" not in name and "divided" not in name])
def test_blocks_of_dask_are_looked_at_when_they_are_computed(root, what):
    values, encoding, words = REFUSED[what]
    source, options = _given(values, encoding, "argument")
    with pytest.raises(hub.errors.ConfigError, match=words):
        hub.store(source.chunk(x=1), NAME, root=root, **options)
    assert hub.list(root=root) == []


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("what", KEPT)
def test_what_an_encoding_holds_comes_back(root, what, blocks):
    values, encoding = KEPT[what]
    source, options = _given(values, encoding, "argument")
    if blocks and values.dtype.kind != "M":
        source = source.chunk(x=1)
    back = hub.store(source, NAME, root=root, **options).to_xarray()["a"].values
    np.testing.assert_array_equal(back.astype(values.dtype), values)


def test_bounds_are_counted_in_the_units_of_their_times(root):
    time = xr.DataArray(TIMES[:2], dims="time", attrs={"bounds": "time_bounds"})
    time.encoding = {"dtype": "i2", **DAYS}
    source = xr.Dataset({"time_bounds": (("time", "edge"), np.stack([TIMES[:2]] * 2))}, coords={"time": time})
    source["time_bounds"].encoding = {"dtype": "i2"}
    back = hub.store(source, NAME, root=root)
    assert back["time_bounds"].dtype == np.dtype("i2")
    np.testing.assert_array_equal(back.to_xarray()["time_bounds"].values, source["time_bounds"].values)


def test_counts_that_were_not_decoded_are_stored_as_they_are(root):
    attrs = {"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": np.int16(-1)}
    source = xr.Dataset({"a": ("x", np.array([1, -1, 3], "i2"), attrs)})
    back = hub.store(source, NAME, root=root)
    assert back["a"][...].tolist() == [1, -1, 3]
    np.testing.assert_array_equal(back["a"].decoded, [1.5, np.nan, 2.5])
