"""Data types and fill values, held against zarr-python."""

import json
import warnings

import numpy as np
import pytest

import hubarray as hub
from hubarray.arrays.codecs.dtypes import (
    checked_dtype,
    checked_fill,
    dtype_from_json,
    dtype_to_json,
    fill_from_json,
    fill_to_json,
)

DTYPES = [
    "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[ns]", "M8[10us]", "m8[D]",
    "U1", "U7", "S1", "S9", "V4", [("a", "<i4"), ("b", "<f2"), ("c", "<U3"), ("d", "M8[s]")],
]  # fmt: skip


STRUCT = [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float16"}]


def fill_of(dtype):
    """Return an element whose bits are not zero."""
    if dtype.names:
        return np.array((3, 1.5, "x", np.datetime64(7, "s")), dtype)
    return np.ones((), dtype) if dtype.kind in "biufc" else np.zeros((), dtype)


def test_structures_of_zarr_3_4_are_read():
    data_type = {"name": "struct", "configuration": {"fields": STRUCT}}
    dtype = dtype_from_json(data_type)
    assert dtype == np.dtype([("a", "<i4"), ("b", "<f2")])
    assert fill_from_json({"a": 7, "b": "NaN"}, dtype)["a"] == 7
    for wrong in ({"a": 7}, {"a": 7, "b": 1, "c": 2}, {"a": "x", "b": 1}, []):
        with pytest.raises((ValueError, TypeError)):
            fill_from_json(wrong, dtype)
    for fields in (STRUCT[:1] * 2, [{"name": "a"}], [["a"]], [{"name": "a", "data_type": data_type}], 3):
        with pytest.raises((ValueError, TypeError, KeyError)):
            dtype_from_json({"name": "struct", "configuration": {"fields": fields}})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_and_zero_fill_are_written_as_zarr_writes_and_reads_them(dtype):
    from zarr.core.dtype import get_data_type_from_json, parse_data_type

    dtype = np.dtype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = parse_data_type(dtype, zarr_format=3)
        data_type = dtype_to_json(dtype)
        written = json.loads(json.dumps(theirs.to_json(zarr_format=3)))
        # Zarr 3.4 has another name for structures, and reads the one that Zarr 3.1 knows, too.
        assert written == json.loads(json.dumps(data_type)) or written["name"] == "struct"
        assert dtype_from_json(written) == dtype
        theirs_fill = json.loads(json.dumps(theirs.to_json_scalar(fill_of(dtype)[()], zarr_format=3)))
        assert fill_from_json(theirs_fill, dtype).tobytes() == fill_of(dtype).tobytes()
        fill = np.zeros((), dtype)
        read = get_data_type_from_json(data_type, zarr_format=3).from_json_scalar(fill_to_json(fill), zarr_format=3)
    assert np.asarray(read, dtype).tobytes() == fill.tobytes()
    assert dtype_from_json(json.loads(json.dumps(data_type))) == dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (-0.0, "f8"), (np.nan, "f4"), (-np.inf, "f2"), (1e300, "f8"), (0.1, "f4"), (2**64 - 1, "u8"), (-(2**63), "i8"),
        (True, "bool"), (complex(np.nan, -0.0), "c16"), (np.datetime64("NaT"), "M8[ns]"), (np.timedelta64(-5, "s"), "m8[ns]"),
        ("añb", "U5"), (b"a\xff", "S4"), (b"\0ab", "S3"), (np.void(b"\1\2\3"), "V3"),
        (np.array((1, -0.0), [("a", "i4"), ("b", "f8")]), [("a", "i4"), ("b", "f8")]),
        (np.array([0x7FC00001], "u4").view("f4")[0], "f4"),
    ],
    ids=str,
)  # fmt: skip
def test_fill_values_keep_every_bit(value, dtype):
    fill = checked_fill(value, np.dtype(dtype))
    again = fill_from_json(json.loads(json.dumps(fill_to_json(fill))), np.dtype(dtype))
    assert again.dtype == fill.dtype
    assert again.tobytes() == fill.tobytes() == np.asarray(value).astype(dtype).tobytes()


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        (object, "pickle"), ("O", "pickle"), ([("a", "O")], "pickle"), ("U", "no size"), ("S0", "no size"), ("V", "no size"),
        (np.longdouble, "no name"), ("M8", "no unit"), ("m8", "no unit"), ("nonsense", "nonsense"),
        ([("a", "i4", (2,))], "scalars"), ([("a", [("b", "i4")])], "scalars"), (("i4", (3,)), "subarray"),
        (np.dtypes.StringDType(na_object=None), "may be missing"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_with_the_reason(dtype, reason):
    with pytest.raises(hub.errors.ConfigError, match=reason):
        checked_dtype(dtype)


def test_byte_order_and_padding_are_made_canonical():
    assert checked_dtype(">f8") == np.dtype("<f8")
    padded = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    assert checked_dtype(padded).itemsize == 9


@pytest.mark.parametrize(
    ("value", "dtype"), [(300, "u1"), (-1, "u4"), (1.5, "i4"), ("x", "f4"), ([1, 2], "i4"), (object(), "i4")]
)
def test_a_fill_value_that_is_none_of_the_type_is_refused(value, dtype):
    with pytest.raises(hub.errors.ConfigError, match="fill_value"):
        checked_fill(value, np.dtype(dtype))
