"""A version and its history, brought to another root."""

import os
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError, ConflictError, CorruptDataError, NotFoundError
from hubarray.history.records.contents import present_refs
from hubarray.storage.base import Store


def filled(root):
    array = hub.array((60, 50), "lab/x:v0", "f4", chunks=(7, 50), root=root, attrs={"unit": "mm"})
    for i in range(5):
        array[10 * i : 10 * i + 10] = np.random.default_rng(i).normal(size=(10, 50))
    hub.tag("lab/x:v0@3", "paper", root=root)
    array.append(np.ones((3, 50)))
    return hub.load("lab/x:v0", root=root)


@pytest.mark.parametrize("kinds", [("local", "s3"), ("s3", "gs"), ("gs", "local"), ("memory", "local")])
def test_every_commit_reads_as_it_did(kinds, make_root, forget):
    source, target = map(make_root, kinds)
    array = filled(source)
    done = hub.transfer("lab/x:v0", target, root=source)
    forget()
    assert done.commits == array.commit
    assert [c.__dict__ for c in hub.log("lab/x:v0", root=target)] == [c.__dict__ for c in array.log()]
    for number in range(1, array.commit + 1):
        first, second = (hub.load(f"lab/x:v0@{number}", root=root) for root in (source, target))
        assert np.array_equal(first[...], second[...])
    assert hub.tags("lab/x:v0", root=target) == {"paper": 3}
    assert hub.verify("lab/x", root=target).problems == []


def test_what_is_there_is_skipped_and_new_commits_follow(make_root):
    source, target = make_root("local"), make_root("local")
    array = filled(source)
    first = hub.transfer("lab/x:v0", target, root=source)
    again = hub.transfer("lab/x:v0", target, root=source)
    assert (again.commits, again.objects, again.bytes) == (0, 0, 0)
    array[0] = 9
    more = hub.transfer("lab/x:v0", target, root=source)
    assert more.commits == 1
    assert 0 < more.bytes < first.bytes
    assert np.array_equal(hub.load("lab/x:v0", root=target)[...], array[...])


def test_an_interrupted_transfer_leaves_a_readable_beginning_and_goes_on(make_root, monkeypatch):
    source, target = make_root("local"), make_root("local")
    array = filled(source)
    total = len(list(source.store.list("lab/x/packs/")))
    for allowed in range(0, total + array.commit, 2):
        target = make_root("local")
        left = [allowed]

        def step(real, target=target, left=left):
            def call(self, key, data, **options):
                if self is target.store and ("/packs/" in key or ("/log/" in key and "head" not in key)):
                    if not left[0]:
                        raise KeyboardInterrupt
                    left[0] -= 1
                return real(self, key, data, **options)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", step(Store.put))
            patch.setattr(Store, "put_if_absent", step(Store.put_if_absent))
            with pytest.raises(KeyboardInterrupt):
                hub.transfer("lab/x:v0", target, root=source)
        if hub.exists("lab/x:v0", root=target):
            there = hub.load("lab/x:v0", root=target)
            assert np.array_equal(there[...], hub.load(f"lab/x:v0@{there.commit}", root=source)[...])
        hub.transfer("lab/x:v0", target, root=source)
        assert np.array_equal(hub.load("lab/x:v0", root=target).refresh()[...], array[...])


def test_copies_bring_the_data_they_share(make_root, forget):
    source, target = make_root("local"), make_root("local")
    array = filled(source)
    hub.copy("lab/x:v0", "other/y:v1", root=source)
    hub.transfer("other/y:v1", target, root=source)
    forget()
    assert np.array_equal(hub.load("other/y:v1", root=target)[...], array[...])
    assert hub.verify("other/y", root=target).problems == []


def test_diverged_histories_are_refused_and_nothing_is_sent(make_root):
    source, target = make_root("local"), make_root("local")
    filled(source)
    hub.transfer("lab/x:v0", target, root=source)
    hub.load("lab/x:v0", root=target)[1] = 5
    hub.load("lab/x:v0", root=source)[1] = 6
    before = sorted(info.key for info in target.store.list(""))
    with pytest.raises(ConflictError, match="nothing was sent"):
        hub.transfer("lab/x:v0", target, root=source)
    assert sorted(info.key for info in target.store.list("")) == before
    other = make_root("local")
    hub.array(3, "lab/x:v0", root=other)
    with pytest.raises(ConflictError):
        hub.transfer("lab/x:v0", other, root=source)


def test_damage_at_the_source_is_found_before_a_commit_shows_it(make_root):
    source, target = make_root("local"), make_root("local")
    filled(source)
    pack = next(iter(source.store.list("lab/x/packs/")))
    data = bytearray(source.store.get(pack.key))
    data[11] ^= 255
    source.store.put(pack.key, bytes(data))
    with pytest.raises(CorruptDataError, match=r"hub\.repair"):
        hub.transfer("lab/x:v0", target, root=source)
    assert not hub.exists("lab/x:v0", root=target)


def test_bad_requests_are_refused(make_root):
    source = make_root("local")
    filled(source)
    with pytest.raises(ConfigError, match="already"):
        hub.transfer("lab/x:v0", source, root=source)
    with pytest.raises(NotFoundError):
        hub.transfer("lab/none:v0", make_root("local"), root=source)


def test_expired_commits_are_not_needed(make_root):
    source, target = make_root("local"), make_root("local")
    array = filled(source)
    hub.expire("lab/x:v0", keep_last=1, root=source)
    hub.transfer("lab/x:v0", target, root=source)
    assert np.array_equal(hub.load("lab/x:v0", root=target)[...], array[...])
    assert np.array_equal(hub.load("lab/x:v0@paper", root=target)[...], hub.load("lab/x:v0@paper", root=source)[...])


def test_present_chunks_come_in_batches_of_the_size_asked_for(make_root):
    root = make_root("local")
    array = hub.array((300, 1000), "lab/x:v0", "u1", chunks=(1, 1000), codec="none", root=root)
    array[...] = 1
    array[250:] = 2
    for batch_bytes in (1, 1000, 7500, 10**9):
        result = list(present_refs(array._version.fetcher, array._record(), batch_bytes=batch_bytes))
        assert np.concatenate([numbers for numbers, _ in result]).tolist() == list(range(300))
        sizes = [int(refs["length"].sum()) for _, refs in result]
        assert max(sizes) <= max(1000, batch_bytes + 1000)
        assert all(size >= batch_bytes for size in sizes[:-1])


def test_what_lies_unneeded_at_the_target_is_sent_again_before_a_commit_needs_it(make_root, monkeypatch):
    """Else a collector there, to whom it is old and nobody's, could take it after it was counted as there."""
    source, target = make_root("local"), make_root("local")
    array = filled(source)
    real = Store.put_if_absent
    with monkeypatch.context() as patch:
        patch.setattr(
            Store, "put_if_absent", lambda self, key, data: real(self, key, data) if "/log/" not in key else 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            hub.transfer("lab/x:v0", target, root=source)
    packs = sorted(info.key for info in target.store.list("lab/x/packs/"))
    for key in packs[:2]:
        os.utime(target.store._path(key), (0, 0))
    done = hub.transfer("lab/x:v0", target, root=source)
    assert done.objects == 2
    young = time.time() - 3600
    assert all(info.modified.timestamp() > young for info in target.store.list("lab/x/packs/"))
    for key in packs:
        os.utime(target.store._path(key), (0, 0))
    array[0] = 1
    assert hub.transfer("lab/x:v0", target, root=source).commits == 1
    hub.collect_garbage("lab/x", root=target)
    assert np.array_equal(hub.load("lab/x:v0", root=target)[...], array[...])
