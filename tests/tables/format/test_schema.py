"""Schemas: what a field may be, which group it is in, and what a bucket may say of them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.errors import ConfigError, CorruptDataError, FormatVersionError
from hubarray.history.records.json_fields import Fields
from hubarray.tables.format.schema import Field, Schema


def again(schema):
    return Schema.from_json(Fields(json.loads(json.dumps(schema.to_json())), "the record", "schema"))


DRIVE = {
    "log_id": Field(str, index=True),
    "time": Field("datetime64[ns]", index=True),
    "speed": Field("f4", nullable=True),
    "pose": Field("f8", (4, 4)),
    "label": Field("u1", index=True, group="labels"),
    "cloud": Field("f4", (None, 4), codec="lz4"),
    "raw": Field(bytes),
    "big": Field("f4", (64, 64)),
    "camera.image": Field("u1", (None, None, 3), codec="jpeg", group=["camera", "preview"]),
    "camera.exposure": Field("f4"),
}


def test_fields_go_into_the_groups_that_they_name_or_that_their_name_says():
    schema = Schema(DRIVE)
    assert {name: [field for field, _ in group.fields] for name, group in schema.groups.items()} == {
        "rest": ["speed", "pose"],
        "labels": ["label"],
        "cloud": ["cloud"],
        "raw": ["raw"],
        "big": ["big"],
        "camera": ["camera.image", "camera.exposure"],
        "preview": ["camera.image"],
    }
    assert schema.index == ("log_id", "time", "label")
    assert schema.groups_of("log_id") == ()


def test_small_rows_share_a_block_of_about_32_kib_and_large_or_ragged_ones_have_their_own():
    rows = {name: group.rows_per_block for name, group in Schema(DRIVE).groups.items()}
    assert rows == {"rest": 128, "labels": 32768, "cloud": 1, "raw": 1, "big": 1, "camera": 1, "preview": 1}
    assert Schema({"x": Field("u1", (1 << 14,))}).groups["x"].rows_per_block == 1
    assert Schema({"x": Field("u1", (1 << 12,))}).groups["rest"].rows_per_block == 8
    assert Schema(DRIVE, rows_per_block={"cloud": 64}).groups["cloud"].rows_per_block == 64


def test_a_schema_is_the_same_when_it_is_read_again():
    schema = Schema(DRIVE, rows_per_block={"cloud": 64})
    assert again(schema) == schema
    assert list(again(schema)) == list(DRIVE)
    assert again(schema).groups == schema.groups


@given(
    st.sampled_from(["u1", "i8", "f2", "c16", "?", "M8[us]", "U5", "S3", str, bytes]),
    st.lists(st.none() | st.integers(1, 99), max_size=3),
    st.sampled_from([None, "lz4", "zstd", "blosc", {"name": "zstd", "configuration": {"level": 9}}]),
    st.sampled_from([None, "g", ["g", "h"]]),
    st.booleans(),
)
def test_a_field_is_the_same_when_it_is_read_again(dtype, shape, codec, group, nullable):
    shape = [] if dtype in (str, bytes) else shape
    schema = Schema({"x.y": Field(dtype, shape, codec=codec, group=group, nullable=nullable)})
    assert again(schema) == schema


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": object},
        {"dtype": "f4", "shape": (0,)},
        {"dtype": "f4", "shape": (-1,)},
        {"dtype": "f4", "shape": (True,)},
        {"dtype": "f4", "shape": 3},
        {"dtype": "f4", "shape": "ab"},
        {"dtype": str, "shape": (3,)},
        {"dtype": "f4", "codec": "bzip2"},
        {"dtype": "f4", "codec": {"name": "zstd", "level": 3}},
        {"dtype": "f4", "codec": {"name": "zstd", "configuration": {"level": 99}}},
        {"dtype": "f4", "codec": {"name": "blosc", "configuration": {}}},
        {"dtype": "f4", "codec": "jpeg"},
        {"dtype": "u1", "shape": (None,), "codec": "jpeg"},
        {"dtype": "u1", "shape": (None, None, 4), "codec": "jpeg"},
        {"dtype": "u1", "shape": (8, 8), "codec": {"name": "jpeg", "quality": 101}},
        {"dtype": "u1", "shape": (8, 8), "codec": {"name": "png", "level": 1}},
        {"dtype": "f4", "shape": (3,), "index": True},
        {"dtype": "c16", "index": True},
        {"dtype": "f4", "index": "yes"},
        {"dtype": "f4", "group": ["a", "a"]},
        {"dtype": "f4", "group": "a*"},
        {"dtype": "f4", "group": ""},
    ],
    ids=str,
)
def test_what_cannot_be_a_field_is_refused(arguments):
    with pytest.raises(ConfigError):
        Field(**arguments)


@pytest.mark.parametrize("name", ["", " x", "x\n", "x[0]", "a*", "a" * 257, 7, "\x1b[2J"])
def test_what_cannot_be_a_name_is_refused(name):
    with pytest.raises(ConfigError, match="field"):
        Schema({name: Field("f4")})


@pytest.mark.parametrize(
    ("fields", "rows"),
    [({}, None), ({"x": "f4"}, None), ({"x": Field("f4")}, {"y": 1}), ({"x": Field("f4")}, {"rest": 3})],
)
def test_what_cannot_be_a_schema_is_refused(fields, rows):
    with pytest.raises(ConfigError):
        Schema(fields, rows_per_block=rows)


def _changed(path, value):
    described = Schema(DRIVE).to_json()
    target = described
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return described


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["fields"], {}),
        (["fields"], []),
        (["fields", 0], 7),
        (["fields", 0, "name"], "time"),
        (["fields", 0, "name"], "a\x1bb"),
        (["fields", 0, "dtype"], {"name": "structured", "configuration": {"fields": 3}}),
        (["fields", 0, "index"], 1),
        (["fields", 0, "more"], 1),
        (["fields", 3, "shape"], [4, -4]),
        (["fields", 3, "shape"], [1] * 33),
        (["fields", 3, "shape"], "44"),
        (["fields", 5, "codec"], {"name": "lz4", "configuration": {"acceleration": "x"}}),
        (["fields", 5, "codec"], []),
        (["fields", 8, "groups"], [1]),
        (["rows_per_block"], {}),
        (["rows_per_block", "rest"], 3),
        (["rows_per_block", "rest"], 1 << 20),
        (["rows_per_block", "more"], 1),
        (["more"], 1),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_is_corrupt_data(path, value):
    with pytest.raises(CorruptDataError, match="the record"):
        Schema.from_json(Fields(_changed(path, value), "the record", "schema"))


def test_a_type_of_a_newer_version_says_to_upgrade():
    with pytest.raises(FormatVersionError, match="upgrade"):
        Schema.from_json(Fields(_changed(["fields", 2, "dtype"], "float128x"), "the record", "schema"))


def test_fields_show_what_they_are():
    assert repr(DRIVE["cloud"]).startswith("Field('float32', (None, 4), codec={'name': 'numcodecs.lz4'")
    assert "'speed': Field('float32', nullable=True)" in repr(Schema(DRIVE))
    assert Schema(DRIVE)["pose"].dtype == np.dtype("f8")


def test_rows_per_block_may_be_one_number_for_all_groups():
    schema = Schema({"a": Field("i4"), "b.c": Field("f8", (3,))}, rows_per_block=64)
    assert {name: group.rows_per_block for name, group in schema.groups.items()} == {"rest": 64, "b": 64}
    with pytest.raises(ConfigError, match="not a power of two"):
        Schema({"a": Field("i4")}, rows_per_block=3)
