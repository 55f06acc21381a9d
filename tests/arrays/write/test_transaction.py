"""Transactions: snapshot reads, own writes, all or nothing, conflicts by element, merges by element."""

import contextlib
import multiprocessing
import os
import sys
import threading
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hubarray as hub
from hubarray.arrays.write import staging
from hubarray.blobs.ref import REF, pack_id
from tests.arrays import strategies

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def array(root):
    array = hub.array((10, 6), "t/x:v0", "i8", chunks=(3, 4), root=root)
    array[...] = np.arange(60).reshape(10, 6)
    return array


def _others(root, other_machine, change):
    other_machine(lambda: change(hub.load("t/x:v0", root=root)))


def test_many_assignments_are_one_commit_with_its_message(array):
    before = array.commit
    with array.transaction("why") as t:
        t[0] = 1
        t[1, 2:4] = 2
        t[[5, 6], 0] = 3
    assert array.commit == before + 1
    assert next(array.log()).message == "why"
    expected = np.arange(60).reshape(10, 6)
    expected[0], expected[1, 2:4], expected[[5, 6], 0] = 1, 2, 3
    assert np.array_equal(array[...], expected)


def test_it_reads_its_own_writes_and_nobody_else_does(array, root, other_machine):
    with array.transaction() as t:
        t[0] = 7
        assert (t[0] == 7).all()
        assert t[1, 0] == 6
        assert array[0, 1] == 1
        other_machine(lambda: hub.load("t/x:v0", root=root)[0].tolist() == list(range(6)))


def test_it_reads_the_commit_it_began_from(array, root, other_machine):
    with pytest.raises(hub.errors.ConflictError), array.transaction() as t:  # noqa: PT012
        _others(root, other_machine, lambda a: a.__setitem__(9, -1))
        assert t[9, 0] == 54
        t[0] = t[9]


def test_an_exception_leaves_nothing_visible_and_nothing_behind(array, root):
    hub.flush()
    before = sorted(info.key for info in root.store.list(""))
    with pytest.raises(RuntimeError, match="mine"), array.transaction() as t:  # noqa: PT012
        t[...] = 5
        raise RuntimeError("mine")
    assert sorted(info.key for info in root.store.list("")) == before
    assert array[0, 1] == 1


def test_an_empty_transaction_is_no_commit(array):
    before = array.commit
    with array.transaction() as t:
        assert t[0, 0] == 0
        t[3:3] = 1
    assert array.commit == before


def test_a_chunk_that_both_changed_in_other_elements_is_merged(array, root, other_machine):
    with array.transaction() as t:
        t[0, 0] = 100
        _others(root, other_machine, lambda a: a.__setitem__((0, 1), 200))
        _others(root, other_machine, lambda a: a.__setitem__((9, 5), 300))
        t[1, 1] = 101
    assert array[0, :3].tolist() == [100, 200, 2]
    assert array[1, 1] == 101
    assert array[9, 5] == 300


@pytest.mark.parametrize("what", ["written", "read", "written whole"])
def test_elements_changed_by_others_are_a_conflict_that_names_the_region(array, root, other_machine, what):
    with pytest.raises(hub.errors.ConflictError, match=r"\[4:5, 2:3\]") as caught, array.transaction() as t:  # noqa: PT012
        if what == "written":
            t[4, 2] = 1
        elif what == "written whole":
            t[3:6] = 1
        else:
            t[0, 0] = t[4, 2]
        _others(root, other_machine, lambda a: a.__setitem__((4, slice(2, 3)), -9))
    assert "nothing was written" in str(caught.value)
    expected = np.arange(60).reshape(10, 6)
    expected[4, 2] = -9
    assert np.array_equal(array.refresh()[...], expected)


def test_elements_others_set_to_what_they_were_are_no_conflict(array, root, other_machine):
    with array.transaction() as t:
        t[4, 2] = t[4, 2] + 1
        _others(root, other_machine, lambda a: a.__setitem__((4, slice(0, 2)), -9))
        _others(root, other_machine, lambda a: a.__setitem__((4, 2), 26))
    assert array[4].tolist() == [-9, -9, 27, 27, 28, 29]


def test_appends_of_both_stay_whole_in_order(array, root, other_machine):
    with array.transaction() as t:
        t.append(np.full((4, 6), -1))
        t[0] = 9
        t.append(np.full((1, 6), -2))
        _others(root, other_machine, lambda a: a.append(np.full((2, 6), -3)))
    assert array.shape == (17, 6)
    assert array[10:, 0].tolist() == [-3, -3, -1, -1, -1, -1, -2]
    assert (array[0] == 9).all()
    assert np.array_equal(array[1:10], np.arange(60).reshape(10, 6)[1:])


