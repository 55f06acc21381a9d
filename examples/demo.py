"""The main job, on real photographs: put images into a named array, share it, slice it by name.

Run by ``make demo``. Writes to the configured root, by default a local folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import numpy as np

import hubarray as hub

NAME = "demo/photos:v1"
CROPS, SIDE = 1500, 256
MB = 1e6

READER = """
import hubarray as hub
photos = hub.load("demo/photos:v1")
print(f"   another process opened {photos!r}")
print(f"   and read photos[0:10, 100:200, 100:200].mean() = {photos[0:10, 100:200, 100:200].mean():.3f}")
"""


def photographs() -> list[np.ndarray]:
    """Colour photographs that ship inside scikit-image."""
    import skimage.data

    names = ("astronaut", "chelsea", "coffee", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")
    return [getattr(skimage.data, name)()[..., :3] for name in names]


def crops(count: int) -> np.ndarray:
    """Random square crops of the photographs, shape ``(count, SIDE, SIDE, 3)``, uint8."""
    rng = np.random.default_rng(0)
    photos = photographs()
    out = np.empty((count, SIDE, SIDE, 3), np.uint8)
    for i in range(count):
        photo = photos[i % len(photos)]
        y, x = (int(rng.integers(0, length - SIDE)) for length in photo.shape[:2])
        out[i] = photo[y : y + SIDE, x : x + SIDE]
    return out


def timed(what: str, size: int, work) -> object:
    """Run something and print how long it took, and how fast it moved ``size`` bytes."""
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    speed = f", {size / MB / seconds:7.0f} MB/s" if size else ""
    print(f"   {what:<58} {seconds * 1e3:9.1f} ms{speed}")
    return result


def stored_bytes(root: hub.Root) -> int:
    """Bytes of all objects of the name in the bucket."""
    return sum(info.size_bytes for info in root.store.list("demo/photos/"))


def main() -> None:
    """Create, write, read, version and share."""
    print("1. Real photographs, cut into samples")
    images = crops(CROPS)
    print(f"   {CROPS} crops of {SIDE} x {SIDE} x 3, {images.nbytes / MB:.0f} MB in memory")

    print("2. A named array; an assignment is in the bucket when it returns")
    if hub.exists("demo/photos:v1"):
        hub.delete("demo/photos")
    photos = hub.array(images.shape, NAME, dtype="uint8", attrs={"source": "scikit-image"})
    print(f"   {photos!r}")
    print(f"   under {photos.root.url}")

    def assign() -> None:
        photos[...] = images

    before = stored_bytes(photos.root)
    timed("photos[...] = images   (one commit)", images.nbytes, assign)
    kept_bytes = stored_bytes(photos.root) - before
    print(f"   stored {kept_bytes / MB:.0f} MB for {photos.nbytes / MB:.0f} MB of pixels")

    print("3. Slices feel like NumPy")
    everything = timed("photos[...]", images.nbytes, lambda: photos[...])
    assert np.array_equal(everything, images)
    order = np.random.default_rng(1).permutation(CROPS)[:200].tolist()
    timed("200 random samples, one by one", 200 * images[0].nbytes, lambda: [photos[i] for i in order])
    timed("the same again, from the memory cache", 200 * images[0].nbytes, lambda: [photos[i] for i in order])
    timed("photos[[3, 1, 4], 100:200, ::-1, 0]", 0, lambda: photos[[3, 1, 4], 100:200, ::-1, 0])

    print("4. Versions, history, time travel")
    edited = timed("hub.copy(v1 -> v2)     (no data moves)", 0, lambda: hub.copy(NAME, "demo/photos:v2"))
    edited[0] = 255 - images[0]
    edited.append(images[:5])
    print(f"   v2 differs from v1 in {len(hub.diff(NAME, 'demo/photos:v2').chunks)} of {len(edited)} chunks")
    for commit in hub.log("demo/photos:v2"):
        print(f"   v2@{commit.number}  {commit.time:%H:%M:%S}  {commit.message}")
    assert np.array_equal(hub.load("demo/photos:v2@1")[0], images[0])
    assert np.array_equal(photos[0], images[0])

    print("5. Shared by name")
    hub.flush()
    subprocess.run([sys.executable, "-c", READER], check=True)
    folder = Path(urllib.parse.unquote(urllib.parse.urlsplit(photos.root.url).path))
    if photos.root.url.startswith("file:"):
        free = shutil.disk_usage(folder).free
        print(f"\nIt is all in {folder / 'demo'} ({stored_bytes(photos.root) / MB:.0f} MB; {free / 1e9:.0f} GB free).")
    print('Next: hub.configure(root="s3://your-bucket/hub") and the same lines share it between machines.')


if __name__ == "__main__":
    main()
