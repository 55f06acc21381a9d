"""Long descriptions are packed, and what strangers packed is looked at before it is unpacked."""

import base64
import json
import zlib
from dataclasses import replace

import blake3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.history.records import packed_descriptions
from hubarray.history.records.json_fields import Fields
from hubarray.history.records.packed_descriptions import PACKED_FROM_BYTES, pack, unpack
from hubarray.history.records.record import MAX_RECORD_BYTES, decode, encode
from tests.history.records.test_record import NAME, _record

DESCRIPTIONS = st.dictionaries(
    st.text(max_size=9), st.lists(st.integers() | st.text(max_size=9), max_size=9), max_size=9
)


@given(description=DESCRIPTIONS)
def test_a_description_comes_back(description):
    assert unpack(Fields({"x": pack(json.dumps(description))}, "here"), "x") == description


def packed(data):
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "value",
    [
        "", "no base64!", base64.b64encode(b"no stream").decode(), packed(b"{}")[:-6], packed(b"[]"), packed(b"{"),
        packed(b'{"a":NaN}'), packed(b"\xff"), 7, None,
        base64.b64encode(zlib.compress(b"{}") + b"more").decode(),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_packed_object_is_one_error_that_names_the_field(value):
    with pytest.raises(hub.errors.CorruptDataError, match=r"here.*x"):
        unpack(Fields({"x": value}, "here"), "x")


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(packed_descriptions, "MAX_DESCRIPTION_BYTES", 1000)
    with pytest.raises(hub.errors.CorruptDataError, match="more than the 1,000 bytes"):
        unpack(Fields({"x": packed(b"{" + b" " * 10_000_000 + b"}")}, "here"), "x")


def test_a_description_of_too_many_values_is_refused_before_it_is_parsed():
    bomb = b'{"a":[' + b"[[[[[]]]]]," * 200_000 + b"[]]}"
    with pytest.raises(hub.errors.CorruptDataError, match="more than 600,000 values"):
        unpack(Fields({"x": packed(bomb)}, "here"), "x")


def test_only_a_long_description_is_packed_and_only_its_record_says_format_3():
    for letters, number in ((100, b"1"), (PACKED_FROM_BYTES, b"3")):
        description = {"shape": [], "fields": "x" * letters}
        data, record = encode(replace(_record(), described=description))
        assert data.startswith(b'{"hubarray":' + number)
        assert decode(data, NAME, 7, "where").description == record.description == description


def test_a_record_with_both_descriptions_is_refused():
    data, _ = encode(replace(_record(), described={"x": "y" * PACKED_FROM_BYTES}))
    text = data[: data.rindex(b'"blake3"')].replace(b',\n"array_zlib"', b',\n"array":{},"array_zlib"', 1)
    both = text + b'"blake3":"' + blake3.blake3(text).hexdigest().encode() + b'"}\n'
    with pytest.raises(hub.errors.CorruptDataError, match="beside 'array'"):
        decode(both, NAME, 7, "where")


def test_a_thousand_arrays_are_a_record_of_some_kilobytes(root):
    specs = {f"a{i}": hub.ArraySpec((0, 3), "f4", dims=("sample", None), attrs={"n": i}) for i in range(1000)}
    ds = hub.dataset(specs, "t/x:v0", root=root)
    ds.append({name: np.full((2, 3), i) for i, name in enumerate(specs)})
    assert hub.load("t/x:v0", root=root)["a999"][1, 0] == 999
    length = root.store.head("t/x/log/v0/0000000000000002.json").size_bytes
    assert length < MAX_RECORD_BYTES // 12
    hub.copy("t/x:v0", "t/copy:v0", root=root)
    assert hub.verify("t/copy:v0", root=root).problems == []
    hub.collect_garbage("t/x", root=root)
    assert hub.load("t/copy:v0", root=root)["a7"][0, 0] == 7
