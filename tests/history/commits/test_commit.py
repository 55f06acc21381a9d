"""Commits: races, lost replies, rebases, and what each rule of the format prevents."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import UnavailableError
from hubarray.history.commits import commit as committing
from hubarray.history.log.log import Log
from hubarray.history.log.probes import _proofs
from hubarray.history.log.version import Version, version_of
from hubarray.names import parse
from hubarray.storage.base import Store
from hubarray.storage.memory import MemoryStore

NAME = parse("t/x:v0")


def _array(root, shape=(8,), **options):
    return hub.array(shape, "t/x:v0", "i8", root=root, **options)


def test_a_writer_that_lost_the_race_writes_onto_the_winners_record(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(3, 33))
    array[4] = 44
    assert array[...].tolist() == [0, 0, 0, 33, 44, 0, 0, 0]
    assert array.commit == 3


def test_both_of_two_racing_appends_stay_whole(root, other_machine):
    array = _array(root, (2, 3), chunks=(4, 3))
    other_machine(lambda: hub.load("t/x:v0", root=root).append(np.full((3, 3), 5)))
    array.append(np.full((2, 3), 7))
    assert array[...].tolist() == [[0] * 3] * 2 + [[5] * 3] * 3 + [[7] * 3] * 2


def test_a_write_to_rows_that_somebody_cut_is_a_conflict_and_writes_nothing(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.load("t/x:v0", root=root).resize(4))
    with pytest.raises(hub.errors.ConflictError, match="index 6"):
        array[6] = 1
    assert array.refresh()[...].tolist() == [0] * 4
    assert array.commit == 2


def test_a_negative_index_means_the_row_the_caller_saw(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.load("t/x:v0", root=root).append([9, 9]))
    array[-1] = 5
    array[:] = array[:] + 1
    assert array[...].tolist() == [1, 1, 1, 1, 1, 1, 1, 6, 10, 10]


def test_one_axis_resized_by_both_is_a_conflict_and_two_axes_are_not(root, other_machine):
    array = _array(root, (4, 4))
    other_machine(lambda: hub.load("t/x:v0", root=root).resize((6, 4)))
    array.resize((4, 9))
    assert array.shape == (6, 9)
    other_machine(lambda: hub.load("t/x:v0", root=root).resize((7, 9)))
    with pytest.raises(hub.errors.ConflictError, match="axis 0"):
        array.resize((5, 9))


def test_a_write_onto_another_generation_is_a_conflict(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.array((9, 9), "t/x:v0", "f4", root=root, overwrite=True))
    with pytest.raises(hub.errors.ConflictError, match="created again"):
        array[0] = 1
    assert not hub.load("t/x:v0", root=root)[...].any()


def test_a_write_begun_long_ago_does_not_land_in_another_generation(root, other_machine, monkeypatch):
    """What was the newest too long ago is looked for again, and then it is another array."""
    array = _array(root, grace_seconds=1000)
    hub.configure(max_staleness_seconds=100)
    base = array._record()
    other_machine(lambda: hub.array(8, "t/x:v0", "i8", root=root, overwrite=True))
    now = committing.uptime_seconds
    monkeypatch.setattr(committing, "uptime_seconds", lambda: now() + 260)
    with pytest.raises(hub.errors.ConflictError, match="created again"):
        committing.commit(array._version, _operation(array), base=base)


def test_a_writer_learns_that_the_version_was_frozen_or_deleted_meanwhile(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.freeze("t/x:v0", root=root))
    with pytest.raises(hub.errors.FrozenError):
        array[0] = 1
    other_machine(lambda: hub.delete("t/x:v0", root=root))
    with pytest.raises(hub.errors.NotFoundError):
        array.refresh()


def test_attributes_set_by_two_writers_both_stay(root, other_machine):
    array = _array(root)
    other_machine(lambda: hub.load("t/x:v0", root=root).attrs.update(a=1))
    array.attrs["b"] = 2
    assert dict(array.attrs) == {"a": 1, "b": 2}


def test_equal_to_what_is_there_is_decided_against_the_newest_record(root, other_machine):
    """Rule 7: elision against a stale view would lose this write."""
    array = _array(root)
    other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(0, 5))
    array[0] = 0
    assert array[0] == 0
    assert array.commit == 3
    array[0] = 0
    assert array.commit == 3


def test_whole_chunks_are_decided_again_on_the_new_shape(root, other_machine):
    """Rule 5: the write covered the whole chunk only until somebody else grew the array."""
    array = _array(root, (6,), chunks=4)
    other_machine(lambda: hub.load("t/x:v0", root=root).append([7, 7]))
    array[4:6] = 1
    assert array[...].tolist() == [0, 0, 0, 0, 1, 1, 7, 7]


def test_fill_written_over_a_chunk_in_the_manifest_is_fill(root, forget):
    """A null ref in the overlay hides the manifest's; leaving the entry out would show the old data."""
    array = _array(root, (600,), chunks=1)
    array[...] = np.arange(600) + 1
    array[100:110] = 0
    forget()
    assert hub.load("t/x:v0", root=root)[98:112].tolist() == [99, 100, *[0] * 10, 111, 112]


