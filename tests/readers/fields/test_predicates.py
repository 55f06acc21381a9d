"""Predicates, row by row and column by column."""

import hashlib
import sys

import numpy as np
import pandas as pd
import pytest

import hubarray as hub
from hubarray.errors import ConfigError

VALUES = [0, 1, 2, 3, 4, 5]


def included(predicate, rows):
    """The rows that are let through, asked one by one; columns must say the same."""
    one_by_one = [bool(predicate.do_include(row)) for row in rows]
    together = np.asarray(predicate.do_include(pd.DataFrame(rows)))
    assert together.tolist() == one_by_one
    return [row for row, keep in zip(rows, one_by_one, strict=True) if keep]


def numbers(predicate):
    return [row["a"] for row in included(predicate, [{"a": i} for i in VALUES])]


def test_sets_negations_and_reductions():
    assert numbers(hub.petastorm.in_set([1, 5, 9], "a")) == [1, 5]
    assert numbers(hub.petastorm.in_negate(hub.petastorm.in_set([1, 5, 9], "a"))) == [0, 2, 3, 4]
    both = [hub.petastorm.in_set([1, 2], "a"), hub.petastorm.in_set([2, 3], "a")]
    assert numbers(hub.petastorm.in_reduce(both, all)) == [2]
    assert numbers(hub.petastorm.in_reduce(both, any)) == [1, 2, 3]
    assert hub.petastorm.in_reduce(
        [hub.petastorm.in_set([1], "a"), hub.petastorm.in_set([1], "b")], all
    ).get_fields() == {"a", "b"}


def test_lambdas_get_the_values_in_order_and_the_state():
    rows = [{"a": i, "b": 2 * i} for i in VALUES]
    assert [r["a"] for r in included(hub.petastorm.in_lambda(["b", "a"], lambda b, a: b - a > 3), rows)] == [4, 5]
    assert [r["a"] for r in included(hub.petastorm.in_lambda(["a"], lambda a, least: a > least, 3), rows)] == [4, 5]


def test_intersections_look_into_lists():
    rows = [{"a": np.array([1, 2])}, {"a": np.array([3])}, {"a": None}, {"a": np.array([], int)}]
    assert [bool(hub.petastorm.in_intersection([2, 7], "a").do_include(row)) for row in rows] == [
        True,
        False,
        False,
        False,
    ]


def test_a_pseudorandom_split_is_petastorms_and_covers_everything_once():
    texts = [f"drive-{i}" for i in range(2000)]
    fractions = [0.5, 0.3, 0.2]
    parts = [hub.petastorm.in_pseudorandom_split(fractions, k, "a") for k in range(3)]
    chosen = [[bool(part.do_include({"a": text})) for part in parts] for text in texts]
    assert {sum(item) for item in chosen} == {1}
    assert np.abs(np.mean(chosen, axis=0) - fractions).max() < 0.05

    def petastorms(text):
        return int(hashlib.md5(text.encode()).hexdigest(), 16) % sys.maxsize

    edges = np.cumsum(fractions) * (sys.maxsize - 1)
    assert [int(np.argmax(item)) for item in chosen] == [
        int(np.searchsorted(edges, petastorms(t), "right")) for t in texts
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: hub.petastorm.in_lambda("a", bool),
        lambda: hub.petastorm.in_negate(bool),
        lambda: hub.petastorm.in_reduce([bool], all),
        lambda: hub.petastorm.in_pseudorandom_split([0.5, 0.6], 0, "a"),
        lambda: hub.petastorm.in_pseudorandom_split([0.5], 1, "a"),
        lambda: hub.petastorm.in_pseudorandom_split([-0.5, 0.5], 1, "a"),
    ],
)
def test_wrong_predicates_are_refused(make):
    with pytest.raises(ConfigError):
        make()
