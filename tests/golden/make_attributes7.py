"""Make a golden bucket of format 7: ``python -m tests.golden.make_attributes7 tests/golden/attributes7``.

Attributes that are NaN or infinite, of an array, a dataset, an array of it and a table, and the text "NaN" beside them.
Run once and kept for ever, as ``make_datasets.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hubarray as hub

ATTRS = {"nan": float("nan"), "text": "NaN", "range": [0.5, float("inf"), {"low": float("-inf")}]}


def main(folder: Path) -> None:
    """Write the bucket."""
    hub.configure(root=folder / "bucket", author="golden")
    a = hub.array(3, "lab/array:v1", dtype="int64", attrs={"unit": "K"})
    a.attrs.update(ATTRS)
    a[:] = [1, 2, 3]
    del a.attrs["nan"], a.attrs["range"]
    ds = hub.dataset({"x": hub.ArraySpec(2, "int64", dims=("n",), attrs=ATTRS)}, "lab/dataset:v1", ATTRS)
    ds["x"][:] = [4, 5]
    schema = hub.Schema({"i": hub.Field("int64", index=True), "t": hub.Field("datetime64[ns]", index=True)})
    with hub.table_writer("lab/table:v1", schema, attrs=ATTRS) as w, w.partition("p") as p:
        p.extend([{"i": 0, "t": hub_time("2024-02-29")}, {"i": 1, "t": hub_time("NaT")}])
    hub.flush()


def hub_time(text: str) -> object:
    """A time of nanoseconds."""
    import numpy as np

    return np.datetime64(text, "ns")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
