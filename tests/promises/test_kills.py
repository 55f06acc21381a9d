"""kill -9 at every storage call in turn: a fresh reader sees the old state or the new one, whole."""

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

calls, turn = 0, threading.Lock()

def dying(verb, kill_at, when):
    real = getattr(Store, verb)
    def call(self, key, *args, **kwargs):
        global calls
        with turn:
            calls += 1
            own = calls
        if own == kill_at and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, key, *args, **kwargs)
        if own == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(Store, verb, call)

def write(url, options, cache, kill_at, when, what):
    hub.configure(root=url, storage_options=options, cache_dir=cache)
    array = hub.load("t/x:v0")
    for verb in ("get", "put", "put_if_absent", "head", "delete"):
        dying(verb, kill_at, when)
    if what == "assign":
        array[5:1100] = 2
    elif what == "append":
        array.append(np.full((5, 4), 2))
    elif what == "shrink":
        array.resize((7, 3))
    elif what == "copy":
        hub.copy("t/x:v0", "u/y:v0")
    elif what == "delete":
        hub.delete("t/x:v0")
    else:
        with array.transaction() as t:
            t[0] = 2
            t[700:710, 1] = 2
    hub.flush()

# One process for each writer, and the imports once for all.
for line in sys.stdin:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            write(*json.loads(line))
            os.write(writer, b"%d" % calls)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), int(os.read(reader, 9) or 0)]), flush=True)
    os.close(reader)
"""


def _start(root):
    array = hub.array((1200, 4), "t/x:v0", "i4", chunks=(1, 4), root=root, grace_seconds=1000)
    array[...] = 1
    hub.flush()
    return array


def _after(what):
    state = np.ones((1200, 4), "i4")
    if what == "assign":
        state[5:1100] = 2
    elif what == "append":
        state = np.concatenate([state, np.full((5, 4), 2, "i4")])
    elif what == "shrink":
        state = state[:7, :3]
    elif what == "transaction":
        state[0], state[700:710, 1] = 2, 2
    return state


@pytest.fixture(scope="module")
def writing():
    """Runs a writer that is killed at one of its calls; gives its exit code, and how many calls it made."""
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], **pipe) as writers:

        def run(root, tmp_path, kill_at, when, what):
            arguments = [root.url, root._options, str(tmp_path / "cache"), kill_at, when, what]
            print(json.dumps(arguments), file=writers.stdin, flush=True)
            return json.loads(writers.stdout.readline())

        yield run
        writers.stdin.close()


@pytest.mark.parametrize("what", ["assign", "append", "shrink", "transaction", "copy", "delete"])
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_killed_writer_leaves_the_old_state_or_the_new_one(kind, what, make_root, tmp_path, forget, writing):
    before = np.ones((1200, 4), "i4")
    root = make_root(kind)
    _start(root)
    code, calls = writing(root, tmp_path, -1, "before", what)
    assert code == 0
    assert calls >= 2
    # On a server in everyday runs every third, before and after by turns; in a folder all.
    for kill_at in range(1, calls + 1, rounds(3, 1) if kind == "s3" else 1):
        root = make_root(kind)
        _start(root)
        code, _ = writing(root, tmp_path, kill_at, "after" if kill_at % 2 else "before", what)
        # The last calls are those of hints, which need not be made.
        assert code in (-signal.SIGKILL, 0)
        forget()
        if what == "delete" and not hub.exists("t/x:v0", root=root):
            array = hub.load("t/x:v0@2", root=root)
        else:
            array = hub.load("t/x:v0", root=root)
        result = array[...]
        assert any(np.array_equal(result, state) for state in (before, _after(what)))
        if what == "copy" and hub.exists("u/y:v0", root=root):
            assert np.array_equal(hub.load("u/y:v0", root=root)[...], before)
        assert hub.verify("t/x", root=root).problems == []


def test_what_a_killed_writer_left_goes_after_the_grace_period(root, tmp_path, writing):
    _start(root)
    assert writing(root, tmp_path, 2, "before", "assign")[0] == -signal.SIGKILL
    age(root, 1001)
    (root.store.folder / "t/x/packs/.tmp-0123456789abcdef").write_bytes(b"half")
    hub.collect_garbage("t/x", root=root)
    assert len(list(root.store.leftovers(""))) == 1
    age(root, 1001)
    assert hub.collect_garbage("t/x", root=root).leftovers == 1
    assert list(root.store.leftovers("")) == []
    reached = set(root.store.list("t/x/packs/"))
    assert len(reached) == 1
    assert (hub.load("t/x:v0", root=root)[...] == 1).all()
