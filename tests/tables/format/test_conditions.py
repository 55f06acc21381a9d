"""Filters: which are understood, and that every value is compared as Python would, or refused."""

import datetime
import operator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.errors import NoDataAvailableError
from hubarray.tables.format.conditions import arrow_expression, checked

NAIVE = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
EDGES = [-(2**65), -(2**63), -(2**31), -129, -128, -1, 0, 1, 127, 255, 256, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64]


@given(
    dtype=st.sampled_from(["i1", "u1", "i4", "i8", "u8"]),
    operation=st.sampled_from(list(NAIVE)),
    value=st.sampled_from(EDGES),
)
def test_whole_numbers_of_any_size_are_compared_as_python_does(dtype, operation, value):
    about = np.iinfo(dtype)
    values = [item for item in EDGES if about.min <= item <= about.max]
    asked = [value, 0] if operation in ("in", "not in") else value
    table = pa.table({"x": pa.array(values, pa.from_numpy_dtype(np.dtype(dtype)))})
    expression = arrow_expression(checked([("x", operation, asked)]), {"x": table["x"].type})
    assert table.filter(expression)["x"].to_pylist() == [item for item in values if NAIVE[operation](item, asked)]


@pytest.mark.parametrize(
    "filters",
    [("k", "==", 1), [("k", "is", 1)], [("k", "==")], ["k"], [[("k", "in", "k1")]], [("k", "in", 5)], 7, "k", [5],
     [("k", "not in", b"ab")], [(1, "==", 1)]],
    ids=str,
)  # fmt: skip
def test_what_is_no_list_of_conditions_is_refused_with_the_right_one(filters):
    with pytest.raises(hub.errors.ConfigError, match="filters"):
        checked(filters)


def rows_read(source, *fields, **options):
    try:
        with hub.make_batch_reader(source, *fields, **options) as reader:
            return sum(len(batch.x) for batch in reader)
    except NoDataAvailableError:
        return 0


@pytest.fixture
def long_table(root):
    """Of two slabs, so that ranges decide which are read."""
    x = np.full(131_073, 0.1)
    x[-1] = 5
    fields = {"x": hub.Field("float32", index=True), "d": hub.Field("float64", index=True)}
    fields |= {"u": hub.Field("uint64", index=True), "t": hub.Field("datetime64[us]", index=True)}
    with hub.table_writer("lab/t:v1", hub.Schema(fields), root=root) as w, w.partition("p") as p:
        times = np.arange(len(x)).astype("M8[us]")
        p.extend({"x": x.astype("f4"), "d": x, "u": np.arange(len(x), dtype="u8") + np.uint64(2**63), "t": times})
    return "lab/t:v1"


def test_a_long_table_gives_the_rows_that_a_short_one_would(long_table, root):
    zoned = datetime.datetime(1970, 1, 1, 2, microsecond=5, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    for clause, rows in (
        (("x", "in", [0.1]), 131_072), (("x", "in", [Decimal("0.1")]), 131_072), (("d", "in", [0.1]), 131_072),
        (("x", "==", 0.1), 0), (("x", "==", np.float32(0.1)), 131_072), (("d", "!=", 0.1), 1),
        (("u", ">", 2**63 + 131_070), 2), (("u", "in", [2**63, 3]), 1), (("u", ">", -1), 131_073),
        (("u", "<", 2**70), 131_073), (("u", "==", -1), 0), (("t", "==", zoned), 1), (("t", "<", zoned), 5),
    ):  # fmt: skip
        assert len(hub.read_index(long_table, ["x"], filters=[clause], root=root)) == rows, clause
        assert rows_read(long_table, ["x"], filters=[clause, ("x", "<", 9)], root=root) == rows, clause


def test_row_groups_of_parquet_are_passed_over_only_where_no_row_would_pass(tmp_path):
    x = np.full(100, 0.1, "f4")
    pq.write_table(pa.table({"x": x, "u": np.arange(100, dtype="u8") + np.uint64(2**63)}), tmp_path / "a.parquet",
                   row_group_size=10)  # fmt: skip
    for clause, rows in ((("x", "in", [0.1]), 100), (("x", "not in", [0.1]), 0), (("u", ">=", 2**63 + 95), 5)):
        assert rows_read(str(tmp_path), filters=[clause]) == rows, clause


def test_floats_are_looked_for_among_whole_numbers_of_any_size():
    table = pa.table({"f": [1.0, 2.0**63]})
    expression = arrow_expression(checked([("f", "in", [2**63, 1])]), {"f": pa.float64()})
    assert table.filter(expression)["f"].to_pylist() == [1.0, 2.0**63]
    with pytest.raises(hub.errors.ConfigError, match="no condition"):
        checked([[("f", "=", 1.0)], []])
