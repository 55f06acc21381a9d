import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.ref import REF
from hubarray.history.maintenance import compact
from tests.ageing import age


def _refs(places):
    """Refs of (pack, offset, length)."""
    refs = np.zeros(len(places), REF)
    for ref, (pack, offset, length) in zip(refs, places, strict=True):
        ref["pack"], ref["offset"], ref["length"], ref["home"] = pack, offset, length, 1
    return refs


PLACES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 50).map(lambda n: n * 10), st.just(10)), unique=True)


@given(PLACES, st.dictionaries(st.integers(1, 6), st.integers(1, 600)))
def test_packs_less_than_half_alive_are_those_a_sum_over_their_blobs_finds(places, sizes):
    refs = _refs(places)
    alive = compact.alive_bytes(refs)
    naive = {}
    for pack, _, length in places:
        naive[bytes([pack]) * 16] = naive.get(bytes([pack]) * 16, 0) + length
    assert alive == naive
    stored = {bytes([pack]) * 16: size for pack, size in sizes.items()}
    expected = [naive[bytes([pack]) * 16] < stored.get(bytes([pack]) * 16, 0) / 2 for pack, _, _ in places]
    assert compact.in_sparse_packs(refs, alive, stored).tolist() == expected


def test_neighbours_in_many_places_are_scattered_and_those_side_by_side_are_not():
    together = _refs([(1, i * 100_000, 100_000) for i in range(100)])
    apart = _refs([(i + 1, 0, 100_000) for i in range(100)])
    large = _refs([(i + 1, 0, 2 << 20) for i in range(100)])
    assert not compact.scattered(together).any()
    assert compact.scattered(apart).all()
    assert not compact.scattered(large).any()
    assert (
        compact.scattered(np.concatenate([large, apart, large])).tolist()
        == [False] * 100 + [True] * 100 + [False] * 100
    )
    assert not compact.scattered(_refs([])).any()
    half = _refs([(1 + i // 50, i * 100_000, 100_000) for i in range(100)])
    assert not compact.scattered(half).any()


def _requests(root, array, forget):
    forget()
    reader = hub.load(f"{array.name}:{array.version}", root=root)
    before = root.store.stats.counts()["get"]
    values = reader[...]
    return root.store.stats.counts()["get"] - before, values


def test_scattered_chunks_come_to_lie_side_by_side(any_root, forget):
    array = hub.array((300, 100), "t/x:v0", "i4", chunks=(1, 100), codec="none", root=any_root)
    expected = np.zeros((300, 100), "i4")
    for i in np.random.default_rng(0).permutation(40).tolist():
        array[i] = expected[i] = i + 1
    scattered, values = _requests(any_root, array, forget)
    assert (values == expected).all()
    assert hub.compact("t/x:v0", dry_run=True, root=any_root) == hub.results.Compaction(40, 40 * 400)
    assert hub.load("t/x:v0", root=any_root).commit == 41
    assert hub.compact("t/x:v0", root=any_root, message="tidy") == hub.results.Compaction(40, 40 * 400)
    assert next(hub.log("t/x:v0", root=any_root)).message == "tidy"
    tidy, values = _requests(any_root, array, forget)
    assert (values == expected).all()
    assert tidy <= scattered - 39
    assert not hub.diff("t/x:v0@41", "t/x:v0", root=any_root)
    assert hub.compact("t/x:v0", root=any_root).chunks == 0
    assert hub.load("t/x:v0", root=any_root).commit == 42
    assert hub.load("t/x:v0@20", root=any_root)[...].any()
    assert hub.verify("t/x", root=any_root).problems == []


def test_expire_compact_and_collect_give_back_the_space_of_what_was_overwritten(root):
    array = hub.array((64, 1000), "t/x:v0", "u1", chunks=(1, 1000), codec="none", root=root, grace_seconds=1000)
    expected = np.random.default_rng(0).integers(1, 255, (64, 1000), "u1")
    array[...] = 7
    array[:60] = expected[:60]
    expected[60:] = 7
    assert hub.compact("t/x:v0", root=root).chunks == 0
    hub.expire("t/x:v0", keep_last=1, root=root)
    assert hub.compact("t/x:v0", root=root) == hub.results.Compaction(4, 4000)
    hub.expire("t/x:v0", keep_last=1, root=root)
    age(root, 1001)
    assert hub.collect_garbage("t/x", root=root).packs == 1
    assert (hub.load("t/x:v0", root=root)[...] == expected).all()
    stored = sum(info.size_bytes for info in root.store.list("t/x/packs/"))
    assert stored == 64_000
    assert hub.verify("t/x", root=root).problems == []


def test_what_a_copy_needs_counts_as_alive(root):
    array = hub.array((10, 1000), "t/x:v0", "u1", chunks=(1, 1000), codec="none", root=root)
    array[...] = 7
    hub.copy("t/x:v0", "t/y:v0", root=root)
    array[:9] = 8
    hub.expire("t/x:v0", keep_last=1, root=root)
    assert hub.compact("t/x:v0", root=root).chunks == 0
    hub.delete("t/y:v0", root=root)
    assert hub.compact("t/x:v0", root=root).chunks == 1
    assert array[:, 0].tolist() == [8] * 9 + [7]


def test_a_copy_leaves_shared_data_where_it_is(root):
    array = hub.array((64, 100), "t/x:v0", "u1", chunks=(1, 100), root=root)
    for i in range(20):
        array[i] = i + 1
    copy = hub.copy("t/x:v0", "t/y:v0", root=root)
    assert hub.compact("t/y:v0", root=root).chunks == 0
    assert hub.compact("t/x:v0", root=root).chunks == 20
    assert (copy[...] == array[...]).all()


def test_writes_and_cuts_made_during_a_compaction_stay(root, other_machine, monkeypatch):
    from hubarray.history.maintenance.compact import Compact

    array = hub.array((40, 1000), "t/x:v0", "u1", chunks=(1, 1000), codec="none", root=root)
    for i in range(40):
        array[i] = i + 1
    move = Compact._move

    def meanwhile():
        theirs = hub.load("t/x:v0", root=root)
        theirs[3] = 99
        theirs.resize((30, 1200))

    def overtaken(self, *args):
        yield from move(self, *args)
        monkeypatch.setattr(Compact, "_move", move)
        other_machine(meanwhile)

    monkeypatch.setattr(Compact, "_move", overtaken)
    expected = np.zeros((30, 1200), "u1")
    expected[:, :1000] = np.arange(1, 31)[:, None]
    expected[3, :1000] = 99
    assert hub.compact("t/x:v0", root=root).chunks == 29
    assert (array.refresh()[...] == expected).all()
    assert hub.verify("t/x", root=root).problems == []


def test_a_large_array_is_compacted_leaf_by_leaf(root):
    array = hub.array((5000, 8), "t/x:v0", "u1", chunks=(1, 8), root=root)
    expected = np.random.default_rng(1).integers(1, 255, (5000, 8), "u1")
    for i in range(50):
        array[i::50] = expected[i::50]
    assert hub.compact("t/x:v0", root=root).chunks > 0
    assert (array[...] == expected).all()
    assert hub.verify("t/x", root=root).problems == []


def test_a_frozen_version_is_not_compacted(root):
    hub.array((40, 10), "t/x:v0", "u1", chunks=(1, 10), root=root)
    hub.freeze("t/x:v0", root=root)
    with pytest.raises(hub.errors.FrozenError):
        hub.compact("t/x:v0", root=root)
