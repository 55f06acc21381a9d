"""Turns of one machine's writers: in order, and never in anybody's way."""

import json
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import hubarray as hub
from hubarray.blobs.ref import new_id
from hubarray.history.commits.commit import _handed_base
from hubarray.history.log import commit_queue
from hubarray.history.log.commit_queue import CommitTicket, MachineQueue
from hubarray.history.log.version import Version
from hubarray.history.records.record import encode

pytestmark = pytest.mark.alone

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def cache(tmp_path):
    hub.configure(cache_dir=tmp_path / "cache")
    return tmp_path / "cache"


def _hold(cache, held):
    hub.configure(cache_dir=cache)
    turn = MachineQueue("x").turn()
    turn.take()
    held.set()
    time.sleep(60)


def _holder(cache):
    held = SPAWN.Event()
    process = SPAWN.Process(target=_hold, args=(str(cache), held))
    process.start()
    assert held.wait(30)
    return process


def _seconds(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_turns_are_taken_in_the_order_of_asking_and_hand_over_the_newest_commit():
    order, threads = [], []
    first = MachineQueue("x").turn()
    first.take()

    def take(i):
        turn = MachineQueue("x").turn()
        turn.take()
        order.append((i, turn.newest))
        turn.end(100 + i)

    for i in range(5):
        threads.append(threading.Thread(target=take, args=(i,)))
        threads[-1].start()
        time.sleep(0.05)
    assert order == []
    first.end(99)
    for thread in threads:
        thread.join(10)
    assert order == [(0, 99), (1, 100), (2, 101), (3, 102), (4, 103)]


def _handed(queue, *, made_by="x", newest=7, record=b"the record", wait=0.0, after=None):
    """What the next writer gets, where one before it hands a record over."""
    first, got = MachineQueue(made_by, queue).turn(), []
    first.take()

    def take():
        turn = MachineQueue("x", queue).turn()
        turn.take()
        got.append((turn.newest, turn.handed))
        turn.end(0)

    thread = threading.Thread(target=take)
    thread.start()
    time.sleep(0.05)
    first.end(newest, lambda: record)
    if after is not None:
        after(first)
    thread.join(10)
    return got


def test_a_record_that_was_created_is_handed_over_to_whoever_waits():
    assert _handed(None) == [(7, b"the record")]


def test_a_record_is_not_made_ready_where_nobody_waits():
    turn, made = MachineQueue("x").turn(), []
    turn.take()
    turn.end(7, lambda: made.append(1) or b"")
    assert not made
    turn = MachineQueue("x").turn()
    turn.take()
    assert turn.handed == b""


def test_records_of_other_versions_older_ones_and_long_ones_are_not_handed_over(monkeypatch):
    monkeypatch.setattr(commit_queue, "_FILES", 1)
    assert _handed(None, made_by="another version") == [(7, b"")]
    assert _handed(None, record=b"x" * ((64 << 10) + 1)) == [(7, b"")]
    monkeypatch.setattr(commit_queue, "_HANDED_SECONDS", -1.0)
    assert _handed(None) == [(7, b"")]


def test_a_hand_over_that_fails_lets_the_next_one_go():
    def fail():
        raise ValueError("who would have thought of that")

    turn, taken = MachineQueue("x").turn(), threading.Event()
    turn.take()

    def take():
        other = MachineQueue("x").turn()
        other.take()
        assert other.handed == b""
        taken.set()
        other.end(0)

    threading.Thread(target=take).start()
    time.sleep(0.05)
    turn.end(7, fail)
    assert taken.wait(5)


def _of_another_line(record):
    return encode(replace(record, head=replace(record.head, line=new_id())))[0]


@pytest.mark.parametrize(
    ("handed", "requests"),
    [
        # It is applied to at once, and read beside that: the file is a hint and no more.
        (lambda record: encode(record)[0], 1),
        (lambda record: encode(record)[0][:-1], 1),
        (lambda record: encode(record)[0][:40], 1),
        (lambda record: b"{}", 1),
        (lambda record: b"", 1),
        (_of_another_line, 1),
    ],
    ids=["intact", "cut at its end", "cut short", "no record", "nothing", "of another line"],
)
def test_what_is_no_record_of_this_line_is_asked_for(make_root, handed, requests):
    array = hub.array(3, "t/x:v0", "i8", root=make_root("s3"))
    before = array._version.last_seen
    array[0] = 5
    after = array._version.last_seen
    other = Version(array._version.fetcher, after.name)
    turn = other.queue.turn()
    turn.newest, turn.handed = 2, handed(after)
    count = other.store.stats.requests
    base, proof = _handed_base(turn, other, before)
    assert base == after
    assert proof is None or proof.result() == after
    assert other.store.stats.requests == count + requests


def _never_made(record):
    return replace(record, head=replace(record.head, number=record.head.number + 1))


def _frozen(record):
    return replace(record, head=replace(record.head, frozen=True))


def _smaller(record):
    described = json.loads(json.dumps(record.described))
    described["shape"] = [1]
    return replace(record, described=described)


@pytest.mark.parametrize("forged", [_never_made, _frozen, _smaller, lambda record: replace(record, attrs={"x": 1})],
                         ids=["never made", "frozen", "smaller", "other attributes"])  # fmt: skip
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_record_that_somebody_forged_is_never_built_on(make_root, monkeypatch, forged, kind):
    root = make_root(kind)
    array = hub.array(4, "t/x:v0", "i8", root=root)
    array[:] = 1
    array[0] = 2
    newest = array._version.last_seen
    array._version._newest = array._version.log.read(2)
    take, record = CommitTicket.take, forged(newest)

    def told(turn):
        take(turn)
        turn.newest, turn.handed = record.head.number, encode(record)[0]

    monkeypatch.setattr(CommitTicket, "take", told)
    array[3] = 9
    monkeypatch.undo()
    fresh = hub.load("t/x:v0", root=root)
    assert (fresh[:].tolist(), dict(fresh.attrs), fresh.commit) == ([2, 1, 1, 9], {}, 4)
    assert [item.number for item in hub.log("t/x:v0", root=root)] == [4, 3, 2, 1]


def _take_and_end(taken):
    other = MachineQueue("x").turn()
    other.take()
    taken.set()
    other.end(0)


def test_a_turn_lasts_for_a_few_commits_of_one_process_while_others_wait():
    queue, waiting = MachineQueue("x"), threading.Event()
    queue.traffic.commit_seconds = 1.0
    turn = queue.turn()
    turn.take()
    done = []

    def wait():
        other = MachineQueue("x").turn()
        waiting.set()
        other.take()
        done.append(time.monotonic())
        other.end(0)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    time.sleep(0.1)
    for _ in range(commit_queue.MAX_COMMITS - 1):
        turn.end(0)
        turn = queue.turn()
        turn.take()
        assert not done
    turn.end(0)
    thread.join(10)
    assert done


def test_a_turn_in_which_a_commit_took_long_ends_with_it():
    queue, taken = MachineQueue("x"), threading.Event()
    turn = queue.turn()
    turn.take()

    threading.Thread(target=_take_and_end, args=(taken,)).start()
    time.sleep(0.1)
    turn.end(0)
    again = queue.turn()
    again.take()
    assert taken.is_set(), "the other one was before"
    again.end(0)


def test_a_turn_that_nobody_goes_on_with_is_passed_on():
    queue = MachineQueue("x")
    turn = queue.turn()
    turn.take()
    taken = threading.Event()

    threading.Thread(target=_take_and_end, args=(taken,)).start()
    time.sleep(0.1)
    turn.end(0)
    assert taken.wait(5)


def test_a_killed_holder_costs_nothing(cache):
    holder = _holder(cache)
    threading.Timer(0.2, holder.kill).start()
    assert 0.1 < _seconds(MachineQueue("x").turn().take) < 0.9
    holder.join()


def test_a_holder_that_makes_no_headway_is_waited_for_once(cache):
    holder = _holder(cache)
    os.kill(holder.pid, signal.SIGSTOP)
    queue = MachineQueue("x")
    assert 0.9 < _seconds(queue.turn().take) < 5
    assert _seconds(queue.turn().take) < 0.1
    holder.kill()
    holder.join()


def test_a_forked_child_holds_nothing_of_its_parent():
    queue = MachineQueue("x")
    turn = queue.turn()
    turn.take()
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()
    time.sleep(0.1)
    turn.end(0)
    assert _seconds(MachineQueue("x").turn().take) < 0.5
    child.kill()
    child.join()


@pytest.mark.parametrize("damage", ["folder", "link", "large", "noise", "no folder", "open to others"])
def test_a_file_that_cannot_be_used_costs_nothing(cache, damage, tmp_path):
    queue = MachineQueue("x")
    path, mine = Path(queue._path), tmp_path / "mine"
    mine.write_bytes(b"mine")
    if damage == "no folder":
        cache.write_text("a file")
    else:
        path.parent.mkdir(parents=True)
    if damage == "folder":
        path.mkdir()
    elif damage == "link":
        path.symlink_to(mine)
    elif damage == "large":
        path.write_bytes(b"7" * 5000)
    elif damage == "noise":
        path.write_bytes(b"\xff" * 56)
    elif damage == "open to others":
        (cache / "v1").chmod(0o777)
    turn = queue.turn()
    assert _seconds(turn.take) < 0.5
    turn.end(3)
    assert mine.read_bytes() == b"mine"
    assert 0 <= turn.traffic.pause_seconds(100.0) < 1
    assert path.is_file() == (damage in ("link", "large", "noise"))


def test_threads_of_a_process_are_never_at_their_turns_together():
    queue, inside, most = MachineQueue("x"), [], []

    def work():
        for _ in range(30):
            turn = queue.turn()
            turn.take()
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.0002)
            inside.pop()
            turn.end(0)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert max(most) == 1


