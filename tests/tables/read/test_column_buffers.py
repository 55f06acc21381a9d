"""Blocks that are put where their values belong: the very values that a block has, or none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.ref import blob_hash
from hubarray.errors import CorruptDataError
from hubarray.tables.format.block import HASH_BYTES, Block
from hubarray.tables.format.block_encoding import encode
from hubarray.tables.format.field_values import checked
from hubarray.tables.format.schema import Field, Schema
from hubarray.tables.read import column_buffers, row_reads

CODECS = st.sampled_from([None, "blosc", "zstd", "lz4"])


@st.composite
def blocks(draw):
    """A group of fields of one size, some of them large, and a row of random or of equal values."""
    fields = {}
    row = {}
    for i in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(["u1", "<f4", ">i2", "?", "M8[s]"]))
        shape = draw(st.sampled_from([(), (3,), (3001,), (130, 131)]))
        fields[f"f{i}"] = Field(dtype, shape, codec=draw(CODECS), group="g")
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data = np.random.default_rng(i).integers(0, 2, size, "u1") if dtype == "?" else np.frombuffer(
            np.random.default_rng(i).bytes(size), "u1")  # fmt: skip
        if draw(st.booleans()):
            data = np.ones(size, "u1")
        row[f"f{i}"] = data.view(dtype).reshape(shape)
    schema = Schema(fields, rows_per_block={"g": 1})
    (group,) = schema.groups.values()
    values = {name: [checked(field, row[name])] for name, field in group.fields}
    return group, b"".join(encode(group, values)), row


def columns_of(group):
    out = {name: np.zeros((4, *field.shape), field.dtype) for name, field in group.fields}
    filled = {name: np.zeros(4, bool) for name in out}
    return out, filled, column_buffers.places(group, out, list(out), list(out), filled)


def put(group, data, *, by_pieces):
    """The columns, or None where the block was left to others."""
    out, filled, places = columns_of(group)
    if not by_pieces:
        return out if places.put(2, data) and all(item[2] and item.sum() == 1 for item in filled.values()) else None
    pieces = places.buffers(2, len(data))
    if pieces is None:
        return None
    assert sum(map(len, pieces)) == len(data)
    begin = 0
    for piece in pieces:
        piece[:] = data[begin : begin + len(piece)]
        begin += len(piece)
    return out if places.are_final(pieces) else None


@settings(max_examples=200)
@given(blocks())
def test_values_are_put_into_their_row_and_nowhere_else(made):
    group, data, row = made
    result = put(group, data, by_pieces=False)
    read = put(group, data, by_pieces=True)
    for out in [result] if read is None else [result, read]:
        for name, value in row.items():
            assert out[name][2].tobytes() == value.astype(out[name].dtype).tobytes()
            assert not out[name][[0, 1, 3]].view("u1").any()


@settings(max_examples=200)
@given(blocks(), st.booleans(), st.data())
def test_a_forged_block_is_put_only_where_it_is_one(made, by_pieces, data):
    group, encoded, _ = made
    body = bytearray(encoded[HASH_BYTES:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body) - 1, 60)))] = data.draw(st.integers(0, 255))
    forged = bytes(body[: data.draw(st.just(len(body)) | st.integers(0, len(body)))])
    whole = blob_hash(forged) + forged
    out = put(group, whole, by_pieces=by_pieces)
    if out is not None:
        block = Block(group, whole, "there")
        assert block.rows == 1
        for name, _ in group.fields:
            assert out[name][2].tobytes() == np.asarray(block.column(name)[0]).tobytes()


@pytest.fixture
def table(root):
    schema = hub.Schema({
        "n": hub.Field("i8", index=True), "noise.a": hub.Field("u1", (300, 200), codec="blosc"),
        "noise.b": hub.Field("f4"), "zeros": hub.Field("f4", (100, 100), codec="zstd"), "plain": hub.Field("i2", (9000,)),
    })  # fmt: skip
    with hub.table_writer("t/x:v1", schema, root=root) as w, w.partition("a") as p:
        for n in range(30):
            noise = np.random.default_rng(n).integers(0, 256, (300, 200), "u1")
            p.append({
                "n": n, "noise.a": noise, "noise.b": np.float32(n), "zeros": np.full((100, 100), n, "f4"),
                "plain": np.full(9000, n, "i2"),
            })  # fmt: skip
    return hub.load("t/x:v1", root=root)


@pytest.mark.parametrize("rows", [[3], [5, 1, 5, 29], list(range(30)), [29, 28, 0]])
def test_columns_are_those_that_blocks_taken_apart_give(table, rows, monkeypatch):
    result = table.loader().get_columns(rows)
    monkeypatch.setattr(row_reads, "places_of", lambda *_: None)
    for name, values in table.loader().get_columns(rows).items():
        np.testing.assert_array_equal(result[name], values)
    assert result["plain"][0, 0] == rows[0]


def test_one_field_of_a_group_and_the_group_whole_are_equal(table):
    loader_ = table.loader()
    whole = loader_.get_columns([4, 2], "noise.*")
    np.testing.assert_array_equal(loader_.get_columns([4, 2], "noise.a")["noise.a"], whole["noise.a"])
    np.testing.assert_array_equal(whole["noise.b"], np.array([4, 2], "f4"))


@pytest.mark.parametrize("field", ["noise.a", "zeros", "plain"])
def test_damage_is_an_error_and_no_values(table, root, field):
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
    for item in list(root.store.list("t/x/packs/")):
        data = bytearray(root.store.get(item.key))
        data[:] = bytes(byte ^ 1 for byte in data)
        root.store.delete([item.key])
        root.store.put(item.key, bytes(data))
    with pytest.raises(CorruptDataError):
        table.loader().get_columns([3, 7], field)
