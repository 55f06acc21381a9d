"""Runs of rows, each read while the one before it is used."""

import multiprocessing
import pickle
import sys
import threading
import weakref

import numpy as np

import hubarray as hub
from hubarray.blobs.pools import pools
from hubarray.handles.array import Array
from hubarray.readers.pipeline.groups import RowReader
from hubarray.readers.pipeline.prefetch_queue import PrefetchQueue


def arrays(root):
    images = hub.array((40, 6), "t/images:v0", "f4", chunks=(1, 6), root=root)
    images[...] = np.arange(40)[:, None]
    labels = hub.array(40, "t/labels:v0", "i8", chunks=16, root=root)
    labels[...] = np.arange(40)
    return [images.snapshot(), labels.snapshot()]


def runs(reader, orders):
    """The rows of each order, read as a share's runs are."""
    feed = PrefetchQueue([len(item) for item in orders], lambda i: pools.ahead.submit(reader.read, orders[i]), 2)
    for i, rows in enumerate(orders):
        yield feed.get(i)
        feed.used(i, len(rows))


def test_rows_come_of_every_array_in_the_order_asked_for(any_root):
    orders = np.split(np.random.default_rng(0).permutation(40), [8, 16, 24, 32])
    for (images, labels), rows in zip(runs(RowReader(arrays(any_root), False), orders), orders, strict=True):
        assert np.array_equal(labels, rows)
        assert np.array_equal(images, np.repeat(rows, 6).reshape(-1, 6))


def test_what_is_kept_of_a_run_stays_as_it_was(root):
    orders = np.arange(40).reshape(10, 4)
    kept = [parts[0][:2] for parts in runs(RowReader(arrays(root), False), orders)]
    assert [item[:, 0].tolist() for item in kept] == [[4 * i, 4 * i + 1] for i in range(10)]


def test_memory_is_used_again_from_one_pass_to_the_next(root):
    reader = RowReader(arrays(root)[:1], False)
    seen = []
    for _ in range(2):
        for parts in runs(reader, np.arange(40).reshape(10, 4)):
            # Weakly: whoever refers to memory has it for himself.
            seen.append(weakref.ref(parts[0].base))
            del parts
    assert all(item() is not None for item in seen)
    assert len(set(map(id, (item() for item in seen)))) <= 4


def test_one_run_is_read_ahead(root, monkeypatch):
    read, changed, real = [], threading.Condition(), Array.read_rows

    def rows(self, rows, out):
        with changed:
            read.append(int(rows[0]))
            changed.notify()
        return real(self, rows, out)

    monkeypatch.setattr(Array, "read_rows", rows)
    next(runs(RowReader(arrays(root)[:1], False), np.arange(40).reshape(10, 4)))
    with changed:
        assert changed.wait_for(lambda: len(read) == 2, 10)
    assert sorted(read) == [0, 4]


def test_small_arrays_are_read_once_and_kept_here_and_not_in_what_is_pickled(any_root):
    pair = arrays(any_root)
    small = RowReader(pair, True)
    orders = np.random.default_rng(0).permutation(40).reshape(10, 4)
    # A hint is written a moment after its commit.
    hub.flush()
    for _ in range(2):
        before = hub.stats().requests
        for (images, labels), rows in zip(runs(small, orders), orders, strict=True):
            assert np.array_equal(labels, rows)
            assert np.array_equal(images[:, 5], rows)
    assert hub.stats().requests == before
    assert len(pickle.dumps(small)) < 10_000
    again = pickle.loads(pickle.dumps(small))
    assert again.read(np.array([7, 3]))[1].tolist() == [7, 3]


def test_a_run_that_was_under_way_at_a_fork_is_read_again_in_the_child(root, monkeypatch):
    slow, real = threading.Event(), Array.read_rows

    def rows(self, rows, out):
        if multiprocessing.parent_process() is None and rows[0] == 4:
            slow.wait(20)
        return real(self, rows, out)

    monkeypatch.setattr(Array, "read_rows", rows)
    rest = runs(RowReader(arrays(root)[:1], False), np.arange(40).reshape(10, 4))
    next(rest)

    def go_on():
        sys.exit(sum(len(parts[0]) for parts in rest))

    child = multiprocessing.get_context("fork").Process(target=go_on)
    child.start()
    child.join(20)
    child.kill()
    slow.set()
    assert child.exitcode == 36
