"""Blocks: what goes in comes out, and what a bucket may have made of them is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubarray.blobs.ref import blob_hash
from hubarray.errors import ConfigError, CorruptDataError
from hubarray.tables.format.block import HASH_BYTES, Block, check_of, is_intact
from hubarray.tables.format.block_encoding import digest, encode, image_of
from hubarray.tables.format.field_values import checked
from hubarray.tables.format.schema import Field, Schema
from tests.tables import strategies


def block_of(schema, rows):
    (group,) = schema.groups.values()
    columns = {name: [checked(field, row[name]) for row in rows] for name, field in group.fields}
    pieces = encode(group, columns)
    return group, b"".join(pieces), check_of(pieces)


@st.composite
def filled(draw):
    fields = draw(st.lists(strategies.fields(), min_size=1, max_size=4))
    schema = Schema({f"f{i}": field for i, field in enumerate(fields)}, rows_per_block={"g": 4})
    count = draw(st.integers(1, 4))
    rows = [{name: draw(strategies.values(schema[name])) for name in schema} for _ in range(count)]
    return schema, rows


@settings(max_examples=400)
@given(filled())
def test_every_value_comes_out_as_it_went_in(made):
    schema, rows = made
    group, data, check = block_of(schema, rows)
    assert is_intact(data, check=check)
    block = Block(group, data, "there")
    assert block.rows == len(rows)
    for i, row in enumerate(rows):
        result = block.row(i, list(schema))
        assert list(result) == list(schema)
        for name, value in row.items():
            assert strategies.same(value, result[name]), name
    for name in schema:
        column = block.column(name)
        assert all(strategies.same(row[name], result) for row, result in zip(rows, column, strict=True))


@settings(max_examples=300)
@given(filled(), st.data())
def test_whatever_stands_behind_a_right_hash_is_a_value_or_a_clear_error(made, data):
    schema, rows = made
    group, encoded, _ = block_of(schema, rows)
    body = bytearray(encoded[HASH_BYTES:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(body)) | st.integers(0, len(body)))
    forged = bytes(body[:cut])
    try:
        block = Block(group, blob_hash(forged) + forged, "pack 7, bytes 0 to 99")
        for i in range(block.rows):
            block.row(i, list(schema))
    except CorruptDataError as error:
        assert "pack 7" in str(error)


@given(filled(), st.data())
def test_a_changed_byte_and_a_block_of_another_place_are_found(made, data):
    schema, rows = made
    _, encoded, check = block_of(schema, rows)
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not is_intact(damaged, check=check)
    assert not is_intact(encoded[:-1], check=check)
    assert not is_intact(b"", check=check)
    assert not is_intact(encoded, check=check ^ 1)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "blosc"])
def test_a_block_that_says_it_holds_a_gibibyte_takes_no_gibibyte(codec):
    schema = Schema({"x": Field("u1", (None,), codec=codec)})
    group, encoded, _ = block_of(schema, [{"x": np.zeros(100, "u1")}])
    for length in (1 << 29, (1 << 30) + 1, (1 << 32) - 1):
        forged = bytearray(encoded[HASH_BYTES:])
        forged[8:12] = length.to_bytes(4, "little")
        with pytest.raises(CorruptDataError, match="bytes"):
            Block(group, blob_hash(forged) + forged, "there").row(0, ["x"])


def test_dimensions_whose_product_overflows_are_refused():
    schema = Schema({"x": Field("u1", (None,) * 4)})
    group, encoded, _ = block_of(schema, [{"x": np.zeros((1, 1, 1, 1), "u1")}])
    forged = bytearray(encoded[HASH_BYTES:])
    forged[4:20] = (1 << 16).to_bytes(4, "little") * 4
    with pytest.raises(CorruptDataError, match="more than"):
        Block(group, blob_hash(forged) + forged, "there")


@pytest.mark.parametrize("codec", ["png", {"name": "jpeg", "quality": 100}])
def test_images_are_stored_encoded_and_come_out_as_elements(codec):
    rows, columns = np.ogrid[:64, :48]
    image = np.stack([rows + columns, 2 * rows + 0 * columns, 255 - rows - columns], -1).astype("u1")
    schema = Schema({"x": Field("u1", (None, None, 3), codec=codec, nullable=True)}, rows_per_block={"x": 2})
    group, encoded, _ = block_of(schema, [{"x": None}, {"x": image}])
    block = Block(group, encoded, "there")
    assert block.row(0, ["x"]) == {"x": None}
    result = block.row(1, ["x"])["x"]
    assert result.shape == image.shape
    assert len(encoded) < image.nbytes
    assert np.abs(result.astype(int) - image).max() <= (0 if codec == "png" else 8)


def test_an_image_of_another_size_than_its_block_says_is_refused_before_it_is_decoded():
    schema = Schema({"x": Field("u1", (None, None), codec="png")})
    group, encoded, _ = block_of(schema, [{"x": np.zeros((20, 30), "u1")}])
    forged = bytearray(encoded[HASH_BYTES:])
    forged[4:8] = (21).to_bytes(4, "little")
    with pytest.raises(CorruptDataError, match="of shape"):
        Block(group, blob_hash(forged) + forged, "there").row(0, ["x"])


def test_a_scan_of_small_rows_is_a_vector_without_a_copy():
    schema = Schema({"x": Field("f4", (2,)), "y": Field("i8")})
    rows = [{"x": np.full(2, i, "f4"), "y": i} for i in range(1000)]
    group, encoded, _ = block_of(schema, rows)
    block = Block(group, encoded, "there")
    column = block.column("y")
    assert np.array_equal(column, np.arange(1000))
    assert np.shares_memory(column, np.frombuffer(encoded, "u1"))
    assert len(encoded) <= 1000 * 16 + 40


@given(filled(), st.data())
def test_equal_values_have_equal_digests_and_others_have_not(made, data):
    schema, rows = made
    (group,) = schema.groups.values()

    def digest_of(some):
        return digest(group, {name: [checked(field, row[name]) for row in some] for name, field in group.fields})

    assert digest_of(rows) == digest_of(rows)
    assert len(digest_of(rows)) == 16
    name = data.draw(st.sampled_from(list(schema)))
    other = {**rows[0], name: data.draw(strategies.values(schema[name]))}
    alike = strategies.same(other[name], rows[0][name])
    assert (digest_of([other, *rows[1:]]) == digest_of(rows)) == alike


def test_a_digest_depends_on_types_and_codecs_and_not_on_names():
    def digest_of(name, field):
        (group,) = Schema({name: field}, rows_per_block={"g": 1}).groups.values()
        return digest(group, {name: [np.zeros((2,), "u1")]})

    plain = digest_of("x", Field("u1", (2,), group="g"))
    assert digest_of("y", Field("u1", (2,), group="g")) == plain
    assert digest_of("x", Field("u1", (None,), group="g")) != plain
    assert digest_of("x", Field("u1", (2,), group="g", codec="lz4")) != plain


def test_an_image_that_came_encoded_is_another_value_than_its_elements():
    field = Field("u1", (None, None), codec="png")
    (group,) = Schema({"x": field}).groups.values()
    elements = np.zeros((4, 4), "u1")
    encoded = image_of(field, elements)
    assert digest(group, {"x": [elements]}) != digest(group, {"x": [encoded]})
    assert digest(group, {"x": [encoded]}) == digest(group, {"x": [checked(field, encoded.data)]})


def test_a_row_that_the_block_has_not_is_refused():
    group, encoded, _ = block_of(Schema({"x": Field("f4")}), [{"x": 1.0}, {"x": 2.0}])
    for row in (-1, 2, 7):
        with pytest.raises(CorruptDataError, match=f"of row {row}"):
            Block(group, encoded, "there").row(row, ["x"])


def test_text_beyond_unicode_is_refused_on_both_ways():
    schema = Schema({"x": Field("U1")})
    forged = np.array([0x110000], "u4").view("U1")
    with pytest.raises(ConfigError, match="code points"):
        checked(schema["x"], forged[0:1].reshape(()))
    group, encoded, _ = block_of(schema, [{"x": "a"}])
    body = encoded[HASH_BYTES:].replace("a".encode("utf-32-le"), forged.tobytes())
    with pytest.raises(CorruptDataError, match="code points"):
        Block(group, blob_hash(body) + body, "there").row(0, ["x"])


def test_a_digest_does_not_depend_on_how_options_are_ordered():
    options = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0, "typesize": 1}
    digests = set()
    for configuration in (options, dict(reversed(options.items()))):
        field = Field("u1", (2,), codec={"name": "blosc", "configuration": configuration})
        (group,) = Schema({"x": field}).groups.values()
        digests.add(digest(group, {"x": [np.zeros(2, "u1")]}))
    assert len(digests) == 1