def test_rows_of_fill_value_store_nothing_and_can_be_written_over(array, root, other_machine):
    with array.transaction() as t:
        t.append_fill(10**9)
        t[10**9] = 5
    assert array.shape == (10**9 + 10, 6)
    assert array[10**9 - 1 : 10**9 + 2, 0].tolist() == [0, 5, 0]
    array.resize((10, 6))
    with array.transaction() as t:
        t.append_fill(2)
        t.append(np.full((1, 6), -1))
        _others(root, other_machine, lambda a: a.append(np.full((2, 6), -3)))
    assert array[10:, 0].tolist() == [-3, -3, 0, 0, -1]
    with array.transaction() as t:
        for wrong in (-1, 1.5, True, "1"):
            with pytest.raises(hub.errors.ConfigError, match="append_fill takes"):
                t.append_fill(wrong)
        with pytest.raises(hub.errors.ConfigError):
            t.append_fill(1 << 62)
        t.append_fill(0)
    assert array.shape == (15, 6)
    single = hub.array((), "t/single:v0", "i8", root=root)
    with single.transaction() as t, pytest.raises(hub.errors.ConfigError, match="without axes"):
        t.append_fill(1)


def test_the_shape_is_a_conflict_only_if_it_was_looked_at(array, root, other_machine):
    def append(a):
        a.append(np.zeros((1, 6)))

    with array.transaction() as t:
        t[2] = 1
        _others(root, other_machine, append)
    for look in (lambda t: t.shape, len, lambda t: t[-1], lambda t: t[:], lambda t: t[..., 0]):
        with pytest.raises(hub.errors.ConflictError, match="resized"), array.transaction() as t:  # noqa: PT012
            t[2] = 1
            look(t)
            _others(root, other_machine, append)
    with pytest.raises(hub.errors.ConflictError, match="resized"), array.transaction() as t:  # noqa: PT012
        t[9] = 1
        _others(root, other_machine, lambda a: a.resize((5, 6)))


def test_an_overwritten_frozen_or_deleted_array_is_said_to_be_so(array, root, other_machine):
    with pytest.raises(hub.errors.ConflictError, match="created again"), array.transaction() as t:  # noqa: PT012
        t[0] = 1
        other_machine(lambda: hub.array(3, "t/x:v0", root=root, overwrite=True))
    array = hub.load("t/x:v0", root=root)
    with pytest.raises(hub.errors.FrozenError), array.transaction() as t:  # noqa: PT012
        t[0] = 1
        other_machine(lambda: hub.freeze("t/x:v0", root=root))
    with pytest.raises(hub.errors.FrozenError), array.transaction():
        pass
    with pytest.raises(hub.errors.ReadOnlyError), hub.load("t/x:v0@1", root=root).transaction():
        pass


def test_it_is_used_once_and_not_after_its_end(array):
    with array.transaction() as t:
        t[0] = 1
    for use in (lambda: t[0], lambda: t.__setitem__(0, 1), lambda: t.append(np.zeros((1, 6))), lambda: t.shape):
        with pytest.raises(hub.errors.ReadOnlyError, match="ended"):
            use()
    with pytest.raises(hub.HubError, match="once"):
        t.__enter__()


def _damage(root, share):
    """Zeros in the last part of the one pack."""
    (pack,) = (root.store.folder / "t/x/packs").iterdir()
    data = pack.read_bytes()
    pack.write_bytes(data[: int(len(data) * (1 - share))].ljust(len(data), b"\0"))


@pytest.mark.parametrize("somebody_else_commits", [False, True])
def test_an_assignment_that_failed_partway_is_not_committed_even_if_its_error_is_caught(
    array, root, forget, monkeypatch, other_machine, somebody_else_commits
):
    commit = array.commit
    _damage(root, 0.5)
    forget()
    monkeypatch.setattr(staging, "WRITE_BATCH_BYTES", 1)
    array = hub.load("t/x:v0", root=root)
    t = array.transaction().__enter__()
    with pytest.raises(hub.errors.CorruptDataError):
        t[:, 1:5] = 9
    if somebody_else_commits:
        _others(root, other_machine, lambda a: a.attrs.update(by="other"))
        commit += 1
        # So long ago that the commit begins on what is the newest now.
        t._version._checked_at = -1e9
    with pytest.raises(
        hub.HubError, match=r"failed partway, so nothing .* can be committed.*CorruptDataError: file://"
    ):
        t.__exit__(None, None, None)
    assert hub.load("t/x:v0", root=root).commit == commit


