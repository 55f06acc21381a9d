"""Without its store, a version that is fixed opens from the disk cache, and says once how old that is."""

import contextlib
import logging
import os
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch
from hubarray.history.log import offline
from hubarray.history.log import version as versions

VALUES = np.arange(600).reshape(60, 10)


@pytest.fixture
def lab(s3_server, proxy, monkeypatch):
    """A root with one version: 3 commits, of which two have tags."""
    proxy.plan = lambda method, path: None
    monkeypatch.setattr(offline, "_warned", {})
    root = hub.Root(
        f"{s3_server.url}/{uuid.uuid4().hex}", storage_options=s3_server.options | {"endpoint_url": proxy.endpoint}
    )
    array = hub.store(VALUES, "t/x:v1", chunks=(7, 10), root=root)
    hub.tag("t/x:v1", "first", root=root)
    array[0] = 7
    hub.tag("t/x:v1", "paper", root=root)
    # Read on another machine than it was written on.
    hub.configure(cache_dir=f"{hub.config.current().cache_dir}-2")
    as_a_new_process()
    yield root
    proxy.plan = lambda method, path: None


def as_a_new_process():
    fetch._shared._memory.clear()
    fetch._shared._fetchers.clear()
    versions._versions._versions.clear()


@contextlib.contextmanager
def disconnected(proxy):
    as_a_new_process()
    proxy.failed.clear()
    proxy.plan = lambda method, path: "reset"
    hub.configure(offline=True)
    try:
        yield
        assert not proxy.failed, "a request was made offline"
    finally:
        hub.configure(offline=False)
        proxy.plan = lambda method, path: None


def test_a_tag_opens_and_reads_and_says_once_how_old_it_is(lab, proxy, caplog):
    expected = hub.load("t/x:v1@paper", root=lab)[...]
    with disconnected(proxy):
        for _ in range(2):
            assert np.array_equal(hub.load("t/x:v1@paper", root=lab)[...], expected)
            as_a_new_process()
    said = [record.getMessage() for record in caplog.records if "disk cache" in record.getMessage()]
    assert len(said) == 1
    assert f"{datetime.now(UTC):%Y-%m-%d}" in said[0]


def test_a_frozen_version_opens_and_reads_and_says_once_how_old_it_is(lab, proxy, caplog):
    hub.freeze("t/x:v1", root=lab)
    as_a_new_process()
    expected = hub.load("t/x:v1", root=lab)[...]
    with disconnected(proxy):
        for _ in range(2):
            assert np.array_equal(hub.load("t/x:v1", root=lab)[...], expected)
            as_a_new_process()
    assert sum("disk cache" in record.getMessage() for record in caplog.records) == 1


def test_the_newest_commit_that_was_opened_can_be_opened_by_its_number(lab, proxy):
    array = hub.load("t/x:v1", root=lab)
    expected, number = array[...], array.commit
    with disconnected(proxy):
        assert np.array_equal(hub.load(f"t/x:v1@{number}", root=lab)[...], expected)


def test_a_name_that_may_have_moved_on_is_an_error_that_lists_what_is_at_hand(lab, proxy):
    hub.load("t/x:v1@first", root=lab)[...]
    as_a_new_process()
    number = hub.load("t/x:v1", root=lab).commit
    with disconnected(proxy), pytest.raises(hub.errors.UnavailableError) as caught:
        hub.load("t/x:v1", root=lab)
    told = str(caught.value)
    assert "offline is set" in told
    assert f"their chunks: t/x:v1@first, t/x:v1@{number}, t/x:v1@1 (" in told
    assert "@paper" not in told, "its record was not read"
    assert f"{datetime.now(UTC):%Y-%m-%d}" in told


@pytest.mark.parametrize("name", ["t/x:v1", "t/x:v1@paper", "t/x:v1@2", "t/never:v1"])
def test_what_was_never_opened_is_an_error(lab, proxy, name):
    hub.configure(cache_dir=hub.config.current().cache_dir + "-empty")
    with disconnected(proxy), pytest.raises(hub.errors.UnavailableError):
        hub.load(name, root=lab)


