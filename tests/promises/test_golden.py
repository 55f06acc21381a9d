"""Buckets that past formats wrote, kept for ever: every version has to read them, and write on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub

FORMATS = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if (path / "expected.npz").exists())


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def golden(request, tmp_path):
    shutil.copytree(request.param / "bucket", tmp_path / "bucket")
    with np.load(request.param / "expected.npz") as file:
        expected = {name.replace("|", "/"): file[name] for name in file.files}
    return hub.Root(tmp_path / "bucket"), expected


def test_there_is_a_golden_bucket_of_format_1():
    assert "format1" in [path.name for path in FORMATS]


def test_every_array_reads_as_it_was_written(golden):
    root, expected = golden
    for name, value in expected.items():
        read = hub.load(name, root=root)[...]
        assert read.dtype == value.dtype
        assert read.shape == value.shape
        assert read.tobytes() == value.tobytes(), name
    assert hub.list(root=root) == sorted(name for name in expected if "@" not in name)


def test_the_history_reads_as_it_was_written(golden):
    root, _ = golden
    commits = list(hub.log("history/many:v0", root=root))
    assert [commit.number for commit in commits] == list(range(34, 0, -1))
    assert commits[-1].message == "begin"
    assert {commit.author for commit in commits} == {"golden"}
    assert next(hub.log("history/gone:v0", root=root)).kind == "deleted"
    assert [commit.source for commit in hub.log("elsewhere/copy:v1", root=root)][-1] == "history/many:v0@34"
    assert dict(hub.load("history/many:v0", root=root).attrs) == {"unit": "mm"}
    with pytest.raises(hub.errors.FrozenError):
        hub.load("elsewhere/copy:v1", root=root)[0] = 1


def test_writing_goes_on_from_it(golden):
    root, expected = golden
    array = hub.load("history/many:v0", root=root)
    array[5] = 77
    array.append(np.full((2, 2), 3))
    wanted = np.concatenate([expected["history/many:v0"], np.full((2, 2), 3, "u1")])
    wanted[5] = 77
    assert np.array_equal(array[...], wanted)


def test_a_node_or_record_written_today_has_the_same_shape(golden, tmp_path):
    from tests.golden.make import main

    root, _ = golden
    (tmp_path / "today").mkdir()
    main(tmp_path / "today")
    today = hub.Root(tmp_path / "today" / "bucket")
    import json

    for key in ("history/many/log/v0/0000000000000034.json", "elsewhere/copy/log/v1/0000000000000001.json"):
        old, new = (json.loads(bytes(item.store.get(key))) for item in (root, today))
        assert list(old) == list(new)
        assert list(old["head"]) == list(new["head"])
        assert old["array"] == new["array"]
        for field in ("hubarray", "numbering_grid", "changed", "attrs", "homes", "overlay_homes"):
            assert old[field] == new[field]
        assert len(old["overlay"]) == len(new["overlay"])
