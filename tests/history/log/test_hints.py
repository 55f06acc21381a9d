"""The hint follows the log: at most once a second, within two seconds of a burst's end, and at exit."""

import multiprocessing
import subprocess
import sys
import time

import pytest

import hubarray as hub
from hubarray.history.log import hints
from hubarray.history.log.hints import decode_hint, hint_key
from hubarray.names import parse

pytestmark = pytest.mark.alone

NAME = parse("t/x:v0")


def _hint(root):
    return decode_hint(root.store.get(hint_key(NAME)))


def test_a_burst_of_commits_writes_few_hints_and_the_last_one_soon(root):
    array = hub.array(100, "t/x:v0", root=root)
    hub.flush()
    before = root.store.stats.counts()
    began = time.monotonic()
    for i in range(50):
        array[i] = i + 1
    ended = time.monotonic()
    burst = root.store.stats.counts() - before
    assert burst["put"] - 50 <= 2 + (ended - began)
    while _hint(root) != 51:
        assert time.monotonic() - ended < 2
        time.sleep(0.02)


def test_a_process_that_ends_leaves_a_current_hint(root):
    program = (
        "import sys, hubarray as hub\n"
        "array = hub.array(5, 't/x:v0', root=sys.argv[1])\n"
        "for i in range(5): array[i] = i + 1\n"
    )
    subprocess.run([sys.executable, "-c", program, root.url], check=True)
    assert _hint(root) == 6


def _write_five(root):
    array = hub.load("t/x:v0", root=root)
    for i in range(5):
        array[i] = i + 1


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_leaves_a_current_hint_too(root, method):
    hub.array(5, "t/x:v0", root=root)
    hub.flush()
    child = multiprocessing.get_context(method).Process(target=_write_five, args=(root,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert _hint(root) == 6


def test_a_hint_that_cannot_be_written_costs_nobody_a_commit(root, monkeypatch):
    from hubarray.storage.base import Store

    put = Store.put

    def failing(store, key, data, **options):
        if key.endswith("head.json"):
            raise hub.errors.UnavailableError("slow down")
        return put(store, key, data, **options)

    monkeypatch.setattr(Store, "put", failing)
    array = hub.array(3, "t/x:v0", root=root)
    array[0] = 1
    hub.flush()
    monkeypatch.undo()
    assert hub.load("t/x:v0", root=root)[0] == 1


def test_a_process_that_writes_many_versions_remembers_only_the_latest(root, monkeypatch):
    monkeypatch.setattr(hints, "HINT_INTERVAL_SECONDS", 0.0)
    for i in range(30):
        hub.array(1, f"t/x:v{i}", root=root)
        hub.flush()
    hub.array(1, "t/x:last", root=root)
    hub.flush()
    assert len(hints.hint_writer._hints) <= 2
    assert all(decode_hint(root.store.get(f"t/x/log/v{i}/head.json")) == 1 for i in range(30))
