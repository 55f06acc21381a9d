"""Dask arrays of an array, and arrays of a Dask array, in this process and on a cluster."""

import os
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from distributed import Client, LocalCluster

import hubarray as hub
from hubarray import names
from hubarray.errors import AlreadyExistsError, ConfigError
from hubarray.history.log import listing


@pytest.fixture(scope="module")
def cluster():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        yield client


def filled(root, name="t/x:v0"):
    values = np.random.default_rng(0).normal(size=(200, 30)).astype("f4")
    array = hub.array(values.shape, name, "f4", chunks=(16, 30), root=root)
    array[...] = values
    return array, values


def test_blocks_are_whole_chunks_and_the_values_are_the_arrays(any_root):
    array, values = filled(any_root)
    lazy = array.to_dask(block_bytes=16 * 30 * 4 * 3)
    assert lazy.dtype == values.dtype
    assert all(size % 16 == 0 for size in lazy.chunks[0][:-1])
    assert np.array_equal(lazy.compute(), values)
    assert np.array_equal(lazy[5:150:7, ::-1].compute(), values[5:150:7, ::-1])


def test_a_graph_stays_at_its_commit(root):
    array, values = filled(root)
    lazy = array.to_dask()
    array[...] = 0
    assert np.array_equal(lazy.compute(), values)


def test_the_token_is_the_commits(root):
    array, _ = filled(root)
    again = hub.load("t/x:v0", root=root)
    assert array.to_dask().name == again.to_dask().name
    assert tokenize(array) == tokenize(again)
    before = array.to_dask().name
    array[0] = 1
    assert array.to_dask().name != before


def test_storing_is_one_commit_whatever_the_chunks(any_root):
    values = np.arange(1000).reshape(50, 20)
    array = hub.store(da.from_array(values, chunks=(7, 6)), "t/stored:v0", chunks=(8, 20), root=any_root)
    assert np.array_equal(array[...], values)
    assert [item.message for item in array.log()] == ["store a Dask array"]
    again = hub.store(da.from_array(values * 2, chunks=(9, 20)), "t/stored:v0", root=any_root)
    assert np.array_equal(again[...], values * 2)


def test_a_name_may_be_a_whole_url(root):
    for factor in (1, 2):
        hub.store(da.arange(10, chunks=3) * factor, f"{root.url}/t/stored:v0")
        assert np.array_equal(hub.load("t/stored:v0", root=root)[...], np.arange(10) * factor)


def test_what_is_overwritten_stays_in_the_log_and_can_be_restored(any_root):
    kept = hub.array(5, "t/x:v0", "i8", root=any_root)
    kept[...] = 7
    done = hub.store(da.zeros((4, 4), chunks=2), "t/x:v0", overwrite=True, attrs={"unit": "mm"}, root=any_root)
    assert (done.shape, dict(done.attrs)) == ((4, 4), {"unit": "mm"})
    assert hub.load("t/x:v0@2", root=any_root)[...].tolist() == [7] * 5
    assert hub.list(root=any_root) == ["t/x:v0"]
    hub.restore("t/x:v0", 2, root=any_root)
    assert hub.load("t/x:v0", root=any_root)[...].tolist() == [7] * 5


def test_what_was_uploaded_stays_where_only_the_name_could_not_be_given(root, monkeypatch):
    def refuse(*args, **options):
        raise hub.errors.StorageError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr("hubarray.history.maintenance.copying.copy", refuse)
        with pytest.raises(hub.errors.StorageError, match="away"):
            hub.store(da.arange(10, chunks=3), "t/x:v0", root=root)
    assert hub.list(root=root) == []
    (kept,) = map(str, listing.versions_of(root.store, names.parse("t/x")))
    assert kept.startswith("t/x:v0.storing-")
    assert hub.load(kept, root=root)[...].tolist() == list(range(10))


