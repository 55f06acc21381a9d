"""Many processes write to one version at once: nothing is lost, and readers see whole commits in order."""

import multiprocessing
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from tests.rounds import rounds

pytestmark = pytest.mark.alone

SPAWN = multiprocessing.get_context("spawn")
NAME = "t/x:v0"


def _run(function, arguments):
    """Run a function in a process for each tuple of arguments; what each returned."""
    queue = SPAWN.Queue()
    workers = [SPAWN.Process(target=_report, args=(function, args, queue)) for args in arguments]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=1000) for _ in workers]
    for worker in workers:
        worker.join()
    failures = [text for text, _ in results if text]
    assert not failures, failures[0]
    return [result for _, result in results]


def _report(function, args, queue):
    try:
        queue.put(("", function(*args)))
    except BaseException as error:
        import traceback

        queue.put((f"{error!r}\n{traceback.format_exc()}", None))


def _write_own(root, worker, workers, count):
    array = hub.load(NAME, root=root)
    rng = np.random.default_rng(worker)
    for i in rng.permutation(count).tolist():
        array[i * workers + worker] = i * workers + worker + 1


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_processes_that_write_different_elements_of_one_chunk_lose_none(kind, make_root):
    root, count = make_root(kind), rounds(10, 200)
    hub.array(8 * count, NAME, "i8", chunks=2 * count, root=root)
    _run(_write_own, [(root, i, 8, count) for i in range(8)])
    array = hub.load(NAME, root=root)
    assert array[...].tolist() == list(range(1, 8 * count + 1))
    assert array.commit == 8 * count + 1
    assert [commit.number for commit in array.log()] == list(range(8 * count + 1, 0, -1))
    assert hub.verify(NAME, root=root).problems == []


def _append_rows(root, worker, count):
    array = hub.load(NAME, root=root)
    for i in range(count):
        array.append(np.full((3, 2), worker * count + i))


def test_processes_that_append_at_once_all_keep_their_rows_whole(root):
    count = rounds(5, 50)
    hub.array((0, 2), NAME, "i8", chunks=(4, 2), root=root)
    _run(_append_rows, [(root, i, count) for i in range(4)])
    blocks = hub.load(NAME, root=root)[...].reshape(4 * count, 6)
    assert (blocks == blocks[:, :1]).all()
    assert sorted(blocks[:, 0].tolist()) == list(range(4 * count))


def _set_columns(root, column, count):
    array = hub.load(NAME, root=root)
    for i in range(count):
        array[i % 4, column] = i + 1


def _grow(root, axis, count):
    array = hub.load(NAME, root=root)
    for _ in range(count):

        def wider():
            shape = list(array.refresh().shape)
            shape[axis] += 1
            array.resize(shape)

        hub.retry(wider)


def _append_to_any_width(root, worker, count):
    array = hub.load(NAME, root=root)
    for i in range(count):

        def append(i=i):
            array.append(np.full((1, array.refresh().shape[1]), 1000 + worker * count + i))

        hub.retry(append)


def test_writes_appends_and_resizes_at_once_all_stay(root):
    count = rounds(8, 50)
    hub.array((4, 6), NAME, "i8", chunks=(3, 4), root=root)
    jobs = [(_set_columns, (root, column, count)) for column in range(3)]
    jobs += [(_append_to_any_width, (root, worker, count)) for worker in range(2)]
    jobs += [(_grow, (root, 1, count))]
    _run(_call, jobs)
    array = hub.load(NAME, root=root)
    assert array.shape == (4 + 2 * count, 6 + count)
    values = array[...]
    last = [max(i + 1 for i in range(count) if i % 4 == row) for row in range(4)]
    assert values[:4, :3].tolist() == [[n] * 3 for n in last]
    appended = values[4:]
    assert sorted(appended[:, 0].tolist()) == list(range(1000, 1000 + 2 * count))
    for row in appended:
        assert set(row.tolist()) <= {row[0], 0}
        assert (np.diff((row == 0).astype(int)) >= 0).all()
    assert not values[:4, 3:].any()
    assert hub.verify(NAME, root=root).problems == []


