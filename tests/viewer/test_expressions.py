"""Filters as people write them mean what Python would say of them, and nothing else is read."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.viewer.expressions import MAX_LETTERS, clauses_of

ROWS = [
    {"x": x, "y": y, "side": side}
    for x, y, side in itertools.product(range(4), (0.5, 2.5, float("nan")), ("left", "right"))
]
COMPARED = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "is nan": lambda a, _: a != a,
}  # fmt: skip


def passes(row, clauses):
    return any(all(COMPARED[how](row[name], value) for name, how, value in some) for some in clauses)


SIMPLE = st.sampled_from(
    [
        "x > 1",
        "x == 2",
        "2 <= x",
        "0 < x <= 2",
        "y < 1",
        "side == 'left'",
        "side in ['left']",
        "x not in (1, 2)",
        "x != -1",
    ]
)
FILTERS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
        inner.map(lambda one: f"not ({one})"),
    ),
    max_leaves=5,
)


@given(text=FILTERS)
def test_a_filter_means_what_python_says(text):
    clauses = clauses_of(text)
    for row in ROWS:
        assert passes(row, clauses) == eval(text, {"__builtins__": {}}, dict(row)), text


def test_pandas_signs_and_quoted_names_are_understood():
    assert clauses_of("(x > 1) & ~(side == 'left') | (y < 1)") == [
        [("x", ">", 1), ("side", "!=", "left")], [("y", "<", 1)]
    ]  # fmt: skip
    assert clauses_of("`a name` == 1 and camera.time >= 2.5") == [[("a name", "==", 1), ("camera.time", ">=", 2.5)]]


def test_a_name_alone_asks_whether_it_is_true():
    assert clauses_of("x") == [[("x", "==", True)]]


@pytest.mark.parametrize(
    "text",
    [
        "", "x > ", "__import__('os').system('x')", "x.__class__ == 1 if y else 2", "x > y", "f(x) > 1", "x > 1; y",
        "x := 3", "[x for x in y]", "lambda: 1", "x > f'{y}'", "x > b'a'", "x > None", "x > 1j", "x is 3", "x + 1 > 2",
        "x[0] > 1", "x in 'left'", "1 in x", "x == {}", "(" * 300 + "x > 1", "not " * 400 + "x > 1", "x > 1" + " " * MAX_LETTERS,
        " and ".join(f"(x == {i} or y == {i})" for i in range(12)), "x\0 > 1", "x > 10**9", "x > 1 if 1 else 2",
    ],
)  # fmt: skip
def test_whatever_else_is_written_is_one_error(text):
    with pytest.raises(hub.errors.ConfigError):
        clauses_of(text)
