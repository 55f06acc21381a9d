"""How well rows are mixed: classes in a step of a set that is sorted by class, at several buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hubarray.readers.order.cursor import uniform_units
from hubarray.readers.order.order import EpochCut, Order
from hubarray.readers.order.planning import sizes
from hubarray.readers.order.sampler import Share

CLASSES, RANKS, STEP_ROWS = 1000, 8, 2048
ROWS, ROW_BYTES = 1_000_000, 20_000


def shuffle_quality(megabytes: int) -> list[dict[str, Any]]:
    """Of 1,000 contiguous classes those that a step of 2,048 rows on 8 ranks shows; no data is read, so none is moved."""
    del megabytes
    measured = [quality_of(buffer_bytes << 20) for buffer_bytes in (64, 192, 768, 3072)]
    rng = np.random.default_rng(0)
    whole = [len(np.unique(rng.choice(ROWS, STEP_ROWS, replace=False) * CLASSES // ROWS)) for _ in range(20)]
    return [
        *measured,
        {
            "buffer, MB": "all rows",
            "pool, %": 100.0,
            "open units a rank": ROWS,
            "classes a step": round(float(np.mean(whole)), 1),
        },
    ]


def quality_of(buffer_bytes: int, *, rows: int = ROWS, row_bytes: int = ROW_BYTES) -> dict[str, Any]:
    """The pool that is printed, and the classes that steps in the middle of an epoch show."""
    chosen = sizes(rows, row_bytes, 1, intervals=RANKS, world_size=RANKS, buffer_bytes=buffer_bytes)
    order = Order(uniform_units(rows, chosen.unit_rows), 1, 0, RANKS, chosen.group_rows)
    cut = EpochCut.of([(0, rows)], RANKS)
    shares = [
        Share(order, cut, taken=0, step_rows=STEP_ROWS, rank=rank, world_size=RANKS, mode="exact")
        for rank in range(RANKS)
    ]
    seen = []
    for step in range(shares[0].steps // 4, shares[0].steps - 1, max(1, shares[0].steps // 20)):
        classes: set[int] = set()
        for share in shares:
            for segment in share.segments(step):
                run = share.runs[segment.run]
                group = order.group_source_rows(*run.group)[segment.first : segment.first + segment.count]
                classes |= set((group * CLASSES // rows).tolist())
        seen.append(len(classes))
    return {
        "buffer, MB": buffer_bytes >> 20,
        "pool, %": round(100 * min(1.0, RANKS * chosen.group_rows / rows), 2),
        "open units a rank": chosen.open_units,
        "classes a step": round(float(np.mean(seen)), 1),
    }
