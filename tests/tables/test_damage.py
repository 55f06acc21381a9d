"""Damage is told as partition, group and rows."""

import pathlib
import re

import pytest

import hubarray as hub
from tests.tables import rows as model

SCHEMA = hub.Schema(
    {"n": hub.Field("i8", index=True), "a": hub.Field(bytes), "b": hub.Field("f4")}, rows_per_block={"rest": 4}
)


def made(root):
    result = {
        key: [{"n": i, "a": f"<{key}{i:02}>".encode() * 5, "b": float(i)} for i in range(10)] for key in ("x", "y")
    }
    return model.write("me/t:v1", result, root, SCHEMA)


def files(root):
    # The hint of the newest commit is written after the commit, by a thread.
    hub.flush()
    return sorted(path for path in pathlib.Path(root.url.removeprefix("file://")).rglob("*") if path.is_file())


def change(path, at):
    """Flip one bit."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_flipped_bit_harms_the_rows_of_its_block_and_no_others(root):
    made(root)
    for needle in (b"<y03>", b"<y04>"):
        (path,) = (file for file in files(root) if needle in file.read_bytes())
        change(path, path.read_bytes().index(needle))
    report = hub.verify("me/t:v1", root=root)
    assert len(report.problems) == 1
    assert report.affected == ["me/t:v1: partition 'y', group 'a', rows 3 to 4"]


def test_a_lost_pack_harms_all_rows_of_its_groups(root):
    made(root)
    for path in files(root):
        if b"<x00>" in path.read_bytes():
            path.unlink()
    report = hub.verify("me/t:v1", data=False, root=root)
    assert "me/t:v1: partition 'x', group 'a', rows 0 to 9" in report.affected


def test_packs_that_changed_places_are_found_by_their_blocks_and_never_read_as_each_other(root):
    made(root)
    paths = [path for path in files(root) if any(f"<{key}00>".encode() in path.read_bytes() for key in "xy")]
    first, second = (path.read_bytes() for path in paths)
    for path, data in zip(paths, (second, first), strict=True):
        path.chmod(0o644)
        path.write_bytes(data)
    hub.configure(memory_cache_bytes=0, disk_cache_bytes=0)
    table = hub.load("me/t:v1", root=root)
    for row in range(20):
        with pytest.raises(hub.errors.CorruptDataError):
            table[row]
    affected = hub.verify("me/t:v1", root=root).affected
    for key in "xy":
        assert f"me/t:v1: partition {key!r}, group 'a', rows 0 to 9" in affected


def test_a_damaged_piece_of_the_index_is_told_by_its_rows(root):
    made(root)
    for path in files(root):
        # The index and the list of partitions begin as every Parquet file does.
        for result in list(re.finditer(b"PAR1\x15", path.read_bytes())):
            change(path, result.start() + 20)
    assert hub.verify("me/t:v1", root=root).affected == [
        "me/t:v1: the list of partitions",
        "me/t:v1: the index of rows 0 to 19",
    ]
