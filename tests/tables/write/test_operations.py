"""Parts become rows by one commit, and every row is read again, on every kind of root."""

import numpy as np
import pytest

from hubarray.blobs.pack import PackWriter
from hubarray.errors import ConflictError, CorruptDataError
from hubarray.history.commits.commit import commit, create_version
from hubarray.history.log.probes import store_now
from hubarray.history.log.version import version_of
from hubarray.names import parse
from hubarray.tables.format import locations
from hubarray.tables.format.part import TablePart
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.read.row_fetch import RowRequest, read, values_into
from hubarray.tables.snapshot.snapshot import TableSnapshot
from hubarray.tables.write.operations import AddParts, creation
from hubarray.tables.write.partition import PartitionWriter
from tests.tables import strategies

SCHEMA = Schema(
    {
        "camera.image": Field("u1", (None, 4)),
        "speed": Field("f4", nullable=True),
        "note": Field(str, codec="zstd"),
        "time": Field("i8", index=True),
    }
)


def rows_of(key, count):
    return [
        {
            "camera.image": np.full((i % 5, 4), i, "u1"),
            "speed": None if i % 4 == 0 else np.float32(i),
            "note": f"{key} {i}",
            "time": i,
        }
        for i in range(count)
    ]


def part_of(root, writer, packs):
    """What a partition's writer hands to the driver."""
    began, file = store_now(root.store), writer.close()
    return TablePart(file.key, file.rows, file.digest(SCHEMA), began, packs.add(file.encode(SCHEMA, "lab/drives")))


def row_of(table, number, groups):
    """One row's stored fields of some groups."""
    out = [dict()]  # noqa: C408
    chosen = [table.metadata.schema.groups[name] for name in groups]
    for group in chosen:
        out[0].update(dict.fromkeys(name for name, _ in group.fields))
    numbers = np.array([number])
    read(
        [
            RowRequest(
                table,
                group,
                numbers,
                values_into(out, [name for name, _ in group.fields], [name for name, _ in group.fields], group),
            )
            for group in chosen
        ]
    )
    return out[0]


def table_with(root, parts):
    """A table, and commits that add partitions: a mapping of key to rows each."""
    version = version_of(root, parse("lab/drives:v1"))
    draft = creation(SCHEMA, str, attrs={"from": "a test"}, message="begin")
    record, _ = create_version(version, draft, base=None, message=None)
    for some in parts:
        packs = PackWriter(root.store, version.name.home)
        written = []
        for key, rows in some.items():
            writer = PartitionWriter(SCHEMA, key, packs)
            for row in rows:
                writer.append(row)
            written.append(part_of(root, writer, packs))
        packs.finish()
        record = commit(version, AddParts(written), base=record, packs=packs)
    return TableSnapshot.of(version, record)


def stored(row):
    return {name: value for name, value in row.items() if name != "time"}


def test_every_row_is_read_as_it_was_written(any_root, monkeypatch):
    monkeypatch.setattr(locations, "SLAB_ROWS", 7)
    monkeypatch.setattr("hubarray.tables.format.metadata.SLAB_ROWS", 7)
    commits = [{"b": rows_of("b", 9), "a": rows_of("a", 12)}, {"A": rows_of("A", 3)}]
    table = table_with(any_root, commits)
    expected = [row for some in commits for key in sorted(some) for row in some[key]]
    assert table.metadata.rows == len(expected) == 24
    for number, row in enumerate(expected):
        result = row_of(table, number, list(SCHEMA.groups))
        assert result.keys() == stored(row).keys()
        assert all(strategies.same(value, result[name]) for name, value in stored(row).items())
    times = [
        time
        for append in table.metadata.appends
        for slab in range(append.slabs)
        for time in table.index(append, slab)["time"].to_pylist()
    ]
    assert times == [row["time"] for row in expected]
    assert [table.partitions(append).to_pydict() for append in table.metadata.appends] == [
        {"partition": ["a", "b"], "first_row": [0, 12], "rows": [12, 9]},
        {"partition": ["A"], "first_row": [0], "rows": [3]},
    ]


def test_a_row_costs_one_request_a_group_and_one_more_at_the_first_touch(s3_root, forget):
    table = table_with(s3_root, [{"a": rows_of("a", 50)}])
    forget()
    table = TableSnapshot.of(table.version, table.record)
    before = s3_root.store.stats.requests
    row_of(table, 7, ["camera"])
    assert s3_root.store.stats.requests - before == 2
    row_of(table, 8, ["camera"])
    assert s3_root.store.stats.requests - before == 3


def test_a_partition_that_comes_twice_is_a_conflict_and_changes_nothing(root):
    table = table_with(root, [{"a": rows_of("a", 2)}])
    packs = PackWriter(root.store, "lab/drives")
    parts = [part_of(root, PartitionWriter(SCHEMA, "b", packs), packs) for _ in range(2)]
    with pytest.raises(ConflictError, match="'b' was written twice"):
        commit(table.version, AddParts(parts), base=table.record, packs=packs)
    assert TableSnapshot.of(table.version, table.version.refresh()).metadata == table.metadata


def test_a_partition_that_is_there_already_with_other_rows_is_a_conflict_whoever_committed_it(root):
    table = table_with(root, [{"a": rows_of("a", 2)}])

    def add(key, count=0):
        packs = PackWriter(root.store, "lab/drives")
        writer = PartitionWriter(SCHEMA, key, packs)
        for row in rows_of(key, count):
            writer.append(row)
        part = part_of(root, writer, packs)
        packs.finish()
        # The base is always the first one, as of a writer who has not seen the others.
        commit(table.version, AddParts([part]), base=table.record, packs=packs)

    add("b")
    add("c")
    add("b")
    with pytest.raises(ConflictError, match="'b' is there already, with other rows"):
        add("b", 2)
    result = TableSnapshot.of(table.version, table.version.refresh())
    keys = [result.partitions(append)["partition"].to_pylist() for append in result.metadata.appends]
    assert keys == [["a"], ["b"], ["c"]]


def test_damage_to_a_block_is_found_and_named(root):
    table = table_with(root, [{"a": rows_of("a", 9)}])
    for pack in (root.store.folder / "lab/drives/packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[50] ^= 1
        pack.write_bytes(data)
    again = TableSnapshot.of(table.version, table.record)
    with pytest.raises(CorruptDataError, match=r"lab/drives/packs/[0-9a-f]{32}"):
        [row_of(again, row, list(SCHEMA.groups)) for row in range(9)]
