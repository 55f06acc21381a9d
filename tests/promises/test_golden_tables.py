"""Tables that past formats wrote, kept for ever: every version has to read them, and write on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from tests.tables.rows import assert_rows

FORMATS = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if (path / "rows.json").exists())


def value_of(told):
    if not isinstance(told, dict):
        return told
    if "bytes" in told:
        return bytes.fromhex(told["bytes"])
    return np.frombuffer(bytes.fromhex(told["hex"]), told["dtype"]).reshape(told["shape"])


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def golden(request, tmp_path):
    shutil.copytree(request.param / "bucket", tmp_path / "bucket")
    told = json.loads((request.param / "rows.json").read_text())
    rows = {name: [{key: value_of(one) for key, one in row.items()} for row in some] for name, some in told.items()}
    return hub.Root(tmp_path / "bucket"), rows


def test_there_is_a_golden_bucket_of_tables():
    assert "tables2" in [path.name for path in FORMATS]


def test_every_table_reads_as_it_was_written_and_is_whole(golden):
    root, expected = golden
    assert hub.list(root=root) == sorted(expected)
    for name, rows in expected.items():
        table = hub.load(name, root=root)
        assert_rows(table[:], rows)
        assert hub.verify(name.partition(":")[0], root=root).problems == []
        index = table.index()
        assert_rows(hub.row_loader(index.iloc[::-1], root).get_batch([0]), rows[-1:])


def test_writing_goes_on_from_it(golden):
    root, expected = golden
    with hub.table_writer("lab/grown:v1", root=root) as w, w.partition(99) as p:
        p.extend(expected["lab/grown:v1"][:2])
    assert_rows(hub.load("lab/grown:v1", root=root)[:], [*expected["lab/grown:v1"], *expected["lab/grown:v1"][:2]])
    schema = hub.load("lab/first:v1", root=root).schema
    with hub.table_writer("lab/third:v1", schema, reference="lab/first:v1", root=root) as w:
        for i, key in enumerate("ab"):
            with w.partition(key) as p:
                p.extend(expected["lab/first:v1"][9 * i : 9 * i + 9])
    assert hub.diff("lab/first:v1", "lab/third:v1", root=root).same
    assert hub.du("lab/third:v1", root=root).shared > 0
