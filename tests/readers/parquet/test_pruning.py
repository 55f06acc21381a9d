"""Filters look at the keys of folders, then at one summary, then at footers, and at no more of them than they must."""

import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import NoDataAvailableError, SourceError
from hubarray.readers.parquet import footers
from hubarray.readers.parquet.footers import metadata


def write_days(folder, *, days=6, with_metadata):
    """A file a day of two row groups, of which ids rise through all."""
    collected = []
    for day in range(days):
        path = folder / f"day={day}" / "part.parquet"
        path.parent.mkdir(parents=True)
        table = pa.table({"id": np.arange(day * 10, day * 10 + 10), "x": np.arange(10.0)})
        item = []
        pq.write_table(table, path, row_group_size=5, metadata_collector=item)
        item[0].set_file_path(f"day={day}/part.parquet")
        collected += item
        os.utime(path, ns=(10**18, 10**18))
    if with_metadata:
        pq.write_metadata(table.schema, folder / "_metadata", metadata_collector=collected)


def ids(folder, **options):
    with hub.make_reader(str(folder), ["id"], shuffle_row_groups=False, **options) as reader:
        return [int(row.id) for row in reader]


def damage(path):
    """Make a footer unreadable, and leave what tells one state of a file from the next."""
    data = path.read_bytes()
    path.write_bytes(data[:-40] + bytes(40))
    os.utime(path, ns=(10**18, 10**18))


def test_a_summary_of_parquet_decides_filters_without_a_look_at_any_file(tmp_path):
    write_days(tmp_path / "d", with_metadata=True)
    for day in range(6):
        if day != 2:
            damage(tmp_path / "d" / f"day={day}" / "part.parquet")
    assert ids(tmp_path / "d", filters=[("id", ">=", 20), ("id", "<", 25)]) == [20, 21, 22, 23, 24]


def test_a_summary_of_other_row_groups_proves_nothing(tmp_path):
    write_days(tmp_path / "d", with_metadata=True)
    path = tmp_path / "d" / "day=3" / "part.parquet"
    pq.write_table(pa.table({"id": np.arange(1000, 1010), "x": np.arange(10.0)}), path, row_group_size=5)
    assert ids(tmp_path / "d", filters=[("id", ">=", 1000)]) == list(range(1000, 1010))
    with pytest.raises(NoDataAvailableError):
        ids(tmp_path / "d", filters=[("id", ">=", 30), ("id", "<", 40)])


def test_keys_of_folders_rule_files_out_before_their_footers_are_read(tmp_path):
    write_days(tmp_path / "d", with_metadata=False)
    ids(tmp_path / "d")
    for file in ("day=0", "day=1", "day=5"):
        damage(tmp_path / "d" / file / "part.parquet")
    metadata._remembered.clear()
    assert ids(tmp_path / "d", filters=[("day", "in", [2, 3, 4]), ("id", "<", 22)]) == [20, 21]
    metadata._remembered.clear()
    assert ids(tmp_path / "d", filters=[[("day", "=", 2)], [("day", "=", 3)]]) == list(range(20, 40))


def test_footers_are_read_once_for_each_state_of_a_file(tmp_path):
    write_days(tmp_path / "d", with_metadata=False)
    expected = [("id", ">=", 30), ("id", "<", 35)]
    assert ids(tmp_path / "d", filters=expected) == list(range(30, 35))
    for day in (0, 1, 2, 4, 5):
        damage(tmp_path / "d" / f"day={day}" / "part.parquet")
    # Neither this process nor another one that shares the disk cache looks again.
    for _ in range(2):
        assert ids(tmp_path / "d", filters=expected) == list(range(30, 35))
        metadata._remembered.clear()
    changed = tmp_path / "d" / "day=4" / "part.parquet"
    os.utime(changed, ns=(10**18 + 10**9, 10**18 + 10**9))
    with pytest.raises(SourceError, match="day=4"):
        ids(tmp_path / "d", filters=expected)


@pytest.mark.parametrize("wanted", [[3, 4, 57], [np.int64(3), 4, 57]])
def test_statistics_decide_sets_of_whole_numbers(tmp_path, wanted):
    write_days(tmp_path / "d", with_metadata=False)
    assert ids(tmp_path / "d", predicate=hub.petastorm.in_set(wanted, "id")) == [3, 4, 57]
    place = {"cache_type": "local-disk", "cache_location": tmp_path / "kept"}
    with hub.make_reader(tmp_path / "d", ["id"], predicate=hub.petastorm.in_set(wanted, "id"), **place) as reader:
        assert len(list(reader)) == 3
        assert reader.diagnostics["cache_misses"] == 2, "row groups that were read"
    # The same rows where statistics are of no use.
    assert ids(tmp_path / "d", predicate=hub.petastorm.in_set([3.0, 4.0, 57.0], "id")) == [3, 4, 57]
    assert ids(tmp_path / "d", predicate=hub.petastorm.in_negate(hub.petastorm.in_set(range(3, 60), "id"))) == [0, 1, 2]


def test_statistics_pass_over_sets_of_text(tmp_path):
    table = pa.table({"name": ["a"] * 5 + ["b"] * 5 + ["c", None] * 3, "id": range(16)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    place = {"cache_type": "local-disk", "cache_location": tmp_path / "kept"}
    with hub.make_reader(tmp_path, ["id"], predicate=hub.petastorm.in_set(["a"], "name"), **place) as reader:
        assert sorted(int(row.id) for row in reader) == list(range(5))
        assert reader.diagnostics["cache_misses"] == 3, "name of two row groups, one of a null, and id of one"
    assert ids(tmp_path, predicate=hub.petastorm.in_set(["c"], "name")) == [10, 12, 14]
    assert ids(tmp_path, predicate=hub.petastorm.in_set(["c", None], "name")) == list(range(10, 16))


def test_footers_are_read_in_parallel(tmp_path, monkeypatch):
    write_days(tmp_path / "d", with_metadata=False)
    met = threading.Barrier(3)

    def slow(*arguments, **options):
        # Three are under way at once, or nobody goes on.
        met.wait(timeout=20)
        return made(*arguments, **options)

    made = footers.footer_of
    monkeypatch.setattr(footers, "footer_of", slow)
    assert len(ids(tmp_path / "d")) == 60