def test_a_shrink_fills_what_it_cuts_in_stored_chunks(root):
    """Rule 8: growing again must not show what was cut."""
    array = _array(root, (10, 10), chunks=(4, 4))
    array[...] = 5
    array.resize((6, 10))
    array.resize((6, 7))
    array.resize((10, 10))
    expected = np.zeros((10, 10), int)
    expected[:6, :7] = 5
    assert np.array_equal(array[...], expected)


def test_outgrowing_an_axis_renumbers_the_manifest(root, forget):
    array = _array(root, (40, 3, 20), chunks=(1, 3, 1))
    model = np.arange(40 * 3 * 20).reshape(40, 3, 20)
    array[...] = model
    array.resize((40, 7, 50))
    array.resize((41, 7, 200))
    array[40, 6, 199] = 1
    forget()
    expected = np.zeros((41, 7, 200), int)
    expected[:40, :3, :20] = model
    expected[40, 6, 199] = 1
    assert np.array_equal(hub.load("t/x:v0", root=root)[...], expected)


def test_a_lost_reply_is_not_a_second_commit(root, monkeypatch):
    """Rule 4: the record was created, the client was told otherwise, and another writer committed on top."""
    array = _array(root)
    create = Store.put_if_absent

    def lost(store, key, data):
        created = create(store, key, data)
        if created and key.endswith("0000000000000002.json"):
            monkeypatch.undo()
            raise UnavailableError("the reply was lost")
        return created

    monkeypatch.setattr(Store, "put_if_absent", lost)
    array[1] = 1
    assert array.commit == 2
    assert [commit.number for commit in array.log()] == [2, 1]
    assert array[...].tolist() == [0, 1] + [0] * 6


def test_a_create_resent_by_the_client_itself_is_not_a_conflict(root, monkeypatch):
    array = _array(root)
    create = Store.put_if_absent
    monkeypatch.setattr(
        Store, "put_if_absent", lambda store, key, data: create(store, key, data) and create(store, key, data)
    )
    array[1] = 1
    monkeypatch.undo()
    assert array.commit == 2


def test_when_nobody_can_tell_the_outcome_is_said_to_be_unknown(root, monkeypatch):
    array = _array(root)
    monkeypatch.setattr("hubarray.history.log.log.time.sleep", lambda seconds: None)

    def unreachable(store, key, data):
        raise UnavailableError("no answer")

    monkeypatch.setattr(Store, "put_if_absent", unreachable)
    with pytest.raises(hub.errors.CommitOutcomeUnknown, match=r"0000000000000002\.json.*hub\.log"):
        array[1] = 1
    packs = list(root.store.list("t/x/packs/"))
    assert len(packs) == 1, "nothing may be deleted while the outcome is unknown"


def test_a_failed_upload_leaves_nothing_visible_and_nothing_behind(root, monkeypatch):
    array = _array(root, (100,), chunks=1)
    before = sorted(info.key for info in root.store.list(""))
    put = Store.put

    def failing(store, key, data, **options):
        put(store, key, data, **options)
        raise UnavailableError("down")

    monkeypatch.setattr(Store, "put", failing)
    with pytest.raises(hub.errors.UnavailableError):
        array[...] = 1
    monkeypatch.undo()
    hub.flush()
    assert sorted(info.key for info in root.store.list("")) == sorted({*before, "t/x/log/v0/head.json"})
    assert not array[...].any()


def test_a_store_that_creates_one_key_twice_is_refused_before_the_first_commit(root, monkeypatch):
    """Rule 13: some S3 servers ignore If-None-Match."""

    class Careless(MemoryStore):
        def _put_if_absent(self, key, data):
            self._put(key, [data], True, False)
            return True

    store = Careless("memory://careless", {})
    store.proven_create = False
    monkeypatch.setattr(_proofs, "_proven", set())
    monkeypatch.setattr("hubarray.storage.url._stores.get", lambda root: store)
    with pytest.raises(hub.errors.UnsafeStoreError, match="careless"):
        hub.array(3, "t/x", root=hub.Root("memory://careless"))
    assert not [info for info in store.list("") if "log" in info.key]


