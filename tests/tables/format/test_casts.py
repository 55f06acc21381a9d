"""Columns of frames as the values of fields."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import ConfigError
from hubarray.tables.format import casts
from hubarray.tables.format.schema import Field, Schema


def read(field, column):
    batches = casts.batches_of(pa.table({"x": column}), Schema({"x": field}))
    return [value for columns, _ in batches for value in columns["x"]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4), st.booleans())
def test_lists_within_lists_are_arrays(sizes, large):
    made = [np.arange(a * b * 3, dtype="i2").reshape(a, b, 3) for a, b in sizes]
    kind = pa.large_list if large else pa.list_
    column = pa.array([item.tolist() for item in made], kind(kind(pa.list_(pa.int16(), 3))))
    for item, value in zip(made, read(Field("i2", (None, None, 3)), column), strict=True):
        # A list of no lists does not say how long they would be, unless the field does.
        shape = item.shape if item.shape[0] else (0, 0, 3)
        assert (value.shape, value.dtype, value.tolist()) == (shape, item.dtype, item.tolist())


def test_lists_become_the_dtype_of_the_field_where_every_value_survives():
    (value,) = read(Field("u1", (None, 2)), pa.array([[[1, 2], [3, 255]]]))
    assert (value.dtype, value.tolist()) == ("u1", [[1, 2], [3, 255]])
    with pytest.raises(ConfigError, match=r"column 'x'.*256.*cannot hold"):
        read(Field("u1", (None, 2)), pa.array([[[1, 2], [3, 256]]]))


@pytest.mark.parametrize("column", [[[[1], [2, 3]]], [[[1, None]]], [[[1], None]]])
def test_lists_that_are_no_array_are_refused_by_the_name_of_their_column(column):
    with pytest.raises(ConfigError, match="column 'x': has"):
        read(Field("i8", (None, None)), pa.array(column))


def test_tensors_of_arrow_are_arrays():
    tensors = np.arange(12.0).reshape(2, 3, 2)
    result = read(Field("f8", (3, 2)), pa.FixedShapeTensorArray.from_numpy_ndarray(tensors))
    np.testing.assert_array_equal(result, tensors)


def test_a_column_of_numbers_where_arrays_belong_is_left_to_the_field_to_refuse():
    assert read(Field("i8", (None,)), pa.array([1, 2])) == [1, 2]
