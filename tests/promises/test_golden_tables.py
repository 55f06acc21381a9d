"""Tables that past formats wrote, kept for ever: every version has to read them, and write on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from tests.golden import make_tables3
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
    rows = {name: [{key: value_of(item) for key, item in row.items()} for row in some] for name, some in told.items()}
    return hub.Root(tmp_path / "bucket"), rows


def test_there_is_a_golden_bucket_of_tables():
    assert {"tables2", "tables3"} <= {path.name for path in FORMATS}


def test_every_table_reads_as_it_was_written_and_is_whole(golden):
    root, expected = golden
    assert [name for name in hub.list(root=root) if name != "lab/long:v1"] == sorted(expected)
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


@pytest.fixture
def later(tmp_path):
    shutil.copytree(Path(__file__).parents[1] / "golden" / "tables3" / "bucket", tmp_path / "bucket")
    return hub.Root(tmp_path / "bucket")


def test_rows_of_several_slabs_and_blocks_read_as_they_were_written(later):
    table = hub.load("lab/long:v1", root=later)
    assert len(table) == make_tables3.LONG_ROWS
    columns = table.loader().get_columns(range(len(table)))
    for name, expected in make_tables3.long_columns().items():
        assert np.array_equal(columns[name], expected), name
    some = hub.read_index("lab/long:v1", filters=[("i", ">=", 131_070), ("i", "<", 131_074)], root=later)
    window = hub.row_loader(some, later).get_rows(2, offsets=range(-3, 2))
    assert [row["i"] for row in window] == list(range(131_069, 131_074))
    assert hub.verify("lab/long", root=later).problems == []


def test_images_are_stored_as_they_were_and_parts_that_waited_are_published(later):
    first = hub.load("lab/first:v1", root=later)
    photo, mask = (first.loader().get_row(2, name, encoded=True)[name] for name in ("photo", "mask"))
    assert photo[:2] == b"\xff\xd8"
    assert mask[:4] == b"\x89PNG"
    with hub.table_writer("lab/resumed:v1", first.schema, resume=True, root=later) as w:
        assert "a" in w
        with w.partition("b") as p:
            p.extend(first[:9])
    assert hub.diff("lab/first:v1", "lab/resumed:v1", root=later).same


def test_a_long_description_is_packed(later):
    record = json.loads(bytes(later.store.get("lab/wide/log/v1/0000000000000001.json")))
    assert record["hubarray"] == 3
    assert "table" not in record
    assert len(hub.load("lab/wide:v1", root=later).schema) == 900