def test_a_write_older_than_half_the_grace_period_is_refused(root, monkeypatch):
    """Rule 10: its packs may be taken for garbage by now."""
    array = _array(root, grace_seconds=10)
    start = committing.uptime_seconds()
    clock = SimpleNamespace(now=start)
    monkeypatch.setattr(committing, "uptime_seconds", lambda: clock.now)
    operation = _operation(array)
    apply = operation.apply

    def slowly(*args):
        clock.now = start + 6
        return apply(*args)

    operation.apply = slowly
    with pytest.raises(hub.errors.ConflictError, match="grace period"):
        committing.commit(array._version, operation, base=array._record())
    assert Log(root.store, NAME).newest().head.number == 1


def _operation(array):
    from hubarray.arrays.indexing.selection import parse as parse_key
    from hubarray.arrays.write.operations import SetElements

    selection = parse_key(0, array.shape)
    return SetElements(selection, np.ones(1, "i8"))


def test_a_lost_race_uploads_again_only_the_chunks_both_touched(root, other_machine):
    array = _array(root, (20,), chunks=2)
    array[...] = np.arange(20)
    values = np.arange(20) + 100
    base = array._record()
    other_machine(lambda: hub.load("t/x:v0", root=root).__setitem__(5, -1))
    before = root.store.stats.counts()
    from hubarray.arrays.indexing.selection import parse as parse_key
    from hubarray.arrays.write.operations import SetElements

    operation = SetElements(parse_key(slice(1, 19), (20,)), values[1:19])
    committing.commit(array._version, operation, base=base)
    counts = root.store.stats.counts() - before
    assert counts["put"] <= 2
    assert array[...].tolist() == [0, *values[1:19].tolist(), 19]
    assert 5 in array[...].tolist() or array[5] == 105


def test_the_operation_is_applied_to_the_newest_record_whole(root, other_machine):
    """Rule 5: attributes, shape and chunks of the winner stay, whatever this writer began from."""
    array = _array(root, (8, 4), chunks=(2, 4))

    def winner():
        other = hub.load("t/x:v0", root=root)
        other.attrs["by"] = "winner"
        other.resize((8, 6))
        other[0] = 3

    other_machine(winner)
    array[1] = 1
    assert dict(array.attrs) == {"by": "winner"}
    assert array.shape == (8, 6)
    assert array[0].tolist() == [3] * 6
    assert array[1].tolist() == [1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("kind", ["local", "memory", "s3", "gs"])
def test_threads_that_do_not_know_of_each_other_lose_nothing(kind, make_root):
    root = make_root(kind)
    _array(root, (24,))
    fetcher = version_of(root, NAME).fetcher
    errors = []

    def work(i):
        try:
            version = Version(fetcher, NAME)
            record = version.refresh()
            from hubarray.handles.array import Array

            array = Array(root, version, record, pinned=False)
            for j in range(4):
                array[i * 4 + j] = i * 4 + j + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert hub.load("t/x:v0", root=root)[...].tolist() == list(range(1, 25))
    numbers = [int(info.key[-21:-5]) for info in root.store.list("t/x/log/v0/") if info.key[-6].isdigit()]
    assert sorted(numbers) == list(range(1, 26))


def test_the_record_of_a_copy_lists_every_foreign_home(root):
    """Rule 9: also of a copy of a copy, so that the collector of each home can know."""
    hub.array(3, "one/x", "i8", root=root)[0] = 1
    second = hub.copy("one/x", "two/x", root=root)
    second[1] = 2
    third = hub.copy("two/x", "three/x", root=root)
    third[2] = 3
    record = Log(root.store, parse("three/x")).newest()
    assert record.homes == ("three/x", "one/x", "two/x")
    assert len(list(root.store.list("one/x/referrers/"))) == 2
    assert len(list(root.store.list("two/x/referrers/"))) == 1


def test_a_copy_that_may_not_leave_a_referrer_takes_the_data_along(root, monkeypatch, caplog):
    array = hub.array((300, 4), "one/x", "i8", chunks=(1, 4), root=root)
    array[...] = np.arange(1200).reshape(300, 4)
    put = Store.put

    def forbidden(store, key, data, **options):
        if "/referrers/" in key:
            raise hub.errors.AccessDeniedError(f"{key}: forbidden")
        return put(store, key, data, **options)

    monkeypatch.setattr(Store, "put", forbidden)
    copy = hub.copy("one/x", "two/x", root=root)
    assert "copied" in caplog.text
    root.store.delete([info.key for info in root.store.list("one/")])
    assert np.array_equal(copy[...], np.arange(1200).reshape(300, 4))
    assert Log(root.store, parse("two/x")).newest().homes == ("two/x",)