@contextlib.contextmanager
def _away(path):
    """A file or folder that cannot be found for a while."""
    elsewhere = path.parents[2] / "elsewhere"
    path.rename(elsewhere)
    yield
    elsewhere.rename(path)


def test_rows_that_could_not_be_appended_are_not_there_and_can_be_appended_again(root):
    hub.configure(memory_cache_bytes=0)
    array = hub.array(5, "t/rows:v0", "i8", chunks=4, root=root)
    array[...] = range(5)
    with array.transaction() as t:
        with _away(root.store.folder / "t/rows/packs"), pytest.raises(hub.errors.CorruptDataError):
            t.append([5, 6])
        assert t.shape == (5,)
        t.append([5, 6, 7])
    assert array[...].tolist() == list(range(8))


def test_a_part_that_could_not_be_added_can_be_added_again(root):
    hub.configure(memory_cache_bytes=0)
    array = hub.array(8, "t/parts:v0", "i8", chunks=4, root=root)
    array[...] = range(8)

    def write(worker, *indices):
        with worker as w:
            for index in indices:
                w[index] = 10 * index
        return w.part

    with array.transaction() as t:
        first, second = write(t.worker(), 4), write(t.worker(), 1, 5)
        t.add(first)
        ref = np.frombuffer(first.refs, REF)[0]
        with _away(root.store.folder / f"t/parts/packs/{pack_id(ref)}"), pytest.raises(hub.errors.CorruptDataError):
            t.add(second)
        t.add(second)
    assert array[...].tolist() == [0, 10, 2, 3, 40, 50, 6, 7]


