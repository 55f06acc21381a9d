"""A drive that is extracted again with other labels: the bytes that its second version stores."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Row, Timing
from benchmarks.ours import root_of

OURS = "hubarray"
_SENSORS = {
    "time": hub.Field("i8", index=True),
    "camera.image": hub.Field("u1", (None, None, 3), codec="jpeg"),
    "lidar": hub.Field("f4", (None, 4)),
    "radar": hub.Field("f4", (None, 3)),
}
_LABELS = {"labels.boxes": hub.Field("f4", (None, 4)), "labels.text": hub.Field(str)}
_RECORDS = hub.Schema(
    _SENSORS | {"labels.boxes": hub.Field("f4", (None, 4), nullable=True), "labels.text": hub.Field(str, nullable=True)}
)
# Frames come each 100 ms, a label for every fifth or so, a little beside it.
_FRAME_MS, _LABELLED, _TOLERANCE_MS = 100, 5, 40
# Of the second version: what is promised.
_MAX_NEW = 0.05


def _sensors(count: int) -> Iterator[dict[str, Any]]:
    frames = data.photographs(min(count, 200), 224)
    rng = np.random.default_rng(0)
    for i in range(count):
        yield {
            "time": i * _FRAME_MS,
            "camera.image": frames[i % len(frames)] ^ np.uint8(i % 7),
            "lidar": rng.random((2000 + i % 50, 4), "f4"),
            "radar": rng.random((60 + i % 9, 3), "f4"),
        }


def _labels(count: int, version: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(version)
    for i in range(0, count, _LABELLED):
        yield {
            "time": i * _FRAME_MS + int(rng.integers(-30, 30)),
            "labels.boxes": rng.random((i % 8, 4), "f4"),
            "labels.text": f"{version}: {i}",
        }


def _write(name: str, schema: hub.Schema, rows: Iterator[dict[str, Any]], root: hub.Root, **options: Any) -> float:
    began = time.perf_counter()
    with hub.table_writer(name, schema, root=root, **options) as w, w.partition("monday") as p:
        p.extend(rows)
    return time.perf_counter() - began


def _merged(version: int, root: hub.Root) -> Any:
    sensors, labels = (hub.read_index(name, root=root) for name in ("bench/sensors:v1", f"bench/labels:v{version}"))
    # A time of the labels lies a little beside its frame's.
    return hub.join_asof(
        sensors, labels, on="time", tolerance=_TOLERANCE_MS, direction="nearest", suffixes=("", "_label")
    )


def _rows(merged: Any, root: hub.Root) -> Iterator[dict[str, Any]]:
    return iter(hub.row_loader(merged, root).iter_rows(list(_RECORDS), encoded=True))


def table_sharing(megabytes: int) -> list[Row]:
    """A drive of 2,000 rows, extracted again with other labels: how many new bytes its second version stores."""
    count = max(200, min(2000, megabytes * 10))
    with places.local() as base:
        root = root_of(base.corner("hubarray"))
        _write("bench/sensors:v1", hub.Schema(_SENSORS), _sensors(count), root)
        labels = hub.Schema({"time": _SENSORS["time"]} | _LABELS)
        for version in (1, 2):
            _write(f"bench/labels:v{version}", labels, _labels(count, version), root)
        seconds = {}
        for version, reference in ((1, None), (2, "bench/records:v1")):
            rows = _rows(_merged(version, root), root)
            seconds[version] = _write(f"bench/records:v{version}", _RECORDS, rows, root, reference=reference)
        _check(count, root)
        first, second = (hub.du(f"bench/records:v{version}", root=root) for version in (1, 2))
        began = time.perf_counter()
        hub.write_index(_merged(2, root), "bench/published:v2", root=root)
        published_seconds = time.perf_counter() - began
        published = hub.du("bench/published:v2", root=root)
    share = second.own / second.logical
    if share >= _MAX_NEW:
        raise AssertionError(f"{100 * share:.1f} % of the second version's bytes are new, and {100 * _MAX_NEW} may be")
    return [
        Row(
            f"a drive of {count:,} rows again, with other labels", OURS, second.logical,
            {OURS: Timing([seconds[2]]), "the first version": Timing([seconds[1]])},
            note=f"{second.own / 1e6:.2f} MB are new of {second.logical / 1e6:.0f} MB: {100 * share:.2f} %, "
            f"{100 * (1 - share):.1f} % saved; {first.own / 1e6:.2f} MB are the first version's alone",
        ),
        Row(
            "the same, published from a merged index", OURS, published.logical, {OURS: Timing([published_seconds])},
            note=f"{published.own / 1e6:.2f} MB are new: no block moves",
        ),
    ]  # fmt: skip


def _check(count: int, root: hub.Root) -> None:
    """Every value of both versions is the one that was written."""
    images = iter(hub.row_loader(hub.read_index("bench/sensors:v1", root=root), root).iter_rows("camera.image"))
    tables: list[Any] = [hub.load(f"bench/records:v{version}", root=root).loader().iter_rows() for version in (1, 2)]
    labels = [{round(row["time"] / _FRAME_MS): row for row in _labels(count, version)} for version in (1, 2)]
    for i, (sensors, first, second) in enumerate(zip(_sensors(count), *tables, strict=True)):
        # JPEG changes what it stores: once, and for all that share it.
        sensor_values = sensors | next(images)
        for row, labels_of_version in zip((first, second), labels, strict=True):
            label = labels_of_version.get(i, dict.fromkeys(_LABELS))
            expected = sensor_values | {name: label[name] for name in _LABELS}
            for name, value in expected.items():
                same = row[name] is None if value is None else np.array_equal(row[name], value)
                if not same:
                    raise AssertionError(f"row {i}: {name} is another")
