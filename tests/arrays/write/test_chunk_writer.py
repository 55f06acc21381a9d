"""Chunks of one operation: encoded, uploaded once, and not again where an earlier attempt's still fit."""

import numpy as np
import pytest

import hubarray as hub
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write import chunk_writer
from hubarray.arrays.write.chunk_writer import ChunkWriter, Task
from hubarray.blobs.pack import PackWriter
from hubarray.history.commits.handle import newest_record


@pytest.fixture
def array(root):
    array = hub.array((6, 4), "t/x:v0", "i8", chunks=(2, 4), fill_value=-1, root=root)
    array[0:4] = np.arange(16).reshape(4, 4)
    return array


class Attempt:
    """Writes tasks on the newest state of an array, and counts what they did."""

    def __init__(self, array):
        self._array = array
        self._writer = ChunkWriter()
        self.computed = []

    def task(self, row, value, *, whole=True, state=None):
        def contents(old):
            self.computed.append((row, None if old is None else old[:, 0].tolist()))
            if whole:
                return np.full((2, 4), value)
            old[0, 0] = value
            return old

        return Task((row, 0), not whole, contents, state)

    def write(self, *tasks):
        base = ArraySnapshot.of(*newest_record(self._array))
        packs = PackWriter(base.version.store, base.version.name.home)
        coords, refs = self._writer.write(tasks, base.metadata, base, packs, total_bytes=0)
        packs.finish()
        return coords, refs, base


def _packs(root):
    return len(list(root.store.list("t/x/packs/")))


def test_chunks_have_the_contents_that_their_tasks_made(array):
    attempt = Attempt(array)
    coords, refs, base = attempt.write(
        attempt.task(0, 7), attempt.task(1, 9, whole=False), attempt.task(2, 8, whole=False)
    )
    assert coords == [(0, 0), (1, 0), (2, 0)]
    chunks = base.chunks(coords, refs)
    assert (chunks[0, 0] == 7).all()
    assert chunks[1, 0].tolist() == [[9, 9, 10, 11], [12, 13, 14, 15]]
    assert chunks[2, 0].tolist() == [[8, -1, -1, -1], [-1] * 4]


def test_a_task_gets_what_is_stored_only_where_elements_of_it_survive(array):
    attempt = Attempt(array)
    attempt.write(attempt.task(0, 7), attempt.task(1, 9, whole=False), attempt.task(2, 8, whole=False))
    assert sorted(attempt.computed) == [(0, None), (1, [8, 12]), (2, [-1, -1])]


def test_what_is_cached_is_not_what_the_task_may_write_into(array):
    before = array[2:4]
    attempt = Attempt(array)
    attempt.write(attempt.task(1, 99, whole=False))
    assert np.array_equal(array[2:4], before)


def test_chunks_of_fill_value_only_get_null_refs_and_upload_nothing(array, root):
    before = _packs(root)
    attempt = Attempt(array)
    coords, refs, _ = attempt.write(attempt.task(0, -1))
    assert coords == [(0, 0)]
    assert refs["length"].tolist() == [0]
    assert _packs(root) == before


def test_a_chunk_that_stays_as_it_is_is_no_change(array, root):
    before = _packs(root)
    attempt = Attempt(array)
    coords, refs, _ = attempt.write(attempt.task(1, 8, whole=False), attempt.task(2, -1, whole=False))
    assert coords == []
    assert len(refs) == 0
    assert _packs(root) == before


def test_a_next_attempt_uploads_only_chunks_whose_stored_contents_or_state_changed(array, root, other_machine):
    attempt = Attempt(array)

    def tasks(state):
        return [attempt.task(0, 50, whole=False), attempt.task(1, 60, whole=False), attempt.task(2, 70, state=state)]

    _, first, _ = attempt.write(*tasks("a"))
    other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__((2, 1), 1000))
    array.refresh()
    attempt.computed.clear()
    coords, second, base = attempt.write(*tasks("a"))
    assert attempt.computed == [(1, [8, 12])]
    assert [item.tobytes() == other.tobytes() for item, other in zip(first, second, strict=True)] == [True, False, True]
    assert base.chunks(coords, second)[1, 0][0].tolist() == [60, 1000, 10, 11]
    attempt.computed.clear()
    attempt.write(*tasks("b"))
    assert attempt.computed == [(2, None)]


@pytest.mark.parametrize(("batch_bytes", "requests"), [(1, 2), (1 << 20, 1)])
def test_stored_chunks_are_fetched_together_as_far_as_a_batch_goes(
    array, forget, root, monkeypatch, batch_bytes, requests
):
    monkeypatch.setattr(chunk_writer, "WRITE_BATCH_BYTES", batch_bytes)
    forget()
    store = root.store
    before = store.stats.counts()["get"]
    attempt = Attempt(hub.load("t/x:v0", root=root))
    opened = store.stats.counts()["get"] - before
    attempt.write(attempt.task(0, 50, whole=False), attempt.task(1, 60, whole=False))
    assert store.stats.counts()["get"] - before - opened == requests