def test_a_chunk_that_is_not_in_the_cache_is_an_error(lab, proxy):
    hub.load("t/x:v1@paper", root=lab)[:7]
    with disconnected(proxy):
        array = hub.load("t/x:v1@paper", root=lab)
        assert array[3].tolist() == VALUES[3].tolist()
        with pytest.raises(hub.errors.UnavailableError, match="so the store is not asked"):
            array[30]


def test_an_open_array_stops_asking_at_once(lab, proxy):
    array = hub.load("t/x:v1", root=lab)
    array[...]
    hub.configure(max_staleness_seconds=0)
    pinned = hub.load("t/x:v1@paper", root=lab)
    pinned[...]
    with disconnected(proxy):
        assert np.array_equal(pinned[1:], VALUES[1:])
        for call in (lambda: array.refresh(), lambda: array.append(VALUES[:1])):
            began = time.monotonic()
            with pytest.raises(hub.errors.UnavailableError, match="offline"):
                call()
            assert time.monotonic() - began < 0.5
    array.append(VALUES[:1])
    assert len(hub.load("t/x:v1", root=lab)) == 61


def test_a_tag_that_was_taken_away_since_is_the_one_that_was_seen(lab, proxy, caplog):
    expected = hub.load("t/x:v1@first", root=lab)[...]
    with disconnected(proxy):
        assert np.array_equal(hub.load("t/x:v1@first", root=lab)[...], expected)
    hub.untag("t/x:v1", "first", root=lab)
    as_a_new_process()
    hub.load("t/x:v1", root=lab)
    with disconnected(proxy), pytest.raises(hub.errors.UnavailableError, match="t/x:v1@"):
        hub.load("t/x:v1@first", root=lab)


def test_a_version_that_was_deleted_offers_its_earlier_commits(lab, proxy):
    number = hub.load("t/x:v1", root=lab).commit
    hub.delete("t/x:v1", root=lab)
    as_a_new_process()
    with pytest.raises(hub.errors.NotFoundError):
        hub.load("t/x:v1", root=lab)
    with disconnected(proxy):
        with pytest.raises(hub.errors.UnavailableError, match=rf"their chunks: t/x:v1@{number} \(") as caught:
            hub.load("t/x:v1", root=lab)
        assert f"@{number + 1}" not in str(caught.value)


def test_what_replaced_the_root_replaces_its_records(lab, proxy):
    old = hub.load("t/x:v1", root=lab)
    number = old.commit
    lab.store.delete([info.key for info in lab.store.list("")])
    as_a_new_process()
    array = hub.array((3,), "t/x:v1", "i8", root=lab)
    while array.commit < number:
        array[0] = array.commit
    hub.flush()
    as_a_new_process()
    new = hub.load("t/x:v1", root=lab)
    expected = new[...]
    with disconnected(proxy):
        assert np.array_equal(hub.load(f"t/x:v1@{number}", root=lab)[...], expected)


@pytest.mark.parametrize("damage", [b"", b"x" * 28, b"9" * 28, b"0" * 28])
def test_a_damaged_note_is_as_good_as_none(lab, proxy, damage):
    hub.load("t/x:v1@paper", root=lab)[...]
    fetcher = fetch.fetcher_for(lab)
    fetcher.disk.put(f"{fetcher.identity} t/x:v1 newest", damage, replace=True)
    with disconnected(proxy), pytest.raises(hub.errors.UnavailableError, match="no commit of it"):
        hub.load("t/x:v1@paper", root=lab)
    assert hub.load("t/x:v1@paper", root=lab)[0, 0] == 7


