"""Screenshots of the viewer for the documents: ``python examples/screenshots.py docs/images``. Needs Chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright
from skimage import data

import hubarray as hub

PAGES = {
    "home": "",
    "array": "name=lab/photos:v1&at=0,0,0,0",
    "cuts": "name=lab/volume:v1&mode=three cuts",
    "table": "name=lab/drive:v1",
    "row": "name=lab/drive:v1&row=7",
    "versions": "name=lab/photos:v1&tab=versions",
    "dataset": "name=lab/train:v1",
}


def fill(root: hub.Root) -> None:
    """Something to look at."""
    astronaut, cat = data.astronaut(), data.chelsea()
    photos = hub.array((8, 512, 512, 3), "lab/photos:v1", "uint8", dims=("photo", "y", "x", "c"), root=root)
    photos[:] = np.stack([np.roll(astronaut, 30 * i, 1) for i in range(8)])
    photos[0, 180:260, 300:420] = 255 - photos[0, 180:260, 300:420]
    z, y, x = np.mgrid[-1:1:96j, -1:1:96j, -1:1:96j]
    ball = np.exp(-6 * (x**2 + y**2 + z**2)) * (1 + 0.4 * np.sin(14 * x) * np.cos(11 * y))
    hub.store(ball.astype("f4"), "lab/volume:v1", chunks="cube", root=root)
    schema = {
        "t": hub.Field("i8", index=True),
        "speed": hub.Field("f4", index=True),
        "camera.image": hub.Field("uint8", (None, None, 3), codec="jpeg"),
        "camera.boxes": hub.Field("f4", (None, 4)),
        "camera.labels": hub.Field("i4", (None,)),
        "lidar.points": hub.Field("f4", (None, 4)),
    }
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    with hub.table_writer("lab/drive:v1", hub.Schema(schema), root=root) as w, w.partition("monday") as p:
        for i in range(60):
            far = rng.uniform(1, 30, len(angle))
            points = np.stack([far * np.cos(angle), far * np.sin(angle), np.sin(far / 3 + i / 9), far], -1)
            p.append({
                "t": i, "speed": np.float32(5 + np.sin(i / 9)), "camera.image": np.roll(cat, 4 * i, 1),
                "camera.boxes": np.array([[110 + 4 * i, 40, 300 + 4 * i, 260]], "f4"),
                "camera.labels": np.array([1], "i4"),
                "lidar.points": points.astype("f4"),
            })  # fmt: skip
    train = hub.dataset(
        {
            "image": hub.ArraySpec((0, 300, 451, 3), "uint8", dims=("sample", "y", "x", "c")),
            "label": hub.ArraySpec(0, "int64", dims=("sample",)),
            "caption": hub.ArraySpec(0, str, dims=("sample",)),
        },
        "lab/train:v1",
        root=root,
    )
    train.append(
        {"image": np.stack([cat] * 4), "label": range(4), "caption": ["a cat", "a cat again", "Chelsea", "cat"]}
    )


def take(page: Page, base: str, name: str, fragment: str, folder: Path) -> None:
    """One screenshot, when all is there."""
    page.goto(base + ("#" + fragment if fragment else ""))
    page.wait_for_selector("main h1")
    page.wait_for_timeout(2500)
    page.screenshot(path=str(folder / f"{name}.jpg"), type="jpeg", quality=88)


def main(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    browser = next(path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path)
    with tempfile.TemporaryDirectory() as where:
        root = hub.Root(where)
        fill(root)
        with hub.view(root=root, open_browser=False) as viewer, sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
            opened = playwright.chromium.launch(executable_path=browser, args=arguments)
            page = opened.new_page(viewport={"width": 1180, "height": 720})
            for name, fragment in PAGES.items():
                take(page, viewer.url, name, fragment, folder)
            opened.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
