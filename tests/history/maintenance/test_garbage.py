"""Expiry and collection: what nobody needs goes, and nothing else."""

import random
import threading
import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.storage.base import Store
from tests.ageing import age

GRACE = 1000.0
SHORT_GRACE = 4.0


@pytest.fixture
def array(root):
    array = hub.array((40, 5), "t/x:v0", "i4", chunks=(1, 5), root=root, grace_seconds=GRACE)
    array[...] = 1
    return array


def _objects(root, folder, home="t/x"):
    return sorted(info.key for info in root.store.list(f"{home}/{folder}/"))


def test_expired_commits_cannot_be_read_copied_or_restored_and_the_newest_always_can(array, root):
    for i in range(5):
        array[i] = i + 10
    assert hub.expire("t/x:v0", keep_last=3, root=root) == 4
    assert array.commit == 8
    for use in (
        lambda: hub.copy("t/x:v0@4", "t/y", root=root),
        lambda: hub.restore("t/x:v0", 4, root=root),
    ):
        with pytest.raises(hub.errors.NotFoundError, match="expired"):
            use()
    assert hub.load("t/x:v0@5", root=root)[2, 0] == 12
    age(root, GRACE + 1)
    hub.collect_garbage("t/x", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.load("t/x:v0@3", root=root)
    assert [c.kind for c in hub.log("t/x:v0", root=root)] == ["array"] * 4 + ["expired"] * 4
    assert [c.number for c in hub.log("t/x:v0", root=root)] == list(range(8, 0, -1))
    assert hub.load("t/x:v0", root=root)[:6, 0].tolist() == [10, 11, 12, 13, 14, 1]
    assert hub.verify("t/x", root=root).problems == []


def test_commits_expire_by_age(array, root):
    time.sleep(0.05)
    moment = time.time()
    time.sleep(0.05)
    array[0] = 5
    from datetime import UTC, datetime

    assert hub.expire("t/x:v0", older_than=datetime.fromtimestamp(moment, UTC), root=root) == 2
    assert hub.expire("t/x:v0", older_than="2001-01-01", root=root) == 2
    assert hub.expire("t/x:v0", older_than="2999-01-01", root=root) == 3


@pytest.mark.parametrize("given", [{}, {"keep_last": 0}, {"keep_last": True}, {"keep_last": 1.5}, {"older_than": "x"}])
def test_expiring_needs_to_be_told_what(array, root, given):
    with pytest.raises(hub.errors.ConfigError):
        hub.expire("t/x:v0", root=root, **given)


def test_what_no_live_commit_reaches_goes_after_the_grace_period_and_not_before(array, root):
    for i in range(4):
        array[...] = i + 2
    hub.expire("t/x:v0", keep_last=1, root=root)
    before = _objects(root, "packs")
    assert hub.collect_garbage("t/x", root=root) == hub.results.CollectionReport()
    assert _objects(root, "packs") == before
    age(root, GRACE + 1)
    dry = hub.collect_garbage("t/x", dry_run=True, root=root)
    assert _objects(root, "packs") == before
    result = hub.collect_garbage("t/x", root=root)
    assert (result.packs, result.commits) == (dry.packs, dry.commits) == (4, 5)
    assert result.bytes > 0
    assert len(_objects(root, "packs")) == 1
    assert (hub.load("t/x:v0", root=root)[...] == 5).all()
    assert hub.collect_garbage("t/x", root=root) == hub.results.CollectionReport()
    assert hub.verify("t/x", root=root).problems == []


def test_a_longer_grace_period_may_be_asked_for_and_a_shorter_one_is_not_given(array, root):
    array[...] = 2
    hub.expire("t/x:v0", keep_last=1, root=root)
    age(root, GRACE + 1)
    assert hub.collect_garbage("t/x", grace_seconds=2 * GRACE, root=root) == hub.results.CollectionReport()
    fresh = hub.array(3, "t/week", root=root)
    fresh[...] = 1
    fresh[...] = 2
    hub.expire("t/week", keep_last=1, root=root)
    assert hub.collect_garbage("t/week", grace_seconds=0.001, root=root) == hub.results.CollectionReport()


def test_leftovers_of_failed_writes_go(array, root, monkeypatch):
    def killed(store, key, data):
        raise hub.errors.UnavailableError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put_if_absent", killed)
        patch.setattr("hubarray.history.log.log.time.sleep", lambda seconds: None)
        with pytest.raises(hub.errors.CommitOutcomeUnknown):
            array[...] = 7
    assert len(_objects(root, "packs")) == 2
    age(root, GRACE + 1)
    assert hub.collect_garbage("t/x", root=root).packs == 1
    assert (hub.load("t/x:v0", root=root)[...] == 1).all()


def test_data_that_a_copy_reads_stays_as_long_as_the_copy_does(array, root):
    hub.copy("t/x:v0", "other/y", root=root)
    hub.copy("other/y", "third/z", root=root)
    hub.delete("t/x:v0", root=root)
    hub.delete("other/y", root=root)
    age(root, GRACE + 1)
    result = hub.collect_garbage("t/x", root=root)
    assert (result.packs, result.referrers) == (0, 1)
    assert (hub.load("third/z", root=root)[...] == 1).all()
    hub.delete("third/z", root=root)
    age(root, GRACE + 1)
    result = hub.collect_garbage("t/x", root=root)
    assert (result.packs, result.referrers) == (1, 1)
    assert _objects(root, "packs") == []


def test_a_referrer_that_cannot_be_read_protects_everything(array, root):
    array[...] = 2
    hub.expire("t/x:v0", keep_last=1, root=root)
    root.store.put("t/x/referrers/bad.json", b"{")
    age(root, GRACE + 1)
    before = _objects(root, "packs")
    with pytest.raises(hub.errors.CorruptDataError, match=r"bad\.json"):
        hub.collect_garbage("t/x", root=root)
    assert _objects(root, "packs") == before


def test_a_damaged_record_or_node_stops_the_collection(array, root):
    array[...] = 2
    hub.expire("t/x:v0", keep_last=1, root=root)
    key = "t/x/log/v0/0000000000000003.json"
    good = bytes(root.store.get(key))
    root.store.put(key, good[:-5])
    age(root, GRACE + 1)
    before = _objects(root, "packs")
    with pytest.raises(hub.errors.CorruptDataError):
        hub.collect_garbage("t/x", root=root)
    assert _objects(root, "packs") == before


def test_all_versions_of_a_name_share_data_and_are_collected_together(array, root):
    hub.copy("t/x:v0", "t/x:v1", root=root)
    array[...] = 3
    hub.expire("t/x:v0", keep_last=1, root=root)
    with pytest.raises(hub.errors.ConfigError, match="all versions"):
        hub.collect_garbage("t/x:v0", root=root)
    age(root, GRACE + 1)
    hub.collect_garbage("t/x", root=root)
    assert (hub.load("t/x:v1", root=root)[...] == 1).all()


def test_old_manifest_nodes_go(root):
    array = hub.array((3000, 2), "t/x:v0", "u1", chunks=(1, 2), root=root, grace_seconds=GRACE)
    array[...] = 1
    array[...] = 2
    nodes = len(_objects(root, "manifest"))
    hub.expire("t/x:v0", keep_last=1, root=root)
    age(root, GRACE + 1)
    assert hub.collect_garbage("t/x", root=root).nodes == nodes // 2
    assert (hub.load("t/x:v0", root=root)[...] == 2).all()
    assert hub.verify("t/x", root=root).problems == []


@pytest.mark.parametrize("kind", ["memory", "s3", "gs"])
def test_it_works_on_every_kind_of_store(kind, make_root):
    root = make_root(kind)
    array = hub.array((40, 5), "t/x:v0", "i4", chunks=(1, 5), root=root, grace_seconds=2.0)
    for i in range(3):
        array[...] = i
    hub.expire("t/x:v0", keep_last=1, root=root)
    time.sleep(SHORT_GRACE + 2.2)
    result = hub.collect_garbage("t/x", root=root)
    assert result.packs == 1
    assert (hub.load("t/x:v0", root=root)[...] == 2).all()
    assert hub.verify("t/x", root=root).problems == []


def test_a_collection_says_what_it_costs_before_it_starts(array, root, capsys):
    hub.collect_garbage("t/x", root=root)
    assert "reading 2 records" in capsys.readouterr().err


def test_collectors_and_expirers_beside_writers_and_copiers_lose_nothing(root):
    """Threads that do all of it at once, with a short grace period, against what each of them knows it wrote."""
    hub.configure(max_staleness_seconds=0)
    hub.array((8, 4), "t/x:v0", "i8", chunks=(2, 4), root=root, grace_seconds=SHORT_GRACE)
    end = time.monotonic() + 10
    errors: list[BaseException] = []
    written: dict[int, int] = {}
    collected = hub.results.CollectionReport()

    def guarded(work):
        def run():
            rng = random.Random(work.__name__)
            try:
                while time.monotonic() < end:
                    try:
                        work(rng)
                    except hub.errors.StorageError as error:
                        # On a machine that stood still for two seconds, which is refused rather than trusted.
                        if "half the grace period" not in str(error):
                            raise
                    time.sleep(rng.uniform(0, 0.03))
            except BaseException as error:
                errors.append(error)

        return threading.Thread(target=run)

    def writer(row):
        def write(rng):
            value = rng.randrange(10**6)
            hub.load("t/x:v0", root=root)[row] = value
            written[row] = value

        write.__name__ = f"writer{row}"
        return write

    def transactor(rng):
        array = hub.load("t/x:v0", root=root)

        def both():
            with array.transaction() as t:
                value = int(t[6, 0]) + 1
                t[6] = value
                time.sleep(rng.uniform(0, 0.2))
                t[7] = value

        hub.retry(both)

    def copier(rng):
        name = f"t/copy{rng.randrange(10**9)}"
        source = hub.load("t/x:v0", root=root).commit
        try:
            copied = hub.copy(f"t/x:v0@{source}", name, root=root)
        except hub.errors.NotFoundError:
            # It expired in between, which is said, and is not a copy without its data.
            return
        assert (copied[6] == copied[7]).all()

    def expirer(rng):
        hub.expire("t/x:v0", keep_last=rng.randrange(1, 4), root=root)

    def collector(rng):
        nonlocal collected
        collected = max(collected, hub.collect_garbage("t/x", root=root), key=lambda found: found.packs)

    work = [writer(0), writer(1), transactor, copier, expirer, collector]
    threads = [guarded(item) for item in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert collected.packs > 0
    final = hub.load("t/x:v0", root=root)
    assert {row: int(final[row, 0]) for row in (0, 1)} == written
    assert (final[6] == final[7]).all()
    for name in hub.list("t", root=root):
        assert hub.verify(name, root=root).problems == []
        assert np.asarray(hub.load(name, root=root)).shape == (8, 4)


def test_a_version_deleted_too_long_ago_is_neither_restored_nor_copied(array, root):
    """Its data may be collected at any moment, also by the collector of another home."""
    copy = hub.copy("t/x:v0", "other/y", root=root)
    array[...] = 8
    hub.expire("t/x:v0", keep_last=1, root=root)
    hub.delete("other/y", root=root)
    assert (hub.restore("other/y", 1, root=root)[...] == 1).all()
    hub.delete("other/y", root=root)
    age(root, GRACE + 1)
    for use in (lambda: hub.restore("other/y", 1, root=root), lambda: hub.copy("other/y@1", "third/z", root=root)):
        with pytest.raises(hub.errors.NotFoundError, match="grace period"):
            use()
    assert hub.collect_garbage("t/x", root=root).packs == 1
    assert copy.name == "other/y"


def test_what_was_before_a_long_deletion_does_not_come_to_life_with_a_new_array(array, root):
    """Found by the model: a collector that saw the deletion may still be removing what a copy would then name."""
    hub.delete("t/x:v0", root=root)
    age(root, GRACE / 2 + 1)
    hub.array((3, 3), "t/x:v0", root=root)
    with pytest.raises(hub.errors.NotFoundError, match="expired"):
        hub.copy("t/x:v0@2", "t/y", root=root)
    hub.delete("t/x:v0", root=root)
    again = hub.array((4, 4), "t/x:v0", root=root)
    assert again.commit == 6
    assert hub.copy("t/x:v0@4", "t/y", root=root).shape == (3, 3)


def test_a_grace_period_is_never_shortened_and_a_name_keeps_what_its_copies_may_restore(root):
    first = hub.array(4, "t/x:v1", "i8", root=root)
    first[:] = 1
    hub.copy("t/x:v1", "t/y:v1", root=root)
    hub.delete("t/x:v1", root=root)
    hub.array(4, "t/x:v1", "i8", grace_seconds=GRACE, root=root)
    hub.expire("t/x:v1", keep_last=1, root=root)
    hub.delete("t/y:v1", root=root)
    age(root, GRACE + 1)
    assert hub.collect_garbage("t/x", root=root) == hub.results.CollectionReport()
    assert hub.undo("t/y:v1", root=root)[:].tolist() == [1] * 4


def test_a_copy_with_a_longer_grace_period_is_judged_by_that(root):
    hub.array(4, "t/x:v1", "i8", grace_seconds=GRACE, root=root)[:] = 1
    hub.copy("t/x:v1", "t/y:v1", root=root)
    hub.delete("t/y:v1", root=root)
    hub.array(4, "t/y:v1", "i8", grace_seconds=4 * GRACE, root=root)
    hub.restore("t/y:v1", 1, root=root)
    hub.delete("t/x:v1", root=root)
    hub.delete("t/y:v1", root=root)
    age(root, GRACE + 1)
    hub.collect_garbage("t/x", root=root)
    assert hub.undo("t/y:v1", root=root)[:].tolist() == [1] * 4


def test_a_folder_that_a_killed_creation_left_stops_nothing(array, root):
    folder = root.store.folder / "t/x/log/v9"
    folder.mkdir()
    (folder / ".tmp-0123456789abcdef").write_bytes(b"half")
    assert hub.collect_garbage("t/x", root=root) == hub.results.CollectionReport()
    assert hub.compact("t/x:v0", root=root).chunks == 0
    assert hub.verify("t/x", root=root).problems == []
    assert hub.list("t", root=root) == ["t/x:v0"]


def test_strangers_files_are_left_alone(array, root):
    for folder in ("packs", "manifest"):
        root.store.put(f"t/x/{folder}/Thumbs.db", b"x")
    age(root, GRACE + 1)
    assert hub.collect_garbage("t/x", root=root) == hub.results.CollectionReport()
    assert hub.compact("t/x:v0", root=root).chunks == 0


@pytest.mark.parametrize("seconds", [0, -1, True, "1", float("nan"), float("inf"), 1e12, None])
def test_a_grace_period_is_a_number_of_seconds(array, root, seconds):
    with pytest.raises(hub.errors.ConfigError, match="grace_seconds"):
        hub.array(3, "t/new:v0", grace_seconds=seconds if seconds is not None else "x", root=root)
    with pytest.raises(hub.errors.ConfigError, match="grace_seconds"):
        hub.collect_garbage("t/x", grace_seconds=seconds if seconds is not None else "x", root=root)


def test_a_read_of_an_expired_commit_whose_data_was_collected_says_so(array, root):
    copy = hub.copy("t/x:v0", "other/y", root=root)
    held = hub.load("other/y@1", root=root)
    hub.delete("t/x:v0", root=root)
    copy[...] = 2
    hub.expire("other/y", keep_last=1, root=root)
    age(root, GRACE + 1)
    hub.collect_garbage("t/x", root=root)
    from hubarray.blobs import fetch

    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    for handle in (held, hub.load("other/y@1", root=root)):
        handle._version.fetcher.memory.clear()
        for key in (..., 3):
            with pytest.raises(hub.errors.NotFoundError, match="expired"):
                handle[key]
    assert (copy[...] == 2).all()
