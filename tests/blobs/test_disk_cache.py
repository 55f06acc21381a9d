import logging
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import hubarray as hub
from hubarray.blobs import cache_space
from hubarray.blobs.disk_cache import DiskCache

FORK = multiprocessing.get_context("fork")


def test_bytes_come_back_and_stay_private(tmp_path):
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    cache.put("key", b"value")
    assert cache.get("key") == b"value"
    assert cache.get("other") is None
    for path in (tmp_path / "cache").rglob("*"):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected


def test_the_budget_holds_and_the_least_recently_used_go_first(tmp_path):
    cache = DiskCache(tmp_path, 10_000)
    for i in range(10):
        cache.put(f"{i}", bytes(1000))
        os.utime(cache.path(f"{i}"), (i, i))
    assert cache.get("0") is not None
    for i in range(10, 15):
        cache.put(f"{i}", bytes(1000))
        assert cache.space.used_bytes <= 10_000
    assert cache.get("0") is not None
    assert cache.get("1") is None


def test_one_entry_takes_no_more_than_a_quarter(tmp_path):
    cache = DiskCache(tmp_path, 1000)
    cache.put("large", bytes(251))
    assert cache.get("large") is None
    cache.put("fits", bytes(250))
    assert cache.get("fits") is not None


def test_a_budget_of_nothing_keeps_nothing_and_touches_nothing(tmp_path, make_root, forget):
    root = make_root("s3")
    hub.array((4, 4), "t/x:v0", "u1", root=root)[...] = 1
    forget()
    hub.configure(cache_dir=tmp_path / "cache", disk_cache_bytes=0)
    array = hub.load("t/x:v0", root=root)
    assert array[...].all()
    assert array.stats.gets > 0
    assert array.stats.disk_misses == 0
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_made_means_going_on_without(tmp_path, caplog):
    (tmp_path / "file").write_text("x")
    cache = DiskCache(tmp_path / "file" / "cache", 1000)
    cache.put("key", b"value")
    cache.put("key2", b"value")
    assert cache.get("key") is None
    assert caplog.text.count("carrying on without it") == 1


def test_a_disk_that_takes_no_more_means_going_on_without_and_leaves_nothing_behind(tmp_path):
    program = (
        "import os, resource, sys\n"
        "from hubarray.blobs.disk_cache import DiskCache\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "cache = DiskCache(sys.argv[1], 1 << 20)\n"
        "cache.put('a', bytes(20_000))\n"
        "cache.put('b', bytes(200_000))\n"
        "cache.put('c', bytes(30_000))\n"
        "print([len(cache.get(key) or b'') for key in 'abc'])\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[20000, 0, 30000]"
    assert run.stderr.count("carrying on without it") == 1
    assert not list(tmp_path.rglob(f"{cache_space.TEMPORARY_PREFIX}*"))


def test_what_a_killed_process_left_is_counted_and_goes_later(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path, 1000)
    cache.put("a", bytes(10))
    left = os.path.dirname(cache.path("a")) + f"/{cache_space.TEMPORARY_PREFIX}dead"
    with open(left, "wb") as file:
        file.truncate(900)
    cache.space._write_used(910)
    cache.put("b", bytes(200))
    assert cache.get("b") is None
    os.utime(left, (0, 0))
    cache.put("b", bytes(200))
    assert cache.get("b") is not None
    assert not os.path.exists(left)


def _fill(folder, seed):
    cache = DiskCache(folder, 50_000)
    for i in range(100):
        cache.put(f"{seed}-{i % 40}", bytes([i % 40]) * 1000)
        result = cache.get(f"{(seed + 1) % 4}-{i % 40}")
        assert result in (None, bytes([i % 40]) * 1000)


def test_four_processes_share_a_cache_and_its_budget(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(tmp_path, seed)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert 0 < DiskCache(tmp_path, 50_000).space.used_bytes <= 50_000


@pytest.mark.parametrize("content", [b"", b"x", b"-5"])
def test_a_damaged_account_of_what_is_used_is_made_anew(tmp_path, content):
    cache = DiskCache(tmp_path, 10_000)
    cache.put("a", bytes(1000))
    (cache.space.folder / "used").write_bytes(content)
    for i in range(20):
        cache.put(f"{i}", bytes(1000))
    assert cache.space.used_bytes <= 10_000


def test_damage_is_told_once_however_many_threads_find_some(tmp_path, caplog):
    class Slow(logging.Filter):
        def filter(self, record):
            time.sleep(0.1)
            return True

    cache = DiskCache(tmp_path, 10_000)
    slow = Slow()
    logging.getLogger("hubarray.cache").addFilter(slow)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(cache.reject, map(str, range(8))))
    finally:
        logging.getLogger("hubarray.cache").removeFilter(slow)
    assert [record.getMessage().endswith("check the disk") for record in caplog.records] == [True]
    assert cache.misses == 8


def _puts_within_seconds(cache):
    thread = threading.Thread(target=cache.put, args=("a", b"x"), daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_a_child_forked_while_a_thread_holds_the_lock_keeps_nobody_from_it(tmp_path):
    cache = DiskCache(tmp_path, 10_000)
    over = FORK.Event()
    with cache.space.locked():
        child = FORK.Process(target=over.wait)
        child.start()
    fine = _puts_within_seconds(cache)
    over.set()
    child.join()
    assert fine


def test_nor_does_it_if_its_parent_is_killed_then(tmp_path):
    cache = DiskCache(tmp_path, 10_000)
    over, told = FORK.Event(), FORK.Queue()

    def wait_on():
        told.put(os.getpid())
        over.wait()

    def killed():
        with cache.space.locked():
            FORK.Process(target=wait_on).start()
            os.kill(os.getpid(), signal.SIGKILL)

    parent = FORK.Process(target=killed)
    parent.start()
    parent.join()
    told.get(timeout=10)
    fine = _puts_within_seconds(cache)
    over.set()
    assert fine


def test_a_stopped_process_that_holds_the_lock_is_waited_for_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(cache_space, "_PATIENCE_SECONDS", 0.2)
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    cache.put("before", b"1")
    stopping = (
        "import fcntl, os, signal, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", stopping, f"{cache.space.folder}/lock"]) as stopped:
        try:
            assert os.WIFSTOPPED(os.waitpid(stopped.pid, os.WUNTRACED)[1])
            cache.put("during", b"2")
            began = time.monotonic()
            for i in range(20):
                cache.put(f"during-{i}", b"3")
            assert time.monotonic() - began < 0.2 * 20
            assert "may be stopped" in caplog.text
            assert [cache.get("before"), cache.get("during")] == [b"1", None]
        finally:
            stopped.kill()
    monkeypatch.setattr(cache.space, "_rests_until", 0.0)
    cache.put("after", b"4")
    assert cache.get("after") == b"4"
