"""Processes that append pairs to one dataset: never out of step, and none is lost."""

import numpy as np
import pytest

import hubarray as hub
from tests.promises.test_writers import _run
from tests.rounds import rounds

NAME = "lab/pairs:v0"


def append_pairs(root, worker, count):
    ds = hub.load(NAME, root=root)
    places = []
    for i in range(count):
        number = worker * 1000 + i
        at = ds.append({"image": np.full((2, 3), number), "label": [number, number]})
        places.append(at)
        if i % 3 == 0:
            with ds.transaction() as t:
                t["image"][at, 0] = t["label"][at] + 1
    return [(place.start, place.stop) for place in places]


def watch_pairs(root, commits):
    """What every commit shows while others append: both arrays alike."""
    ds = hub.load(NAME, root=root)
    while ds.refresh().commit < commits:
        seen = ds.snapshot()
        image, label = seen["image"], seen["label"]
        assert len(image) == len(label) == seen.dims["sample"]
        assert np.array_equal(image[:, 2], label[:])
    return []


@pytest.mark.parametrize(("kind", "processes"), [("local", 2), ("s3", 4), ("local", 8), ("s3", 8)])
def test_pairs_that_processes_append_at_once_stay_in_step(kind, processes, make_root):
    root, count = make_root(kind), rounds(4, 40)
    specs = {
        "image": hub.ArraySpec((0, 3), "int64", chunks=(4, 3), dims=("sample", "x")),
        "label": hub.ArraySpec(0, "int64", chunks=5, dims=("sample",)),
    }
    hub.dataset(specs, NAME, root=root)
    commits = 1 + processes * (count + -(-count // 3))
    work = [(root, i, count) for i in range(processes)]
    result = _run(_either, [*work, (root, -1, commits)])
    ds = hub.load(NAME, root=root)
    image, label = ds["image"][...], ds["label"][:]
    assert ds.commit == commits
    assert np.array_equal(image[:, 2], label)
    assert ((image[:, 0] == label) | (image[:, 0] == label + 1)).all()
    expected = sorted(worker * 1000 + i for worker in range(processes) for i in range(count) for _ in range(2))
    assert sorted(label.tolist()) == expected
    places = sorted(place for some in result for place in some)
    assert places == [(2 * i, 2 * i + 2) for i in range(processes * count)]
    assert hub.verify(NAME, root=root).problems == []


def _either(root, worker, count):
    return watch_pairs(root, count) if worker < 0 else append_pairs(root, worker, count)
