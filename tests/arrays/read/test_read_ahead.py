"""Reading ahead and fetching before: the same values, fewer waits, bounded memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.read.read_ahead import MAX_READ_BYTES, Pace, rows_ahead


@given(length=st.integers(0, 50), step=st.integers(1, 5), row_mib=st.integers(1, 20))
def test_rows_come_in_order_whatever_the_blocks(length, step, row_mib):
    asked = []

    def read(start, stop):
        asked.append((start, stop))
        return np.arange(start, stop)

    assert list(rows_ahead(read, length, row_mib << 20, step)) == list(range(length))
    assert all(start % step == 0 for start, _ in asked)
    assert all(stop - start <= max(step, (MAX_READ_BYTES // (row_mib << 20)) + step) for start, stop in asked)


@given(st.lists(st.integers(0, 60), max_size=60), st.integers(1, 1 << 22))
def test_windows_lie_ahead_of_what_is_read_and_never_overlap_within_a_run(coords, chunk_bytes):
    pace = Pace(1 << 30)
    fetched, last = set(), -2
    for coord in coords:
        if coord not in (last, last + 1):
            fetched = set()
        last = coord
        window = set(pace.window(61, chunk_bytes)) if pace.goes_on(coord) else set()
        assert all(coord < item <= 60 for item in window)
        assert not window & fetched
        assert len(window) * chunk_bytes <= MAX_READ_BYTES or len(window) == 1
        fetched |= window


def test_random_reads_fetch_nothing_ahead():
    pace = Pace(1 << 30)
    order = np.random.default_rng(0).permutation(1000).tolist()
    assert sum(len(pace.window(1000, 1 << 18)) for coord in order if pace.goes_on(coord)) < 20


@pytest.mark.parametrize(("cache_bytes", "ahead"), [(1 << 20, 0), (16 << 20, 3)])
def test_nothing_is_fetched_ahead_that_a_small_cache_would_lose_again(cache_bytes, ahead):
    pace = Pace(cache_bytes)
    windows = [pace.window(100, 1 << 18) for coord in range(6) if pace.goes_on(coord)]
    assert sum(len(window) > 0 for window in windows) == ahead


@pytest.fixture
def far(make_root, forget):
    root = make_root("s3")
    array = hub.array((300, 5000), "t/x:v0", "i4", chunks=(1, 5000), codec="none", root=root)
    array[...] = np.arange(1_500_000).reshape(300, 5000)
    forget()
    return root


def _gets(root, work):
    before = hub.stats()
    work()
    return (hub.stats() - before).gets


def test_a_loop_over_samples_makes_large_requests(far):
    array = hub.load("t/x:v0", root=far)

    def loop():
        for i, row in enumerate(array):
            assert row[0] == i * 5000

    assert _gets(far, loop) < 10


def test_a_loop_begins_with_a_small_block():
    asked = []

    def read(start, stop):
        asked.append((start, stop))
        return np.arange(start, stop)

    next(rows_ahead(read, 1000, 1 << 20, 1))
    assert asked[0] == (0, 2)


@pytest.mark.parametrize(("cache_mib", "hits"), [(16, 0), (64, 300)])
def test_only_a_loop_over_little_stays_in_the_memory_cache(far, cache_mib, hits):
    hub.configure(memory_cache_bytes=cache_mib << 20)
    array = hub.load("t/x:v0", root=far)
    for _ in array:
        pass
    before = array.stats
    for i, row in enumerate(array):
        assert row[-1] == i * 5000 + 4999
    assert (array.stats - before).memory_hits >= hits
    assert hits or (array.stats - before).memory_hits < 10


def test_a_loop_over_indices_is_noticed(far, forget):
    array = hub.load("t/x:v0", root=far)

    def loop():
        for i in range(300):
            assert array[i, 0] == i * 5000

    assert _gets(far, loop) < 60


def test_what_was_prefetched_costs_no_request(far):
    array = hub.load("t/x:v0", root=far)
    array.prefetch(slice(50, 150)).result(30)

    def read():
        assert array[50:150].shape == (100, 5000)
        assert array[77, 3] == 77 * 5000 + 3

    assert _gets(far, read) == 0
    assert _gets(far, lambda: array.prefetch(slice(50, 150)).result(30)) == 0


def test_a_prefetch_of_more_than_memory_goes_to_disk_and_of_more_than_both_is_refused(far):
    hub.configure(memory_cache_bytes=1 << 20)
    array = hub.load("t/x:v0", root=far)
    array.prefetch().result(30)
    assert _gets(far, lambda: array[...]) == 0
    hub.configure(memory_cache_bytes=1 << 20, disk_cache_bytes=1 << 20)
    with pytest.raises(hub.errors.ConfigError, match="half of either cache"):
        hub.load("t/x:v0", root=far).prefetch().result(30)
    hub.configure(memory_cache_bytes=0, disk_cache_bytes=0)
    with pytest.raises(hub.errors.ConfigError, match="both caches are off"):
        hub.load("t/x:v0", root=far).prefetch(5).result(30)
    with pytest.raises(IndexError):
        array.prefetch(999)


def test_a_prefetch_that_cannot_be_kept_says_so(far, tmp_path):
    (tmp_path / "file").write_text("")
    hub.configure(memory_cache_bytes=1 << 20, cache_dir=tmp_path / "file")
    array = hub.load("t/x:v0", root=far)
    for _ in range(2):
        with pytest.raises(hub.errors.ConfigError, match="cannot be written"):
            array.prefetch().result(30)


def test_a_prefetch_of_more_chunks_than_any_cache_holds_is_refused_by_arithmetic(root):
    array = hub.array((10**9, 10**6), "t/huge:v0", root=root)
    with pytest.raises(hub.errors.ConfigError, match="fetch less at a time"):
        array.prefetch()
    array.prefetch((slice(None, 10**6), 0)).result(30)
    array.prefetch(([5, 10**8], slice(0, 3))).result(30)
    array.prefetch(slice(0, 0)).result(30)


def test_stats_count_requests_bytes_hits_and_seconds(far):
    array = hub.load("t/x:v0", root=far)
    before = array.stats
    array[10:20]
    cold = array.stats - before
    array[10:20]
    warm = array.stats - before
    assert (cold.gets, warm.gets) == (2, 2)
    assert cold.read_bytes > 10 * 20_000
    assert warm.memory_hits >= cold.memory_hits + 10
    assert warm.decode_seconds == cold.decode_seconds > 0
    assert cold.request_seconds > 0
    array[3] = 5
    assert (array.stats - before).puts == 2
    assert (array.stats - before).encode_seconds > 0
    assert hub.stats().requests >= array.stats.requests
