"""How many requests things cost. The counts are promises; the engine counts them itself."""

import math

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs.ref import REF, homes, new_id
from hubarray.history.log.hints import encode_hint, hint_key, hint_writer
from hubarray.history.log.version import version_of
from hubarray.history.records import manifest as manifests
from hubarray.history.records.manifest import FANOUT, Manifest, NodeRef, TreeRoot
from hubarray.history.records.record import encode, record_key
from hubarray.names import parse

KINDS = ["memory", "s3"]


@pytest.fixture(params=KINDS)
def counted(request, make_root):
    root = make_root(request.param)
    warm_up = hub.array(1, "warm/up", root=root)
    warm_up[0] = 1
    hub.flush()
    return root


class Counting:
    """Counts the requests made within a ``with`` block."""

    def __init__(self, root):
        self._root = root

    def __enter__(self):
        hub.flush()
        self._before = self._root.store.stats.counts()
        return self

    def __exit__(self, *exc):
        self.counts = self._root.store.stats.counts() - self._before
        self.requests = sum(n for what, n in self.counts.items() if not what.endswith("_bytes"))


def _without_hints(counts):
    return {verb: n for verb, n in counts.items() if not verb.endswith("_bytes")}


@pytest.mark.parametrize("shape", [(1,), (1000, 64, 64), (10_000_000_000, 512, 512, 3)], ids=str)
def test_creating_costs_the_same_whatever_the_shape(counted, shape):
    with Counting(counted) as cost:
        hub.array(shape, "t/x", "u1", root=counted)
        hub.flush()
    assert _without_hints(cost.counts) == {"get": 1, "head": 1, "put_if_absent": 1, "put": 1}
    assert cost.counts["written_bytes"] < 2000


def test_opening_costs_three_requests_with_a_current_hint(counted, forget):
    hub.array(3, "t/x", root=counted)
    forget()
    with Counting(counted) as cost:
        hub.load("t/x", root=counted)
    assert _without_hints(cost.counts) == {"get": 2, "head": 1}


@pytest.mark.parametrize("behind", [1, 2, 3, 7, 8, 20, 33])
def test_a_stale_hint_costs_two_log_two_more(counted, forget, behind):
    array = hub.array(3, "t/x", root=counted)
    for i in range(34):
        array[0] = i + 1
    forget()
    hint_writer.forget(counted.store, parse("t/x"))
    counted.store.put(hint_key(parse("t/x")), encode_hint(35 - behind))
    with Counting(counted) as cost:
        assert hub.load("t/x", root=counted).commit == 35
    assert cost.requests <= 3 + 2 * math.log2(behind) + 2


def test_opening_without_a_hint_finds_the_newest_all_the_same(counted, forget):
    array = hub.array(3, "t/x", root=counted)
    for i in range(20):
        array[0] = i + 1
    forget()
    hint_writer.forget(counted.store, parse("t/x"))
    counted.store.delete([hint_key(parse("t/x"))])
    assert hub.load("t/x", root=counted).commit == 21


def test_a_numbered_commit_opens_with_one_request_and_then_with_none(make_root, forget):
    root = make_root("s3")
    hub.array(3, "t/x", root=root)[0] = 1
    forget()
    with Counting(root) as cost:
        hub.load("t/x@2", root=root)
    assert cost.requests == 1
    with Counting(root) as cost:
        hub.load("t/x@2", root=root)
    assert cost.requests == 0


def test_one_sample_costs_one_data_request_cold_and_none_warm(counted, forget):
    array = hub.array((100, 64, 64), "t/x", "f4", chunks=(1, 64, 64), root=counted)
    array[...] = np.random.default_rng(0).random((100, 64, 64))
    forget()
    array = hub.load("t/x", root=counted)
    with Counting(counted) as cost:
        array[17]
    assert _without_hints(cost.counts) == {"get": 1}
    if not counted.store.remote:
        # What is in a local file is kept in memory only once it is read again.
        array[17]
    with Counting(counted) as cost:
        array[17]
        array[17, 3:5]
    assert cost.requests == 0


def test_ten_neighbouring_small_chunks_of_one_pack_are_one_request(counted, forget):
    array = hub.array((100, 64, 64), "t/x", "f4", chunks=(1, 64, 64), root=counted)
    array[...] = np.random.default_rng(0).random((100, 64, 64))
    forget()
    array = hub.load("t/x", root=counted)
    with Counting(counted) as cost:
        array[20:30]
    assert _without_hints(cost.counts) == {"get": 1}


