"""How many requests things cost on datasets. The counts are promises; the engine counts them itself."""

import threading

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.handles.member import DatasetArray
from hubarray.history.log import version as versions
from tests.promises.test_requests import Counting, _without_hints
from tests.rounds import rounds

NAME = "t/many:v0"


def many(root, count, length=0):
    specs = {f"a{i}": hub.ArraySpec((length, 8), "f4", chunks=(1, 8), dims=("sample", None)) for i in range(count)}
    return hub.dataset(specs, NAME, root=root)


@pytest.fixture(params=["memory", "s3"])
def counted(request, make_root):
    root = make_root(request.param)
    hub.array(1, "warm/up", root=root)[0] = 1
    return root


def test_a_dataset_of_fifty_arrays_opens_as_an_array_does(counted, forget):
    many(counted, 50)
    hub.flush()
    forget()
    with Counting(counted) as cost:
        result = hub.load(NAME, root=counted)
        assert [array.shape for array in result.arrays.values()] == [(0, 8)] * 50
    assert _without_hints(cost.counts) == {"get": 2, "head": 1}


def test_one_sample_of_three_arrays_is_three_requests_at_once(counted, forget):
    ds = many(counted, 3)
    for name in ds:
        # A pack each.
        ds.append({item: np.ones((1, 8)) for item in ds}, message=name)
    forget()
    ds = hub.load(NAME, root=counted)
    with Counting(counted) as cost:
        result = ds.rows(1)
    assert list(result) == ["a0", "a1", "a2"]
    assert cost.counts["get"] <= 3
    assert cost.requests <= 3


@pytest.mark.parametrize(
    "read",
    [lambda ds: ds.rows(1), lambda ds: ds.to_pytorch()[1], lambda ds: ds.to_pytorch().__getitems__([1])[0]],
    ids=["rows", "a sample for PyTorch", "a batch for PyTorch"],
)
def test_the_requests_of_a_sample_are_under_way_together(root, forget, monkeypatch, read):
    ds = many(root, 3)
    for name in ds:
        ds.append({item: np.ones((1, 8)) for item in ds}, message=name)
    forget()
    ds = hub.load(NAME, root=root)
    met = threading.Barrier(3)

    def together(array, at):
        # None goes on before all have begun.
        met.wait(timeout=20)
        return plain(array, at)

    plain = DatasetArray.__getitem__
    monkeypatch.setattr(DatasetArray, "__getitem__", together)
    assert [item.tolist() for item in read(ds).values()] == [[1] * 8] * 3


def test_a_commit_over_three_arrays_is_its_packs_and_one_record(counted):
    ds = many(counted, 3)
    hub.flush()
    with Counting(counted) as cost:
        ds.append({name: np.ones((2, 8)) for name in ds})
    assert {verb: n for verb, n in cost.counts.items() if verb.startswith("put") and n} == {
        "put": 1,
        "put_if_absent": 1,
    }


@pytest.mark.timeout(300)
def test_an_append_to_a_thousand_small_arrays_writes_packs_a_record_and_eight_leaves_at_most(root, forget):
    ds, count = many(root, 1000), rounds(14, 30)
    hub.flush()
    for i in range(count):
        # Most of them beyond the first extents, and quickly: the names of the nodes are listed only for some.
        if i % 9 > 2:
            ds.append({name: np.ones((2, 8)) for name in ds})
            continue
        before = {item.key for item in root.store.list("t/many/manifest/")}
        with Counting(root) as cost:
            ds.append({name: np.ones((2, 8)) for name in ds})
        leaves = len(list(root.store.list("t/many/manifest/"))) - len(before)
        # One node above them, and the list of what changed.
        assert leaves <= 8 + 2
        assert cost.counts["put_if_absent"] == 1
    forget()
    result = hub.load(NAME, root=root)
    assert result.dims["sample"] == 2 * count
    assert result["a999"][...].sum() == 16 * count


def _of_another_process(root):
    hub.flush()
    hub.configure(cache_dir=f"{hub.config.current().cache_dir}-again")
    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    versions._versions._versions.clear()
    return hub.Root(root.url, storage_options=root._options)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_append_to_many_arrays_reads_what_it_needs_of_them_together(make_root, in_transaction):
    root = make_root("s3")
    specs = {f"a{i}": hub.ArraySpec((0, 3), "f4", chunks=(8, 3), dims=("sample", None)) for i in range(60)}
    ds = hub.dataset(specs, NAME, root=root)
    ds.append({name: np.full((2, 3), i) for i, name in enumerate(specs)})
    del ds
    root = _of_another_process(root)
    ds = hub.load(NAME, root=root)
    with Counting(root) as cost:
        rows = {name: np.full((2, 3), i + 100) for i, name in enumerate(specs)}
        if in_transaction:
            with ds.transaction() as t:
                t.append(rows)
        else:
            ds.append(rows)
    assert cost.counts["get"] <= 4
    assert ds["a59"][:, 0].tolist() == [59, 59, 159, 159]


def test_rows_of_many_arrays_are_read_together(make_root):
    root = make_root("s3")
    ds = many(root, 60)
    ds.append({name: np.full((3, 8), i) for i, name in enumerate(ds)})
    del ds
    root = _of_another_process(root)
    ds = hub.load(NAME, root=root)
    with Counting(root) as cost:
        result = ds.rows([2, 0])
    assert cost.counts["get"] <= 4
    assert result["a59"][:, 0].tolist() == [59, 59]
