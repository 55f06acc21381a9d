"""One cache folder, many processes, a budget smaller than the data: right answers, and the budget is kept."""

import contextlib
import fcntl
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from tests.rounds import rounds

pytestmark = pytest.mark.alone

SPAWN = multiprocessing.get_context("spawn")
BUDGET = 3_000_000
ROWS = 200


def _row(i):
    return np.random.default_rng(i).integers(0, 255, 40_000, "u1")


def _read(root, cache, number, seed, end, answers):
    """Read random rows until told to end; wrong answers are counted, and right ones too."""
    hub.configure(cache_dir=cache, disk_cache_bytes=BUDGET, memory_cache_bytes=0)
    array = hub.load("t/x:v0", root=root)
    rng = random.Random(seed)
    expected = {i: _row(i) for i in range(0, ROWS, 5)}
    while not end.value:
        i = rng.choice(list(expected))
        good = np.array_equal(array[i], expected[i])
        answers[2 * number + (0 if good else 1)] += 1


def _files(cache):
    return [path for path in cache.rglob("*") if path.is_file() and path.name not in ("lock", "used")]


def _used(cache):
    sizes = []
    for path in _files(cache):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return sum(sizes)


def test_eight_processes_under_kills_and_damage_get_right_answers_and_keep_the_budget(make_root, tmp_path):
    root, cache = make_root("s3"), tmp_path / "cache"
    array = hub.array((ROWS, 40_000), "t/x:v0", "u1", chunks=(1, 40_000), codec="none", root=root)
    array[...] = np.stack([_row(i) for i in range(ROWS)])
    # Without locks: a reader that is killed while it holds one would hold it for good.
    end, answers = SPAWN.RawValue("b", 0), SPAWN.RawArray("q", 2 * 8)

    def start(number, seed):
        process = SPAWN.Process(target=_read, args=(root, str(cache), number, seed, end, answers))
        process.start()
        return process

    rng = random.Random(0)
    readers = [start(number, number) for number in range(8)]
    while sum(answers) < 50 and all(reader.is_alive() for reader in readers):
        time.sleep(0.1)
    finish, largest, kills = time.monotonic() + rounds(6, 60), 0, 0
    while time.monotonic() < finish:
        time.sleep(0.05)
        largest = max(largest, _used(cache))
        files = _files(cache)
        if files:
            _damage(rng, rng.choice(files), cache)
        if rng.random() < 0.05:
            number = rng.randrange(8)
            readers[number].kill()
            readers[number].join()
            readers[number] = start(number, 100 + kills)
            kills += 1
    end.value = 1
    for reader in readers:
        reader.join(60)
    assert sum(answers[1::2]) == 0
    assert sum(answers[::2]) > 200
    assert kills
    assert [reader.exitcode for reader in readers] == [0] * 8
    # What is listed while others write may be counted under its old and its new name.
    assert largest <= BUDGET + 2 * 40_000
    assert _used(cache) <= BUDGET


def _damage(rng, path, cache):
    """Flip a bit, or put half of the file in its place.

    Under the cache's lock, or a file that was evicted meanwhile would come back uncounted. And by a file of its own, as
    one cut in place is counted by what is left of it, and grows back when its writer goes on.
    """
    with open(cache / "v1" / "lock") as lock, contextlib.suppress(FileNotFoundError):
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = path.read_bytes()
        if data and rng.random() < 0.5:
            at = rng.randrange(len(data))
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([data[at] ^ 1]))
        else:
            half = cache / "half"
            half.write_bytes(data[: len(data) // 2])
            half.replace(path)


ON_A_FULL_DISK = """
import json, sys
import numpy as np
import hubarray as hub
url, options, cache = json.loads(sys.argv[1])
hub.configure(root=url, storage_options=options, cache_dir=cache, memory_cache_bytes=0)
array = hub.load("t/x:v0")
for _ in range(3):
    for i in range(0, 200, 4):
        expected = np.random.default_rng(i).integers(0, 255, 40_000, "u1")
        assert np.array_equal(array[i], expected)
print("right")
"""


def test_on_a_small_disk_that_fills_up_answers_stay_right(make_root, tmp_path):
    import json

    root = make_root("s3")
    array = hub.array((ROWS, 40_000), "t/x:v0", "u1", chunks=(1, 40_000), codec="none", root=root)
    array[...] = np.stack([_row(i) for i in range(ROWS)])
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "script.py"
    script.write_text(ON_A_FULL_DISK)
    arguments = json.dumps([root.url, root._options, str(disk / "cache")])
    inner = 'mount -t tmpfs -o size=1m tmpfs "$1" && "$2" "$3" "$4" && df --output=used "$1" | tail -1'
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*unshare, "sh", "-c", inner, "sh", str(disk), sys.executable, str(script), arguments]
    assert shutil.which("unshare"), "the test needs util-linux"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    answer, used = run.stdout.split()
    assert answer == "right"
    assert int(used) > 500, "the disk never filled up"
    assert run.stderr.count("carrying on without it") == 1
