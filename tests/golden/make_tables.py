"""Make a golden bucket of tables: ``python -m tests.golden.make_tables tests/golden/tables2``.

Run once for each format and kept for ever: every later version has to read it. Beside the bucket it writes
``rows.json``, what each table has to read as.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub

DTYPES = ["?", "i1", "u2", "i8", "f2", "f4", "c16", "M8[ns]", "m8[us]", "U4", "S4", "V3"]


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    rng = np.random.default_rng(20261123)
    fields = {f"plain.{i}": hub.Field(dtype, (2,) if i % 2 else ()) for i, dtype in enumerate(DTYPES)}
    fields |= {
        "name": hub.Field(str, index=True, nullable=True),
        "time": hub.Field("M8[us]", index=True),
        "both": hub.Field("i4", index=True, group="rest"),
        "image": hub.Field("u1", (None, None, 3), codec="png", group=["image", "all"]),
        "points": hub.Field("f4", (None, 4), codec="zstd"),
        "levels": hub.Field("i2", (None,), codec="lz4", nullable=True),
        "volume": hub.Field("u2", (8, 8), codec="blosc"),
        "raw": hub.Field(bytes),
        "text": hub.Field(str, nullable=True, group="all"),
    }

    def row(i: int) -> dict[str, Any]:
        result = {
            f"plain.{n}": rng.integers(0, 2, (2,) if n % 2 else (), "i8").astype(dtype)
            for n, dtype in enumerate(DTYPES)
        }
        return result | {
            "name": None if i == 3 else f"row {i}",
            "time": np.datetime64(i, "us"),
            "both": np.int32(i),
            "image": rng.integers(0, 255, (2 + i % 2, 3, 3), "u1"),
            "points": rng.random((i % 4, 4), "f4"),
            "levels": None if i % 3 == 1 else np.arange(i, dtype="i2"),
            "volume": rng.integers(0, 9, (8, 8), "u2"),
            "raw": bytes(range(i)),
            "text": None if i % 2 else "ü" * i,
        }

    schema = hub.Schema(fields, rows_per_block={"rest": 4, "plain": 2})
    parts = {key: [row(i) for i in range(9)] for key in ("a", "b")}
    tables = {"lab/first:v1": _write("lab/first:v1", schema, parts)}
    changed = {
        key: [row | {"raw": b"new"} if i < 4 else row for i, row in enumerate(rows)] for key, rows in parts.items()
    }
    tables["team/second:v1"] = _write(
        "team/second:v1", schema, changed, reference="lab/first:v1", attrs={"by": "golden"}
    )
    tables["lab/grown:v1"] = _write("lab/grown:v1", schema, {7: parts["a"][:2]}, growing=True)
    with hub.table_writer("lab/grown:v1") as w, w.partition(-1) as p:
        p.extend(parts["b"][:3])
    tables["lab/grown:v1"] += parts["b"][:3]
    index = hub.join(
        hub.read_index("lab/first:v1"), hub.read_index("team/second:v1"), on=["partition", "time"], suffixes=("", "_2")
    )
    published = hub.write_index(index[index["both"] % 3 == 0].iloc[::-1], "team/index:v1")
    tables["team/index:v1"] = list(published)
    hub.flush()
    rows = {
        name: [{key: _json(value) for key, value in item.items()} for item in some] for name, some in tables.items()
    }
    (folder / "rows.json").write_text(json.dumps(rows, indent=0) + "\n")


def _write(name: str, schema: hub.Schema, parts: dict[Any, Any], **options: Any) -> list[dict[str, Any]]:
    with hub.table_writer(name, schema, **options) as w:
        for key, rows in parts.items():
            with w.partition(key) as p:
                p.extend(rows)
    return [row for key in sorted(parts) for row in parts[key]]


def _json(value: Any) -> Any:
    if value is None or type(value) is str:
        return value
    if type(value) is bytes:
        return {"bytes": value.hex()}
    array = np.asarray(value)
    return {"dtype": array.dtype.str, "shape": array.shape, "hex": array.tobytes().hex()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
