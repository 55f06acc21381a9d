"""The command line on tables: every command that takes one, and what those say that do not."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.blobs.ref import blob_place
from hubarray.cli.main import main
from tests.damage import damage

SCHEMA = hub.Schema(
    {
        "t": hub.Field("i8", index=True), "camera.image": hub.Field("u1", (None, 3)), "speed": hub.Field("f4"),
    }
)  # fmt: skip


def rows(key, base=0.0, count=4):
    first = 10 * ord(key) % 200
    return [
        {"t": first + i, "camera.image": np.full((i + 200, 3), first + i, "u1"), "speed": base + first + i}
        for i in range(count)
    ]


def write(name, root, base=0.0, **options):
    with hub.table_writer(name, SCHEMA, root=root, **options) as w:
        for key in ("a", "b"):
            with w.partition(key) as p:
                p.extend(rows(key, base))


@pytest.fixture
def shell(root, capsys):
    """Runs a command on a root that has two versions of a table; gives its output, or its errors."""
    write("lab/drives:v1", root, message="the first drives")
    write("lab/drives:v2", root, base=0.5, reference="lab/drives:v1")

    def run(*arguments, code=0):
        command, *rest = arguments
        result = main([command, "--root", root.url, *rest])
        captured = capsys.readouterr()
        assert result == code, captured
        return captured.out if code in (0, 3) else captured.err

    run.root = root
    return run


def test_a_long_list_says_what_is_a_table(shell):
    hub.array(3, "lab/scans:v1", root=shell.root)
    lines = [line.split() for line in shell("ls", "-l").splitlines()]
    assert ["lab/drives:v1", "table", "8", "rows", "3", "fields", "1", "frozen"] in lines
    assert any(line[:2] == ["lab/scans:v1", "array"] for line in lines)


def test_info_has_a_line_for_each_field(shell):
    lines = shell("info", "lab/drives:v1").splitlines()
    assert "  camera.image  uint8 [?, 3] (camera)" in lines
    assert any(line.split() == ["partitions", "2"] for line in lines)
    told = json.loads(shell("info", "lab/drives:v1", "--json"))
    assert (told["kind"], told["rows"], told["frozen"]) == ("table", 8, True)
    assert told["fields"]["t"] == "int64 (index)"


def test_log_shows_the_message_of_the_only_commit(shell):
    (line,) = shell("log", "lab/drives:v1").splitlines()
    assert line.endswith("the first drives")
    assert "8 rows in 2 partitions" in shell("log", "lab/drives:v2")


def test_diff_counts_rows_by_position_or_by_fields_of_the_index(shell):
    for on in ((), ("--on", "t")):
        said = shell("diff", "lab/drives:v1", "lab/drives:v2", *on, code=3)
        assert "0 rows added, 0 rows removed, 8 rows changed" in said
        assert "speed: 8 rows" in said
        assert "camera" not in said
    assert "t" in shell("diff", "lab/drives:v1", "lab/drives:v2", "--on", "speed", code=1)


def test_du_tells_own_shared_and_held_bytes(shell):
    told = json.loads(shell("du", "lab/drives:v2", "--json"))
    assert told["shared"] > told["own"] > 0
    shell("copy", "lab/drives:v2", "team/drives:v1")
    shell("delete", "lab/drives:v1", "--yes")
    shell("delete", "lab/drives:v2", "--yes")
    said = shell("du", "lab/drives:v2")
    assert "own: 0 B" in said
    assert "held: 0 B" not in said
    assert "read by: team/drives" in said


def test_a_table_is_copied_renamed_tagged_and_its_tag_dropped(shell):
    shell("copy", "lab/drives:v1", "team/copy:v1")
    shell("rename", "team/copy:v1", "team/other:v1")
    assert shell("ls", "team").split() == ["team/other:v1"]
    shell("tag", "team/other:v1", "best")
    assert len(hub.load("team/other:v1@best", root=shell.root)) == 8
    shell("untag", "team/other:v1", "best")
    with pytest.raises(hub.errors.NotFoundError):
        hub.load("team/other:v1@best", root=shell.root)


def test_a_growing_table_is_frozen_for_good(shell):
    write("lab/growing:v1", shell.root, growing=True)
    assert "pass --yes" in shell("freeze", "lab/growing:v1", code=1)
    shell("freeze", "lab/growing:v1", "--yes")
    with pytest.raises(hub.errors.FrozenError):
        hub.table_writer("lab/growing:v1", root=shell.root)


def test_a_deleted_table_is_restored_and_old_commits_expire(shell):
    shell("delete", "lab/drives:v1", "--yes")
    assert "lab/drives:v1" not in shell("ls")
    assert "8 rows" in shell("restore", "lab/drives:v1", "1")
    shell("expire", "lab/drives:v1", "--keep", "1", "--yes")
    assert "deleted: 0 packs" in shell("gc", "lab/drives")
    assert len(hub.load("lab/drives:v1", root=shell.root)[:]) == 8


def packs_of(version, root):
    """The packs that a version's blocks are in."""
    state = hub.load(f"lab/drives:{version}", root=root)._state()
    refs = state._refs(np.arange(state.metadata.appends[0].chunk_files, dtype=np.uint64))
    return {blob_place(ref).key for ref in refs}


