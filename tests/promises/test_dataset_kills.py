"""kill -9 of a dataset's writer at every storage call in turn: each commit is there whole, or not at all."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import hubarray as hub
from tests.ageing import age
from tests.rounds import rounds

PROGRAM = """
import json, os, signal, sys, threading, traceback
import numcodecs.blosc, numpy as np, obstore.store
import hubarray as hub
from hubarray.storage.base import Store
from tests.promises.test_dataset_kills import change

calls, turn = 0, threading.Lock()

def dying(verb, kill_at):
    real = getattr(Store, verb)
    def call(self, key, *args, **kwargs):
        global calls
        with turn:
            calls += 1
            own = calls
        if own == kill_at and own % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, key, *args, **kwargs)
        if own == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(Store, verb, call)

def work(url, cache, kill_at, what):
    hub.configure(root=url, cache_dir=cache)
    for verb in ("get", "put", "put_if_absent", "head", "delete"):
        dying(verb, kill_at)
    change(what, None)

for line in sys.stdin:
    reader, pipe = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(*json.loads(line))
            os.write(pipe, b"%d" % calls)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(pipe)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), int(os.read(reader, 9) or 0)]), flush=True)
    os.close(reader)
"""
NAME = "t/pairs:v0"
WHAT = ["create", "append", "transaction", "workers", "adopt", "drop", "grid"]


def specs(length):
    return {
        "image": hub.ArraySpec((length, 4), "i4", chunks=(2, 2), dims=("sample", "x")),
        "label": hub.ArraySpec(length, "i8", chunks=3, dims=("sample",)),
    }


def change(what, root):
    """One commit, which several storage calls make."""
    if what == "create":
        hub.dataset({**specs(5), "more": np.arange(40)}, "t/new:v0", root=root)
        return
    ds = hub.load(NAME, root=root)
    if what == "append":
        ds.append({"image": np.full((300, 4), 8), "label": np.full(300, 8)})
    elif what == "transaction":
        with ds.transaction() as t:
            t["image"][:, 0] = 9
            t["label"][:] = 9
    elif what == "workers":
        with ds.transaction() as t:
            for i in range(2):
                with t.worker() as w:
                    w["image"][i] = 7
                    w["label"][i] = 7
                t.add(w.part)
    elif what == "adopt":
        ds["other"] = hub.load("t/other:v0", root=root)
    elif what == "drop":
        del ds["label"]
    else:
        ds.resize(x=40)


@pytest.fixture(scope="module")
def writing():
    """Runs a writer that is killed at one of its calls; gives its exit code, and how many calls it made."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], **pipe) as writers:

        def run(root, tmp_path, kill_at, what):
            print(json.dumps([root.url, str(tmp_path / "cache"), kill_at, what]), file=writers.stdin, flush=True)
            return json.loads(writers.stdout.readline())

        yield run
        writers.stdin.close()


def begin(root):
    ds = hub.dataset(specs(0), NAME, root=root, grace_seconds=1000)
    ds.append({"image": np.arange(80).reshape(20, 4), "label": range(20)})
    hub.array(30, "t/other:v0", "i4", chunks=2, root=root)[:] = 5
    hub.flush()


def seen(root, name=NAME):
    ds = hub.load(name, root=root)
    return {key: ds[key][...].tolist() for key in ds}


@pytest.mark.parametrize("what", WHAT)
def test_a_killed_writer_leaves_the_commit_or_what_was_there(what, make_root, tmp_path, forget, writing):
    root = make_root("local")
    begin(root)
    name = "t/new:v0" if what == "create" else NAME
    before = None if what == "create" else seen(root)
    code, calls = writing(root, tmp_path, -1, what)
    assert code == 0
    forget()
    after = seen(root, name)
    assert after != before
    for kill_at in range(1, calls + 1, rounds(3, 1)):
        root = make_root("local")
        begin(root)
        assert writing(root, tmp_path, kill_at, what)[0] in (-signal.SIGKILL, 0)
        forget()
        there = seen(root, name) if hub.exists(name, root=root) else None
        assert there in (before, after)
        if what != "create" or there is None:
            if there == before:
                change(what, root)
            assert seen(root, name) == after
        for home in ("t/pairs", "t/new"):
            if any(one.startswith(f"{home}:") for one in hub.list(root=root)):
                age(root, 20_000)
                hub.collect_garbage(home, root=root)
                assert hub.verify(home, root=root).problems == []
        assert seen(root, name) == after
