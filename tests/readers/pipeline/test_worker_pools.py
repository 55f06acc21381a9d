"""Pools: what becomes of killed workers, of exceptions, and of what a transform gives."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal

import numpy as np
import pytest

import hubarray as hub
from hubarray.errors import ConfigError, ReaderStoppedError
from tests.readers.conftest import make_sample, row_of, same, write_petastorm


@pytest.fixture
def folder(tmp_path):
    write_petastorm(tmp_path / "data", [row_of(i) for i in range(60)], rows_per_row_group=7)
    return str(tmp_path / "data")


def children_of_this_process():
    result = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "hubarray.readers.pipeline.worker_process"],
        capture_output=True,
        text=True,
    )
    return [int(line) for line in result.stdout.split()]


@pytest.mark.timeout(60)
def test_a_killed_worker_is_an_error_within_seconds(folder):
    with hub.make_reader(folder, reader_pool_type="process", workers_count=2, num_epochs=None) as reader:
        next(reader)
        killed = children_of_this_process()
        assert len(killed) == 2
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(ReaderStoppedError, match="SIGKILL"):
            list(reader)
        assert time.monotonic() - begin < 5


@pytest.mark.timeout(60)
@pytest.mark.parametrize("which", range(3))
def test_one_killed_worker_is_an_error_within_seconds_whatever_the_others_do(folder, which):
    def slow(row):
        time.sleep(4)
        return row

    spec = hub.TransformSpec(slow)
    with hub.make_reader(folder, reader_pool_type="process", workers_count=3, transform_spec=spec) as reader:
        timer = threading.Timer(3, lambda: os.kill(children_of_this_process()[which], signal.SIGKILL))
        begin = time.monotonic()
        timer.start()
        with pytest.raises(ReaderStoppedError, match="SIGKILL"):
            next(reader)
        assert time.monotonic() - begin < 3 + 5


def test_workers_end_with_a_reader_that_nobody_holds(folder):
    reader = hub.make_reader(folder, reader_pool_type="process", workers_count=2)
    next(reader)
    assert len(children_of_this_process()) == 2
    del reader
    gc.collect()
    # They are killed at once, and not waited for.
    ended = time.monotonic() + 2
    while children_of_this_process() and time.monotonic() < ended:
        time.sleep(0.05)
    assert children_of_this_process() == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_a_reader_that_another_thread_stops_says_so(folder, pool):
    with hub.make_reader(folder, reader_pool_type=pool, workers_count=2, num_epochs=None) as reader:
        timer = threading.Timer(0.5, reader.stop)
        timer.start()
        with pytest.raises(ReaderStoppedError, match="was stopped"):
            list(reader)
        timer.join()


def test_workers_end_with_their_reader(folder):
    with hub.make_reader(folder, reader_pool_type="process", workers_count=2) as reader:
        next(reader)
        assert len(children_of_this_process()) == 2
    assert children_of_this_process() == []


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_an_exception_carries_its_traceback_and_where_it_was(folder, pool):
    def broken(row):
        raise KeyError("no such label")

    options = {"reader_pool_type": pool, "workers_count": 1, "shuffle_row_groups": False}
    spec = hub.TransformSpec(broken)
    with hub.make_reader(folder, transform_spec=spec, **options) as reader, pytest.raises(KeyError) as caught:
        next(reader)
    told = "\n".join(caught.value.__notes__)
    assert caught.value.args == ("no such label",)
    assert ".parquet, row group 0" in told
    if pool == "process":
        assert "in broken" in told


@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_whatever_a_transform_gives_arrives_as_it_was(folder, pool):
    values = {
        "text": "né", "data": b"\0\1", "number": 3, "real": 0.5, "none": None, "decimal": Decimal("1.50"),
        "scalar": np.float16(2), "array": np.arange(6, dtype=np.uint16).reshape(2, 3), "time": np.datetime64("2020-01-01", "us"),
        "flag": True, "list": ["a", "b"], "empty": np.zeros((0, 4), np.int8),
    }  # fmt: skip
    spec = hub.TransformSpec(
        lambda row: values, edit_fields=[(name, np.object_, (), True) for name in values], selected_fields=list(values)
    )
    with hub.make_reader(folder, transform_spec=spec, reader_pool_type=pool, workers_count=1) as reader:
        row = next(reader)._asdict()
    for name, value in values.items():
        if isinstance(value, (np.ndarray, np.generic)):
            assert same(row[name], value), name
        else:
            assert list(row[name]) == value if name == "list" else row[name] == value, name


def test_processes_need_no_guard_of_main(tmp_path, folder):
    script = tmp_path / "plain.py"
    script.write_text(
        "import hubarray as hub\n"
        "class Twice:\n"
        "    def __call__(self, row): return {'id': row['id'] * 2}\n"
        f"with hub.make_reader({folder!r}, ['id'], reader_pool_type='process', workers_count=2,\n"
        "                     transform_spec=hub.TransformSpec(Twice()), shuffle_row_groups=False) as reader:\n"
        "    print([int(row.id) for row in reader][-1])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "118"), done.stderr


def test_memory_is_flat_over_twenty_epochs(tmp_path):
    import psutil

    # An epoch is 8 MB: whoever kept what was read would hold 120 MB more in the end.
    schema = hub.petastorm.Unischema(
        "Rows", [hub.petastorm.UnischemaField("x", np.uint8, (1 << 17,), hub.petastorm.NdarrayCodec())]
    )
    with hub.parquet_writer(tmp_path / "data", schema, rows_per_row_group=8) as writer:
        writer.write_rows({"x": np.random.default_rng(i).integers(0, 255, 1 << 17, "u1")} for i in range(64))
    process = psutil.Process()
    sizes = []
    with hub.make_reader(tmp_path / "data", num_epochs=20, workers_count=2) as reader:
        for n, _ in enumerate(reader):
            if n % 64 == 63:
                sizes.append(process.memory_info().rss)
    assert len(sizes) == 20
    assert sizes[-1] - sizes[4] < 48 << 20


def test_a_pool_of_no_workers_is_refused(folder):
    with pytest.raises(ConfigError, match="workers_count"):
        hub.make_reader(folder, reader_pool_type="process", workers_count=5000)


def test_tables_are_read_in_processes_too(make_root, tmp_path):
    sample = make_sample("table", make_root, tmp_path)
    with sample.reader(["id", "x"], reader_pool_type="process", workers_count=2, seed=1) as reader:
        assert sorted(int(row.x[0, 0]) for row in reader) == list(range(60))
