"""What the disk cache costs at the first read from S3, and gives at the second."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.ours import NAME, OURS, cold, root_of
from benchmarks.places import Place

SMALL_SIDE, SIDE = 92, 256


def disk_cache(megabytes: int) -> list[Row]:
    """Reading all at once and random samples: without the cache, filling it, and from it; no peer keeps data on disk."""
    rows = []
    for what, side in (("25 KB chunks", SMALL_SIDE), ("197 KB chunks", SIDE)):
        count = max(128, megabytes * 1_000_000 // (side**2 * 3))
        values = data.photographs(count, side)
        order = random.Random(0).sample(range(count), 100)
        # Enough for all: what the server reads from its own disk would tell of that.
        with places.s3(cache_megabytes=max(2048, 3 * megabytes)) as base:
            ours = base.corner("hubarray")
            OURS.create(ours, values, (1, side, side, 3))
            rows.append(_row(f"all at once, {what}", base, ours, lambda array: array[...], values, values.nbytes))
            size = len(order) * values[0].nbytes

            def samples(array: hub.Array, order: list[int] = order) -> np.ndarray:
                return [array[i] for i in order][-1]

            rows.append(_row(f"100 random samples, {what}", base, ours, samples, values[order[-1]], size))
    return rows


def _row(
    what: str, base: Place, place: Place, read: Callable[[Any], np.ndarray], expected: np.ndarray, size_bytes: int
) -> Row:
    folders = (base.folder / f"cache-{what}-{n}" for n in itertools.count())

    def opened(cache_dir: Path, budget_bytes: int = 16 << 30) -> Any:
        hub.configure(memory_cache_bytes=64 << 20, cache_dir=cache_dir, disk_cache_bytes=budget_bytes)
        return hub.load(NAME, root=root_of(place)).snapshot()

    off, warm, filling = opened(next(folders), 0), opened(next(folders)), opened(next(folders))
    read(warm)

    def before() -> None:
        nonlocal filling
        cold()
        filling = opened(next(folders))
        for array in (off, warm, filling):
            array[[0, len(array) - 1], :1, :1]

    contenders = {
        "hubarray": lambda: read(filling),
        "without a disk cache": lambda: read(off),
        "again, from the disk cache": lambda: read(warm),
    }
    bars = [Bar("without a disk cache", "at least", 0.5)]
    return measure(f"S3, {what}, into an empty disk cache", contenders, size_bytes=size_bytes, expected=expected,
                   bars=bars, before=before, server=base.server)  # fmt: skip
