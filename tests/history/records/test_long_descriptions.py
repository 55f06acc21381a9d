"""Long descriptions are compressed in their record or are nodes of their own, and nothing in them is trusted."""

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
from hubarray.blobs import fetch
from hubarray.blobs.ref import blob_hash, new_id
from hubarray.datasets import description
from hubarray.history.commits import build_record
from hubarray.history.log import version as versions
from hubarray.history.log.hints import hint_writer
from hubarray.history.records import long_descriptions
from hubarray.history.records.json_fields import Fields
from hubarray.history.records.long_descriptions import NODE_FROM_BYTES, PACKED_FROM_BYTES, LongDescription, pack, unpack
from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.record import MAX_RECORD_BYTES, decode, encode
from tests.ageing import age
from tests.damage import DAMAGE
from tests.history.records.test_record import NAME, _record
from tests.promises.test_requests import Counting, _without_hints

DS = "t/x:v0"


@pytest.fixture
def short(monkeypatch):
    """Descriptions of any length are nodes, so that a test need not make a thousand arrays."""
    monkeypatch.setattr(build_record, "PACKED_FROM_BYTES", 100)
    monkeypatch.setattr(build_record, "NODE_FROM_BYTES", 100)


def made(root, name=DS, **options):
    specs = {f"a{i}": hub.ArraySpec((4, 3), "f4", dims=("sample", None)) for i in range(3)}
    return hub.dataset(specs, name, root=root, **options)


def _as_a_new_process():
    hint_writer.flush()
    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    versions._versions._versions.clear()
    description._described.clear()


def nodes(root, home="t/x"):
    return {info.key for info in root.store.list(f"{home}/manifest/")}


def node_of(ds):
    return ds._version.last_seen.described.node


def test_thousands_of_arrays_are_a_node_and_a_commit_that_changes_no_description_is_short(root, forget):
    specs = {f"a{i}": hub.ArraySpec((8, 2), "f4", dims=("sample", None), attrs={"n": i}) for i in range(3000)}
    ds = hub.dataset(specs, DS, root=root)
    ds.append({name: np.full((2, 2), i) for i, name in enumerate(specs)})
    before = nodes(root)
    ds["a2999"][9] = 5
    assert nodes(root) == before
    assert root.store.head("t/x/log/v0/0000000000000003.json").size_bytes < NODE_FROM_BYTES // 4
    assert bytes(root.store.get("t/x/log/v0/0000000000000003.json", 0, 13)) == b'{"hubarray":4'
    forget()
    result = hub.load(DS, root=root)
    assert (len(result), result["a2998"][8, 0], result["a2999"][9, 1]) == (3000, 2998, 5)
    assert hub.verify(DS, root=root).problems == []


@pytest.mark.parametrize("length", [100, PACKED_FROM_BYTES, 8 * NODE_FROM_BYTES])
def test_what_is_packed_short_stays_in_the_record(root, length):
    ds = made(root)
    ds["a0"].attrs["note"] = "x" * min(length, 60_000)
    assert isinstance(ds._version.last_seen.described, dict)
    assert nodes(root) == set()


def test_a_record_names_the_node_and_says_format_4():
    node = NodeRef("lab/scans", new_id(), 100_000, bytes(16))
    record = replace(_record(), described=LongDescription(node))
    data, with_digest = encode(record)
    assert data.startswith(b'{"hubarray":4')
    read = decode(data, NAME, 7, "where")
    assert read.described == LongDescription(node)
    assert encode(read)[0] == data
    assert with_digest.lone_nodes[0] == node


