"""Tasks on threads whose results come in order."""

import contextvars
import threading
import time
import weakref
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs import scheduling
from hubarray.blobs.scheduling import TASK_GROUP_BYTES, run_in_order


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, TASK_GROUP_BYTES // 3, TASK_GROUP_BYTES, 40 << 20]), st.booleans()),
        max_size=40,
    )
)
def test_results_come_in_the_order_of_the_tasks_on_the_calling_thread(sizes):
    got = []

    def task(number, slow):
        if slow:
            time.sleep(0.001)
        return number

    def consume(number):
        got.append((number, threading.get_ident()))

    run_in_order(((size, partial(task, i, slow)) for i, (size, slow) in enumerate(sizes)), consume)
    assert got == [(i, threading.get_ident()) for i in range(len(sizes))]


def test_what_a_task_holds_goes_with_its_result():
    tasks, alive = [], []

    def task(held):
        return weakref.ref(held)

    def consume(held):
        alive.append(held)
        if len(alive) == 20:
            assert [item for item in alive[:10] if item() is not None] == []

    for _ in range(40):
        tasks.append((TASK_GROUP_BYTES, partial(task, {1})))
    run_in_order((tasks.pop(0) for _ in range(40)), consume)
    assert len(alive) == 40


def test_tasks_run_while_earlier_results_are_consumed():
    third_ran = threading.Event()
    tasks = [lambda: None, lambda: None, third_ran.set]

    def consume(_):
        assert third_ran.wait(10)

    run_in_order(((TASK_GROUP_BYTES, task) for task in tasks), consume)


def test_tasks_see_the_context_of_the_caller():
    variable = contextvars.ContextVar("variable", default="another's")
    variable.set("the caller's")
    seen = []
    run_in_order([(TASK_GROUP_BYTES, variable.get)] * 3, seen.append)
    assert seen == ["the caller's"] * 3


def test_a_task_alone_runs_on_the_calling_thread():
    ran_on = []
    run_in_order([(1 << 30, threading.get_ident)], ran_on.append)
    assert ran_on == [threading.get_ident()]


@pytest.mark.parametrize(
    ("cores", "size", "most"), [(1, 1 << 20, 32), (4, 1 << 20, 64), (64, 1 << 20, 256), (2, 60 << 20, 120)]
)
def test_no_more_is_drawn_ahead_than_is_said(monkeypatch, cores, size, most):
    monkeypatch.setattr(scheduling, "core_count", lambda: cores)
    drawn, consumed, held = 0, 0, []

    def tasks():
        nonlocal drawn
        for _ in range(400):
            drawn += 1
            held.append((drawn - consumed) * size)
            yield size, int

    def consume(_):
        nonlocal consumed
        consumed += 1

    run_in_order(tasks(), consume)
    # What is being drawn is beside what is ahead.
    assert (most << 20) <= max(held) <= (most << 20) + size


@pytest.mark.parametrize("where", ["task", "consume", "drawing"])
def test_the_first_failure_in_order_is_raised_and_nothing_runs_after_it(where):
    consumed, running = [], []

    def task(number):
        running.append(number)
        time.sleep(0.001)
        if where == "task" and number in (20, 21):
            raise ValueError(number)
        return number

    def consume(number):
        if where == "consume" and number == 20:
            raise ValueError(number)
        consumed.append(number)

    def tasks():
        for number in range(5000):
            if where == "drawing" and number == 90:
                raise ValueError(20)
            yield TASK_GROUP_BYTES, partial(task, number)

    with pytest.raises(ValueError, match=r"^20$"):
        run_in_order(tasks(), consume)
    assert consumed == list(range(len(consumed)))
    assert len(consumed) == 20 or where == "drawing"
    ran = len(running)
    time.sleep(0.02)
    assert len(running) == ran < 5000
