import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.ref import REF, homes, new_id
from hubarray.history.records import record as module
from hubarray.history.records.head import FORMATS, HEAD_READ_BYTES, Head, decode_head
from hubarray.history.records.manifest import NodeRef, TreeRoot
from hubarray.history.records.overlay import EMPTY_OVERLAY
from hubarray.history.records.record import Changed, Record, decode, encode, runs_of
from hubarray.names import parse

NAME = parse("lab/scans:v1")


def _record(message="a message", entries=3, runs=((0, 5), (9, 1))):
    refs = np.zeros(entries, REF)
    refs["length"] = np.arange(entries) + 1
    refs["home"] = homes.index("lab/scans")
    refs["home"][::2] = homes.index("other/home")
    head = Head(
        "lab",
        "scans",
        "v1",
        7,
        "1" * 32,
        "2" * 32,
        "3" * 32,
        "array",
        "2026-11-21T00:00:00.000000+00:00",
        "me",
        message=message,
        parent="ab" * 32,
        source="x/y:v0@3",
    )
    return Record(
        head=head,
        described={
            "shape": [1, 2, 3],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 2, 1]}},
        },
        attrs={"unit": "µm", "nested": [1, {"a": None}]},
        grid=(2, 3),
        manifest=TreeRoot(NodeRef("lab/scans", new_id(), 100, bytes(range(16))), 2),
        overlay=EMPTY_OVERLAY.merged(np.arange(entries, dtype=np.uint64), refs),
        homes=("lab/scans", "other/home"),
        changed=Changed(runs=runs),
    )


def test_a_record_reads_back_whole():
    data, record = encode(_record())
    again = decode(data, NAME, 7, "where")
    assert again.head == record.head
    assert again.digest == record.digest
    for field in ("description", "attrs", "grid", "manifest", "homes", "changed"):
        assert getattr(again, field) == getattr(record, field)
    assert again.overlay.numbers.tolist() == record.overlay.numbers.tolist()
    assert again.overlay.refs.tobytes() == record.overlay.refs.tobytes()
    assert json.loads(data)["hubarray"] == 1
    assert json.loads(data)["array"] == record.description


def test_a_tables_description_is_found_under_its_kind():
    record = _record()
    data, _ = encode(replace(record, head=replace(record.head, kind="table"), described={"rows": 3}))
    assert json.loads(data)["table"] == {"rows": 3}
    assert "array" not in json.loads(data)
    assert decode(data, NAME, 7, "where").description == {"rows": 3}


@settings(max_examples=200)
@given(st.data())
def test_any_flipped_bit_is_noticed(data):
    raw, _ = encode(_record())
    place = data.draw(st.integers(0, len(raw) * 8 - 1))
    altered = bytearray(raw)
    altered[place // 8] ^= 1 << place % 8
    with pytest.raises((hub.errors.CorruptDataError, hub.errors.FormatVersionError)):
        decode(bytes(altered), NAME, 7, "where")


@given(st.integers(0, 2000))
def test_any_truncation_is_noticed(length):
    raw, _ = encode(_record())
    with pytest.raises(hub.errors.CorruptDataError):
        decode(raw[: min(length, len(raw) - 1)], NAME, 7, "where")


def test_a_record_in_the_wrong_place_is_noticed():
    raw, _ = encode(_record())
    with pytest.raises(hub.errors.CorruptDataError, match="lab/scans:v1@7"):
        decode(raw, NAME, 8, "where")
    with pytest.raises(hub.errors.CorruptDataError, match="lab/scans:v1@7"):
        decode(raw, parse("lab/scans:v2"), 7, "where")


def test_a_newer_format_says_to_upgrade():
    raw, _ = encode(_record())
    newer = raw.replace(b'{"hubarray":1', b'{"hubarray":%d' % (max(FORMATS) + 1), 1)
    for read in (decode, decode_head):
        with pytest.raises(hub.errors.FormatVersionError, match="upgrade"):
            read(newer, NAME, 7, "where")


def test_the_head_is_in_the_first_kilobyte_and_knows_its_own_hash():
    raw, record = encode(_record(entries=256))
    start = raw[:HEAD_READ_BYTES]
    assert decode_head(start, NAME, 7, "where") == record.head
    altered = start.replace(b"a message", b"a massage")
    with pytest.raises(hub.errors.CorruptDataError, match="head"):
        decode_head(altered, NAME, 7, "where")


def test_a_head_with_a_long_message_asks_for_more():
    raw, _ = encode(_record(message="x" * 5000))
    assert decode_head(raw[:HEAD_READ_BYTES], NAME, 7, "where") is None


def test_the_largest_record_is_under_a_mebibyte():
    runs = tuple((i * 10**12, 10**6) for i in range(module.MAX_CHANGED_RUNS))
    record = _record(message="é" * (module.MAX_MESSAGE_BYTES // 2), entries=256, runs=runs)
    attrs = {"k": "x" * (module.MAX_ATTRS_BYTES - 100)}
    data, _ = encode(module.replace(record, attrs=attrs))
    assert len(data) < module.MAX_RECORD_BYTES


def test_a_description_too_large_for_a_record_is_refused():
    fields = [(f"{'field' * 20}{i}", "f8") for i in range(90_000)]
    with pytest.raises(hub.errors.ConfigError, match="fewer fields"):
        hub.array(3, "t/x", fields)
    assert not hub.exists("t/x")


@given(st.sets(st.integers(0, 200)))
def test_runs_are_the_numbers_again(numbers):
    runs = runs_of(np.array(sorted(numbers), np.uint64))
    assert [n for first, count in runs for n in range(first, first + count)] == sorted(numbers)
    assert all(a + n < b for (a, n), (b, _) in itertools.pairwise(runs))
