"""Ranges: a filter passes over slabs that cannot have a row of it, and over no others."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.tables.format.conditions import arrow_expression
from hubarray.tables.format.index_piece import index_schema
from hubarray.tables.format.statistics import range_of, ranges_table, slabs_of_ranges
from hubarray.tables.snapshot.snapshot import TableSnapshot
from tests.tables.rows import write

SCHEMA = hub.Schema(
    {
        "i": hub.Field("i8", index=True, nullable=True),
        "x": hub.Field("f4", index=True),
        "t": hub.Field("M8[us]", index=True, nullable=True),
        "s": hub.Field(str, index=True, nullable=True),
        "b": hub.Field("?", index=True),
        "d": hub.Field("m8[us]", index=True, nullable=True),
        "h": hub.Field("f2", index=True),
        "u": hub.Field("u8", index=True),
        "y": hub.Field(bytes, index=True),
    }
)
VALUES = {
    "i": st.one_of(st.none(), st.integers(-5, 5)),
    "x": st.one_of(st.integers(-5, 5).map(lambda n: float(np.float32(n / 10))), st.just(float("nan"))),
    "t": st.one_of(st.none(), st.integers(-5, 5).map(lambda n: np.datetime64(n, "us"))),
    "s": st.one_of(st.none(), st.sampled_from(["", "a", "ab", "é", "\U0001f600", "x" * 300])),
    "b": st.booleans(),
    "d": st.one_of(st.none(), st.integers(-5, 5).map(lambda n: np.timedelta64(n, "us"))),
    "h": st.integers(-5, 5).map(np.float16),
    "u": st.integers(2**64 - 6, 2**64 - 1),
    "y": st.sampled_from([b"", b"a"]),
}
ASKED = {
    "i": st.integers(-6, 6),
    "x": st.integers(-6, 6).flatmap(lambda n: st.sampled_from([n / 10, n, np.float32(n / 10), Decimal(n) / 10])),
    "h": st.integers(-6, 6).map(float),
    "u": st.integers(2**64 - 8, 2**64 + 2),
    "t": st.integers(-6, 6).map(lambda n: datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=n)),
    "s": st.sampled_from(["", "a", "aa", "é", "z", "x" * 300]),
    "b": st.booleans(),
    "d": st.integers(-6, 6).map(lambda n: datetime.timedelta(microseconds=n)),
}


def columns(rows):
    expected = index_schema(SCHEMA)
    return pa.table({name: pa.array([row[name] for row in rows], expected.field(name).type) for name in SCHEMA.index})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_slab_with_a_row_that_passes_is_passed_over(data):
    slabs = data.draw(st.lists(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=5), min_size=1, max_size=4))
    clause = st.sampled_from(sorted(ASKED)).flatmap(
        lambda name: st.one_of(
            st.tuples(st.just(name), st.sampled_from(["=", "!=", "<", ">", "<=", ">="]), ASKED[name]),
            st.tuples(st.just(name), st.sampled_from(["in", "not in"]), st.lists(ASKED[name], min_size=1, max_size=3)),
        )
    )
    clauses = data.draw(st.lists(st.lists(clause, min_size=1, max_size=3), min_size=1, max_size=2))
    tables = [columns(rows) for rows in slabs]
    result = ranges_table([[range_of(table[name]) for name in SCHEMA.index] for table in tables], SCHEMA)
    kept = slabs_of_ranges(result, SCHEMA, clauses)
    try:
        expression = arrow_expression(clauses, {item.name: item.type for item in index_schema(SCHEMA)})
        passing = [i for i, table in enumerate(tables) if len(table.filter(expression))]
    except (pa.ArrowException, TypeError):
        reject()
    assert set(passing) <= set(kept)


def test_a_slab_that_cannot_have_a_row_is_passed_over():
    tables = [
        columns(
            [
                {
                    "i": i,
                    "x": float(i),
                    "t": np.datetime64(i, "us"),
                    "s": f"s{i}",
                    "b": True,
                    "d": None,
                    "h": np.float16(0),
                    "u": 1,
                    "y": b"",
                }
            ]
        )
        for i in range(4)
    ]
    result = ranges_table([[range_of(table[name]) for name in SCHEMA.index] for table in tables], SCHEMA)
    time = datetime.datetime(1970, 1, 1, microsecond=2)
    for clauses, kept in (
        ([[("i", "=", 2)]], [2]), ([[("x", ">=", 2.5)]], [3]), ([[("t", "<", time)]], [0, 1]),
        ([[("s", "in", ["s0", "s3"])]], [0, 3]), ([[("i", "<", 1)], [("s", "=", "s3")]], [0, 3]),
        ([[("b", "=", False)]], [0, 1, 2, 3]), ([[("i", ">", "a")]], [0, 1, 2, 3]), ([[("partition", "=", "p")]], [0, 1, 2, 3]),
    ):  # fmt: skip
        assert slabs_of_ranges(result, SCHEMA, clauses) == kept, clauses


@pytest.fixture
def small_slabs(monkeypatch):
    for module in ("hubarray.tables.format.locations", "hubarray.tables.format.metadata"):
        monkeypatch.setattr(f"{module}.SLAB_ROWS", 8)


def rows_of(first, count):
    return [
        {"i": i, "x": float(i), "t": None, "s": None, "b": True, "d": None, "h": np.float16(0), "u": 1, "y": b""}
        for i in range(first, first + count)
    ]


def test_a_filter_costs_the_slabs_that_may_have_its_rows(s3_root, small_slabs, forget):
    write("t/many:v1", {"a": rows_of(0, 80)}, s3_root, SCHEMA)
    hub.read_index("t/many:v1", root=s3_root)
    stats = s3_root.store.stats

    def requests(**options):
        forget()
        before = stats.requests
        result = hub.read_index("t/many:v1", root=s3_root, **options)
        return stats.requests - before, result["i"].tolist()

    everything, _ = requests()
    few, result = requests(filters=[("i", ">=", 40), ("i", "<", 44)])
    assert result == [40, 41, 42, 43]
    # The list of ranges, and one slab of the ten.
    assert few == everything - 10 + 2


def test_a_table_that_grows_and_one_that_is_published_have_ranges_too(root, small_slabs):
    write("t/grows:v1", {"a": rows_of(0, 20)}, root, SCHEMA, growing=True)
    with hub.table_writer("t/grows:v1", root=root) as w:
        for key, first in (("b", 20), ("c", 60)):
            with w.partition(key) as p:
                p.extend(rows_of(first, 40))
    index = hub.read_index("t/grows:v1", root=root)
    hub.write_index(index.iloc[::-1], "t/published:v1", root=root)
    for name in ("t/grows:v1", "t/published:v1"):
        result = hub.read_index(name, filters=[[("i", "in", [3, 77])], [("x", ">", 98)]], root=root)
        assert sorted(result["i"].tolist()) == [3, 77, 99]
        assert hub.verify("t/grows", root=root).problems == []
    assert not hub.diff("t/grows:v1", "t/grows:v1", root=root).changed


def test_the_ranges_are_the_last_piece_of_an_append(root, small_slabs):
    table = write("t/many:v1", {"a": rows_of(0, 40)}, root, SCHEMA)
    state = TableSnapshot.of(table._version, table._record())
    (append,) = state.metadata.appends
    result = state.ranges(append)
    assert result["0 low"].to_pylist() == [0, 8, 16, 24, 32]
    assert result["2 loose"].to_pylist() == [True] * 5
    assert state.metadata.ranges_number(append) + 1 == state.metadata.end