def _call(function, arguments):
    return function(*arguments)


def _count(root, count):
    array = hub.load(NAME, root=root)

    def increment():
        with array.transaction() as t:
            t[0] = t[0] + 1

    for _ in range(count):
        hub.retry(increment, timeout_seconds=300)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_eight_processes_count_exactly(kind, make_root):
    root, count = make_root(kind), rounds(4, 25)
    hub.array(3, NAME, "i8", root=root)
    _run(_count, [(root, count)] * 8)
    assert hub.load(NAME, root=root)[0] == 8 * count


def _write_for(root, index, seconds):
    array = hub.load(NAME, root=root)
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        array[index] = count + 1
        count += 1
    return count


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_writers_in_a_loop_do_not_starve_each_other(kind, make_root):
    root = make_root(kind)
    hub.array(8, NAME, "i8", root=root)
    counts = _run(_write_for, [(root, i, 4.0) for i in range(3)])
    assert min(counts) > max(counts) / 20


def _write_history(root, writer, seconds):
    """Each writer has an element of its own and, in transactions, a pair that is always equal."""
    array = hub.load(NAME, root=root)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        if count % 4:
            array[writer] = count
        else:

            def both(count=count):
                with array.transaction() as t:
                    t[8 + 2 * writer] = t[9 + 2 * writer] = count

            hub.retry(both)
    return count


def _read_history(root, seconds):
    hub.configure(max_staleness_seconds=0)
    array = hub.load(NAME, root=root)
    seen, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        snapshot = array.snapshot()
        seen.append((snapshot.commit, snapshot[...].tolist()))
        before, values, after = array.commit, array[...].tolist(), array.commit
        seen.append(((before, after), values))
        fresh = hub.load(NAME, root=root).snapshot()
        seen.append((fresh.commit, fresh[...].tolist()))
    return seen


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_readers_see_commits_in_order_and_each_whole(kind, make_root):
    """A recorded history, checked: numbers never go back, and each read equals exactly one commit."""
    root, seconds = make_root(kind), float(rounds(4, 60))
    hub.array(16, NAME, "i8", chunks=3, root=root)
    jobs = [(_write_history, (root, writer, seconds)) for writer in range(3)]
    jobs += [(_read_history, (root, seconds))] * 3
    histories = [result for result in _run(_call, jobs) if isinstance(result, list)]
    newest = hub.load(NAME, root=root).commit
    commits = {number: hub.load(f"{NAME}@{number}", root=root)[...].tolist() for number in range(1, newest + 1)}
    reads = 0
    for seen in histories:
        last = 0
        for number, values in seen:
            if isinstance(number, tuple):
                assert any(values == commits[n] for n in range(number[0], number[1] + 1))
                number = number[0]
            else:
                assert values == commits[number]
            assert number >= last
            last = number
            reads += 1
    assert reads > 20
    for number in range(2, newest + 1):
        changed = [i for i in range(16) if commits[number][i] != commits[number - 1][i]]
        assert len(changed) == 1 if changed[0] < 8 else changed[1] == changed[0] + 1
        assert all(commits[number][i] > commits[number - 1][i] for i in changed)
        assert all(commits[number][i] == commits[number][i + 1] for i in range(8, 16, 2))


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_one_array_is_used_by_thirty_two_threads_at_once(kind, make_root):
    root, count = make_root(kind), rounds(6, 40)
    array = hub.array((32, 50), NAME, "i8", chunks=(5, 50), root=root)
    failures = []

    def work(row):
        try:
            for i in range(count):
                array[row] = row * 1000 + i + 1
                assert (array[row] == row * 1000 + i + 1).all()
                assert array[...].shape == (32, 50)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert array[:, 0].tolist() == [row * 1000 + count for row in range(32)]
    assert array.commit == 32 * count + 1
