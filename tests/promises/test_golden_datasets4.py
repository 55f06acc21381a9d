"""A description that is a node, written once and kept for ever."""

import json
import shutil
from pathlib import Path

import pytest

import hubarray as hub

GOLDEN = Path(__file__).parents[1] / "golden" / "datasets4"


@pytest.fixture
def root(tmp_path):
    shutil.copytree(GOLDEN / "bucket", tmp_path / "bucket")
    return hub.Root(tmp_path / "bucket")


def _record(number):
    return (GOLDEN / "bucket" / f"lab/many/log/v1/{number:016d}.json").read_bytes()


def test_the_bucket_has_what_it_is_kept_for():
    assert all(_record(number).startswith(b'{"hubarray":4') for number in (2, 3))
    first, second = (json.loads(_record(number))["dataset_node"] for number in (2, 3))
    assert first == second


def test_a_description_in_a_node_is_read_and_written_on(root):
    expected = json.loads((GOLDEN / "expected.json").read_text())
    for name in ("lab/many:v1", "lab/copy:v1"):
        ds = hub.load(name, root=root)
        assert len(ds) == 2500
        assert {array: ds[array][:].tolist() for array in expected} == expected
    assert len(hub.load("lab/many:v1@1", root=root)["number 3"]) == 0
    ds.resize(sample=3)
    ds["number 3"][2] = 9
    assert hub.load("lab/copy:v1", root=root)["number 3"][:].tolist() == [3, 3, 9]
    for name in ("lab/many", "lab/copy"):
        assert hub.verify(name, root=root).problems == []
