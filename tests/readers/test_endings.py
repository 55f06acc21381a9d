"""Workers end within two seconds when their reader is left, interrupted or killed, whatever a transform does."""

import contextlib
import gc
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import hubarray as hub

LIMIT_SECONDS = 2.0

PROGRAM = """
import os, re, signal, subprocess, sys, time
import hubarray as hub

signal.signal(signal.SIGINT, signal.default_int_handler)
root, pool, what, then = sys.argv[1:]

def sleep(row): time.sleep(60); return row
def compute(row):
    while True: pass
def hold_the_lock(row): re.match(r"(a+)+$", "a" * 60 + "b"); return row
def ignore_signals(row):
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(one, signal.SIG_IGN)
    time.sleep(60); return row
def run_a_program(row): subprocess.run(["sleep", "61.25"]); return row
def fork(row):
    if os.fork() == 0: time.sleep(61.25); os._exit(0)
    time.sleep(60); return row

spec = hub.TransformSpec(globals()[what])
reader = hub.make_reader("t/x:v1", root=root, workers_count=2, reader_pool_type=pool, transform_spec=spec)
if then == "fork":
    child = os.fork()
    if child == 0:
        time.sleep(8); os._exit(0)
print("begin", flush=True)
try:
    with reader:
        next(reader)
except KeyboardInterrupt:
    print("left", flush=True)
"""


@pytest.fixture
def source(root):
    hub.store(np.arange(40), "t/x:v1", chunks=4, root=root)
    return root.path


@contextlib.contextmanager
def begun(source, pool, what, then="-"):
    """A program whose workers are in the midst of a transform, and all processes that it began."""
    command = [sys.executable, "-c", PROGRAM, source, pool, what, then]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as program:
        tree: list[psutil.Process] = []
        try:
            assert program.stdout.readline() == "begin\n"
            tree = _tree_when_busy(psutil.Process(program.pid), pool, what)
            yield program, tree
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                tree += psutil.Process(program.pid).children(recursive=True)
            program.kill()
            for process in tree:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def _tree_when_busy(program, pool, what):
    """The processes below a program, once the workers have had time for their first task."""
    expected = {"thread": 0, "process": 2}[pool] * (2 if what in ("run_a_program", "fork") else 1)
    deadline = time.monotonic() + 20
    while True:
        result = program.children(recursive=True)
        if (
            sum("sleep" in " ".join(item.cmdline()) or "hubarray" in " ".join(item.cmdline()) for item in result)
            >= expected
        ):
            time.sleep(1.0)
            return program.children(recursive=True)
        assert time.monotonic() < deadline, result
        time.sleep(0.05)


def seconds_until_gone(tree):
    """How long processes go on; a dead one whom its new parent has not asked for yet is gone, as it holds nothing."""
    began = time.monotonic()
    while alive := [item for item in tree if _goes_on(item)]:
        assert time.monotonic() < began + 10, [item.cmdline() for item in alive]
        time.sleep(0.01)
    return time.monotonic() - began


def _goes_on(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


TRANSFORMS = ["sleep", "compute", "hold_the_lock", "ignore_signals", "run_a_program", "fork"]


@pytest.mark.alone
@pytest.mark.parametrize("what", TRANSFORMS)
def test_workers_die_with_a_reader_that_is_killed(source, what):
    with begun(source, "process", what) as (program, tree):
        assert len(tree) >= 2
        program.kill()
        assert seconds_until_gone(tree) < LIMIT_SECONDS


@pytest.mark.alone
@pytest.mark.parametrize("what", ["sleep", "hold_the_lock", "ignore_signals", "run_a_program"])
def test_workers_end_with_ctrl_c(source, what):
    with begun(source, "process", what) as (program, tree):
        program.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert program.stdout.readline() == "left\n"
        assert time.monotonic() - began < LIMIT_SECONDS
        assert seconds_until_gone(tree) < LIMIT_SECONDS
        assert program.wait(LIMIT_SECONDS) == 0


@pytest.mark.alone
def test_a_child_that_the_reader_forked_does_not_keep_the_workers(source):
    with begun(source, "process", "sleep", "fork") as (program, tree):
        workers = [item for item in tree if "hubarray.readers.pipeline.worker_process" in " ".join(item.cmdline())]
        assert len(workers) == 2
        program.kill()
        assert seconds_until_gone(workers) < LIMIT_SECONDS


@pytest.mark.alone
def test_threads_whose_transform_sleeps_keep_neither_the_program_nor_who_leaves(source):
    with begun(source, "thread", "sleep") as (program, _):
        program.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert program.stdout.readline() == "left\n"
        assert time.monotonic() - began < LIMIT_SECONDS
        assert program.wait(LIMIT_SECONDS) == 0


def test_a_pool_that_nobody_holds_lets_its_threads_go(source):
    # Those of other tests may still sleep.
    others = set(threading.enumerate())
    reader = hub.make_reader("t/x:v1", root=source, workers_count=3)
    next(reader)
    own = {item for item in threading.enumerate() if item.name.startswith("hubarray-reader")} - others
    assert own
    del reader
    gc.collect()
    deadline = time.monotonic() + 5
    while own & set(threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_leaving_says_what_still_runs(source, caplog):
    spec = hub.TransformSpec(lambda row: time.sleep(4) or row)
    reader = hub.make_reader("t/x:v1", root=source, workers_count=2, transform_spec=spec)
    began = time.monotonic()
    with reader, pytest.raises(TimeoutError):
        reader._pool.submit(np.arange(1)).result(0.1)
    assert 1.4 < time.monotonic() - began < LIMIT_SECONDS
    assert "reader_pool_type='process'" in caplog.text


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_a_reader_that_another_thread_stops_says_so_though_a_transform_goes_on(source, pool):
    spec = hub.TransformSpec(lambda row: time.sleep(5) or row)
    with hub.make_reader("t/x:v1", root=source, workers_count=2, reader_pool_type=pool, transform_spec=spec) as reader:
        timer = threading.Timer(1, reader.stop)
        timer.start()
        began = time.monotonic()
        with pytest.raises(hub.errors.ReaderStoppedError, match="was stopped"):
            next(reader)
        assert time.monotonic() - began < 1 + LIMIT_SECONDS
        timer.join()


@pytest.mark.parametrize("pool", ["thread", "process"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_transform_that_ends_the_program_ends_the_reader_instead(source, pool, kind):
    def ends(row):
        raise kind

    spec = hub.TransformSpec(ends)
    reader = hub.make_reader("t/x:v1", root=source, workers_count=1, reader_pool_type=pool, transform_spec=spec)
    with reader, pytest.raises(hub.errors.ReaderStoppedError, match="a function of yours"):
        next(reader)


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_readers_that_are_left_or_forgotten_leave_no_descriptor(source, pool):
    def use(forgotten):
        reader = hub.make_reader("t/x:v1", root=source, workers_count=2, reader_pool_type=pool)
        next(reader)
        if not forgotten:
            reader.stop()
            reader.join()

    use(False)
    before = psutil.Process().num_fds()
    for forgotten in (True, False, True):
        use(forgotten)
        gc.collect()
    deadline = time.monotonic() + 5
    while psutil.Process().num_fds() > before:
        assert time.monotonic() < deadline, psutil.Process().num_fds() - before
        time.sleep(0.05)
