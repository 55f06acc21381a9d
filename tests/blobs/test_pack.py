"""Packs on their way into a store that fails for a while."""

import os

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs.pack import OWN_PACK_BYTES, PackWriter
from hubarray.blobs.ref import blob_place


@pytest.fixture
def obstacle(root):
    """A file that stands where the packs' folder is needed."""
    packs = root.store.folder / "lab/x/packs"
    packs.parent.mkdir(parents=True)
    packs.touch()
    return packs


def _interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("size", [100, OWN_PACK_BYTES])
def test_an_upload_that_failed_fails_whatever_follows_it(root, obstacle, size):
    packs = PackWriter(root.store, "lab/x")
    packs.add(b"x" * size)
    with pytest.raises(hub.errors.StorageError, match="a file stands where a folder is needed"):
        packs.finish()
    obstacle.unlink()
    for attempt in (packs.finish, lambda: packs.add(b"y" * OWN_PACK_BYTES)):
        with pytest.raises(hub.errors.StorageError, match="a file stands where a folder is needed"):
            attempt()


def test_what_was_interrupted_before_it_was_uploaded_is_uploaded_by_the_next_attempt(root, monkeypatch):
    packs = PackWriter(root.store, "lab/x")
    large, small = packs.add(b"x" * OWN_PACK_BYTES), packs.add(b"y" * 100)

    monkeypatch.setattr(packs, "_wait_below", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        packs.finish()
    monkeypatch.undo()
    packs.finish()
    for ref in (large, small):
        place = blob_place(ref)
        assert place.is_intact(root.store.get(place.key, place.offset, place.length))


def test_an_interrupted_upload_is_not_an_interrupt_for_what_follows_it(root, monkeypatch):
    packs = PackWriter(root.store, "lab/x")
    packs.add(b"x" * 100)
    monkeypatch.setattr(os, "fsync", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        packs.finish()
    monkeypatch.undo()
    with pytest.raises(hub.errors.StorageError, match="its upload was interrupted; write it again"):
        packs.finish()


def test_a_transaction_of_which_a_part_could_not_be_uploaded_is_not_committed(root):
    hub.configure(memory_cache_bytes=0)
    array = hub.array((4, 1 << 20), "lab/x:v0", "u1", chunks=(1, 1 << 20), codec="none", root=root)
    packs = root.store.folder / "lab/x/packs"
    packs.touch()
    noise = np.random.default_rng(0).integers(1, 256, (4, 1 << 20), "u1")
    transaction = array.transaction().__enter__()
    transaction[0] = noise[0]
    with pytest.raises(hub.errors.StorageError, match="lab/x/packs/"):
        transaction[0]
    packs.unlink()
    with pytest.raises(hub.errors.StorageError, match="lab/x/packs/"):
        transaction.__exit__(None, None, None)
    assert array.commit == 1
    array[...] = noise
    assert np.array_equal(array[...], noise)
