"""A first picture of an array in a bucket: how long it takes, and what it asks of the bucket."""

import time

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs import fetch
from tests.viewer.conftest import api, get, wait_for_picture

pytestmark = pytest.mark.alone

TRIES = 6


def without_caches():
    hub.configure(disk_cache_bytes=0)
    fetch._shared._memory.clear()


@pytest.fixture(params=["photographs", "volume", "composite"])
def remote(request, s3_root, astronaut):
    """A name, and the elements that its first picture is made of."""
    if request.param == "photographs":
        a = hub.array((20, 512, 512, 3), "t/x:v1", "u1", root=s3_root)
        a[:] = np.stack([astronaut] * 20)
        return "t/x:v1", (0,)
    if request.param == "volume":
        a = hub.array((16, 256, 256), "t/x:v1", "f4", chunks=(1, 256, 256), root=s3_root)
        a[:] = np.random.default_rng(0).normal(size=(16, 256, 256))
        return "t/x:v1", (0,)
    a = hub.array((4096, 4096, 3), "t/x:v1", "u1", chunks=(1024, 1024, 3), root=s3_root)
    a[:] = np.tile(astronaut, (8, 8, 1))
    return "t/x:v1", (slice(None, None, 4), slice(None, None, 4))


def test_the_first_picture_is_there_in_a_second_beside_its_bare_gets_and_asks_for_little_more(browser, remote, s3_root):
    name, key = remote
    took, asked = [], []
    for _ in range(TRIES):
        without_caches()
        begun, before = time.perf_counter(), hub.stats().requests
        hub.load(name, root=s3_root)[key]
        bare, bare_requests = time.perf_counter() - begun, hub.stats().requests - before
        without_caches()
        with hub.view(name, root=s3_root, open_browser=False) as viewer:
            page = browser.new_page()
            begun, before = time.perf_counter(), hub.stats().requests
            page.goto(viewer.url)
            wait_for_picture(page)
            took.append(time.perf_counter() - begun - bare)
            asked.append(hub.stats().requests - before - bare_requests)
            page.close()
        if took[-1] < 1:
            break
    assert min(took) < 1, took
    # What an array that may have moved on is asked for again, and of a volume the chunk in its middle.
    assert max(asked) <= 4, asked


def test_what_is_asked_of_the_store_for_a_picture_is_counted(viewer, root, astronaut):
    a = hub.array((20, 512, 512, 3), "t/photos:v1", "u1", root=root)
    a[:] = np.stack([astronaut] * 20)
    without_caches()
    given = {"name": "t/photos:v1@2", "y": 1, "x": 2, "c": 3, "at": "7,0,0,0", "low": 0, "high": 255}
    before = hub.stats().requests
    for row in (0, 1):
        for column in (0, 1):
            assert get(api(viewer, "picture", level=0, row=row, column=column, **given)).status == 200
    # The record, the log's end, and one chunk for four tiles.
    assert hub.stats().requests - before <= 5


def test_a_tile_that_was_made_is_not_made_again(viewer, root):
    hub.store(np.zeros((64, 64), "u1"), "t/x:v1", root=root)
    given = {"name": "t/x:v1@1", "y": 0, "x": 1, "at": "0,0", "level": 0, "row": 0, "column": 0}
    first = get(api(viewer, "picture", **given)).body
    without_caches()
    before = hub.stats().requests
    assert get(api(viewer, "picture", **given)).body == first
    assert hub.stats().requests == before