def test_one_sample_written_is_one_pack_and_one_record(counted):
    array = hub.array((100, 64, 64), "t/x", "f4", chunks=(1, 64, 64), root=counted)
    hub.flush()
    with Counting(counted) as cost:
        array[17] = 3
        array[18] = 4
        hub.flush()
    hints = cost.counts["put"] - 2
    assert hints <= 1
    assert _without_hints(cost.counts) == {"put": 2 + hints, "put_if_absent": 2}


def test_part_of_a_chunk_written_reads_that_chunk_once(counted, forget):
    array = hub.array((4, 100), "t/x", "f4", chunks=(2, 100), root=counted)
    array[...] = np.random.default_rng(0).random((4, 100))
    hub.flush()
    forget()
    array = hub.load("t/x", root=counted)
    with Counting(counted) as cost:
        array[0, 5] = 1
    assert (cost.counts["get"], cost.counts["put_if_absent"]) == (1, 1)
    with Counting(counted) as cost:
        array[0, 6] = 1
    assert cost.counts["get"] == 0


def test_a_manifest_of_two_levels_costs_two_requests(counted, forget):
    array = hub.array((3000, 2), "t/x", "u1", chunks=(1, 2), root=counted)
    array[...] = np.arange(6000).reshape(3000, 2) % 250 + 1
    forget()
    array = hub.load("t/x", root=counted)
    with Counting(counted) as cost:
        array[1500]
    assert _without_hints(cost.counts) == {"get": 3}


def _dense_path(root, number, monkeypatch):
    """Put a manifest with full nodes, each entry a pack of its own, on the path to one chunk into the newest record."""
    version = version_of(root, parse("t/huge"))
    record = version.refresh()
    fetcher = version.fetcher
    index = homes.index("t/huge")
    rng = np.random.default_rng(0)

    def full(dtype):
        table = np.frombuffer(rng.bytes(dtype.itemsize * FANOUT), dtype).copy()
        table["home"], table["length"] = index, rng.integers(50_000, 100_000, FANOUT)
        if dtype is REF:
            table["offset"] %= 16 << 20
        return table

    leaf = full(REF)
    blob = b"\0" * 786_432
    from hubarray.blobs.ref import blob_hash, make_ref

    pack = new_id()
    root.store.put(f"t/huge/packs/{pack}", blob)
    leaf[number % FANOUT] = make_ref(index, pack, 0, len(blob), blob_hash(blob))
    tree = Manifest(fetcher, None)
    node = tree._write(leaf, 0, "t/huge")
    for level in range(1, 4):
        table = full(manifests.CHILD)
        if level == 3:
            table[10:] = np.zeros((), manifests.CHILD)
        table[number // FANOUT**level % FANOUT] = manifests._child(node)
        node = tree._write(table, level, "t/huge")
    from dataclasses import replace

    changed = replace(record, manifest=TreeRoot(NodeRef(node.home, node.id, node.length, node.digest), 4))
    root.store.put(record_key(parse("t/huge"), record.head.number), encode(changed)[0])


def test_an_array_of_ten_billion_chunks_opens_reads_and_writes_one_sample_in_under_200_kb(counted, forget, monkeypatch):
    number = 7_123_456_789
    hub.array((10_000_000_000, 512, 512, 3), "t/huge", "u1", chunks=(1, 512, 512, 3), codec="none", root=counted)
    _dense_path(counted, number, monkeypatch)
    forget()
    data = 786_432
    with Counting(counted) as cost:
        array = hub.load("t/huge", root=counted)
        assert not array[number].any()
        array[number] = 1
    assert cost.requests <= 3 + 4 + 1 + 2 + 1
    assert cost.counts["read_bytes"] + cost.counts["written_bytes"] - 2 * data < 200_000


def test_a_full_overlay_is_folded_into_nodes_and_the_record_stays_small(counted):
    array = hub.array((5000, 2), "t/x", "u1", chunks=(1, 2), root=counted)
    for i in range(300):
        array[i * 16] = 1
    hub.flush()
    with Counting(counted) as cost:
        hub.load("t/x", root=counted)
    assert cost.counts["read_bytes"] < 40_000
    assert array[:, 0].sum() == 300


def test_polling_costs_one_probe_when_nothing_is_newer(counted):
    array = hub.array(3, "t/x", root=counted)
    with Counting(counted) as cost:
        array.refresh()
    assert _without_hints(cost.counts) == {"head": 1}


def test_the_log_reads_small_ranges_as_it_is_asked(counted):
    array = hub.array(300, "t/x", chunks=1, root=counted)
    for i in range(20):
        array[i] = i + 1
    array[...] = 1
    with Counting(counted) as cost:
        log = hub.log("t/x", root=counted)
        for _ in range(5):
            next(log)
    assert cost.counts["get"] == 4
    assert cost.counts["read_bytes"] <= 4 * 1024
