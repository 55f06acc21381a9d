"""Make a golden bucket of the current format: ``python -m tests.golden.make tests/golden/format1``.

Run once for each format and kept for ever: every later version has to read it.
Beside the bucket it writes ``expected.npz``, what each array has to read as.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hubarray as hub

CODECS = ["auto", "blosc-zstd", "zstd", "gzip", "lz4", "none"]
DTYPES = {
    "bool": "?",
    "int8": "i1",
    "uint16": "u2",
    "int64": "i8",
    "float16": "f2",
    "float32": "f4",
    "complex128": "c16",
    "datetime": "M8[ns]",
    "timedelta": "m8[10us]",
    "text": "U4",
    "bytes": "S4",
    "raw": "V3",
    "structured": [("a", "<i4"), ("b", "<f8"), ("c", "U2")],
}


def main(folder: Path) -> None:
    """Write the bucket and what it has to read as."""
    hub.configure(root=folder / "bucket", author="golden")
    expected: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(20261121)
    for codec in CODECS:
        array = hub.array((7, 9), f"codecs/{codec}:v0", "i2", chunks=(3, 4), codec=codec)
        array[...] = rng.integers(-500, 500, (7, 9))
        expected[f"codecs/{codec}:v0"] = array[...]
    for name, dtype in DTYPES.items():
        array = hub.array((5,), f"dtypes/{name}:v0", dtype, chunks=2)
        array[:3] = (
            rng.integers(0, 255, 3 * array.dtype.itemsize, "u1").view(array.dtype)
            if name in ("raw",)
            else _some(array.dtype)
        )
        expected[f"dtypes/{name}:v0"] = array[...]
    fills = {
        "minus-zero": ("f8", -0.0),
        "nan": ("f4", np.nan),
        "infinite": ("c8", complex(np.inf, -0.0)),
        "date": ("M8[s]", np.datetime64("NaT")),
    }
    for name, (dtype, fill) in fills.items():
        expected[f"fills/{name}:v0"] = hub.array(3, f"fills/{name}:v0", dtype, fill_value=fill)[...]

    many = hub.array((3000, 2), "history/many:v0", "u1", chunks=(1, 2), attrs={"unit": "mm"}, message="begin")
    many[...] = rng.integers(0, 5, (3000, 2))
    for i in range(30):
        many[[i * 90 + 11 * j for j in range(9)]] = i % 7
    many.append(np.ones((10, 2)))
    many.resize((2500, 2))
    expected["history/many:v0"] = many[...]
    expected["history/many:v0@2"] = hub.load("history/many:v0@2")[...]
    copy = hub.copy("history/many:v0", "elsewhere/copy:v1")
    copy[0] = 99
    hub.freeze("elsewhere/copy:v1")
    expected["elsewhere/copy:v1"] = copy[...]
    grown = hub.array((4, 3), "history/grown:v0", "i4", chunks=(1, 1))
    grown[...] = np.arange(12).reshape(4, 3)
    grown.resize((5, 8))
    grown[4, 7] = -1
    expected["history/grown:v0"] = grown[...]
    expected["scalar/one:v0"] = hub.array((), "scalar/one:v0", "f8", fill_value=2.5)[...]
    gone = hub.array(3, "history/gone:v0")
    gone[0] = 1
    hub.delete("history/gone:v0")
    hub.flush()
    np.savez_compressed(folder / "expected.npz", **{name.replace("/", "|"): value for name, value in expected.items()})


def _some(dtype: np.dtype) -> np.ndarray:
    if dtype.names:
        return np.array([(1, 0.5, "a"), (-2, -0.0, "ü"), (3, 1e300, "")], dtype)
    return np.array([1, 0, 3], "i8").astype(dtype) if dtype.kind not in "US" else np.array(["a", "", "wxyz"], dtype)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
