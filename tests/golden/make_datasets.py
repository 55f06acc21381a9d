"""Make a golden bucket of datasets: ``python -m tests.golden.make_datasets tests/golden/datasets2``.

Run once for each format and kept for ever: every later version has to read it. Beside the bucket it writes
``arrays.npz``, what each array of each dataset has to read as, under ``owner|name:version@commit|array``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hubarray as hub


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    rng = np.random.default_rng(20261125)
    specs = {
        "image": hub.ArraySpec((0, 6, 5), "uint8", chunks=(2, 3, 5), dims=("sample", "y", "x"), attrs={"unit": "1"}),
        "label": hub.ArraySpec(0, "int64", chunks=3, dims=("sample",), codec="zstd"),
        "näme": hub.ArraySpec((), "U7", fill_value="none"),
    }
    ds = hub.dataset(specs, "lab/train:v1", {"by": "golden"})
    for count in (3, 40, 1):
        ds.append({"image": rng.integers(0, 9, (count, 6, 5)), "label": rng.integers(0, 99, count)})
    with ds.transaction("both") as t:
        t["image"][1:3, 2] = 200
        t["label"][-1] = -1
        t["näme"][()] = "golden"
    boxes = hub.array((44, 4), "team/boxes:v0", "f4", chunks=(5, 4), dims=("sample", None))
    boxes[...] = rng.random((44, 4))
    ds["boxes"] = boxes
    ds.rename("boxes", "box")
    ds["sparse"] = hub.ArraySpec((10**9, 10**3), "i2", chunks=(10, 10))
    for at in (0, 10**8, 999_999_999):
        ds["sparse"][at, at % 997] = at % 1000
    hub.tag("lab/train:v1", "whole")
    ds.resize(sample=30)
    ds["sparse"].resize((10**9, 10**4))
    del ds["label"]
    hub.copy("lab/train:v1", "team/copy:v1")
    hub.load("team/copy:v1")["box"][0] = 7
    hub.flush()
    expected = {}
    for name in ("lab/train:v1@5", "lab/train:v1@whole", "lab/train:v1", "team/copy:v1"):
        result = hub.load(name)
        for key in result:
            value = result[key][[0, 10**8, 999_999_999], :997] if key == "sparse" else result[key][...]
            expected[f"{name}|{key}".replace("/", "%")] = np.asarray(value)
    np.savez_compressed(folder / "arrays.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
