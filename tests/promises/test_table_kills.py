"""kill -9 of a table's writer at every storage call in turn: the table is there whole, or not at all; and it goes on."""

import signal

import numpy as np
import pytest

import hubarray as hub
from hubarray.tables.write import writer
from tests.ageing import age
from tests.promises.killing import killed_writers
from tests.rounds import rounds
from tests.tables.rows import assert_rows

SCHEMA = {"i": hub.Field("i8", index=True), "x": hub.Field("u1", (None,)), "y": hub.Field("f4", nullable=True)}


def rows_of(key, first=0):
    return [
        {"i": np.int64(first + i), "x": np.full(i, ord(key[0]), "u1"), "y": None if i % 2 else np.float32(i)}
        for i in range(6)
    ]


def work(what):
    """What a writer does until it is killed."""
    writer.MAX_WAITING_PARTS = 2
    if what in ("index", "move"):
        hub.write_index(hub.read_index("t/old:v1").iloc[::-2], "t/x:v1", move=what == "move")
        return
    if what == "driver":
        with hub.table_writer("t/x:v1", hub.Schema(SCHEMA)) as w:
            for key in "cab":
                with w.worker().partition(key) as p:
                    p.extend(rows_of(key))
                w.add(bytes(p.part))
        return
    given = None if what == "grow" else hub.Schema(SCHEMA)
    reference = "t/old:v1" if what == "reference" else None
    name = "t/old:v1" if what == "grow" else "t/x:v1"
    with hub.table_writer(name, given, resume=what == "resume", reference=reference) as w:
        for key in "abc":
            key = key.upper() if what == "grow" else key
            if key not in w:
                with w.partition(key) as p:
                    p.extend(rows_of(key))


@pytest.fixture(scope="module")
def writing():
    with killed_writers(__name__) as run:
        yield run


def _start(root):
    """An older table, which grows and is a reference: half of its blocks are those of the new one."""
    with hub.table_writer("t/old:v1", hub.Schema(SCHEMA), root=root, growing=True, grace_seconds=1000) as w:
        for key in "ab":
            with w.partition(key) as p:
                p.extend(rows_of(key) if key == "a" else rows_of("z"))
    hub.flush()
    return hub.load("t/old:v1", root=root)[:]


def _expected(what, old):
    if what == "grow":
        return "t/old:v1", [*old, *(row for key in "ABC" for row in rows_of(key))]
    if what in ("index", "move"):
        # Rows keep the order of the index within their partition.
        return "t/x:v1", [*old[:6][::-1][::2], *old[6:][::-1][::2]]
    return "t/x:v1", [row for key in "abc" for row in rows_of(key)]


@pytest.mark.parametrize("what", ["write", "driver", "resume", "reference", "grow", "index", "move"])
def test_a_killed_writer_leaves_no_table_or_all_of_it(what, make_root, tmp_path, forget, writing, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_PARTS", 2)
    root = make_root("local")
    old = _start(root)
    code, calls = writing(root, tmp_path, -1, what)
    name, expected = _expected(what, old)
    assert code == 0
    assert_rows(hub.load(name, root=root)[:], expected)
    for kill_at in range(1, calls + 1, rounds(3, 1)):
        root = make_root("local")
        _start(root)
        code, _ = writing(root, tmp_path, kill_at, what)
        assert code in (-signal.SIGKILL, 0)
        forget()
        if hub.exists(name, root=root):
            assert_rows(hub.load(name, root=root)[:], old if what == "grow" and _grew(root) is False else expected)
        assert_rows(hub.load("t/old:v1", root=root)[: len(old)], old)
        if not hub.exists("t/x:v1", root=root) and what == "resume":
            assert writing(root, tmp_path, -1, what)[0] == 0
            forget()
            assert_rows(hub.load(name, root=root)[:], expected)
        for item in ("t/old", "t/x"):
            if any(there.startswith(f"{item}:") for there in hub.list(root=root)):
                assert hub.verify(item, root=root).problems == []


def _grew(root):
    return len(hub.load("t/old:v1", root=root).partitions) > 2


def test_what_waits_survives_a_collector_and_what_a_dead_writer_left_does_not(root, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_PARTS", 1)
    w = hub.table_writer("t/x:v1", hub.Schema(SCHEMA), root=root, grace_seconds=1000, resume=True)
    with w.partition("a") as p:
        p.extend(rows_of("a"))
    age(root, 2000)
    assert hub.collect_garbage("t/x", root=root).packs == 0
    w = hub.table_writer("t/x:v1", hub.Schema(SCHEMA), root=root, grace_seconds=1000, resume=True)
    with w.partition("b") as p:
        p.extend(rows_of("b"))
    w.publish()
    assert_rows(hub.load("t/x:v1", root=root)[:], [*rows_of("a"), *rows_of("b")])
    age(root, 2000)
    assert hub.collect_garbage("t/x", root=root).packs > 0, "the staging version's own parts"
    age(root, 2000)
    hub.collect_garbage("t/x", root=root)
    assert_rows(hub.load("t/x:v1", root=root)[:], [*rows_of("a"), *rows_of("b")])
    assert hub.verify("t/x", root=root).problems == []


def test_shared_blocks_stay_while_somebody_reads_them_and_go_then(root, forget):
    old = _start(root)
    w = hub.table_writer("u/y:v1", hub.Schema(SCHEMA), root=root, reference="t/old:v1", grace_seconds=1000)
    with w, w.partition("a") as p:
        p.extend(old[:6])
    hub.delete("t/old:v1", root=root)
    assert hub.du("u/y:v1", root=root).shared > 0
    for _ in range(3):
        age(root, 2000)
        hub.collect_garbage("t/old", root=root)
    forget()
    assert_rows(hub.load("u/y:v1", root=root)[:], old[:6])
    hub.delete("u/y:v1", root=root)
    for _ in range(3):
        age(root, 2000)
        for home in ("u/y", "t/old"):
            hub.collect_garbage(home, root=root)
    assert list(root.store.list("t/old/packs/")) == []
