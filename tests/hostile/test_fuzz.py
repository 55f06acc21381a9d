"""Whatever stands in a record, a node, a hint or a referrer, with right hashes: a HubError, or an answer; in time."""

import copy
import json
import shutil
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.blobs.ref import REF
from hubarray.history.log import version as versions
from hubarray.history.log.hints import encode_hint
from hubarray.history.records.manifest import CHILD, FANOUT
from tests.hostile.forge import NAME, RECORD, fields_of, forge, newest, put_node, record_bytes, small_array
from tests.rounds import rounds

SECONDS = 5.0


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "root"
    root = hub.Root(folder)
    small_array(root)
    hub.copy(NAME, "t/neighbour", root=root)
    hub.flush()
    return root, {number: fields_of(root, number) for number in range(1, newest(root) + 1)}


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 1023, 1024, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**16, 10**30, -(2**63)]),
    st.sampled_from([0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf")]),
    st.sampled_from(
        ["", ".", "..", "../../etc", "a/../b", "/etc/passwd", "t/x", "T/X/y", "\x1b[31m", "\ud800", "é" * 9]
    ),
    st.sampled_from(
        ["0" * 32, "f" * 32, "g" * 32, "0" * 64, "2026", "2026-11-22T00:00:00", "NaN", "0x7fc00001", "=" * 9]
    ),
    st.text(max_size=40),
    st.just([]),
    st.just({}),
    st.lists(st.one_of(st.integers(-3, 2**65), st.text(max_size=5), st.none()), max_size=5),
    st.dictionaries(st.text(max_size=8), st.integers(-3, 2**65), max_size=3),
    st.integers(200, 600).map(lambda depth: json.loads("[" * depth + "]" * depth)),
)


def _paths(value, path=()):
    result = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        result += _paths(inner, (*path, key))
    return result


@st.composite
def changes(draw, fields):
    """A record with a few of its fields exchanged, removed or added."""
    fields = copy.deepcopy(fields)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(_paths(fields)))
        target = fields
        for part in path[:-1]:
            target = target[part]
        how = draw(st.sampled_from(["exchange", "exchange", "exchange", "remove", "add"]))
        if how == "exchange":
            target[path[-1]] = draw(JUNK)
        elif how == "remove":
            del target[path[-1]]
        elif isinstance(target, dict):
            target[draw(st.sampled_from(["x", "home", "__class__", "codecs"]))] = draw(JUNK)
        if not fields:
            break
    return fields


def _afresh():
    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    versions._versions._versions.clear()


def _uses(root, elsewhere):
    """What users do with a root, each by itself."""
    yield lambda: hub.list(root=root)
    yield lambda: hub.load(NAME, root=root)[0:3]
    yield lambda: hub.load(NAME, root=root)[7]
    yield lambda: hub.load(NAME, root=root)[[5, 2999, 3]]
    yield lambda: (
        repr(hub.load(NAME, root=root)),
        hub.load(NAME, root=root)._repr_html_(),
        hub.load(NAME, root=root).attrs,
    )
    yield lambda: list(hub.log(NAME, root=root))
    yield lambda: hub.tags(NAME, root=root)
    yield lambda: hub.load(f"{NAME}@kept", root=root)[1]
    yield lambda: hub.load(NAME, at="2026-11-23", root=root)
    yield lambda: hub.exists(NAME, root=root)
    yield lambda: hub.verify("t/x", data=False, root=root)
    yield lambda: hub.diff(f"{NAME}@2", NAME, root=root).regions
    yield lambda: hub.collect_garbage("t/x", dry_run=True, root=root)
    yield lambda: hub.expire(NAME, older_than="2026-01-01", root=root)
    yield lambda: hub.copy(NAME, "t/made", root=root)
    yield lambda: hub.transfer(NAME, elsewhere, root=root)
    yield lambda: hub.export(NAME, elsewhere / "x.npy", root=root)
    yield lambda: hub.load(NAME, root=root).__setitem__(3, 1)


def _only_hub_errors(root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inside = set(tmp_path.iterdir())
    for number, use in enumerate(_uses(root, elsewhere)):
        _afresh()
        began = time.monotonic()
        try:
            use()
        except hub.HubError as error:
            assert str(error).isprintable() or "\n" in str(error)
        assert time.monotonic() - began < SECONDS, number
    assert set(tmp_path.iterdir()) == inside
    assert "t/neighbour:main" in hub.list(root=root)


@settings(max_examples=rounds(150, 3000))
@given(data=st.data())
def test_any_field_of_a_record_may_be_anything(stored, tmp_path_factory, data, caplog):
    original, records = stored
    number = data.draw(st.sampled_from([max(records)] * 4 + [1, 2, 3]))
    changed = data.draw(changes(records[number]))
    tmp_path = tmp_path_factory.mktemp("one")
    shutil.copytree(original.store.folder, tmp_path / "root")
    root = hub.Root(tmp_path / "root")
    root.store.put(RECORD.format(number), record_bytes(changed))
    _only_hub_errors(root, tmp_path)


@settings(max_examples=rounds(40, 1000))
@given(data=st.data())
def test_any_entry_of_a_node_may_be_anything(stored, tmp_path_factory, data):
    original, _records = stored
    tmp_path = tmp_path_factory.mktemp("one")
    shutil.copytree(original.store.folder, tmp_path / "root")
    root = hub.Root(tmp_path / "root")
    level = data.draw(st.integers(0, 2))
    seed = data.draw(st.integers(0, 100))
    dtype = CHILD if level else REF
    entries = np.frombuffer(np.random.default_rng(seed).bytes(dtype.itemsize * FANOUT), dtype).copy()
    for field in data.draw(st.sets(st.sampled_from(["length", "offset", "home"]))):
        if field in dtype.names:
            entries[field] = data.draw(st.sampled_from([0, 1, 100, 2**31]))
    table = data.draw(
        st.one_of(st.none(), st.lists(st.sampled_from(["t/x", "../..", "t/y", "", "a/b/c", 3, None]), max_size=4))
    )
    after = data.draw(st.sampled_from([b"", b"", b"x", b"\0" * 100]))
    node = put_node(root, entries, level, table=table, after=after)
    depth = data.draw(st.sampled_from([level + 1, 1, 3, 7, 10**9]))

    def take(fields):
        fields["manifest"] = node | {"depth": depth}
        fields["overlay"], fields["overlay_homes"] = "", ["t/x"]

    forge(root, take)
    _only_hub_errors(root, tmp_path)


@settings(max_examples=rounds(40, 500))
@given(
    content=st.one_of(
        st.binary(max_size=100),
        JUNK.map(lambda value: json.dumps({"number": value, "xxh3": "0" * 16}).encode("utf-8", "replace")),
        st.sampled_from([2, 5, 6, 10**15, 10**16, 10**30]).map(encode_hint),
    )
)
@pytest.mark.parametrize("key", ["t/x/log/v0/head.json", "t/x/referrers/" + "0" * 32 + ".json"])
def test_any_hint_and_any_referrer_may_be_anything(stored, tmp_path_factory, key, content):
    original, _ = stored
    tmp_path = tmp_path_factory.mktemp("one")
    shutil.copytree(original.store.folder, tmp_path / "root")
    root = hub.Root(tmp_path / "root")
    root.store.put(key, content)
    _only_hub_errors(root, tmp_path)
