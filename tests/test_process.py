"""What a process holds when it is forked never blocks the child."""

import contextlib
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import hubarray as hub
from hubarray import process
from hubarray.arrays.metadata import metadata
from hubarray.extras import needed
from hubarray.process import cached_property
from hubarray.storage import url
from hubarray.storage.memory import _turn

CHILD_SECONDS = 30

begun = threading.Event()


def in_a_fork(work):
    """Whether ``work`` returns true in a forked child, in time."""
    child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(0 if work() else 1))
    child.start()
    child.join(CHILD_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode == 0


class Moment:
    """Where a thread stays while the test forks."""

    def __init__(self):
        self._reached, self._over = threading.Event(), threading.Event()

    def stay(self):
        """Called in the thread."""
        self._reached.set()
        self._over.wait(CHILD_SECONDS)

    @contextlib.contextmanager
    def of(self, work):
        """Within the block, a thread that does ``work`` is at this moment."""
        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert self._reached.wait(CHILD_SECONDS)
            yield
        finally:
            self._over.set()
            thread.join()


@pytest.mark.parametrize("kind", ["local", "memory", "s3"])
def test_stores_that_a_child_inherits_are_not_dropped_there(make_root, kind):
    # obstore's client waits in its destructor for a lock that a thread of the parent may have held.
    root = make_root(kind)
    root.store.put("x", b"1")
    parents = weakref.ref(root.store)

    def lives_on_beside_a_new_one():
        gc.collect()
        return parents() is not None and root.store is not parents()

    assert in_a_fork(lives_on_beside_a_new_one)
    url._stores._stores.pop(root)
    gc.collect()
    assert parents() is None


def test_a_child_reads_an_array_while_its_parent_was_about_to_make_a_codec(root, forget, monkeypatch):
    for name in ("t/x:v0", "t/y:v0"):
        hub.array((4,), name, "i4", root=root)[:] = 7
    # What was written last needs no codec.
    forget()
    parent, codec_for, moment = os.getpid(), metadata.codec_for, Moment()

    def slowly(*description):
        if os.getpid() == parent:
            moment.stay()
        return codec_for(*description)

    monkeypatch.setattr(metadata, "codec_for", slowly)
    with moment.of(lambda: hub.load("t/y:v0", root=root)[:]):
        assert in_a_fork(lambda: hub.load("t/x:v0", root=root)[:].tolist() == [7] * 4)


def test_a_fork_waits_for_an_import_that_is_under_way(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(
        "import time\nfrom tests import test_process\ntest_process.begun.set()\ntime.sleep(1)\nVALUE = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    begun.clear()

    def use():
        return needed("slow_to_import", extra="test", why="the test").VALUE == 7

    thread = threading.Thread(target=use)
    thread.start()
    assert begun.wait(CHILD_SECONDS)
    assert in_a_fork(use)
    thread.join()


FIRST_READS = """
import multiprocessing, sys, threading
import hubarray as hub

arrays = [hub.load(name, root=sys.argv[1]) for name in sys.argv[2:]]
seen = []

def read(n):
    return arrays[n][...].sum()

def note(n):
    try:
        seen.append(int(read(n)))
    except Exception as error:
        seen.append(error)

threads = [threading.Thread(target=note, args=(n,)) for n in range(len(arrays))]
for thread in threads:
    thread.start()
with multiprocessing.get_context("fork").Pool(2) as pool:
    seen += map(int, pool.map_async(read, range(len(arrays))).get(30))
for thread in threads:
    thread.join()
print(seen)
"""


def test_the_first_reads_of_a_process_may_be_of_many_codecs_in_many_threads_beside_a_fork(root, tmp_path):
    names = [f"t/{codec}:v0" for codec in ("auto", "zstd", "gzip", "lz4", "none")]
    for name, codec in zip(names, ("auto", "zstd", "gzip", "lz4", "none"), strict=True):
        hub.array((100, 50), name, "i4", chunks=(1, 50), codec=codec, root=root)[...] = 1
    script = tmp_path / "script.py"
    script.write_text(FIRST_READS)
    for _ in range(4):
        run = subprocess.run(
            [sys.executable, script, root.url, *names], capture_output=True, text=True, timeout=100, check=False
        )
        assert run.stdout == f"{[5000] * 10}\n", run.stderr


def test_a_child_reads_the_memory_filesystem_while_its_parent_was_using_it(make_root):
    root, moment = make_root("memory"), Moment()
    root.store.put("x", b"1")

    def use():
        with _turn.lock:
            moment.stay()

    with moment.of(use):
        assert in_a_fork(lambda: bytes(root.store.get("x")) == b"1")


def test_a_loop_that_a_child_inherits_half_way_goes_on_there_and_in_the_parent(root):
    array = hub.array((60, 64, 1024), "t/x:v0", "i8", chunks=(1, 64, 1024), root=root)
    array[:] = np.arange(60).reshape(60, 1, 1)
    rows = iter(array)
    first = [next(rows)[0, 0] for _ in range(5)]

    def rest():
        return first + [row[0, 0] for row in rows] == list(range(60))

    assert in_a_fork(rest)
    assert rest()


def test_a_cached_property_is_computed_once_and_documented():
    class Thing:
        computed = 0

        @cached_property
        def value(self):
            """The value."""
            self.computed += 1
            return []

    thing = Thing()
    assert thing.value is thing.value
    assert thing.computed == 1
    assert Thing().value is not thing.value
    assert Thing.value.__doc__ == "The value."


def test_one_that_fails_after_a_fork_keeps_no_other_from_being_told():
    class Told:
        def __init__(self, fails):
            self.fails, self.was = fails, False

        def after_fork(self):
            self.was = True
            if self.fails:
                raise ValueError("after the fork")

    every = [Told(i % 2 == 0) for i in range(6)]
    for item in every:
        process.register(item)
    assert in_a_fork(lambda: all(item.was for item in every))
