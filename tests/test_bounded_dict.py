"""A dict that remembers a bounded number of values."""

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from hubarray.bounded_dict import BoundedDict


@given(keys=st.lists(st.integers(0, 9)), max_items=st.integers(1, 5))
def test_the_dict_never_has_more_items_than_its_limit_and_always_the_last_one(keys, max_items):
    squares = BoundedDict(max_items)
    for key in keys:
        squares[key] = key * key
        assert len(squares) <= max_items
        assert squares[key] == key * key
    assert all(value == key * key for key, value in squares.items())


def test_an_item_that_is_replaced_drops_no_other():
    result = BoundedDict(2)
    result["a"], result["b"] = 1, 2
    result["a"] = 3
    assert result == {"a": 3, "b": 2}


def test_a_copy_begins_empty_and_keeps_the_limit():
    result = BoundedDict(1)
    result["a"] = 1
    for other in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert other == {}
        other["b"], other["c"] = 1, 2
        assert other == {"c": 2}
