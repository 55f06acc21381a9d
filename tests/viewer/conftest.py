from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from skimage import data

import hubarray as hub

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: Any
    body: bytes


def get(url: str, **headers: str) -> Answer:
    """One request, with whatever headers."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


def api(viewer: Any, page: str, **parameters: Any) -> str:
    """The address of a page of the server."""
    return f"{viewer.url.partition('#')[0]}api/{page}?{urllib.parse.urlencode(parameters)}"


def resident_bytes():
    """Memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def viewer(root: hub.Root) -> Iterator[Any]:
    """A viewer of an empty root."""
    with hub.view(root=root, open_browser=False) as served:
        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, as people have it."""
    from playwright.sync_api import sync_playwright

    result = next((path for path in map(shutil.which, _BROWSERS) if path), None)
    if result is None:
        pytest.fail("the viewer's tests need Chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        # No GPU: pages are drawn by the processor, and WebGL by SwiftShader.
        arguments = ["--no-sandbox", "--disable-background-networking", "--disable-gpu-compositing",
                     "--enable-unsafe-swiftshader"]  # fmt: skip
        opened = playwright.chromium.launch(executable_path=result, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that has to stay without errors of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.on("console", lambda line: opened.errors.append(line.text) if "Security Policy" in line.text else None)
    yield opened
    context.close()
    assert opened.errors == []


@pytest.fixture
def show(page: Any, viewer: Any) -> Callable[..., Any]:
    """Open an address of the viewer, and wait until nothing is on its way."""

    def open_(fragment: str = "") -> Any:
        page.goto(viewer.url.partition("#")[0] + ("#" + fragment if fragment else ""))
        page.wait_for_selector("main h1, main .bad")
        return page

    return open_


def wait_for_picture(page: Any, timeout: float = 30_000) -> None:
    """Until every tile in sight is there."""
    page.wait_for_selector(".stage canvas")
    page.wait_for_function("() => window.hubarrayPicture && window.hubarrayPicture.complete", timeout=timeout)


def pixel(page: Any, x: float, y: float) -> list[int]:
    """The colour at a share of the first picture's width and height."""
    return page.evaluate(
        """([x, y]) => { const c = document.querySelector(".stage canvas");
        return [...c.getContext("2d").getImageData(c.width * x, c.height * y, 1, 1).data]; }""",
        [x, y],
    )


@pytest.fixture(scope="session")
def astronaut() -> np.ndarray:
    """A photograph of 512 x 512."""
    return data.astronaut()