def test_tables_datasets_and_epochs_of_a_tag_are_read(lab, proxy, caplog):
    ds = hub.dataset({"x": hub.ArraySpec((0, 4), "i8", dims=("sample", "x"))}, "t/ds:v1", root=lab)
    ds.append({"x": np.arange(40).reshape(10, 4)})
    with (
        hub.table_writer(
            "t/tab:v1", hub.Schema({"i": hub.Field("int64", index=True), "y": hub.Field("float32")}), root=lab
        ) as w,
        w.partition("p") as p,
    ):
        p.extend({"i": i, "y": i / 2} for i in range(20))
    for name in ("t/ds:v1", "t/tab:v1"):
        hub.tag(name, "day", root=lab)

    def everything():
        index = hub.read_index("t/tab:v1@day", root=lab)
        with hub.make_reader("t/ds:v1@day", root=lab, workers_count=2) as reader:
            epoch = sorted(int(row.x[0]) for row in reader)
        rows = [hub.row_loader(index).get_row(i, ["y"])["y"] for i in range(20)]
        return epoch, index["i"].tolist(), rows, hub.load("t/ds:v1@day", root=lab)["x"][...].tolist()

    expected = everything()
    with disconnected(proxy):
        assert str(everything()) == str(expected)


READ = """
import sys, hubarray as hub
hub.configure(root=sys.argv[1], storage_options={"key": "testkey", "secret": "testsecret", "endpoint_url": sys.argv[2]})
print(hub.load("t/x:v1@paper")[...].sum())
"""


@pytest.mark.parametrize(("setting", "seconds"), [("", 30), ("1", 5)])
def test_a_server_that_is_gone_costs_a_wait_unless_offline_is_set(lab, proxy, s3_server, setting, seconds):
    expected = int(hub.load("t/x:v1@paper", root=lab)[...].sum())
    proxy.plan = lambda method, path: "reset"
    environment = os.environ | {"HUBARRAY_OFFLINE": setting, "HUBARRAY_CACHE_DIR": hub.config.current().cache_dir}
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", READ, lab.url, proxy.endpoint],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert time.monotonic() - began < seconds
    assert run.stdout.split() == [str(expected)], run.stderr
    assert run.stderr.count("disk cache") == 1


def test_a_folder_is_no_store_beyond_this_machine(root):
    hub.configure(offline=True)
    hub.store(VALUES, "t/x:v1", root=root)[0] = 3
    assert hub.load("t/x:v1", root=root)[0, 0] == 3


@pytest.mark.parametrize("told", ["maybe", "2", "yes"])
def test_a_setting_that_is_neither_true_nor_false_is_refused(lab, told, monkeypatch):
    with pytest.raises(hub.errors.ConfigError, match="expected true or false"):
        hub.configure(offline=told)
    monkeypatch.setenv("HUBARRAY_OFFLINE", told)
    with pytest.raises(hub.errors.ConfigError, match="HUBARRAY_OFFLINE"):
        hub.load("t/x:v1", root=lab)


def test_the_file_of_settings_can_say_so(lab, tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text("offline = true\n")
    monkeypatch.setenv("HUBARRAY_CONFIG", str(file))
    with pytest.raises(hub.errors.UnavailableError, match="offline"):
        hub.load("t/x:v1", root=lab)


def test_notes_are_made_once_a_second_at_most(lab, caplog):
    caplog.set_level(logging.DEBUG)
    array = hub.load("t/x:v1", root=lab)
    disk = fetch.fetcher_for(lab).disk
    puts = []
    put, disk.put = disk.put, lambda key, *args, **kwargs: puts.append(key) or put(key, *args, **kwargs)
    try:
        for i in range(20):
            array[0] = i
            array.refresh()
    finally:
        disk.put = put
    assert sum(key.endswith(" newest") for key in puts) <= 3


def test_a_record_lies_under_its_hash_and_another_ones_hash_is_not_believed(lab):
    version = hub.load("t/x:v1", root=lab)._version
    cached, disk = version._offline, version.fetcher.disk
    first, second = version.log.read(1), version.log.read(2)
    for record in (first, second):
        cached.put(record)
        assert disk.has(f"{version.fetcher.identity} record {record.digest}")
    assert cached.get(1) == first
    disk.put(cached._key(1), second.digest.encode(), replace=True)
    assert cached.get(1) is None
    for wrong in (b"", b"../../etc/passwd", b"0" * 64, b"x" * 64):
        disk.put(cached._key(1), wrong, replace=True)
        assert cached.get(1) is None
    cached.put(first)
    assert cached.get(1) == first
