"""kill -9 of a dataset's writer at every storage call in turn: each commit is there whole, or not at all."""

import signal

import numpy as np
import pytest

import hubarray as hub
from tests.ageing import age
from tests.promises.killing import killed_writers
from tests.rounds import rounds

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


def work(what):
    """What a writer does until it is killed."""
    change(what, None)


@pytest.fixture(scope="module")
def writing():
    with killed_writers(__name__) as run:
        yield run


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
            if any(item.startswith(f"{home}:") for item in hub.list(root=root)):
                age(root, 20_000)
                hub.collect_garbage(home, root=root)
                assert hub.verify(home, root=root).problems == []
        assert seen(root, name) == after
