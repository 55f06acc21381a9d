"""Partitions: rows go in, blocks come out where their locations say, and what is refused changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.fetch import fetcher_for
from hubarray.blobs.pack import PackWriter
from hubarray.errors import ConfigError
from hubarray.tables.format import chunk_file
from hubarray.tables.format.block import Block, is_intact
from hubarray.tables.format.block_encoding import digest
from hubarray.tables.format.field_values import checked
from hubarray.tables.format.locations import rows_in_blocks
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.write import group_writer, partition
from hubarray.tables.write.partition import PartitionWriter
from tests.tables import strategies


def written(root, schema, rows, key="a"):
    packs = PackWriter(root.store, "lab/drives")
    writer = PartitionWriter(schema, key, packs)
    for row in rows:
        writer.append(row)
    part = writer.close()
    packs.finish()
    return part


def read_again(root, schema, part):
    """Every row of a part, by its locations alone."""
    files = fetcher_for(root).blobs(part.chunk_files)
    rows = [dict() for _ in range(part.rows)]  # noqa: C408
    for name, group in schema.groups.items():
        within = rows_in_blocks(part.locations[name]).tolist()
        for row, location, number in zip(rows, part.locations[name], within, strict=True):
            fields = [field for field, _ in group.fields]
            if not location["length"]:
                row.update(dict.fromkeys(fields))
                continue
            begin = int(location["offset"])
            data = files[int(location["chunk"])][begin : begin + int(location["length"])]
            assert is_intact(data, check=int(location["check"]))
            row.update(Block(group, data, "there").row(number, fields))
    return rows


@st.composite
def tables(draw):
    fields = {
        f"{draw(st.sampled_from(['a', 'b', 'c']))}.{i}": field
        for i, field in enumerate(draw(st.lists(strategies.fields(), min_size=1, max_size=5)))
    }
    fields = {
        name: Field(
            field.kind if field.dtype is None else field.dtype, field.shape, codec=field.codec, nullable=field.nullable
        )
        for name, field in fields.items()
    }
    groups = sorted({name[0] for name in fields})
    schema = Schema(fields, rows_per_block={group: draw(st.sampled_from([1, 4])) for group in groups})
    rows = draw(st.integers(0, 9))
    return schema, [{name: draw(strategies.values(schema[name])) for name in schema} for _ in range(rows)]


@settings(max_examples=150)
@given(tables())
def test_every_row_is_where_its_locations_say(make_root, made):
    schema, rows = made
    root = make_root("memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_file, "CHUNK_FILE_BYTES", 200)
        part = written(root, schema, rows)
    assert part.rows == len(rows)
    for row, result in zip(rows, read_again(root, schema, part), strict=True):
        assert all(strategies.same(value, result[name]) for name, value in row.items())
    used = {int(item) for result in part.locations.values() for item in result["chunk"][result["length"] > 0]}
    assert used == set(range(len(part.chunk_files)))


def test_the_same_rows_are_cut_alike_whatever_else_is_written(root):
    schema = Schema({"x": Field("u1", (None,)), "y": Field("f4"), "z": Field(str, index=True)})
    rng = np.random.default_rng(0)
    rows = [{"x": rng.integers(0, 9, rng.integers(1, 4 << 20), "u1"), "y": i, "z": str(i)} for i in range(30)]
    first, second = (written(root, schema, rows, key) for key in ("a", "b"))
    assert {name: result.tobytes() for name, result in first.locations.items()} == {
        name: result.tobytes() for name, result in second.locations.items()
    }
    assert first.index.equals(second.index)
    assert first.chunk_files["length"].tolist() == second.chunk_files["length"].tolist()
    assert first.chunk_files["hash"].tobytes() == second.chunk_files["hash"].tobytes()


def test_open_chunk_files_are_bounded_by_closing_the_fullest(root, monkeypatch):
    monkeypatch.setattr(partition, "OPEN_BYTES", 1000)
    schema = Schema(
        {f"g{i}.x": Field("u1", (100 * (i + 1),)) for i in range(4)}, rows_per_block={f"g{i}": 1 for i in range(4)}
    )
    packs = PackWriter(root.store, "lab/drives")
    writer = PartitionWriter(schema, "a", packs)
    for i in range(20):
        writer.append({f"g{g}.x": np.full(100 * (g + 1), i, "u1") for g in range(4)})
        assert sum(group.open_bytes for group in writer._groups.values()) <= 1000
    part = writer.close()
    packs.finish()
    rows = read_again(root, schema, part)
    assert all((rows[i][f"g{g}.x"] == i).all() for i in range(20) for g in range(4))


SCHEMA = Schema({"x": Field("u1", (2,)), "y": Field(str, nullable=True), "t": Field("M8[us]", index=True)})
ROW = {"x": [1, 2], "y": "a", "t": np.datetime64("2026-11-23", "us")}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"x": [1, 2, 3]}, "field 'x': has the shape"),
        ({"x": None}, "field 'x': is None"),
        ({"y": 7}, "field 'y': is an int"),
        ({"z": 1}, "has 'z', which the schema does not know"),
        ({"t": None}, "field 't': is None"),
    ],
)
def test_a_row_that_is_refused_changes_nothing_and_is_named(root, change, why):
    packs = PackWriter(root.store, "lab/drives")
    writer = PartitionWriter(SCHEMA, "drive 7", packs)
    writer.append(ROW)
    with pytest.raises(ConfigError, match=f"partition 'drive 7', row 1.*{why}"):
        writer.append(ROW | change)
    with pytest.raises(ConfigError, match="row 1: has no 'x'"):
        writer.append({name: value for name, value in ROW.items() if name != "x"})
    with pytest.raises(ConfigError, match="row 1: is a list"):
        writer.append([1])
    writer.append({name: value for name, value in ROW.items() if name != "y"})
    part = writer.close()
    packs.finish()
    assert part.rows == 2
    assert len(part.index) == 2
    assert [row["y"] for row in read_again(root, SCHEMA, part)] == ["a", None]


def test_digests_are_those_of_the_blocks(root):
    schema = Schema({"x": Field("u1", (2,))}, rows_per_block={"rest": 2})
    rows = [{"x": np.full(2, i, "u1")} for i in range(3)]
    part = written(root, schema, rows)
    (group,) = schema.groups.values()
    expected = [digest(group, {"x": [checked(schema["x"], row["x"]) for row in some]}) for some in (rows[:2], rows[2:])]
    assert [item.tobytes() for item in part.digests["rest"]] == expected


def test_rows_of_nothing_but_nulls_take_no_block(root):
    schema = Schema({"a.x": Field("u1", (None,), nullable=True), "b.y": Field("f4")})
    part = written(root, schema, [{"a.x": None, "b.y": 1}, {"a.x": [1], "b.y": 2}])
    assert part.locations["a"]["length"].tolist()[0] == 0
    assert [row["a.x"] is None for row in read_again(root, schema, part)] == [True, False]


def test_a_partition_without_rows_is_a_part_without_chunk_files(root):
    part = written(root, SCHEMA, [])
    assert (part.rows, len(part.chunk_files), len(part.index)) == (0, 0, 0)
    assert hub.list(root=root) == []


def test_what_the_caller_does_to_an_array_afterwards_is_not_stored(root):
    given = np.ones(2, "u1")
    packs = PackWriter(root.store, "lab/drives")
    writer = PartitionWriter(SCHEMA, "a", packs)
    writer.append(ROW | {"x": given})
    given[:] = 9
    part = writer.close()
    packs.finish()
    assert read_again(root, SCHEMA, part)[0]["x"].tolist() == [1, 1]


def test_after_a_row_that_failed_on_its_way_nothing_of_the_partition_is_to_be_had(root, monkeypatch):
    monkeypatch.setattr(group_writer, "MAX_BLOCK_BYTES", 100)
    schema = Schema({"a.x": Field("u1", (None,)), "b.y": Field("u1", (None,))})
    writer = PartitionWriter(schema, "a", PackWriter(root.store, "lab/drives"))
    writer.append({"a.x": np.zeros(1, "u1"), "b.y": np.zeros(1, "u1")})
    with pytest.raises(ConfigError, match="row 1: group 'b' takes"):
        writer.append({"a.x": np.zeros(1, "u1"), "b.y": np.zeros(200, "u1")})
    for use in (writer.close, lambda: writer.append({"a.x": np.zeros(1, "u1"), "b.y": np.zeros(1, "u1")})):
        with pytest.raises(hub.HubError, match="row 1 failed"):
            use()


@settings(max_examples=150)
@given(tables(), st.data())
def test_columns_are_cut_and_stored_as_their_rows_one_by_one(make_root, made, data):
    schema, rows = made
    root = make_root("memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_file, "CHUNK_FILE_BYTES", 200)
        patch.setattr(partition, "OPEN_BYTES", 500)
        expected = written(root, schema, rows)
        packs = PackWriter(root.store, "lab/drives")
        writer = PartitionWriter(schema, "a", packs)
        done = 0
        while done < len(rows):
            count = data.draw(st.integers(1, len(rows) - done))
            if count == 1 and data.draw(st.booleans()):
                writer.append(rows[done])
            else:
                writer.extend(
                    {name: column_of(schema[name], rows[done : done + count], name) for name in schema}, count
                )
            done += count
        part = writer.close()
        packs.finish()
    assert part.digest(schema) == expected.digest(schema)
    assert {name: result.tobytes() for name, result in part.locations.items()} == {
        name: result.tobytes() for name, result in expected.locations.items()
    }
    assert part.chunk_files["hash"].tobytes() == expected.chunk_files["hash"].tobytes()


def column_of(field, rows, name):
    """The values of a column as one array, where they can be."""
    values = [row[name] for row in rows]
    if field.dtype is None or field.ragged or any(value is None for value in values):
        return values
    return np.array(values, field.dtype).reshape(len(values), *field.shape)


def test_of_columns_with_a_refused_row_those_before_it_are_there(root):
    packs = PackWriter(root.store, "lab/drives")
    writer = PartitionWriter(SCHEMA, "a", packs)
    column = {"x": np.ones((4, 2), "u1"), "y": ["a", "b", 3, "d"], "t": np.arange(4).astype("M8[us]")}
    with pytest.raises(ConfigError, match="partition 'a', row 2, field 'y': is an int"):
        writer.extend(column, 4)
    assert writer.rows == 2
    part = writer.close()
    packs.finish()
    assert [row["y"] for row in read_again(root, SCHEMA, part)] == ["a", "b"]
