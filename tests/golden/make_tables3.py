"""Make a golden bucket of what tables got later: ``python -m tests.golden.make_tables3 tests/golden/tables3``.

Ranges of the index, JPEG, several slabs, a packed description, and parts that wait in a staging version. As
``make_tables.py``, run once and kept for ever.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub
from tests.golden.make_tables import _json, _write

LONG_ROWS = 131_072 + 5
# All a JPEG has of them is their size, which every decoder reads alike.
GREY = 128


def long_columns() -> dict[str, np.ndarray]:
    """What ``lab/long:v1`` has to read as: more than a slab of rows, several in a block and one."""
    numbers = np.arange(LONG_ROWS)
    return {"i": numbers.astype("i4"), "near.v": (numbers % 251).astype("u1"), "far.v": (numbers // 1000).astype("u1")}


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    schema = hub.Schema(
        {
            "name": hub.Field(str, index=True, nullable=True),
            "photo": hub.Field("u1", (None, None, 3), codec={"name": "jpeg", "quality": 90}),
            "mask": hub.Field("u1", (None, None), codec="png"),
        }
    )

    def row(i: int) -> dict[str, Any]:
        return {
            "name": None if i == 3 else f"row {i}",
            "photo": np.full((8 + i, 16, 3), GREY, "u1"),
            "mask": np.full((3, 2 + i), i, "u1"),
        }

    parts = {key: [row(i) for i in range(9)] for key in ("a", "b")}
    tables = {"lab/first:v1": _write("lab/first:v1", schema, parts)}
    tables["lab/grown:v1"] = _write("lab/grown:v1", schema, {7: parts["a"][:2]}, growing=True)
    wide = hub.Schema({f"group {i // 10}.field {i} of a very wide table": hub.Field("f4") for i in range(900)})
    wide_row = {name: np.float32(i) for i, name in enumerate(wide)}
    tables["lab/wide:v1"] = _write("lab/wide:v1", wide, {0: [wide_row]})
    long = hub.Schema(
        {"i": hub.Field("i4", index=True), "near.v": hub.Field("u1"), "far.v": hub.Field("u1")},
        rows_per_block={"far": 4096},
    )
    with hub.table_writer("lab/long:v1", long) as w, w.partition("all") as p:
        p.extend(long_columns())
    writer = hub.table_writer("lab/resumed:v1", schema, resume=True)
    with writer.worker().partition("a") as p:
        p.extend(parts["a"])
    writer.worker().stage([p.part])
    hub.flush()
    rows = {
        name: [{key: _json(value) for key, value in item.items()} for item in some] for name, some in tables.items()
    }
    (folder / "rows.json").write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
