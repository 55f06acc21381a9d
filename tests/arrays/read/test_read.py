"""Reads of whole chunks that pass the memory cache by."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.read import chunk_sinks
from hubarray.errors import CorruptDataError
from tests.arrays import strategies


@pytest.fixture
def uncached(make_root, isolated):
    """A local root whose chunks, stored as they are in memory, are never kept there."""
    hub.configure(memory_cache_bytes=0)
    return make_root("local")


def filled(root, name, written, codec, *, compressible=()):
    values = np.full((30, 50, 3), 7, "u4")
    array = hub.array(values.shape, name, "u4", chunks=(1, 50, 3), codec=codec, fill_value=7, root=root)
    with array.transaction() as transaction:
        for row in written:
            most = 9 if row in compressible else 1 << 32
            values[row] = transaction[row] = np.random.default_rng(row).integers(most, size=(50, 3))
    return array, values


@pytest.mark.parametrize("memory_cache_bytes", [0, 1 << 20])
@pytest.mark.parametrize("chunks", list(itertools.product(strategies.WAYS_TO_CUT_FOUR, repeat=2)))
def test_whatever_is_taken_of_axes_cut_in_whatever_way_comes_as_numpys(any_root, chunks, memory_cache_bytes):
    hub.configure(memory_cache_bytes=memory_cache_bytes)
    values = np.arange(16).reshape(4, 4)
    array = hub.array((4, 4), "t/x:v0", "i8", chunks=chunks, root=any_root)
    array[...] = values
    for key in itertools.product(strategies.WAYS_TO_TAKE_FOUR, repeat=2):
        assert strategies.same(array[key], values[key]), key
        assert np.array_equal(array.lazy[key], values[key]), key


@pytest.mark.parametrize("codec", ["none", "auto"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_rows_in_any_order_some_absent_come_as_numpys(make_root, codec, data):
    hub.configure(memory_cache_bytes=0)
    written = data.draw(st.lists(st.integers(0, 29), unique=True))
    rows = np.array(data.draw(st.permutations(range(30)))[: data.draw(st.integers(1, 30))])
    array, values = filled(
        make_root("memory" if data.draw(st.booleans()) else "local"),
        "t/x:v0",
        written,
        codec,
        compressible=data.draw(st.sets(st.integers(0, 29))),
    )
    for key in (..., rows, slice(3, 20)):
        assert np.array_equal(array[key], values[key])
    out = np.zeros((len(rows), 50, 3), "u4")
    assert np.array_equal(array.read_rows(rows, out), values[rows])
    assert np.array_equal(out, values[rows])


@pytest.mark.parametrize(("codec", "pieces"), [("none", [600]), ("auto", [16, 600])])
def test_what_is_stored_as_it_is_goes_straight_to_its_place(uncached, monkeypatch, codec, pieces):
    array, values = filled(uncached, "t/x:v0", range(30), codec)
    sizes, real = [], type(uncached.store)._read_into

    def read_into(self, key, start, out):
        sizes.append([len(item) for item in out])
        return real(self, key, start, out)

    monkeypatch.setattr(type(uncached.store), "_read_into", read_into)
    monkeypatch.setattr(chunk_sinks, "decode_into", None)
    assert np.array_equal(array[...], values)
    assert sizes == [pieces * 30]


@pytest.mark.parametrize("codec", ["none", "auto"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_damage_is_found_there_too(uncached, forget, how, codec):
    array, _ = filled(uncached, "t/x:v0", range(30), codec)
    (pack,) = uncached.store.list("t/x/packs/")
    data = bytearray(uncached.store.get(pack.key))
    data[7000] ^= 1
    if how == "gone":
        uncached.store.delete([pack.key])
    else:
        uncached.store.put(pack.key, bytes(data if how == "flipped" else data[:7000]))
    forget()
    with pytest.raises(CorruptDataError, match=pack.key):
        array[...]


@pytest.mark.parametrize("codec", ["none", "auto"])
def test_damage_that_was_on_the_way_only_is_fetched_again(uncached, monkeypatch, codec):
    array, values = filled(uncached, "t/x:v0", range(30), codec)
    real = type(uncached.store)._read_into

    def read_into(self, key, start, out):
        done = real(self, key, start, out)
        out[4][9] ^= 1
        return done

    monkeypatch.setattr(type(uncached.store), "_read_into", read_into)
    assert np.array_equal(array[...], values)


@pytest.mark.parametrize("kind", ["local", "s3"])
@pytest.mark.parametrize("key", [[1, 3], 2, slice(4, 6)], ids=str)
def test_whole_chunks_of_a_folder_are_in_memory_from_the_second_read_on_and_fetched_ones_from_the_first(
    make_root, forget, kind, key
):
    root = make_root(kind)
    values = np.arange(6 * 40, dtype="i4").reshape(6, 40)
    hub.array(values.shape, "t/x:v0", "i4", chunks=(1, 40), root=root)[...] = values
    forget()
    array = hub.load("t/x:v0@2", root=root)
    hits = []
    for _ in range(3):
        before = array.stats.memory_hits
        assert np.array_equal(array[key], values[key])
        hits.append(array.stats.memory_hits - before)
    chunks = np.atleast_2d(values[key]).shape[0]
    assert hits == ([0, chunks, chunks] if kind == "s3" else [0, 0, chunks])
    # What is handed out is nobody else's.
    array[key][...] = 0
    assert np.array_equal(array[key], values[key])