def test_a_lock_that_fails_after_a_commit_is_no_error(monkeypatch, root):
    array = hub.array(3, "t/x:v0", "i8", root=root)

    def fail(*args):
        raise OSError("no locks")

    monkeypatch.setattr("hubarray.history.log.byte_locks.LockFile.locked_by_others", fail)
    array[0] = 1
    assert array[...].tolist() == [1, 0, 0]


def test_a_hint_of_a_commit_that_is_not_there_is_ignored(root):
    array = hub.array(3, "t/x:v0", "i8", root=root)
    array[0] = 1
    turn = array._version.queue.turn()
    turn.take()
    turn.end(1_000_000)
    array[1] = 2
    assert array[...].tolist() == [1, 2, 0]


def _assign(root, cache, index, count, end):
    hub.configure(cache_dir=cache)
    array = hub.load("t/x:v0", root=root)
    for i in range(count):
        array[index] = i + 1
    end.wait(60)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_processes_that_assign_to_one_chunk_lose_hardly_any_race(make_root, cache, kind):
    root = make_root(kind)
    array = hub.array(8, "t/x:v0", "i8", root=root)
    end = SPAWN.Barrier(4)
    writers = [SPAWN.Process(target=_assign, args=(root, str(cache), i, 20, end)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(90)
    assert array.refresh()[:4].tolist() == [20] * 4
    assert array.commit == 81
    # A lost race uploads its chunk again.
    packs = sum(1 for _ in root.store.list("t/x/packs/"))
    assert packs < 80 + 10


def test_a_version_that_was_made_anew_does_not_go_on_from_what_the_file_says(make_root):
    root = make_root("s3")
    array = hub.array(3, "t/x:v0", "i8", root=root)
    for i in range(5):
        array[0] = i + 1
    hub.flush()
    version = array._version
    version._offline.put(version.last_seen)
    turn = version.queue.turn()
    turn.take()
    turn.end(6)
    root.store.delete([entry.key for entry in root.store.list("t/x/")])
    again = hub.array(3, "t/x:v0", "i8", root=root)
    again[1] = 7
    assert (again.commit, again[...].tolist()) == (2, [0, 7, 0])
