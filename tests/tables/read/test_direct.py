"""Rows that are read at hand, without a plan: those that the engine reads, and its errors."""

import threading

import numpy as np
import pytest

import hubarray as hub
from hubarray.tables.read import direct
from tests.tables import rows as model

SCHEMA = hub.Schema(
    {
        "n": hub.Field("i8", index=True),
        "camera.image": hub.Field("u1", (None,)),
        "camera.time": hub.Field("f8"),
        "cloud": hub.Field("f4", (None, 3), nullable=True),
    }
)


def row(n):
    cloud = None if n % 3 == 0 else np.full((n % 5, 3), n, "f4")
    return {
        "n": np.int64(n),
        "camera.image": np.full(40_000 + n, n, "u1"),
        "camera.time": np.float64(n),
        "cloud": cloud,
    }


@pytest.fixture(params=["local", "s3"])
def root(request, make_root):
    return make_root(request.param)


@pytest.fixture
def table(root):
    return model.write("lab/t:v1", {"a": [row(n) for n in range(40)]}, root, SCHEMA)


def engine_only(monkeypatch):
    monkeypatch.setattr(direct, "MAX_ROWS", 0)


def test_rows_and_windows_are_those_of_the_engine(table, monkeypatch):
    loader = table.loader()
    asked = [[7], list(range(3, 14)), [39, 0, 0, 12], list(range(40))]
    at_hand = [loader.get_batch(some) for some in asked] + [loader.get_rows(20, offsets=range(-10, 0))]
    engine_only(monkeypatch)
    for result, some in zip(at_hand, [*asked, list(range(10, 20))], strict=True):
        model.assert_rows(result, [row(n) for n in some])
        model.assert_rows(loader.get_batch(some), result)


def test_a_row_keeps_only_its_own_blocks_alive_and_may_be_changed(table):
    first, second = table.loader().get_batch([5, 5], ["camera.image"])
    first["camera.image"][:] = 0
    assert (second["camera.image"] == 5).all()
    (window,) = [row["camera.image"] for row in table.loader().get_rows(9, ["camera.image"], offsets=[0])]
    base = window
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    assert base.nbytes < 50_000


def harmed(store, harm):
    """Damage the largest pack; gives its key."""
    key = max(store.list("lab/t/packs/"), key=lambda one: one.size_bytes).key
    data = bytearray(store.get(key))
    if harm == "remove":
        store.delete([key])
        return key
    for at in range(0, len(data), 5000):
        data[at] ^= 1
    store.put(key, bytes(data if harm == "flip" else data[: len(data) // 100]))
    return key


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damage_is_the_engines_error(table, root, monkeypatch, harm, forget):
    key = harmed(root.store, harm)
    said = []
    for _ in range(2):
        forget()
        with pytest.raises(hub.errors.CorruptDataError) as caught:
            table.loader().get_batch([30, 31], ["camera.image"])
        said.append(str(caught.value))
        engine_only(monkeypatch)
    assert key in said[0]
    assert said[0] == said[1]


def test_a_row_and_a_window_from_s3_are_read_on_the_thread_that_asks(make_root, forget, monkeypatch):
    root = make_root("s3")
    loader = model.write("lab/t:v1", {"a": [row(n) for n in range(40)]}, root, SCHEMA).loader()
    loader.get_rows(20, ["camera.*"], offsets=range(1))
    forget()
    loader.get_rows(20, ["camera.*"], offsets=range(1))
    readers = []
    real = root.store.get
    monkeypatch.setattr(root.store, "get", lambda *some: readers.append(threading.current_thread()) or real(*some))
    assert loader.get_row(3, ["camera.*"])["camera.time"] == 3
    assert [row["camera.time"] for row in loader.get_rows(25, ["camera.*"], offsets=range(-4, 0))] == [21, 22, 23, 24]
    assert readers == [threading.current_thread()] * 2
    assert loader.get_row(23, ["camera.*"])["camera.time"] == 23
    assert len(readers) == 2, "the disk cache has what the window brought"
