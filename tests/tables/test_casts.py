"""A value of another dtype is taken where it is the same in the field's, in rows as in columns."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import hubarray as hub
from hubarray.values.casting import cast_with_losses, may_be_kept

SCHEMA = hub.Schema(
    {
        "fixed": hub.Field("f4", (2,)), "float": hub.Field("f4"), "int": hub.Field("i4"), "bool": hub.Field("?"),
        "ragged": hub.Field("f4", (None,)), "time": hub.Field("M8[s]"),
    }
)  # fmt: skip
ROW = {
    "fixed": np.zeros(2, "f4"), "float": np.float32(0), "int": np.int32(0), "bool": np.True_,
    "ragged": np.zeros(1, "f4"), "time": np.datetime64(0, "s"),
}  # fmt: skip


def _append(p, row):
    p.append(row)


def _extend(p, row):
    p.extend([row])


def _columns(p, row):
    p.extend({name: np.stack([value]) for name, value in row.items()})


def _frame(p, row):
    p.extend(pd.DataFrame({name: [value] for name, value in row.items()}))


def _arrow(p, row):
    p.extend(pa.table({name: pa.array([value]) for name, value in row.items()}))


WAYS = [_append, _extend, _columns, _frame, _arrow]
KEPT = {
    "floats of 64 bits": ("fixed", np.array([1.0, 0.5])),
    "whole numbers as floats": ("fixed", np.array([1, 2**24])),
    "bools as floats": ("fixed", np.array([True, False])),
    "whole numbers as ragged floats": ("ragged", np.array([1, 2, 3], "u1")),
    "NaN of 64 bits": ("float", np.float64("nan")),
    "a float that is whole": ("int", np.float64(-7)),
    "a larger whole number": ("int", np.int64(2**31 - 1)),
    "an unsigned number": ("int", np.uint64(7)),
    "0 as a bool": ("bool", np.int64(0)),
    "a finer time": ("time", np.datetime64("2020-01-02T03:04:05.000000", "us")),
    "a time that is missing": ("time", np.datetime64("NaT", "us")),
}
REFUSED = {
    "floats between those of 32 bits": ("fixed", np.array([0.1, 1.0])),
    "whole numbers between floats of 32 bits": ("fixed", np.array([2**24 + 1, 1])),
    "ragged floats between those of 32 bits": ("ragged", np.array([0.1])),
    "a float beyond 32 bits": ("float", np.float64(1e300)),
    "a float that is not whole": ("int", np.float64(1.5)),
    "NaN as a whole number": ("int", np.float64("nan")),
    "infinity as a whole number": ("int", np.float64("inf")),
    "a number that is too large": ("int", np.int64(2**31)),
    "a number that would be negative": ("int", np.uint64(2**32 - 1)),
    "2 as a bool": ("bool", np.int64(2)),
    "a time between seconds": ("time", np.datetime64("2020-01-02T03:04:05.5", "us")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", KEPT)
def test_what_is_the_same_is_taken(root, what, way):
    name, value = KEPT[what]
    with hub.table_writer("t/a:v1", SCHEMA, root=root) as w, w.partition("p") as p:
        way(p, ROW | {name: value})
    there = hub.load("t/a:v1", root=root)[0][name]
    assert there.dtype == SCHEMA[name].dtype
    np.testing.assert_array_equal(there, np.asarray(value).astype(there.dtype))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_the_same_is_refused(root, what, way):
    name, value = REFUSED[what]
    words = f"row 0.*{name}.*(cannot hold; cast it before|is None)"
    with (
        pytest.raises(hub.errors.ConfigError, match=words),
        hub.table_writer("t/a:v1", SCHEMA, root=root) as w,
        w.partition("p") as p,
    ):
        way(p, ROW | {name: value})
    assert hub.list(root=root) == []


def test_times_and_numbers_are_not_cast_into_each_other():
    assert not may_be_kept(np.dtype("M8[s]"), np.dtype("i8"))
    assert not may_be_kept(np.dtype("m8[s]"), np.dtype("M8[s]"))
    assert not may_be_kept(np.dtype("U3"), np.dtype("i8"))


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]),
    st.floats(), st.booleans(),
)  # fmt: skip
DTYPES = ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


@given(NUMBERS, st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_a_number_is_lost_exactly_where_python_says_that_it_is_another(number, given_dtype, wanted):
    try:
        value = np.array([number], given_dtype)
    except (OverflowError, ValueError):
        reject()
    cast, lost = cast_with_losses(value, np.dtype(wanted))
    item, other = value.tolist()[0], cast.tolist()[0]
    assert lost.tolist() == [not (item == other or (item != item and other != other))]


@pytest.mark.parametrize(
    ("unit", "wanted"), [("Y", "ns"), ("Y", "h"), ("D", "ns"), ("D", "Y"), ("h", "ps"), ("us", "fs"), ("us", "Y")]
)
def test_times_that_a_unit_cannot_hold_are_lost_and_others_are_not(unit, wanted):
    largest = np.iinfo(np.int64).max
    values = np.array([0, largest, -largest, 0]).view(f"M8[{unit}]")
    cast, lost = cast_with_losses(values, np.dtype(f"M8[{wanted}]"))
    assert lost.tolist() == [False, True, True, False]
    assert cast.view(np.int64)[[0, 3]].tolist() == [0, 0]


def test_times_between_units_that_numpy_cannot_convert_are_all_lost():
    assert cast_with_losses(np.array([0, 1], "M8[Y]"), np.dtype("M8[fs]"))[1].tolist() == [True, True]


@pytest.mark.parametrize("wanted", ["i4", "i8", "u4"])
def test_infinity_of_float16_is_no_integer_and_no_integer_is_infinity(wanted):
    infinities = np.array([np.inf, -np.inf, 7], "f2")
    assert cast_with_losses(infinities, np.dtype(wanted))[1].tolist() == [True, True, False]
    limits = np.array([np.iinfo(wanted).min, np.iinfo(wanted).max, 7], wanted)
    assert cast_with_losses(limits, np.dtype("f2"))[1].tolist() == [wanted != "u4", True, False]


@pytest.mark.parametrize(("unit", "wanted"), [("Y", "fs"), ("fs", "Y")])
def test_an_array_refuses_times_that_numpy_cannot_convert(root, unit, wanted):
    array = hub.array(1, "t/x:v0", f"M8[{wanted}]", root=root)
    for write in (array.append, lambda value: array.__setitem__(slice(None), value)):
        with pytest.raises(hub.errors.ConfigError, match="a unit in between"):
            write(np.array([1], f"M8[{unit}]"))
