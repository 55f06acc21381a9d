"""Filters: what ranges decide, and what rows decide, is what pyarrow says of the whole file."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hubarray as hub

LARGE = (1 << 64) - 1


def _kept(path, filters):
    with hub.make_reader(str(path), ["id"], filters=filters, shuffle_row_groups=False) as reader:
        return [int(row.id) for row in reader]


@pytest.fixture
def file(tmp_path):
    table = pa.table({
        "id": range(8),
        "n": pa.array([1, None, 3, 3, None, None, 7, 8], pa.int64()),
        "x": pa.array([1.0, math.nan, math.nan, math.nan, None, 2.0, 2.0, 2.0], pa.float64()),
        "u": pa.array([0, 1, 2, 3, LARGE, LARGE - 1, 6, 7], pa.uint64()),
        "none": pa.array([None] * 8, pa.int32()),
        "text": pa.array([None] * 8, pa.string()),
        "row": range(8),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    return tmp_path / "x.parquet"


@pytest.mark.parametrize(
    "filters",
    [
        [("n", "not in", [3])], [("n", "!=", 3)], [("n", ">", 2)], [("n", "in", [3])],
        [("x", "!=", 2.0)], [("x", "not in", [2.0])], [("x", "<=", 2.0)],
        [("u", "=", LARGE)], [("u", "in", [LARGE, 2])], [("u", ">", 1 << 63)], [("u", "<", LARGE)],
        [("row", "<", 3)], [[("n", "=", 1)], [("u", "=", LARGE)]],
    ],
    ids=str,
)  # fmt: skip
def test_the_rows_that_pass_are_those_of_pyarrow(file, filters):
    told = [[(n, o, pa.scalar(v, pa.uint64()) if v in (LARGE, 1 << 63) else v) for n, o, v in some]
            for some in (filters if isinstance(filters[0], list) else [filters])]  # fmt: skip
    told = [[(n, o, pa.array(v, pa.uint64()) if isinstance(v, list) and LARGE in v else v) for n, o, v in some]
            for some in told]  # fmt: skip
    assert _kept(file, filters) == pq.read_table(file, filters=told)["id"].to_pylist()


@pytest.mark.parametrize("filters", [[("none", ">", 1)], [("text", "=", "a")]], ids=str)
def test_a_column_of_nulls_alone_is_of_its_type(file, filters):
    assert _kept(file, [[*filters], [("id", "=", 3)]]) == [3]


@pytest.mark.parametrize("filters", [[("n", "in", 7)], [("n", "=", "a")], [("n", "~", 1)], [("m", "=", 1)]], ids=str)
def test_what_cannot_be_compared_is_refused(file, filters):
    with pytest.raises(hub.errors.ConfigError, match="filters"):
        _kept(file, filters)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-3, 3), st.just(math.nan)), min_size=1, max_size=12),
    st.sampled_from(["=", "!=", "<", ">", "<=", ">=", "in", "not in"]),
    st.integers(-3, 3),
)
def test_whatever_ranges_say_no_row_is_decided_wrongly(values, operation, value):
    from hubarray.tables.format.statistics import range_answer

    floats = [None if item is None else float(item) for item in values]
    there = [item for item in floats if item is not None and not math.isnan(item)]
    assume(there)
    expected = [float(value)] if operation in ("in", "not in") else float(value)
    table = pa.table({"x": pa.array(floats, pa.float64()), "id": range(len(floats))})
    passing = table.filter(pq.filters_to_expression([("x", operation, expected)]))["id"].to_pylist()
    loose = len(there) < len(floats)
    answer = range_answer([[("x", operation, expected)]], {"x": (min(there), max(there), loose)})
    assert answer is not False or not passing
    assert answer is not True or len(passing) == len(floats)


def test_names_of_columns_that_filters_use_inside_do_no_harm(tmp_path):
    pq.write_table(pa.table({"id": range(4), "__row": [0, 1, 2, 3]}), tmp_path / "x.parquet")
    predicate = hub.petastorm.in_lambda(["id"], lambda i: i > 0)
    with hub.make_reader(
        str(tmp_path / "x.parquet"), ["id"], filters=[("__row", ">", 1)], predicate=predicate
    ) as reader:
        assert [int(row.id) for row in reader] == [2, 3]


def test_text_beyond_unicode_in_a_filter_is_an_error_of_ours(tmp_path):
    pq.write_table(pa.table({"t": ["a", "b"]}), tmp_path / "x.parquet")
    with pytest.raises(hub.HubError):
        _kept_text(tmp_path / "x.parquet", "\ud800")


def _kept_text(path, value):
    with hub.make_reader(str(path), filters=[("t", "=", value)]) as reader:
        return list(reader)


def test_unsigned_columns_of_arrays_are_filtered(root):
    array = hub.array(3, "t/u:v0", "u8", root=root)
    array[...] = np.array([1, LARGE, 3], "u8")
    with hub.make_reader(array, filters=[("value", "=", LARGE)]) as reader:
        assert [int(row.value) for row in reader] == [LARGE]