def test_two_that_store_under_one_name_do_not_get_into_each_others_way(root):
    hub.array(5, "t/x:v0", "i2", root=root)
    shapes = {1: (60, 10), 2: (40, 20)}
    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            running = [
                pool.submit(hub.store, da.full(shape, i, chunks=20), "t/x:v0", overwrite=True, root=root)
                for i, shape in shapes.items()
            ]
        failed = [item.exception() for item in running if item.exception()]
        assert all(isinstance(item, hub.errors.ConflictError) for item in failed)
        last = hub.load("t/x:v0", root=root)
        assert len(failed) < 2
        assert (last[...] == last[0, 0]).all()
        assert last.shape == shapes[int(last[0, 0])]
    assert hub.list(root=root) == ["t/x:v0"]


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_cluster_of_two_processes_reads_and_writes(kind, make_root, cluster):
    array, values = filled(make_root(kind))
    doubled = hub.store(array.to_dask(block_bytes=4096) * 2, "t/doubled:v0", root=array.root)
    assert np.array_equal(doubled[...], values * 2)
    np.testing.assert_allclose(array.mean(axis=0), values.mean(axis=0), rtol=1e-5)
    pids = array.to_dask(block_bytes=4096).map_blocks(lambda block: np.full(block.shape, os.getpid()), dtype="i8")
    assert len(set(np.unique(pids.compute())) - {os.getpid()}) == 2


def test_a_worker_that_fails_leaves_the_target_as_it_was(root):
    array, values = filled(root)

    def fail(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise RuntimeError("a bad block")
        return block * 0

    broken = array.to_dask(block_bytes=16 * 30 * 4).map_blocks(fail, dtype="f4")
    with pytest.raises(RuntimeError, match="a bad block"):
        hub.store(broken, "t/x:v0", root=root)
    assert np.array_equal(array[...], values)


def test_bad_sources_are_refused_before_anything_is_made(root):
    unknown = da.arange(10, chunks=3)
    unknown = unknown[unknown > 3]
    with pytest.raises(ConfigError, match="compute_chunk_sizes"):
        hub.store(unknown, "t/bad:v0", root=root)
    with pytest.raises(ConfigError, match="not generator"):
        hub.store((i for i in range(3)), "t/bad:v0", root=root)
    assert not hub.exists("t/bad:v0", root=root)
    hub.array(3, "t/taken:v0", "f4", root=root)
    with pytest.raises(AlreadyExistsError):
        hub.store(da.zeros(4), "t/taken:v0", root=root)


def test_dask_functions_take_the_array_itself(root):
    array, values = filled(root)
    assert np.array_equal(da.from_array(array, chunks=(50, 30)).compute(), values)
    assert dask.is_dask_collection(array.to_dask())


def test_what_fails_or_runs_is_not_seen_under_the_name(root):
    def fail(block):
        if block.size and block[0] > 30:
            assert hub.list(root=root) == ["t/x:v0"]
            raise RuntimeError("a bad block")
        return block

    kept = hub.array(5, "t/x:v0", "i8", root=root)
    kept[...] = 7
    broken = da.from_array(np.arange(100), chunks=30).map_blocks(fail, meta=np.empty(0, "i8"))
    for name, overwrite in (("t/x:v0", True), ("t/new:v0", False)):
        with pytest.raises(RuntimeError, match="a bad block"):
            hub.store(broken, name, overwrite=overwrite, root=root)
    assert hub.list(root=root) == ["t/x:v0"]
    assert hub.load("t/x:v0", root=root)[...].tolist() == [7] * 5
    done = hub.store(da.arange(100, chunks=30), "t/x:v0", overwrite=True, root=root)
    assert np.array_equal(done[...], np.arange(100))


@pytest.mark.timeout(60)
def test_a_root_that_workers_cannot_reach_is_an_error_and_no_hang(make_root, cluster):
    array, _ = filled(make_root("memory"))
    with pytest.raises(hub.errors.NotFoundError):
        array.to_dask().sum().compute()


def test_blocks_that_are_not_what_they_say_are_refused(root):
    source = da.from_array(np.arange(16).reshape(4, 4), chunks=2)
    for wrong in (source.map_blocks(lambda b: b[:1], dtype="i8"), source.map_blocks(lambda b: b + 0.5, dtype="i8")):
        with pytest.raises(hub.errors.SourceError, match="but was declared as"):
            hub.store(wrong, "t/wrong:v0", root=root)
    with pytest.raises(ConfigError, match="masks"):
        hub.store(da.ma.masked_greater(source, 3), "t/wrong:v0", root=root)
    assert hub.list(root=root) == []
