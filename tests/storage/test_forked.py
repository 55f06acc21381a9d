"""S3 in forked children: the same engine, whatever the parent did with it before."""

import os
import sys

import numpy as np

import hubarray as hub
from hubarray.storage.url import open_store


def in_a_fork(work):
    """What some work says in a forked child, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        said = told.read().decode()
    os.waitpid(child, 0)
    return said


def test_children_and_their_children_read_and_write_through_obstore(s3_root):
    array = hub.array((40, 4), "t/forked:v0", "i8", chunks=(2, 4), root=s3_root)
    array[...] = np.arange(160).reshape(40, 4)
    engine = type(open_store(array.root)).__name__

    def sums():
        again = hub.load("t/forked:v0", root=s3_root)
        again[0, 0] += 1
        return int(again[...].sum()), type(open_store(array.root)).__name__

    def child():
        return sums(), in_a_fork(sums)

    total = 160 * 159 // 2
    assert in_a_fork(child) == str(((total + 1, engine), str((total + 2, engine))))
    assert int(hub.load("t/forked:v0", root=s3_root)[...].sum()) == total + 2


def test_a_child_of_a_process_that_never_used_s3_loads_nothing_twice(s3_root):
    loaded = sys.modules.pop("obstore._obstore", None)
    try:
        assert in_a_fork(lambda: __import__("hubarray.storage.forked", fromlist=["x"]).has_live_obstore()) == "True"
    finally:
        if loaded is not None:
            sys.modules["obstore._obstore"] = loaded


def test_without_memory_files_a_child_takes_the_other_engine(s3_root, monkeypatch):
    hub.array(4, "t/forked:v0", "i8", root=s3_root)[...] = 3
    monkeypatch.delattr(os, "memfd_create", raising=False)
    parent = open_store(hub.load("t/forked:v0", root=s3_root).root)
    said = in_a_fork(
        lambda: (int(hub.load("t/forked:v0", root=s3_root)[...].sum()), type(open_store(_root(s3_root))).__name__)
    )
    assert said == str((12, "S3FilesystemStore"))
    assert type(parent).__name__ == "ObjectStore"


def _root(root):
    return hub.load("t/forked:v0", root=root).root
