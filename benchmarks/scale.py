"""What a commit and an open cost against the array's size: requests and bytes, counted."""

from __future__ import annotations

from typing import Any

import hubarray as hub
from benchmarks import places
from benchmarks.ours import root_of

SIZES = (10**3, 10**5, 10**7, 10**10)


def scale(megabytes: int) -> list[dict[str, Any]]:
    """Open, read one sample, and assign one, in arrays of up to ten billion chunks."""
    rows = []
    with places.local() as base:
        for chunks in SIZES:
            root = root_of(base.corner(str(chunks)))
            array = hub.array((chunks, 16), "bench/x:v0", "f4", chunks=(1, 16), root=root)
            for place in range(0, chunks, max(1, chunks // 300)):
                array[place] = place + 1
            hub.flush()
            stats = root.store.stats
            row: dict[str, Any] = {"chunks": chunks}
            for what, work in {
                "open": lambda root=root: _reopened(root),
                "read one": lambda root=root: _reopened(root)[0],
                "assign one": lambda array=array, chunks=chunks: array.__setitem__(chunks // 2 + 1, 7),
            }.items():
                before = stats.counts()
                work()
                spent = stats.counts() - before
                row[f"{what}: requests"] = sum(n for verb, n in spent.items() if not verb.endswith("_bytes"))
                row[f"{what}: bytes"] = spent["read_bytes"] + spent["written_bytes"]
            rows.append(row)
    return rows


def _reopened(root: hub.Root) -> hub.Array:
    from benchmarks.ours import cold
    from hubarray.history.log import version

    cold()
    version._versions = version._Versions()
    return hub.load("bench/x:v0", root=root)
