import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.blobs.fetch import fetcher_for
from hubarray.blobs.ref import REF, homes
from hubarray.history.records import manifest as module
from hubarray.history.records.manifest import Manifest, differing_leaves

HOME = "owner/name"


def _refs(values):
    refs = np.zeros(len(values), REF)
    refs["length"] = values
    refs["offset"] = np.asarray(values, np.uint64) * 7
    refs["home"][np.asarray(values) > 0] = homes.index(HOME)
    return refs


def _fold(tree, entries):
    numbers = np.array(list(entries), np.uint64)
    return tree.folded(numbers, _refs(list(entries.values())), HOME)


def _contents(tree):
    return {
        number: length
        for numbers, refs in tree.entries()
        for number, length in zip(numbers.tolist(), refs["length"].tolist(), strict=True)
    }


@pytest.fixture
def small_nodes(monkeypatch):
    """Nodes of four entries, so that small trees are deep."""
    monkeypatch.setattr(module, "FANOUT", 4)


@pytest.fixture
def fetcher(make_root):
    return fetcher_for(make_root("memory"))


CHANGES = st.lists(st.dictionaries(st.integers(0, 300), st.integers(0, 5), min_size=1, max_size=12), max_size=8)


@settings(max_examples=60)
@given(changes=CHANGES, first=st.integers(0, 400), count=st.integers(0, 400))
def test_a_tree_holds_what_a_dict_would(small_nodes, fetcher, changes, first, count):
    tree, model = Manifest(fetcher, None), {}
    older = [(tree, {})]
    for change in changes:
        tree = _fold(tree, change)
        model = {n: v for n, v in (model | change).items() if v}
        older.append((tree, dict(model)))
    for item, expected in older:
        assert _contents(item) == expected
    wanted = np.arange(0, 320, dtype=np.uint64)[::-1].copy()
    assert tree.lookup(wanted)["length"].tolist() == [model.get(n, 0) for n in wanted.tolist()]
    for end in (first + count, 1 << 64):
        kept = {n: v for n, v in model.items() if not first <= n < end}
        assert _contents(tree.without(first, end, HOME)) == kept


@settings(max_examples=60)
@given(first=CHANGES, second=CHANGES)
def test_two_trees_differ_in_exactly_the_leaves_that_differ(small_nodes, fetcher, first, second):
    base = Manifest(fetcher, None)
    for change in first:
        base = _fold(base, change)
    other = base
    for change in second:
        other = _fold(other, change)
    one, two = _contents(base), _contents(other)
    changed = {n // 4 for n in one.keys() | two.keys() if one.get(n) != two.get(n)}
    assert changed <= {leaf for leaf, _, _ in differing_leaves(base, other)}
    assert not list(differing_leaves(base, base))


def test_one_chunk_of_ten_billion_is_four_small_nodes(make_root):
    root = make_root("memory")
    before = root.store.stats.counts()
    tree = _fold(Manifest(fetcher_for(root), None), {9_999_999_999: 5})
    counts = root.store.stats.counts() - before
    assert tree.root.depth == 4
    assert counts["put"] == 4
    assert counts["written_bytes"] < 4000
    assert tree.lookup(np.array([9_999_999_999, 3], np.uint64))["length"].tolist() == [5, 0]


def test_changing_one_leaf_writes_that_leaf_and_its_path(make_root):
    root = make_root("memory")
    tree = _fold(Manifest(fetcher_for(root), None), {leaf * 1024: 5 for leaf in range(50)})
    before = root.store.stats.counts()
    _fold(tree, {7 * 1024 + 1: 6})
    assert (root.store.stats.counts() - before)["put"] == 2


def test_an_altered_node_is_found_by_its_parents_hash(make_root, forget):
    root = make_root("memory")
    tree = _fold(Manifest(fetcher_for(root), None), {1: 5})
    data = bytearray(root.store.get(tree.root.node.key))
    data[-1] ^= 1
    root.store.put(tree.root.node.key, data)
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=tree.root.node.id):
        Manifest(fetcher_for(root), tree.root).lookup(np.array([1], np.uint64))
    root.store.delete([tree.root.node.key])
    with pytest.raises(hub.errors.CorruptDataError, match="gone"):
        Manifest(fetcher_for(root), tree.root).lookup(np.array([1], np.uint64))
