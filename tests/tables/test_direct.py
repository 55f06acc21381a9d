"""Rows that are read at hand, without a plan: those that the engine reads, and its errors."""

from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from hubarray.tables import direct
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


@pytest.fixture
def table(root):
    return model.write("lab/t:v1", {"a": [row(n) for n in range(40)]}, root, SCHEMA)


def engine_only(monkeypatch):
    monkeypatch.setattr(direct, "MOST_ROWS", 0)


def test_rows_and_windows_are_those_of_the_engine(table, monkeypatch):
    loader = table.loader()
    asked = [[7], list(range(3, 14)), [39, 0, 0, 12], list(range(40))]
    at_hand = [loader.get_batch(some) for some in asked] + [loader.get_rows(20, offsets=range(-10, 0))]
    engine_only(monkeypatch)
    for found, some in zip(at_hand, [*asked, list(range(10, 20))], strict=True):
        model.assert_rows(found, [row(n) for n in some])
        model.assert_rows(loader.get_batch(some), found)


def test_a_row_keeps_only_its_own_blocks_alive_and_may_be_changed(table):
    first, second = table.loader().get_batch([5, 5], ["camera.image"])
    first["camera.image"][:] = 0
    assert (second["camera.image"] == 5).all()
    (window,) = [one["camera.image"] for one in table.loader().get_rows(9, ["camera.image"], offsets=[0])]
    base = window
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    assert base.nbytes < 50_000


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damage_is_the_engines_error(table, root, monkeypatch, harm):
    pack = max(Path(root.url.removeprefix("file://")).rglob("packs/*"), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    if harm == "flip":
        for at in range(0, len(data), 5000):
            data[at] ^= 1
        pack.write_bytes(data)
    elif harm == "cut":
        pack.write_bytes(data[: len(data) // 100])
    else:
        pack.unlink()
    said = []
    for _ in range(2):
        with pytest.raises(hub.CorruptDataError) as caught:
            table.loader().get_batch([30, 31], ["camera.image"])
        said.append(str(caught.value))
        engine_only(monkeypatch)
    assert pack.name in said[0]
    assert said[0] == said[1]
