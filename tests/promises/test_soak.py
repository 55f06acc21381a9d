"""Collectors and expirers, killed midway, beside writers, copiers, mergers and slow transactions: nothing live is lost."""

import multiprocessing
import random
import time

import pytest

import hubarray as hub
from tests.rounds import rounds

pytestmark = pytest.mark.alone

SPAWN = multiprocessing.get_context("spawn")
GRACE = 4.0
NAME = "t/x:v0"


def _until(end, work):
    rng = random.Random(work.__name__)
    while not end.value:
        work(rng)
        time.sleep(rng.uniform(0, 0.05))


def _patiently(work):
    """Writes that took longer than half the short grace period are refused, which is not what is tested here."""
    try:
        hub.retry(work, timeout_seconds=60)
    except hub.errors.ConflictError as error:
        assert "grace period" in str(error), error


def _writer(root, row, end, results):
    written = 0

    def write(rng):
        nonlocal written
        value = written + 1
        try:
            hub.load(NAME, root=root)[row] = value
            written = value
        except hub.errors.ConflictError as error:
            assert "grace period" in str(error), error

    _until(end, write)
    results.put(("row", row, written))


def _transactor(root, end, results):
    def pause(rng):
        array = hub.load(NAME, root=root)

        def both():
            with array.transaction("a pair") as t:
                value = int(t[6, 0]) + 1
                t[6] = value
                time.sleep(rng.choice([0, 0, 0.3, GRACE / 3]))
                t[7] = value

        _patiently(both)

    _until(end, pause)
    results.put(("pair", 0, 0))


def _copier(root, end, results):
    made = []

    def copy(rng):
        name = f"t/copy{rng.randrange(10**9)}:v0"
        try:
            copied = hub.copy(f"{NAME}@{hub.load(NAME, root=root).commit}", name, root=root)
            assert (copied[6] == copied[7]).all()
            again = hub.copy(name, name.replace("copy", "again"), root=root)
            hub.delete(name, root=root)
            made.append((f"{again.name}:v0", again[...].tolist()))
        except hub.errors.NotFoundError as error:
            assert "expired" in str(error), error
        except hub.errors.ConflictError as error:
            assert "grace period" in str(error), error

    _until(end, copy)
    for name, values in made:
        assert hub.load(name, root=root)[...].tolist() == values
    results.put(("copies", len(made), 0))


def _merger(root, end, results):
    hub.copy(NAME, "t/x:mine", root=root)

    def merge(rng):
        mine = hub.load("t/x:mine", root=root)
        value = int(mine[5, 0]) + 1

        def step():
            mine.refresh()[5] = value
            hub.merge_version("t/x:mine", into=NAME, on_conflict="theirs", root=root)

        try:
            _patiently(step)
        except hub.errors.NotFoundError as error:
            # The commit both had in common has expired; a new fork has one.
            assert "expired" in str(error), error
            hub.delete("t/x:mine", root=root)
            hub.copy(NAME, "t/x:mine", root=root)

    _until(end, merge)
    results.put(("merges", 0, 0))


def _upkeep(root, seed):
    """Runs until it is killed."""
    rng = random.Random(seed)
    while True:
        hub.expire(NAME, keep_last=rng.randrange(1, 30), root=root)
        if rng.random() < 0.3:
            hub.compact(NAME, root=root)
        hub.collect_garbage("t/x", root=root)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_nothing_live_is_lost_beside_collectors_that_are_killed_midway(kind, make_root):
    root = make_root(kind)
    hub.array((8, 4), NAME, "i8", chunks=(2, 4), root=root, grace_seconds=GRACE)
    end, results = SPAWN.Value("b", 0), SPAWN.Queue()
    jobs = [(_writer, (root, 0)), (_writer, (root, 1)), (_transactor, (root,)), (_copier, (root,)), (_merger, (root,))]
    workers = [SPAWN.Process(target=work, args=(*args, end, results)) for work, args in jobs]
    for worker in workers:
        worker.start()
    finish, rng, kills = time.monotonic() + rounds(10, 60), random.Random(kind), 0
    while time.monotonic() < finish:
        upkeep = [SPAWN.Process(target=_upkeep, args=(root, kills + i)) for i in range(2)]
        for process in upkeep:
            process.start()
        time.sleep(rng.uniform(2, 4))
        for process in upkeep:
            process.kill()
            process.join()
            kills += 1
    end.value = 1
    reports = [results.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(workers)
    assert kills >= 4
    final = hub.load(NAME, root=root)
    for what, row, value in reports:
        if what == "row":
            assert value > 0
            assert final[row, 0] == value
    assert (final[6] == final[7]).all()
    for name in hub.list("t", root=root):
        assert hub.verify(name, root=root).problems == []
