"""Cells that are seen as one array, and those that are decoded one by one, give the same."""

import io

import numpy as np
import pyarrow as pa
import pytest

import hubarray as hub
from hubarray.limits import Budget
from hubarray.readers.parquet.cells import decoded, placed

FIELD = hub.petastorm.UnischemaField("x", np.float32, (2, 3), hub.petastorm.NdarrayCodec())
BUDGET = Budget(1 << 30, "it")


def npy(value, **options):
    out = io.BytesIO()
    np.save(out, value, **options)
    return out.getvalue()


VALUES = [np.arange(6, dtype="f4").reshape(2, 3) + i for i in range(5)]


def test_cells_alike_are_one_array_that_sees_them():
    column = pa.chunked_array([[npy(value) for value in VALUES]], pa.binary())
    result = decoded(FIELD, column, BUDGET)
    assert np.array_equal(result, VALUES)
    assert not result.flags.owndata
    assert np.array_equal(decoded(FIELD, column.slice(2, 2), BUDGET), VALUES[2:4])


@pytest.mark.parametrize(
    "cells",
    [
        [npy(VALUES[0]), npy(np.asfortranarray(VALUES[1]))],
        [npy(VALUES[0]), None],
        [npy(np.asfortranarray(VALUES[0])), npy(np.asfortranarray(VALUES[1]))],
    ],
)
def test_cells_of_other_kinds_are_decoded_one_by_one(cells):
    result = decoded(FIELD, pa.chunked_array([cells], pa.binary()), BUDGET)
    for value, expected, cell in zip(result, VALUES, cells, strict=False):
        assert value is None if cell is None else np.array_equal(value, expected)


def test_a_cell_of_another_dtype_among_them_is_an_error():
    cells = [npy(VALUES[0]), npy(VALUES[1].astype("i4"))]
    with pytest.raises(hub.errors.SourceError, match="'x'"):
        decoded(FIELD, pa.chunked_array([cells], pa.binary()), BUDGET)


def test_values_go_to_their_places_in_an_array_or_a_list():
    first = placed([], np.array([1, 2]), np.array([3, 0]), 4)
    assert placed(first, np.array([7, 8]), np.array([1, 2]), 4).tolist() == [2, 7, 8, 1]
    half = placed([], np.array([1, 2]), np.array([3, 0]), 4)
    assert placed(half, ["a", None], np.array([1, 2]), 4) == [2, "a", None, 1]
    assert placed([], ["a", "b"], np.array([1, 0]), 2) == ["b", "a"]
