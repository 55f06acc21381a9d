"""The guide to deleting for good: what it says is gone is nowhere in the bucket."""

import re
import time
from pathlib import Path

import pytest

import hubarray as hub

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "delete-for-good.md"
GRACE_SECONDS = 6


def _steps():
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def _objects_with(folder, *needles):
    # Hints are written in the background.
    hub.flush()
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(needle in path.read_bytes() for needle in needles)]


@pytest.fixture
def root(tmp_path):
    hub.configure(root=tmp_path / "root")
    return tmp_path / "root"


def test_following_the_guide_erases_a_column_a_row_and_old_elements(root):
    write, drop_column, collect, drop_row, scans = _steps()
    scope = {}
    exec(write, scope)
    assert _objects_with(root, b"face of 7 ")
    exec(drop_column, scope)
    time.sleep(GRACE_SECONDS)
    exec(collect, scope)
    assert not _objects_with(root, *(b"face of %d " % i for i in range(20)))
    assert len(hub.load("lab/visits:v2")) == 20
    exec(drop_row, scope)
    time.sleep(GRACE_SECONDS)
    exec(collect, scope)
    # Index pieces are compressed, so what is there is read instead.
    assert sorted(hub.read_index("lab/visits:v3")["person"]) == sorted(f"person {i}" for i in range(20) if i != 7)
    assert hub.list("lab") == ["lab/visits:v3"]
    with pytest.raises(hub.errors.NotFoundError):
        hub.read_index("lab/visits:v2")
    old = (42).to_bytes(8, "little") * 4
    exec(scans.replace("chunks=4", "chunks=4, codec='none'"), scope)
    time.sleep(GRACE_SECONDS)
    hub.collect_garbage("lab/scans")
    kept = _objects_with(root / "lab" / "scans", old)
    assert hub.load("lab/scans:v2")[:].tolist() == [0] * 4 + [42] * 4
    # The elements that still are 42, and no others.
    assert sum(path.read_bytes().count(old) for path in kept) <= 1


def test_dead_bytes_that_a_version_keeps_alive_are_counted(root):
    write = _steps()[0]
    exec(write, {})
    schema = hub.Schema({"person": hub.Field(str, index=True), "pose": hub.Field("float32", (None,))})
    rows = [{"person": f"person {i}", "pose": [1.0, i]} for i in range(20)]
    with hub.table_writer("lab/visits:v2", schema, reference="lab/visits:v1") as w, w.partition("monday") as p:
        p.extend(rows)
    hub.delete("lab/visits:v1")
    usage = hub.du("lab/visits:v2")
    assert usage.dead > 20 * 2000
    assert usage.own >= usage.dead
