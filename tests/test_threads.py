"""Threads that keep no program from ending."""

import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from functools import partial

import pytest

from hubarray.blobs.scheduling import run_all
from hubarray.threads import Threads, interruptible
from tests.ctrl_c import interrupt_at


def test_tasks_run_on_as_few_threads_as_they_need_and_on_no_more_than_allowed():
    threads = Threads(3, "few")
    seen = set()
    for _ in range(20):
        threads.submit(lambda: seen.add(threading.current_thread().name)).result()
    assert len(seen) <= 2, "one that has just given its result may not be idle yet"
    together, most, lock = [0], [0], threading.Lock()

    def work():
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        time.sleep(0.01)
        with lock:
            together[0] -= 1

    wait([threads.submit(work) for _ in range(30)])
    assert most[0] == 3


def test_results_errors_and_arguments_come_through():
    with Threads(2, "come-through") as threads:
        assert threads.submit(divmod, 7, 2).result() == (3, 1)
        assert list(threads.map(lambda x: x * x, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 // 0).result()
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(print)


def test_a_block_that_raises_waits_for_nobody_and_begins_nothing():
    stop, begun = threading.Event(), []
    later = []

    def raising():
        with Threads(1, "raises") as threads:
            threads.submit(stop.wait, 30)
            later.append(threads.submit(begun.append, 1))
            raise KeyError

    with pytest.raises(KeyError):
        raising()
    stop.set()
    assert later[0].cancelled()
    assert begun == []


def test_threads_that_nobody_holds_end():
    threads = Threads(2, "nobody-holds")
    wait([threads.submit(time.sleep, 0.01) for _ in range(4)])
    del threads
    end = time.monotonic() + 5
    while any(item.name.startswith("nobody-holds") for item in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not [item for item in threading.enumerate() if item.name.startswith("nobody-holds")]


def test_a_call_of_the_main_thread_is_made_by_another_one_and_that_of_any_other_is_not():
    assert threading.current_thread() is threading.main_thread()
    assert interruptible(threading.current_thread) is not threading.main_thread()
    with Threads(1, "another") as threads:
        assert threads.submit(lambda: interruptible(threading.current_thread)).result().name.startswith("another")
    with pytest.raises(KeyError):
        interruptible(lambda: {}["x"])


def test_a_task_that_goes_on_does_not_keep_the_program_for_more_than_a_second():
    program = "import time; from hubarray.threads import Threads; Threads(1, 'x').submit(time.sleep, 60)"
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
    assert time.monotonic() - began < 8


def test_what_another_thread_of_the_program_still_does_is_done():
    program = (
        "import threading, time\n"
        "from hubarray.threads import Threads, interruptible\n"
        "pool = Threads(2, 'x')\n"
        "def later():\n"
        "    time.sleep(1.5)\n"
        "    print(pool.submit(lambda: 'done').result())\n"
        "threading.Thread(target=later).start()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert ended.stdout == "done\n"


def test_ctrl_c_anywhere_in_submit_leaves_threads_that_work():
    count, pools = 0, []
    while True:
        count += 1
        threads = Threads(2, "interrupted")
        # Those that nobody holds end by a call of their own, which is not to be interrupted.
        pools.append(threads)
        if not interrupt_at(count, partial(threads.submit, int)):
            break
        assert threads.submit(divmod, 7, 2).result(timeout=30) == (3, 1)
    assert count > 20


def test_ctrl_c_anywhere_in_a_run_of_tasks_leaves_threads_that_work():
    tasks = [(1, int)] * 3
    count = 0
    while True:
        count += 1
        if not interrupt_at(count, lambda: run_all(tasks)):
            break
        done = []
        run_all([(1, partial(done.append, i)) for i in range(3)])
        assert sorted(done) == [0, 1, 2]
    assert count > 20


def test_a_thread_that_cannot_be_started_is_an_error_of_the_caller(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        Threads(1, "refused").submit(int)