def test_a_part_of_which_a_chunk_could_not_be_uploaded_leaves_nothing_to_commit(root, monkeypatch):
    hub.configure(memory_cache_bytes=0)
    array = hub.array(8, "t/parts:v0", "i8", chunks=4, root=root)
    array[...] = range(8)
    t = array.transaction().__enter__()
    with t.worker() as w:
        w[5] = 50
    t[4] = 40
    monkeypatch.setattr(staging.Staging, "put", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        t.add(w.part)
    for use in (lambda: t.add(w.part), lambda: t.__setitem__(0, 1), lambda: t.__exit__(None, None, None)):
        with pytest.raises(hub.HubError, match="ZeroDivisionError"):
            use()
    assert array.commit == 2


def test_a_transaction_that_is_not_entered_says_so(array):
    t = array.transaction()
    for use in (lambda: t[0], lambda: t.__setitem__(0, 1), lambda: t.shape, lambda: t.append([1])):
        with pytest.raises(hub.HubError, match="has not begun; enter it by `with array"):
            use()


def test_an_assignment_that_failed_before_it_changed_anything_leaves_the_transaction_as_it_was(array, root, forget):
    _damage(root, 1)
    forget()
    array = hub.load("t/x:v0", root=root)
    with array.transaction() as t:
        with pytest.raises(hub.errors.CorruptDataError):
            t[:, 1:5] = 9
        t[...] = 7
    assert (array[...] == 7).all()


def test_retry_runs_again_on_conflict_only(array, root, other_machine):
    calls = []

    def once_in_conflict():
        with array.transaction() as t:
            value = t[0, 0]
            if not calls:
                _others(root, other_machine, lambda a: a.__setitem__((0, 0), 41))
            calls.append(int(value))
            t[0, 0] = value + 1
        return "done"

    assert hub.retry(once_in_conflict) == "done"
    assert calls == [0, 41]
    assert array[0, 0] == 42
    for error in (ValueError, hub.errors.CommitOutcomeUnknown, hub.errors.FrozenError):
        tries = []

        def fail(error=error, tries=tries):
            tries.append(1)
            raise error("no")

        with pytest.raises(error):
            hub.retry(fail)
        assert len(tries) == 1

    def always():
        raise hub.errors.ConflictError("still")

    with pytest.raises(hub.errors.ConflictError, match="still"):
        hub.retry(always, timeout_seconds=0.1)


def _count(root, times):
    array = hub.load("t/counter", root=root)

    def add_one():
        with array.transaction() as t:
            t[()] = t[()] + 1

    for _ in range(times):
        hub.retry(add_one)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_processes_that_count_in_transactions_count_exactly(kind, make_root):
    root = make_root(kind)
    counter = hub.array((), "t/counter", "i8", root=root)
    workers = [SPAWN.Process(target=_count, args=(root, 10)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert counter.refresh()[()] == 40


def test_threads_that_count_in_transactions_count_exactly(root):
    counter = hub.array((), "t/counter", "i8", root=root)
    threads = [threading.Thread(target=_count, args=(root, 5)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter[()] == 40


def test_a_forked_child_cannot_commit_its_parents_transaction(array):
    with array.transaction() as t:
        t[0] = 1
        child = os.fork()
        if not child:
            code = 1
            try:
                t[1] = 2
            except hub.errors.ReadOnlyError:
                try:
                    t.__exit__(None, None, None)
                except hub.errors.ReadOnlyError:
                    code = 0
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (array[0] == 1).all()


@settings(max_examples=200)
@given(data=st.data())
def test_any_transaction_does_what_numpy_would_have_done_at_its_commit(make_root, other_machine, data):
    """Against a model: the transaction's operations on an array, after those that others made meanwhile."""
    root = make_root("memory")
    shape = data.draw(strategies.shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    chunks = data.draw(strategies.chunkings(shape))
    name = f"t/{uuid.uuid4().hex}"
    array = hub.array(shape, name, "i4", chunks=chunks, root=root)
    start = strategies.some_values(shape, "i4", 1)
    array[...] = start
    mine, theirs = start.copy(), start.copy()
    steps = data.draw(st.lists(st.sampled_from(["mine", "mine", "append", "fill", "theirs", "read"]), max_size=6))
    log = []
    try:
        with array.transaction() as t:
            for i, step in enumerate(steps):
                if step in ("append", "fill"):
                    count = data.draw(st.integers(1, 4))
                    rows = strategies.some_values((count, *shape[1:]), "i4", i)
                    if step == "fill":
                        rows[...] = 0
                    mine = np.concatenate([mine, rows])
                    t.append(rows) if step == "append" else t.append_fill(count)
                    log.append(("append", rows))
                    continue
                target = theirs if step == "theirs" else mine
                key = data.draw(strategies.keys(target.shape, valid=True))
                try:
                    values = strategies.some_values(np.shape(target[key]), "i4", 100 + i)
                except (IndexError, ValueError):
                    continue
                if step == "read":
                    assert strategies.same(t[key], mine[key])
                elif step == "mine":
                    t[key] = values
                    mine[key] = values
                    log.append((key, values))
                else:
                    other_machine(lambda key=key, values=values: hub.load(name, root=root).__setitem__(key, values))
                    theirs[key] = values
    except hub.errors.ConflictError:
        assert np.array_equal(array.refresh()[...], theirs)
        return
    expected = theirs
    for key, values in log:
        if isinstance(key, str):
            expected = np.concatenate([expected, values])
        else:
            expected[key] = values
    assert np.array_equal(array.refresh()[...], expected)


def _work(worker, rows, value):
    with worker as w:
        w[rows] = value
    return w.part


def _pool_work(arguments):
    return _work(*arguments)


@pytest.mark.parametrize("kind", ["local", "s3", "gs"])
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_many_processes_write_and_one_commit_shows_it_all(kind, method, make_root):
    root = make_root(kind)
    array = hub.array((16, 5), "t/x:v0", "i8", chunks=(3, 5), root=root)
    array[...] = -1
    before = array.commit
    with array.transaction("by workers") as t:
        tasks = [(t.worker(), slice(2 * i, 2 * i + 2), i) for i in range(8)]
        with multiprocessing.get_context(method).Pool(2) as pool:
            for part in pool.imap_unordered(_pool_work, tasks):
                t.add(part)
        assert array.commit == before
    assert array.commit == before + 1
    assert array[:, 0].tolist() == [i for i in range(8) for _ in range(2)]
    assert hub.verify("t/x", root=root).problems == []


def test_a_worker_that_is_run_again_changes_nothing(array):
    with array.transaction() as t:
        worker = t.worker()
        first, again = _work(worker, slice(1, 5), 7), _work(worker, slice(1, 5), 7)
        t.add(first)
        t.add(again)
        t.add(first)
        t.add(_work(worker, slice(5, 6), 8))
        t.add(again)
    assert array[:7, 0].tolist() == [0, 7, 7, 7, 7, 8, 36]


def test_two_workers_that_wrote_one_element_are_refused_by_region(array):
    before = array[...]
    with pytest.raises(hub.errors.ConflictError, match=r"two workers.*\[4:5, 0:4\]"), array.transaction() as t:  # noqa: PT012
        t.add(_work(t.worker(), slice(3, 5), 1))
        t.add(_work(t.worker(), slice(4, 6), 1))
    with pytest.raises(hub.errors.ConflictError, match="two workers"), array.transaction() as t:  # noqa: PT012
        t[4] = 3
        t.add(_work(t.worker(), slice(4, 5), 3))
    assert np.array_equal(array[...], before)


def test_a_worker_that_fails_or_whose_part_is_not_added_is_not_seen(array, root):
    with array.transaction() as t:
        with pytest.raises(RuntimeError), t.worker() as w:  # noqa: PT012
            w[0] = 9
            raise RuntimeError
        _work(t.worker(), 1, 9)
        t.add(_work(t.worker(), 2, 9))
    assert array[:3, 0].tolist() == [0, 6, 9]


def test_workers_and_other_writers_are_merged_or_in_conflict_as_any_transaction(array, root, other_machine):
    with array.transaction() as t:
        t.add(_work(t.worker(), (0, slice(0, 3)), 1))
        _others(root, other_machine, lambda a: a.__setitem__((0, 3), -5))
    assert array[0].tolist() == [1, 1, 1, -5, 4, 5]
    with pytest.raises(hub.errors.ConflictError, match="changed by somebody else"), array.transaction() as t:  # noqa: PT012
        t.add(_work(t.worker(), 0, 2))
        _others(root, other_machine, lambda a: a.__setitem__((0, 3), -6))


def test_a_worker_is_small_and_says_how_it_is_used(array):
    import pickle

    with array.transaction() as t:
        t.append(np.zeros((2, 6)))
        worker = pickle.loads(pickle.dumps(t.worker()))
        assert len(pickle.dumps(worker)) < 1000
        assert worker.shape == (12, 6)
        for misuse in (lambda: worker[0], lambda: worker.__setitem__(0, 1), lambda: worker.part):
            with pytest.raises(hub.HubError, match="with"):
                misuse()
        part = _work(worker, 8, 5)
        with array.transaction() as other, pytest.raises(hub.errors.ReadOnlyError, match="another transaction"):
            other.add(part)
        t.add(pickle.loads(pickle.dumps(part)))
        with worker as w:
            w[0] = 3
            assert w[0].tolist() == [3] * 6
            assert w[1, 0] == 6
    assert array[8].tolist() == [5] * 6
    assert array[0, 0] == 0


def test_a_shrink_below_what_was_written_is_a_conflict_also_with_appends_and_workers(root, other_machine):
    def shrink(name, shape):
        other_machine(lambda: hub.load(name, root=root).resize(shape))

    appended = hub.array(5, "t/a", "i8", chunks=1, root=root)
    with pytest.raises(hub.errors.ConflictError), appended.transaction() as t:  # noqa: PT012
        t[4] = 9
        t.append([1, 2])
        shrink("t/a", 3)
    for shape, smaller in (((8,), (2,)), ((4, 4), (4, 2))):
        name = f"t/w{len(shape)}"
        array = hub.array(shape, name, "i8", chunks=4, root=root)
        with pytest.raises(hub.errors.ConflictError, match="no longer exists"), array.transaction() as t:  # noqa: PT012
            t.add(_work(t.worker(), slice(None), 7))
            shrink(name, smaller)
        array.refresh().resize(shape)
        assert not array[...].any()


def test_a_worker_made_before_an_append_covers_the_rows_it_saw(root):
    array = hub.array(5, "t/x:v0", "i8", chunks=4, root=root)
    with array.transaction() as t:
        worker = t.worker()
        t.append([1, 2])
        t.add(_work(worker, 4, 9))
    assert array[...].tolist() == [0, 0, 0, 0, 9, 1, 2]


def test_one_worker_handle_and_one_transaction_serve_many_threads(root):
    from concurrent.futures import ThreadPoolExecutor

    array = hub.array(4000, "t/x:v0", "i8", chunks=2000, root=root)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with array.transaction() as t, ThreadPoolExecutor(8) as pool:
            worker = t.worker()

            def work(i):
                with worker as w:
                    w[i:2000:100] = i + 1
                return w.part

            for part in pool.map(work, range(100)):
                t.add(part)
            list(pool.map(lambda i: t.__setitem__(slice(2000 + i, None, 100), i + 1), range(100)))
    finally:
        sys.setswitchinterval(interval)
    assert array[...].tolist() == list(range(1, 101)) * 40


def test_what_is_no_part_is_not_added(array):
    with array.transaction() as t:
        for wrong in ("p", None, 3):
            with pytest.raises(hub.errors.ConfigError, match="part"):
                t.add(wrong)
