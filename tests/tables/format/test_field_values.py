"""Values: what a field takes, what it refuses, and that nothing is changed without a word."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image as PillowImage

from hubarray.errors import ConfigError
from hubarray.tables.format.block_encoding import Image
from hubarray.tables.format.field_values import checked
from hubarray.tables.format.schema import Field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("u1"), 7),
        (Field("u1"), np.uint8(7)),
        (Field("f4"), 0.1),
        (Field("f4"), 3),
        (Field("f4"), float("nan")),
        (Field("f4"), float("inf")),
        (Field("c8"), 1j),
        (Field("?"), True),
        (Field("?"), 1),
        (Field("u1"), 1.0),
        (Field("f4", (2,)), np.zeros(2, "f8")),
        (Field("u1", (3,)), [1, 2, 255]),
        (Field("f4", (None, 2)), np.zeros((0, 2), "f4")),
        (Field(">i4", (2,)), np.array([1, 2], ">i4")),
        (Field("i4", (2,)), np.array([1, 2], ">i4")),
        (Field("M8[us]"), np.datetime64("2026-11-23T01:02:03", "us")),
        (Field("U5"), "abc"),
    ],
    ids=str,
)
def test_what_fits_is_taken_as_it_is(field, value):
    result = checked(field, value)
    assert result.dtype == field.dtype
    assert result.flags.c_contiguous
    assert result.shape == np.shape(value)
    assert np.array_equal(result, np.asarray(value).astype(field.dtype), equal_nan=result.dtype.kind in "fc")


def test_true_is_one_in_a_field_of_integers():
    assert checked(Field("u1"), True) == 1


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        (Field("u1"), 256, "u"),
        (Field("u1"), -1, "u"),
        (Field("u1"), 1.5, "fit"),
        (Field("?"), 2, "fit"),
        (Field("f4"), 1e300, "fit"),
        (Field("f4"), "1.0", "fit"),
        (Field("u1"), np.int64(700), "hold"),
        (Field("f4", (2,)), np.full(2, 0.1), "hold"),
        (Field("f4", (2,)), np.zeros(2, "M8[s]"), "dtype"),
        (Field("f4", (2,)), np.zeros(3, "f4"), "shape"),
        (Field("f4", (2,)), np.zeros((2, 1), "f4"), "shape"),
        (Field("f4", (None, 2)), np.zeros((5, 3), "f4"), "shape"),
        (Field("f4", (2,)), 3.0, "shape"),
        (Field("f4"), None, "nullable"),
        (Field(str), b"x", "text"),
        (Field(str), 7, "text"),
        (Field(str), "\ud800", "Unicode"),
        (Field(bytes), "x", "bytes"),
        (Field("U2"), "abc", "fit"),
        (Field("u1", (None, None, 3), codec="jpeg"), b"no image", "JPEG"),
        (Field("u1", (None, None, 3), codec="png"), b"no image", "PNG"),
        (Field("u1", (None, None), codec="png"), np.zeros((2, 2, 3), "u1"), "shape"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(field, value, why):
    with pytest.raises(ConfigError, match=why):
        checked(field, value)


def _encoded(image, kind):
    file = io.BytesIO()
    PillowImage.fromarray(image).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(("codec", "kind"), [("jpeg", "JPEG"), ("png", "PNG")])
@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_bytes_that_are_such_an_image_already_are_kept_as_they_came(codec, kind, shape):
    image = np.arange(np.prod(shape)).reshape(shape).astype("u1")
    data = _encoded(image, kind)
    result = checked(Field("u1", (None, None, *shape[2:]), codec=codec), data)
    assert result == Image(data, shape)


def test_bytes_of_an_image_of_another_type_or_shape_are_refused():
    grey, wide = _encoded(np.zeros((4, 4), "u1"), "PNG"), _encoded(np.zeros((4, 4), "u2"), "PNG")
    with pytest.raises(ConfigError, match="shape"):
        checked(Field("u1", (None, None, 3), codec="png"), grey)
    with pytest.raises(ConfigError, match="uint16"):
        checked(Field("u1", (None, None), codec="png"), wide)
    palette = io.BytesIO()
    PillowImage.fromarray(np.zeros((4, 4), "u1")).convert("P").save(palette, "PNG")
    with pytest.raises(ConfigError, match="palette"):
        checked(Field("u1", (None, None), codec="png"), palette.getvalue())


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("i8", np.int32(5), 5),
        ("f8", np.float32(0.5), 0.5),
        ("f4", np.float64(0.5), 0.5),
        ("f4", np.float64("nan"), None),
        ("f4", np.float64(0.1), ConfigError),
        ("u1", np.int64(-1), ConfigError),
        ("i4", np.float64(1.5), ConfigError),
        ("i4", np.bool_(True), 1),
        ("M8[ns]", np.datetime64("2026-01-01"), np.datetime64("2026-01-01", "ns")),
        ("M8[ns]", np.datetime64("9999-01-01"), ConfigError),
    ],
    ids=str,
)
def test_a_scalar_of_numpys_is_taken_where_it_is_the_same(dtype, value, stored):
    field = Field(dtype)
    if stored is ConfigError:
        with pytest.raises(ConfigError, match="astype"):
            checked(field, value)
    else:
        result = checked(field, value)
        assert result.dtype == field.dtype
        assert result == stored or (stored is None and np.isnan(result))


def test_the_null_of_pandas_is_null():
    assert checked(Field("f4", nullable=True), pd.NA) is None
    with pytest.raises(ConfigError, match="not nullable"):
        checked(Field("f4"), pd.NA)
