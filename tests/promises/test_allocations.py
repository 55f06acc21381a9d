"""What reading and writing allocate: the result, and beside it a constant that does not grow with the array."""

import tracemalloc

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import pack, pools

MIB = 1 << 20
ROWS, SIDE = 512, 256
ROW_BYTES = SIDE * SIDE * 2


@pytest.fixture
def stored(make_root, forget):
    """64 MiB in chunks of 128 KiB, that compress to about a third; nothing cached."""
    root = make_root("local")
    hub.configure(memory_cache_bytes=256 * MIB)
    array = hub.array((ROWS, SIDE, SIDE), "t/x:v0", "u2", chunks=(1, SIDE, SIDE), root=root)
    rows = np.arange(SIDE * SIDE, dtype="u2").reshape(SIDE, SIDE)
    with array.transaction() as t:
        for i in range(ROWS):
            t[i] = rows + i
    forget()
    return hub.load("t/x:v0", root=root)


def peak_bytes(work):
    """What ``work`` holds at most beyond what was held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del result
    return peak - before


def test_a_bulk_read_allocates_its_result_and_at_most_24_mib(stored):
    hub.configure(memory_cache_bytes=16 * MIB)
    array = hub.load("t/x:v0", root=stored.root)
    assert peak_bytes(lambda: array[...]) < ROWS * ROW_BYTES + 24 * MIB


def test_a_sample_from_the_memory_cache_allocates_the_sample(stored):
    stored[7:9]
    stored[7]
    assert peak_bytes(lambda: stored[7]) < ROW_BYTES + 8192


def test_a_cold_sample_of_a_local_root_allocates_the_sample_once(stored):
    stored[0]
    stored[300]
    assert peak_bytes(lambda: stored[200]) < ROW_BYTES + 64 * 1024


def test_a_strided_read_allocates_no_more_than_its_result_and_the_cache(stored):
    hub.configure(memory_cache_bytes=4 * MIB)
    array = hub.load("t/x:v0", root=stored.root)
    result_bytes = ROWS * (SIDE // 8) ** 2 * 2
    assert peak_bytes(lambda: array[:, ::8, ::8]) < result_bytes + 24 * MIB


def test_a_transaction_holds_a_batch_and_uploads_whatever_it_writes(make_root, monkeypatch):
    rows = 4096
    array = hub.array((rows, SIDE, SIDE), "t/written:v0", "u2", chunks=(1, SIDE, SIDE), root=make_root("local"))
    noise = np.random.default_rng(0).integers(0, 1 << 16, (SIDE, SIDE), "u2")
    source = np.broadcast_to(noise, (rows, SIDE, SIDE))

    def write():
        with array.transaction() as t:
            t[...] = source

    monkeypatch.setattr(pack, "core_count", lambda: 2)
    assert peak_bytes(write) < pack.uploading_bytes(2) + 48 * MIB < source.nbytes / 4


def test_a_transaction_of_partial_chunks_holds_what_is_stated_whatever_it_writes(make_root, monkeypatch):
    array = hub.array((64, 8 * MIB), "t/written:v0", "u1", chunks=(1, 8 * MIB), root=make_root("local"))
    hub.configure(memory_cache_bytes=16 * MIB)
    column = np.random.default_rng(0).integers(0, 256, (64, MIB), "u1")

    def write():
        with array.transaction() as t:
            for start in range(0, 3 * MIB, MIB):
                t[:, start : start + MIB] = column

    monkeypatch.setattr(pack, "core_count", lambda: 2)
    monkeypatch.setattr(pools, "core_count", lambda: 2)
    assert peak_bytes(write) < (128 + 64 + 64 + 64 + 48) * MIB


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_an_upload_of_several_buffers_does_not_hold_them_twice(make_root, kind):
    store = make_root(kind).store
    store.put("first", b"connections are made")
    pieces = [bytes([i]) * MIB for i in range(16)]
    assert peak_bytes(lambda: store.put("pack", pieces, atomic=False)) < MIB
    assert bytes(store.get("pack")) == b"".join(pieces)
