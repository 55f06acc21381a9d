"""Flipped bits, truncation and missing objects are errors that name the key, never data."""

import re

import numpy as np
import pytest

import hubarray as hub
from hubarray.arrays.codecs import codecs
from hubarray.errors import CorruptDataError
from hubarray.history.log.hints import encode_hint
from tests.damage import DAMAGE, damage, flip, keys, stored_array

KINDS = ["local", "s3"]


@pytest.fixture(params=KINDS)
def stored(request, make_root):
    return stored_array(make_root(request.param))


def _read_all(root):
    return hub.load("t/x:v0", root=root)[...]


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("folder", ["packs", "manifest"])
def test_damage_to_data_is_found_on_reading_and_named(stored, forget, folder, how):
    for key in keys(stored, folder):
        good = bytes(stored.store.get(key))
        damage(stored, key, how)
        forget()
        with pytest.raises(hub.errors.CorruptDataError) as caught:
            _read_all(stored)
        assert key in str(caught.value)
        stored.store.put(key, good)
    forget()
    assert (_read_all(stored)[5] == 7).all()


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_to_the_newest_record_is_found_on_opening_and_named(stored, forget, how):
    key = "t/x:v0".replace(":", "/log/") + "/0000000000000003.json"
    damage(stored, key, how)
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=key):
        hub.load("t/x:v0", root=stored)


@pytest.mark.parametrize("number", [1, 2])
def test_a_lost_record_is_told_from_a_number_that_was_never_given(stored, forget, number):
    stored.store.delete([f"t/x/log/v0/000000000000000{number}.json"])
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=rf"000000000000000{number}\.json.*gap"):
        hub.load(f"t/x:v0@{number}", root=stored)
    with pytest.raises(hub.errors.NotFoundError, match="no such commit"):
        hub.load("t/x:v0@4", root=stored)


def test_a_record_of_a_newer_format_says_to_upgrade(stored, forget):
    key = "t/x/log/v0/0000000000000003.json"
    data = bytes(stored.store.get(key))
    stored.store.put(key, data.replace(b'{"hubarray":1', b'{"hubarray":9', 1))
    forget()
    with pytest.raises(hub.errors.FormatVersionError, match=rf"{re.escape(key)}.*upgrade"):
        hub.load("t/x:v0", root=stored)


def test_a_hint_beyond_the_log_means_lost_commits(stored, forget):
    stored.store.put("t/x/log/v0/head.json", encode_hint(5))
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=r"0000000000000005\.json"):
        hub.load("t/x:v0", root=stored)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"number": 0}', b'{"number": "3"}', b"\xff\xfe", b'{"hubarray": 1, "number": 9}']
)
def test_a_damaged_hint_is_as_good_as_none(stored, forget, content, caplog):
    stored.store.put("t/x/log/v0/head.json", content)
    forget()
    assert hub.load("t/x:v0", root=stored).commit == 3
    assert "head.json" in caplog.text
    flipped = encode_hint(3).replace(b"3", b"7", 1)
    stored.store.put("t/x/log/v0/head.json", flipped)
    forget()
    assert hub.load("t/x:v0", root=stored).commit == 3


def test_one_damaged_version_does_not_hide_the_others(stored, forget, caplog):
    hub.array(3, "t/healthy", root=stored)
    damage(stored, "t/x/log/v0/0000000000000003.json", "truncated")
    forget()
    assert hub.list("t", root=stored) == ["t/healthy:main", "t/x:v0"]
    assert "t/x:v0 cannot be opened" in caplog.text


def test_packs_that_changed_places_are_found(stored, forget):
    first_key, second_key = keys(stored, "packs")[:2]
    first, second = bytes(stored.store.get(first_key)), bytes(stored.store.get(second_key))
    stored.store.put(first_key, second)
    stored.store.put(second_key, first)
    forget()
    with pytest.raises(hub.errors.CorruptDataError):
        _read_all(stored)


def test_a_damaged_cache_entry_is_fetched_again(make_root, forget, isolated):
    root = make_root("s3")
    array = hub.array((50, 100), "t/x:v0", "f8", chunks=(5, 100), root=root)
    array[...] = np.random.default_rng(0).random((50, 100))
    expected = array[...]
    forget()
    assert np.array_equal(_read_all(root), expected)
    cache = next(isolated.glob("cache-0"))
    files = [path for path in cache.rglob("*") if path.is_file() and path.name not in ("lock", "used")]
    assert files
    flips = [
        lambda data, place=place: flip(data, place) if place < len(data) else data
        for place in (12, 16, 20, 24, 4096, 10_000, -1)
    ]
    for spoil in (*flips, lambda data: data[:-1], lambda data: data[:3], lambda data: b""):
        for path in files:
            path.write_bytes(spoil(path.read_bytes()))
        from hubarray.blobs import fetch

        fetch._shared._memory.clear()
        fetch._shared._fetchers.clear()
        assert np.array_equal(_read_all(root), expected)


@pytest.mark.parametrize("kind", ["local", "memory"])
@pytest.mark.parametrize("memory_cache_bytes", [0, 1 << 20])
def test_bytes_that_are_as_stored_and_do_not_decode_are_named(make_root, monkeypatch, kind, memory_cache_bytes):
    hub.configure(memory_cache_bytes=memory_cache_bytes, disk_cache_bytes=0)
    array = hub.array((4, 6), "t/x:v0", "i4", chunks=(1, 6), codec="gzip", root=make_root(kind))
    monkeypatch.setattr(codecs._Compressed, "encode", lambda self, chunk: b"neither gzip nor anything else")
    array[...] = 1

    def in_transaction(key):
        with array.transaction() as transaction:
            transaction[key]

    reads = [(array.__getitem__, key) for key in (0, ..., (..., slice(1, 3)), [2, 0])]
    for use, key in [*reads, (in_transaction, 0), (lambda key: array.__setitem__(key, 2), (0, 0))]:
        with pytest.raises(CorruptDataError, match=r"t/x/packs/[0-9a-f]{32}: bytes \d+ to \d+ .* does not decode"):
            use(key)
    assert array.commit == 2


def test_nothing_is_written_over_damage_that_was_met(stored, forget):
    for key in keys(stored, "packs"):
        damage(stored, key, "deleted")
    forget()
    array = hub.load("t/x:v0", root=stored)
    before = sorted(info.key for info in stored.store.list("t/x/log/"))
    with pytest.raises(hub.errors.CorruptDataError):
        array[7, 3] = 1
    hub.flush()
    assert sorted(info.key for info in stored.store.list("t/x/log/")) == before


def test_a_cache_folder_that_cannot_be_written_means_going_on_without(make_root, tmp_path):
    (tmp_path / "file").write_text("x")
    hub.configure(cache_dir=tmp_path / "file" / "cache")
    root = make_root("s3")
    array = hub.array((50, 100), "t/x:v0", "f8", chunks=(5, 100), root=root)
    array[...] = 3
    assert (hub.load("t/x:v0@2", root=root)[...] == 3).all()
