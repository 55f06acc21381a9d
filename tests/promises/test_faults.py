"""Replies lost, connections reset, bodies cut, servers busy: nothing is lost, and success is never claimed falsely."""

import itertools
import threading
import uuid

import numpy as np
import pytest

import hubarray as hub

CALLS = {
    "hint": ("GET", "head.json"),
    "record": ("GET", "0000000000000002.json"),
    "probe": ("GET", "0000000000000003.json"),
    "data": ("GET", "/packs/"),
    "pack": ("PUT", "/packs/"),
    "commit": ("PUT", "0000000000000003.json"),
}
FAULTS = ["reset", "lost reply", "cut", 409, 429, 500, 503]


@pytest.fixture
def roots(s3_server, proxy):
    """The same root straight and through the proxy, with an array of two commits in it."""
    url = f"{s3_server.url}/{uuid.uuid4().hex}"
    straight = hub.Root(url, storage_options=s3_server.options)
    options = s3_server.options | {"endpoint_url": proxy.endpoint}
    through = hub.Root(url, storage_options=options, retry_timeout_seconds=1)
    array = hub.array((6, 50), "t/x:v0", "i8", chunks=(2, 50), root=straight)
    array[...] = 1
    hub.flush()
    proxy.plan = lambda method, path: None
    # The probe of the store's creates is not what is tested here.
    hub.array(1, "t/warm-up", root=through)
    proxy.failed.clear()
    yield straight, through
    proxy.plan = lambda method, path: None


def _fail(proxy, call, fault, times=1):
    wanted_method, wanted_path = CALLS[call]
    left = itertools.count(times, -1)
    lock = threading.Lock()

    def plan(method, path):
        with lock:
            if method == wanted_method and wanted_path in path and next(left) > 0:
                return fault
        return None

    proxy.plan = plan


def _check(straight, expected_commits, row):
    array = hub.load("t/x:v0", root=straight)
    assert array.commit == expected_commits
    assert [commit.number for commit in array.log()] == list(range(expected_commits, 0, -1))
    expected = np.ones((6, 50), "i8")
    expected[3] = row
    assert np.array_equal(array[...], expected)
    assert hub.verify("t/x", root=straight).problems == []


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_one_fault_at_any_kind_of_call_costs_nothing_but_time(proxy, roots, forget, call, fault):
    straight, through = roots
    forget()
    _fail(proxy, call, fault)
    array = hub.load("t/x:v0", root=through)
    array[3] = 7
    assert (array[3] == 7).all()
    assert proxy.failed, "the fault was not met"
    forget()
    _check(straight, 3, 7)


def test_a_long_request_that_breaks_off_again_and_again_goes_on_where_it_broke(proxy, roots, forget):
    straight, through = roots
    noise = np.random.default_rng(0).integers(0, 256, (40, 300_000), "u1")
    hub.array(noise.shape, "t/noise:v0", "u1", chunks=(1, 300_000), root=straight)[...] = noise
    forget()
    _fail(proxy, "data", "cut", times=3)
    array = hub.load("t/noise:v0", root=through)
    before = proxy.body_bytes
    assert np.array_equal(array[...], noise)
    assert [fault for *_, fault in proxy.failed] == ["cut"] * 3
    assert proxy.body_bytes - before < noise.nbytes * 1.1


@pytest.mark.parametrize("call", ["data", "commit"])
def test_a_call_that_stalls_is_made_again(proxy, roots, forget, call):
    straight, through = roots
    forget()
    _fail(proxy, call, "stall")
    array = hub.load("t/x:v0", root=through)
    array[3] = 7
    forget()
    _check(straight, 3, 7)


def test_a_spurious_refusal_of_a_create_is_not_taken_for_a_conflict(proxy, roots, forget):
    straight, through = roots
    forget()
    _fail(proxy, "commit", 412)
    hub.load("t/x:v0", root=through)[3] = 7
    forget()
    _check(straight, 3, 7)


def test_a_lost_reply_is_one_commit_also_when_another_writer_commits_on_top(proxy, roots, forget, other_machine):
    straight, through = roots
    forget()
    array = hub.load("t/x:v0", root=through)

    def plan(method, path):
        if method == "PUT" and "0000000000000003.json" in path:
            proxy.plan = lambda method, path: None
            threading.Timer(0.0, lambda: hub.load("t/x:v0", root=straight).__setitem__(0, 1)).start()
            return "lost reply"
        return None

    proxy.plan = plan
    array[3] = 7
    assert array.commit >= 3
    forget()
    result = hub.load("t/x:v0", root=straight)
    assert (result[3] == 7).all()
    assert [commit.number for commit in result.log()] == list(range(result.commit, 0, -1))


@pytest.mark.parametrize("fault", ["reset", 500, 503, 403], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_fault_that_stays_is_an_error_that_names_the_key_and_loses_nothing(proxy, roots, forget, call, fault):
    straight, through = roots
    forget()
    _fail(proxy, call, fault, times=10**6)
    with pytest.raises(hub.HubError) as caught:  # noqa: PT012
        array = hub.load("t/x:v0", root=through)
        array[3] = 7
        array.refresh()
    assert isinstance(caught.value, (hub.errors.StorageError, hub.errors.CommitOutcomeUnknown))
    assert CALLS[call][1].strip("/") in str(caught.value)
    proxy.plan = lambda method, path: None
    forget()
    expected = 3 if hub.load("t/x:v0", root=straight).commit == 3 else 2
    _check(straight, expected, 7 if expected == 3 else 1)