def _with(field, value):
    node = NodeRef("lab/scans", new_id(), 100_000, bytes(16))
    data = encode(replace(_record(), described=LongDescription(node)))[0]
    text = data[: data.rindex(b'"blake3"')].replace(field(node), value(node), 1)
    return text + b'"blake3":"' + blake3.blake3(text).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        (lambda n: b'"array_node"', lambda n: b'"array":{},"array_node"', "beside 'array'"),
        (lambda n: b'"array_node"', lambda n: b'"array_zlib":"eJ","array_node"', "beside 'array_zlib'"),
        (lambda n: b'"array_node":{"home":"lab/scans"', lambda n: b'"array_node":{"home":"lab/y"', "does not list"),
        (lambda n: b'"length":100000', lambda n: b'"length":100000000', "array_node.length"),
        (lambda n: n.id.encode(), lambda n: b"../../secrets", "array_node.id"),
    ],
)
def test_a_node_that_cannot_be_is_refused(field, value, what):
    with pytest.raises(hub.errors.CorruptDataError, match=what):
        decode(_with(field, value), NAME, 7, "where")


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_opening_costs_the_node_and_later_commits_do_not(make_root, forget, short, kind):
    root = make_root(kind)
    made(root)["a0"][:] = 1
    hub.flush()
    _as_a_new_process()
    forget()
    with Counting(root) as cost:
        ds = hub.load(DS, root=root)
        assert [array.shape for array in ds.arrays.values()] == [(4, 3)] * 3
    assert _without_hints(cost.counts) == {"get": 3, "head": 1}
    ds["a0"][0] = 2
    hub.flush()
    with Counting(root) as cost:
        ds["a0"][1] = 3
    assert {verb: n for verb, n in cost.counts.items() if verb.startswith("put") and n} == {
        "put": 1,
        "put_if_absent": 1,
    }


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_node_is_one_error_that_names_it(make_root, forget, short, how):
    root = make_root("s3")
    ds = made(root)
    ds["a0"][:] = 1
    key = node_of(ds).key
    good = bytes(root.store.get(key))
    _as_a_new_process()
    forget()
    bad = None if DAMAGE[how] is None else DAMAGE[how](good)
    root.store.delete([key])
    if bad is not None:
        root.store.put(key, bad)
    with pytest.raises(hub.errors.CorruptDataError, match=key):
        hub.load(DS, root=root)["a0"]
    assert {problem.key for problem in hub.verify(DS, root=root).problems} == {key}
    root.store.put(key, good)
    assert hub.verify(DS, root=root).problems == []


def test_repair_puts_a_node_back_from_the_disk_cache(make_root, forget, short):
    root = make_root("s3")
    made(root)["a0"][:] = 1
    _as_a_new_process()
    ds = hub.load(DS, root=root)
    ds["a0"][:]
    key = node_of(ds).key
    root.store.delete([key])
    assert [item.key for item in hub.repair("t/x", root=root).repaired] == [key]
    assert hub.verify(DS, root=root).problems == []


@pytest.mark.parametrize("content", [b"{" + b" " * 9_000_000 + b"}", b'{"a":[' + b"[]," * 700_000 + b"[]]}", b"[]"])
def test_what_a_stranger_packed_is_looked_at_before_it_is_unpacked(root, short, content):
    ds = made(root)
    data = zlib.compress(content)
    node = NodeRef("t/x", new_id(), len(data), blob_hash(data))
    root.store.put(node.key, data)
    record = replace(ds._version.last_seen, described=LongDescription(node))
    number = record.head.number + 1
    record = replace(record, head=replace(record.head, number=number))
    root.store.put(f"t/x/log/v0/{number:016d}.json", encode(record)[0])
    with pytest.raises(hub.errors.CorruptDataError, match=f"{node.key}: (holds|is not an object)"):
        hub.load(DS, root=root)["a0"]


def test_a_version_of_which_the_node_is_lost_is_restored_and_deleted(root, forget, short):
    ds = made(root)
    ds["a3"] = hub.ArraySpec(3, "i4")
    root.store.delete([node_of(ds).key])
    del ds
    _as_a_new_process()
    assert hub.restore(DS, 1, root=root).commit == 3
    ds = hub.load(DS, root=root)
    assert list(ds) == ["a0", "a1", "a2"]
    root.store.delete([node_of(ds).key])
    del ds
    _as_a_new_process()
    hub.delete(DS, root=root)
    assert list(made(root)) == ["a0", "a1", "a2"]


