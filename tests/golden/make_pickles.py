"""Make golden pickles of handles: ``python -m tests.golden.make_pickles tests/golden/pickles``.

Run once, with version 0.1; every later version loads them, or refuses them by a HubError.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub

ROOT = "memory://golden-pickles"


def stored() -> dict[str, Any]:
    """Store an array, a dataset and a table in memory, and return their handles."""
    hub.configure(author="golden")
    array = hub.store(np.arange(6), "t/a:v1", root=ROOT)
    dataset = hub.dataset({"x": np.arange(4)}, "t/d:v1", root=ROOT)
    schema = hub.Schema({"id": hub.Field(int, index=True), "v": hub.Field("f4", (None,))})
    with hub.table_writer("t/t:v1", schema, root=ROOT) as writer, writer.partition("p") as partition:
        partition.extend([{"id": 1, "v": np.ones(3, "f4")}])
    loader = hub.row_loader(hub.read_index("t/t:v1", root=ROOT))
    table = hub.load("t/t:v1", root=ROOT)
    return {
        "array": array, "dataset": dataset, "member": dataset["x"], "table": table, "schema": schema, "loader": loader,
        "root": hub.Root(ROOT), "diff": hub.diff("t/t:v1@1", "t/t:v1", root=ROOT), "commits": list(hub.log("t/a:v1", root=ROOT)),
        "report": hub.verify("t/a:v1", root=ROOT),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in stored().items():
        (Path(sys.argv[1]) / f"{name}.pickle").write_bytes(pickle.dumps(value))
