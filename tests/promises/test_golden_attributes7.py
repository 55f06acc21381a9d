"""The golden bucket of format 7: attributes that are NaN or infinite, and NaT in an index."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub

GOLDEN = Path(__file__).parents[1] / "golden" / "attributes7"


@pytest.fixture
def root(tmp_path):
    shutil.copytree(GOLDEN / "bucket", tmp_path / "bucket")
    return hub.Root(tmp_path / "bucket")


def _are_right(attrs):
    assert math.isnan(attrs["nan"])
    assert attrs["text"] == "NaN"
    assert attrs["range"] == [0.5, math.inf, {"low": -math.inf}]


def test_attributes_read_as_they_were_written(root):
    _are_right(hub.load("lab/array:v1@3", root=root).attrs)
    ds = hub.load("lab/dataset:v1", root=root)
    _are_right(ds.attrs)
    _are_right(ds["x"].attrs)
    _are_right(hub.load("lab/table:v1", root=root).attrs)


def test_records_that_need_the_format_say_it_and_no_others(root):
    numbers = [json.loads(bytes(root.store.get(f"lab/array/log/v1/{i:016}.json")))["hubarray"] for i in range(1, 6)]
    assert numbers == [1, 7, 7, 7, 1]


def test_a_missing_time_of_an_index_that_is_not_nullable_is_read(root):
    index = hub.read_index("lab/table:v1", root=root)
    assert index["t"].isna().tolist() == [False, True]
    assert hub.read_index("lab/table:v1", filters=[("t", "<", np.datetime64("2025"))], root=root)["i"].tolist() == [0]
    row = hub.row_loader(index, root=root).get_row(1)
    assert np.isnat(row["t"])


def test_writing_goes_on_from_it(root):
    ds = hub.load("lab/dataset:v1", root=root)
    ds.append({"x": [6]})
    ds.attrs["more"] = 1
    again = hub.load("lab/dataset:v1", root=root)
    _are_right(again.attrs)
    _are_right(again["x"].attrs)
    assert again["x"][:].tolist() == [4, 5, 6]