def test_collection_keeps_nodes_that_commits_name_and_no_others(root, forget, short):
    ds = made(root, grace_seconds=1000)
    old = node_of(ds).key
    ds["a3"] = hub.ArraySpec(3, "i4")
    new = node_of(ds).key
    ds["a3"].attrs["unit"] = "mm"
    newest = node_of(ds).key
    assert len({old, new, newest}) == 3
    hub.copy(f"{DS}@1", "t/copy:v0", root=root)
    age(root, 3000)
    hub.collect_garbage("t/x", root=root)
    assert {old, new, newest} <= nodes(root)
    hub.expire(DS, keep_last=1, root=root)
    age(root, 3000)
    hub.collect_garbage("t/x", root=root)
    assert nodes(root) == {newest}
    forget()
    assert list(hub.load(DS, root=root)) == ["a0", "a1", "a2", "a3"]
    assert list(hub.load("t/copy:v0", root=root)) == ["a0", "a1", "a2"]
    assert hub.verify("t/copy:v0", root=root).problems == []


def test_a_rename_leaves_the_node_where_it_is_and_the_next_commit_writes_its_own(root, forget, short):
    made(root)["a0"][:] = 1
    hub.rename(DS, "t/new:v0", root=root)
    forget()
    ds = hub.load("t/new:v0", root=root)
    assert node_of(ds).home == "t/x"
    hub.collect_garbage("t/x", root=root)
    ds["a0"][0] = 2
    assert node_of(ds).home == "t/new"
    forget()
    assert hub.load("t/new:v0", root=root)["a0"][:, 0].tolist() == [2, 1, 1, 1]
    assert hub.verify("t/new:v0", root=root).problems == []


def test_transfer_brings_the_nodes_of_descriptions_and_of_what_commits_changed(make_root, forget, short):
    source, target = make_root("local"), make_root("s3")
    ds = made(source)
    ds["wide"] = hub.ArraySpec((5000,), "i1", chunks=(1,))
    # Every other chunk: more runs than a record lists.
    ds["wide"][::2] = 1
    assert ds._version.last_seen.changed.node is not None
    hub.transfer(DS, target, root=source)
    forget()
    assert hub.verify(DS, root=target).problems == []
    assert hub.load(DS, root=target)["wide"][:4].tolist() == [1, 0, 1, 0]


def test_a_frozen_version_opens_without_a_network(make_root, short, monkeypatch):
    root = make_root("s3")
    made(root)["a0"][:] = 1
    hub.freeze(DS, root=root)
    # Looks at the version, so that its record is kept; the description is there because this machine wrote it.
    assert list(hub.load(DS, root=root)) == ["a0", "a1", "a2"]
    _as_a_new_process()

    def unreachable(*_, **__):
        raise hub.errors.UnavailableError("the network is gone")

    for verb in ("_get", "_head", "_pieces"):
        monkeypatch.setattr(type(root.store), verb, unreachable)
    assert list(hub.load(DS, root=root)) == ["a0", "a1", "a2"]


def test_a_commit_that_others_came_before_is_built_on_their_description(root, short):
    ds = made(root)
    other = hub.load(DS, root=root)
    with ds.transaction() as t:
        t["a0"][0] = 1
        other["a3"] = hub.ArraySpec(3, "i4")
        other["a1"][0] = 2
    assert list(ds) == ["a0", "a1", "a2", "a3"]
    assert (ds["a0"][0, 0], ds["a1"][0, 0]) == (1, 2)
    assert hub.verify(DS, root=root).problems == []


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
    monkeypatch.setattr(long_descriptions, "MAX_DESCRIPTION_BYTES", 1000)
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
