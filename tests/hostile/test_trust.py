"""What is near a process and not ours: the current folder, files in the cache, other roots, names from files."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray import errors
from hubarray.arrays.handle import snapshot_of
from hubarray.blobs.disk_cache import DiskCache
from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.record import Changed, decode, encode
from hubarray.tables.read import known_roots
from tests.hostile.child import assert_refused

HOSTILE_MODULES = (
    "hubarray/__init__.py", "hubarray/readers/pipeline/worker_process.py", "numpy.py", "tempfile.py", "json.py", "socket.py", "struct.py",
    "pyarrow.py", "pickle.py", "math.py", "traceback.py",
)  # fmt: skip
TRAIN = """
import sys
import hubarray as hub
from beside import twice

def plus(row):
    row["id"] = twice(row["id"]) + 1
    return row

if __name__ == "__main__":
    spec = hub.TransformSpec(plus)
    options = {"reader_pool_type": "process", "workers_count": 1, "shuffle_row_groups": False}
    with hub.make_reader(sys.argv[1], transform_spec=spec, **options) as reader:
        print([int(row.id) for row in reader])
    with hub.make_reader(sys.argv[1], filters=[("id", "<", 2)]) as reader:
        print([int(row.id) for row in reader])
"""


@pytest.fixture
def hostile_folder(tmp_path):
    """A folder with a dataset in it, and modules that tell when they are imported."""
    folder, marker = tmp_path / "data", tmp_path / "marker"
    for name in HOSTILE_MODULES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(marker)!r}, 'a').write(__file__ + chr(10))\n")
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet", row_group_size=1)
    return folder, marker


@pytest.mark.parametrize("relative", [False, True])
def test_none_of_our_processes_imports_from_the_current_folder(tmp_path, hostile_folder, relative):
    folder, marker = hostile_folder
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(TRAIN)
    (scripts / "beside.py").write_text("def twice(x):\n    return 2 * x\n")
    script = os.path.relpath(scripts / "train.py", folder) if relative else scripts / "train.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if relative:
        environment["PYTHONPATH"] = os.path.relpath(scripts, folder)
    child = subprocess.run(
        [sys.executable, "-P", str(script), str(folder)] if relative else [sys.executable, str(script), str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert child.stdout.split("\n")[:2] == ["[3, 5, 7]", "[1]"], child.stderr
    assert not marker.exists(), marker.read_text()


def test_a_file_of_the_cache_that_is_longer_than_any_is_not_read(tmp_path):
    disk = DiskCache(str(tmp_path / "cache"), 1 << 20)
    disk.put("key", b"bytes")
    assert disk.get("key") == b"bytes"
    os.truncate(disk.path("key"), 1 << 40)
    assert disk.get("key") is None


def test_a_node_of_changed_chunks_lies_under_a_home_that_the_record_lists(root):
    a = hub.array(4, "t/x:v1", dtype="int64", root=root)
    a[:] = 1
    record = snapshot_of(a).record
    node = NodeRef("t/x", "0" * 32, 16, bytes(16))
    there = replace(record, changed=Changed(node=node))
    assert decode(encode(there)[0], record.name, record.head.number, "it").changed.node == node
    elsewhere = replace(record, changed=Changed(node=replace(node, home="somebody/else")))
    with pytest.raises(hub.errors.CorruptDataError, match="a home that the record does not list"):
        decode(encode(elsewhere)[0], record.name, record.head.number, "it")


def test_a_commit_that_was_seen_under_two_roots_asks_for_root(tmp_path):
    schema = hub.Schema({"i": hub.Field("int64", index=True), "x": hub.Field("int64")})
    with hub.table_writer("t/a:v1", schema, root=tmp_path / "ours") as w, w.partition("p") as p:
        p.extend({"i": i, "x": i} for i in range(5))
    index = hub.read_index("t/a:v1", root=tmp_path / "ours")
    assert hub.row_loader(index).get_row(3)["x"] == 3
    hub.transfer("t/a:v1", tmp_path / "theirs", root=tmp_path / "ours")
    hub.read_index("t/a:v1", root=tmp_path / "theirs")
    with pytest.raises(hub.errors.ConfigError, match=r"two roots.*pass root="):
        hub.row_loader(index).get_row(3)
    with pytest.raises(hub.errors.ConfigError, match="two roots"):
        next(iter(hub.make_reader(index)))
    assert hub.row_loader(index, root=tmp_path / "ours").get_row(3)["x"] == 3


def test_a_root_is_one_root_however_it_is_spelled(tmp_path):
    from hubarray.storage.url import resolve

    known_roots.note("an id", resolve(str(tmp_path)))
    known_roots.note("an id", resolve(f"file://{tmp_path}"))
    assert known_roots.of("an id").path == str(tmp_path)


def test_folders_that_links_lead_to_by_more_paths_than_can_be_walked_are_refused(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "x.parquet")
    for i in range(40):
        (folder / f"L{i}").mkdir()
    pq.write_table(pa.table({"id": [2]}), folder / "L39" / "y.parquet")
    for i in range(39):
        for name in "abc":
            (folder / f"L{i}" / name).symlink_to(folder / f"L{i + 1}")
    assert_refused("next(iter(hub.make_reader(sys.argv[1])))", folder, match="by more than 64 paths")


NAMES = [
    "(a+)+$",
    "a" * 60 + "!",
    "speed [m/s]",
    "speed [m/s",
    "*",
    "+x",
    "a.b",
    "a",
    "\\",
    "",
    "x\x07\u202e",
    "\x1b[2J",
]


def test_a_column_is_its_name_whatever_is_in_it(tmp_path):
    table = pa.table({name: [i] for i, name in enumerate(NAMES)})
    pq.write_table(table, tmp_path / "a.parquet")
    with hub.make_batch_reader(str(tmp_path)) as reader:
        assert [int(column[0]) for column in next(iter(reader))] == list(range(len(NAMES)))
    for i, name in enumerate(NAMES):
        with hub.make_batch_reader(str(tmp_path), [name]) as reader:
            (column,) = next(iter(reader))
            assert column.tolist() == [i], name
    with hub.make_batch_reader(str(tmp_path), ["spe.*"]) as reader:
        assert len(next(iter(reader))) == 2


CONTROL = ("\x07", "\u202e", "\x1b", "\x00", "\u2028", "\r", "\n")


@pytest.mark.parametrize("name", [item for item in vars(errors).values()
                                  if isinstance(item, type) and issubclass(item, hub.HubError)],
                         ids=lambda one: one.__name__)  # fmt: skip
def test_no_error_speaks_to_a_terminal(name):
    told = str(name("a name: " + "".join(CONTROL)))
    assert not [item for item in CONTROL if item in told]


def test_no_schema_speaks_to_a_terminal(tmp_path):
    named = {"x" + item: [1] for item in CONTROL}
    pq.write_table(pa.table(named), tmp_path / "a.parquet")
    with hub.make_batch_reader(str(tmp_path)) as reader:
        shown = repr(reader.schema)
    assert not [item for item in CONTROL[:-1] if item in shown]
    assert shown.count("\n") == len(CONTROL)


def test_a_pattern_that_takes_without_end_is_only_ever_the_callers_own(tmp_path):
    pq.write_table(pa.table({"(a+)+$": [1], "a" * 60 + "!": [2]}), tmp_path / "a.parquet")
    work = "next(iter(hub.make_reader(sys.argv[1]))); raise hub.errors.ConfigError('it was read')"
    assert_refused(textwrap.dedent(work), tmp_path, match="it was read")
