"""Make a golden bucket of format 4: ``python -m tests.golden.make_datasets4 tests/golden/datasets4``.

A dataset whose description is a node, a commit that shares it, and a copy. Run once and kept for ever, as
``make_datasets.py``. What has to be read is in ``expected.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import hubarray as hub

COUNT = 2500


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    specs = {f"number {i}": hub.ArraySpec((0,), "i2", chunks=4, dims=("sample",)) for i in range(COUNT)}
    ds = hub.dataset(specs, "lab/many:v1")
    ds.append({name: np.full(2, i) for i, name in enumerate(specs)})
    ds["number 7"][1] = -7
    hub.copy("lab/many:v1", "lab/copy:v1")
    hub.flush()
    expected = {name: ds[name][:].tolist() for name in ("number 0", "number 7", f"number {COUNT - 1}")}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