def test_damage_is_told_as_partition_group_and_rows_and_mended_where_the_bytes_still_are(shell, forget):
    write("lab/drives:v3", shell.root)
    hub.flush()
    forget()
    lost = min(packs_of("v1", shell.root) - packs_of("v3", shell.root))
    damage(shell.root, lost, "deleted")
    said = shell("verify", "lab/drives", "--quick", code=3)
    assert f"{lost}: the pack is missing" in said
    assert re.search("lab/drives:v1: partition '[ab]', group 'camera', rows 0 to 3", said)
    assert lost in shell("repair", "lab/drives")
    assert "all is well" in shell("verify", "lab/drives")


def test_damage_that_nothing_else_holds_is_named_and_the_rest_still_reads(shell, forget):
    hub.flush()
    forget()
    lost = min(packs_of("v2", shell.root) - packs_of("v1", shell.root))
    damage(shell.root, lost, "deleted")
    assert lost in shell("repair", "lab/drives", code=3)
    table = hub.load("lab/drives:v2", root=shell.root)
    assert [len(row["camera.image"]) for row in table.loader().iter_rows("camera.image")] == [200, 201, 202, 203] * 2


def test_a_table_is_sent_to_another_root(shell, make_root):
    other = make_root("local")
    assert "1 commits" in shell("transfer", "lab/drives:v1", other.url)
    assert len(hub.load("lab/drives:v1", root=other)) == 8


def test_a_table_is_exported_as_parquet(shell, tmp_path):
    shell("export", "lab/drives:v1", str(tmp_path / "rows.parquet"), "--columns", "speed")
    assert pq.read_table(tmp_path / "rows.parquet")["speed"].to_pylist() == [
        row["speed"] for key in "ab" for row in rows(key)
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("compact", "lab/drives:v1"), r"is a table; hub.write_index\(index, name, move=True\)"),
        (("merge", "lab/drives:v1", "lab/drives:v2"), "hub.join joins indexes"),
        (("get", "lab/drives:v1"), "hubarray rows"),
        (("export", "lab/drives:v1", "rows.zarr"), "such as rows.parquet"),
        (("undo", "lab/drives:v1"), "delete it instead"),
        (("diff", "lab/drives:v1", "lab/scans:v1"), "two kinds"),
        (("copy", "lab/drives:v1", "lab/scans:v1"), "exists already"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_what_makes_no_sense_for_a_table_says_what_does(shell, tmp_path, monkeypatch, command, why):
    monkeypatch.chdir(tmp_path)
    hub.array(3, "lab/scans:v1", root=shell.root)
    assert re.search(why, shell(*command, code=1))


def test_rows_are_shown(shell):
    lines = shell("rows", "lab/drives:v1").splitlines()
    assert lines[0].split() == ["row", "t", "camera.image", "speed"]
    first = rows("a")[0]["t"]
    assert lines[1].split() == ["0", str(first), "uint8", "of", "200x3", f"{float(first)}"]
    assert len(lines) == 6
    result = json.loads(shell("rows", "lab/drives:v1", "6:", "--columns", "s*", "t", "--json"))
    assert result == [{"row": 6 + i, "t": row["t"], "speed": row["speed"]} for i, row in enumerate(rows("b")[2:])]
    assert [row["row"] for row in json.loads(shell("rows", "lab/drives:v1", "3", "--json"))] == [3]


@pytest.mark.parametrize("asked", ["9", "x", "1:2:0", "", "1:2:3:4", "-9"])
def test_rows_that_are_none_are_refused(shell, asked):
    assert "hubarray rows: " in shell("rows", "lab/drives:v1", asked, code=1)
