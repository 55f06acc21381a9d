"""Make a golden bucket of format 3: ``python -m tests.golden.make_datasets3 tests/golden/datasets3``.

A dataset whose description is packed, arrays of text through every codec, and encoded images. Run once and kept for
ever, as ``make_datasets.py``. What has to be read is in ``expected.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import hubarray as hub

TEXTS = ["", "a", "é" * 40, "with\0nul\0", "🙂 and more than fifteen letters", "b" * 1000]


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    for codec in ("auto", "none", "zstd", "gzip", "lz4", "blosc-zstd"):
        array = hub.array((2, 3), f"lab/text-{codec}:v1", str, chunks=(1, 2), codec=codec, fill_value="filled")
        array[0] = TEXTS[:3]
        array[1, 1:] = TEXTS[3:5]
    image = hub.array((2, 8, 9, 3), "lab/image:v1", "uint8", codec="png")
    image[:] = np.arange(2 * 8 * 9 * 3, dtype="u1").reshape(2, 8, 9, 3)
    many = {f"number {i}": hub.ArraySpec((0, 2), "i2", chunks=(4, 2), dims=("sample", None), attrs={"n": i})
            for i in range(300)}  # fmt: skip
    ds = hub.dataset({**many, "text": hub.ArraySpec(0, str, dims=("sample",), chunks=4)}, "lab/many:v1")
    for first in (0, 6):
        rows = {name: np.full((6, 2), i + first) for i, name in enumerate(many)}
        ds.append({**rows, "text": [f"{text}{first}" for text in TEXTS]})
    hub.flush()
    expected = {"texts": [["", "a", TEXTS[2]], ["filled", *TEXTS[3:5]]], "of many": ds["text"][:].tolist(),
                "numbers": [ds[f"number {i}"][:, 1].tolist() for i in (0, 150, 299)]}  # fmt: skip
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
