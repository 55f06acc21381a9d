"""Values of fields as columns of Arrow, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubarray.tables.format import casts
from hubarray.tables.format.arrow_columns import arrow_column, arrow_type, is_time
from hubarray.tables.format.schema import Field
from tests.tables import rows as model
from tests.tables.strategies import values


@given(st.data())
@settings(max_examples=60)
def test_columns_come_back_from_arrow_as_they_were(data):
    dtype = data.draw(st.sampled_from(["u1", "i8", "f4", "?", "M8[us]", "U3", str, bytes]))
    shape = () if dtype in (str, bytes) else tuple(data.draw(st.lists(st.none() | st.integers(1, 3), max_size=3)))
    field = Field(dtype, shape, nullable=data.draw(st.booleans()))
    given_values = data.draw(st.lists(values(field), max_size=5))
    column = arrow_column(arrow_type("x", field), field, given_values)
    assert column.type == arrow_type("x", field)
    column.validate(full=True)
    for item, back in zip(given_values, casts._arrow_values(field, column, "x"), strict=True):
        lost = is_time(field) and field.nullable and item is not None and np.isnat(item).any()
        # A list of no lists does not say how long they would be.
        empty = isinstance(item, np.ndarray) and not item.size and len(item) == len(back)
        assert lost or empty or model.same(item, back), (item, back)


@given(st.data())
@settings(max_examples=60)
def test_an_array_gives_the_column_that_its_rows_give(data):
    dtype = data.draw(st.sampled_from(["u1", "i8", "f2", "?", "M8[us]", "m8[D]", "U3", "S2"]))
    field = Field(dtype, data.draw(st.lists(st.integers(1, 3), max_size=3)))
    rows = data.draw(st.lists(values(field), max_size=5))
    array = np.array(rows, field.dtype).reshape(len(rows), *field.shape)
    kind = arrow_type("x", field)
    from_array, from_rows = arrow_column(kind, field, array), arrow_column(kind, field, rows)
    assert from_array.type == from_rows.type == kind
    from_array.validate(full=True)
    assert model.arrow_text(from_array) == model.arrow_text(from_rows)


def test_a_column_of_an_array_of_numbers_has_its_memory():
    array = np.arange(12, dtype="f4").reshape(4, 3)
    field = Field("f4", (3,))
    column = arrow_column(arrow_type("x", field), field, array)
    assert np.shares_memory(column.flatten().to_numpy(), array)


def test_a_time_beyond_what_arrow_can_hold_overflows():
    field = Field("M8[s]")
    with pytest.raises(OverflowError):
        arrow_column(arrow_type("x", field), field, np.array([1 << 60], "M8[s]"))
