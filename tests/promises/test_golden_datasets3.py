"""Packed descriptions, text and encoded images that were written once, kept for ever."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub

GOLDEN = Path(__file__).parents[1] / "golden" / "datasets3"


@pytest.fixture
def root(tmp_path):
    shutil.copytree(GOLDEN / "bucket", tmp_path / "bucket")
    return hub.Root(tmp_path / "bucket")


@pytest.fixture
def expected():
    return json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("codec", ["auto", "none", "zstd", "gzip", "lz4", "blosc-zstd"])
def test_text_reads_as_it_was_written_through_every_codec(root, expected, codec):
    assert hub.load(f"lab/text-{codec}:v1", root=root)[...].tolist() == expected["texts"]


def test_encoded_images_read_as_they_were_written(root):
    assert np.array_equal(hub.load("lab/image:v1", root=root)[...].reshape(-1), np.arange(432, dtype="u1"))


def test_a_packed_description_is_read_and_written_on(root, expected):
    record = (GOLDEN / "bucket" / "lab/many/log/v1/0000000000000003.json").read_bytes()
    assert record.startswith(b'{"hubarray":3')
    ds = hub.load("lab/many:v1", root=root)
    assert ds["text"][:].tolist() == expected["of many"]
    assert [ds[f"number {i}"][:, 1].tolist() for i in (0, 150, 299)] == expected["numbers"]
    ds.resize(sample=13)
    ds["text"][12] = "written on"
    assert hub.load("lab/many:v1", root=root)["text"][12] == "written on"
    assert hub.verify("lab/many", root=root).problems == []
