"""Blobs in the disk cache, several a file: what was kept comes back, and nothing else."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.disk_sections import SECTION_BYTES, TABLE_BYTES, DiskSections, stretches

PACK_ID = bytes(16)
PACK = f"lab/x/packs/{PACK_ID.hex()}"
DATA = random.Random(0).randbytes(3 * SECTION_BYTES)


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path, 64 << 20)


@pytest.fixture
def sections(cache):
    return DiskSections(cache, "root")


def _blobs(*places):
    return [(offset, DATA[offset : offset + length]) for offset, length in places]


def _names(*places):
    return [("lab/x", PACK_ID, offset, length) for offset, length in places]


def _found(sections, *places):
    return sections.present(_names(*places), range(len(places)))


def _read(sections, offset, length):
    [data] = sections.read(_names((offset, length)))
    return None if data is None else bytes(data)


def _files(cache):
    return [path for path in cache.space.folder.rglob("?/*") if path.is_file()]


def test_blobs_that_begin_in_one_section_share_a_file_and_come_back(cache, sections):
    places = [(0, 1000), (1000, 500), (5000, 200), (SECTION_BYTES - 100, 300), (SECTION_BYTES + 200, 50)]
    sections.put(PACK, _blobs(*places))
    assert _found(sections, *places) == [[0, 1, 2, 3], [4]]
    assert all(_read(sections, *place) == DATA[place[0] : sum(place)] for place in places)
    assert len(_files(cache)) == 2
    together = sections.read(_names((5000, 200), (7000, 1), (0, 1000), (1000, 500)))
    assert [data and bytes(data) for data in together] == [DATA[5000:5200], None, DATA[:1000], DATA[1000:1500]]


def test_what_was_not_kept_is_not_found(sections):
    sections.put(PACK, _blobs((1000, 1000)))
    assert _found(sections, (0, 10), (500, 1000), (1500, 1000), (2000, 1), (SECTION_BYTES + 1000, 1000)) == []
    assert _read(sections, 1500, 1000) is None
    assert _read(sections, SECTION_BYTES, 10) is None
    assert _found(DiskSections(sections._cache, "another root"), (1000, 1000)) == []


PLACES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=20).map(
    lambda units: sorted({unit * 50_000: size * 10_000 for unit, size in units}.items())
)


@given(st.lists(PLACES, max_size=4), PLACES)
def test_all_that_was_kept_comes_back_and_never_anything_else(tmp_path_factory, puts, wanted):
    sections = DiskSections(DiskCache(tmp_path_factory.mktemp("cache"), 64 << 20), "root")
    kept = {}
    for places in puts:
        sections.put(PACK, _blobs(*places))
        for offset, data in _blobs(*places):
            kept[offset] = max(kept.get(offset, b""), data, key=len)
    result = {i for group in _found(sections, *wanted) for i in group}
    for i, (offset, length) in enumerate(wanted):
        data = _read(sections, offset, length)
        assert data in (None, DATA[offset : offset + length])
        assert (data is not None) == (i in result)
        # More may be there than was put by this name: neighbours that lie back to back.
        assert data is not None or len(kept.get(offset, b"")) < length


def test_a_stretch_counts_only_once_its_bytes_are_written(cache, sections, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hubarray.blobs.disk_sections.write_all", killed)
        with pytest.raises(KeyboardInterrupt):
            sections.put(PACK, _blobs((0, 1000)))
    assert cache.space.used_bytes == TABLE_BYTES + 1000
    assert _read(sections, 0, 1000) is None
    sections.put(PACK, _blobs((0, 1000)))
    assert _read(sections, 0, 1000) == DATA[:1000]


def test_the_budget_holds_with_what_is_under_way(tmp_path):
    cache = DiskCache(tmp_path, 1_000_000)
    sections = DiskSections(cache, "root")
    over, largest = threading.Event(), [0]

    def watch():
        while not over.wait(0.001):
            # Under the lock: else a file is counted, goes, and the one in its place is counted too.
            with cache.space.locked():
                largest[0] = max(largest[0], cache.space.used_bytes)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        places = [(offset, 30_000) for offset in range(0, len(DATA) - 30_000, 31_000)]
        list(pool.map(lambda place: sections.put(PACK, _blobs(place)), places * 5))
    over.set()
    watcher.join()
    assert 0 < largest[0] <= 1_000_000
    for place in places:
        assert _read(sections, *place) in (None, DATA[place[0] : sum(place)])


def test_more_than_a_quarter_of_the_budget_is_kept_in_parts_or_not_at_all(tmp_path):
    sections = DiskSections(DiskCache(tmp_path, 100_000), "root")
    sections.put(PACK, _blobs(*((offset, 1000) for offset in range(0, 40_000, 1000)), (50_000, 30_000)))
    assert len(_found(sections, *((offset, 1000) for offset in range(0, 40_000, 1000)))[0]) == 40
    assert _read(sections, 50_000, 30_000) is None


def test_a_full_table_keeps_what_it_has(cache, sections):
    places = [(offset, 10) for offset in range(0, 30_000, 100)]
    for place in places:
        sections.put(PACK, _blobs(place))
    [result] = _found(sections, *places)
    assert result == list(range(255))
    assert all(_read(sections, *places[i]) == DATA[places[i][0] :][:10] for i in result)


@pytest.mark.parametrize("size", [0, 3, TABLE_BYTES - 1, TABLE_BYTES, TABLE_BYTES + 500])
def test_a_file_that_was_cut_short_gives_no_more_than_it_has(cache, sections, size):
    sections.put(PACK, _blobs((0, 1000)))
    [path] = _files(cache)
    os.truncate(path, size)
    data = _read(sections, 0, 1000)
    assert data is None or len(data) < 1000
    sections.put(PACK, _blobs((2000, 1000)))
    assert _read(sections, 2000, 1000) in (None, DATA[2000:3000])


@pytest.mark.parametrize("byte", range(12, 32))
def test_a_flipped_bit_in_the_table_is_no_reason_to_fail(cache, sections, byte):
    sections.put(PACK, _blobs((0, 1000)))
    [path] = _files(cache)
    for bit in range(8):
        good = path.read_bytes()
        path.write_bytes(good[:byte] + bytes([good[byte] ^ 1 << bit]) + good[byte + 1 :])
        _found(sections, (0, 1000))
        _read(sections, 0, 1000)
        sections.put(PACK, _blobs((5000, 10)))
        path.write_bytes(good)
    assert _read(sections, 0, 1000) == DATA[:1000]


def test_a_table_of_noise_is_no_reason_to_fail(cache, sections):
    sections.put(PACK, _blobs((0, 1000)))
    [path] = _files(cache)
    path.write_bytes(random.Random(1).randbytes(TABLE_BYTES + 1000))
    assert _read(sections, 0, 1000) != DATA[:1000]
    sections.put(PACK, _blobs((0, 1000)))
    path.unlink()
    path.mkdir()
    assert _read(sections, 0, 1000) is None


def test_one_file_that_cannot_be_written_does_not_turn_the_cache_off(cache, sections):
    sections.put(PACK, _blobs((0, 1000)))
    [path] = _files(cache)
    path.unlink()
    path.mkdir()
    sections.put(PACK, _blobs((0, 1000), (SECTION_BYTES, 1000)))
    sections.put(PACK, _blobs((SECTION_BYTES, 1000)))
    assert _read(sections, 0, 1000) is None
    assert _read(sections, SECTION_BYTES, 1000) == DATA[SECTION_BYTES:][:1000]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300_000)), max_size=30), st.integers(1, 700_000))
def test_stretches_are_back_to_back_in_one_section_and_all_there_is(steps, max_bytes):
    blobs, at = [], 0
    for gap, length in steps:
        blobs.append((at + gap // 2, bytes(length)))
        at += gap // 2 + length
    result = list(stretches(blobs, max_bytes))
    flat = []
    for first, buffers in result:
        at = first
        for buffer in buffers:
            flat.append((at, buffer))
            assert at // SECTION_BYTES == first // SECTION_BYTES
            at += len(buffer)
        assert at - first <= max_bytes or len(buffers) == 1
    assert flat == blobs


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12),
    st.tuples(st.integers(0, 60), st.integers(1, 30)),
)
def test_a_part_that_came_in_several_stretches_is_read_as_one(tmp_path_factory, puts, wanted):
    sections = DiskSections(DiskCache(tmp_path_factory.mktemp("cache"), 64 << 20), "root")
    there = set()
    for offset, length in puts:
        sections.put(PACK, _blobs((offset, length)))
        there |= set(range(offset, offset + length))
    offset, length = wanted
    is_there = set(range(offset, offset + length)) <= there
    assert _found(sections, wanted) == ([[0]] if is_there else [])
    assert _read(sections, offset, length) == (DATA[offset : offset + length] if is_there else None)
