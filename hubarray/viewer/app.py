"""The routes of the viewer: what each address answers, how many are answered at once, and what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hubarray.errors import (
    AccessDeniedError,
    ConfigError,
    FormatVersionError,
    HubError,
    InvalidNameError,
    NotFoundError,
    TagNotFoundError,
    UnavailableError,
)
from hubarray.redaction import shown_text
from hubarray.storage.url import Root
from hubarray.viewer import array_pages, change_pages, dataset_pages, home_pages, line_pages, row_pages, table_pages
from hubarray.viewer.connections import Paced, Sent
from hubarray.viewer.handle_cache import Opened
from hubarray.viewer.parameters import Query
from hubarray.viewer.zarr_http import ZarrFiles

log = logging.getLogger("hubarray.viewer")

# Pictures have slots of their own, so that slow ones hold up no page.
PICTURES_AT_ONCE, PAGES_AT_ONCE, ZARR_AT_ONCE = 6, 12, 8
# Of large chunks, each of which is held until it is sent.
LARGE_ZARR_AT_ONCE = 2
MAX_WAITING = 256
_IMAGES = frozenset(("picture", "image", "sample-image"))
_POINTS = frozenset(("points", "sample-points"))
_PICTURES = _IMAGES | _POINTS | {"window", "chunks", "line", "differing", "first-difference", "cell"}
# What says nothing but what a commit holds, and is kept where it is asked of one by its number.
_OF_A_COMMIT = _PICTURES | {
    "array", "values", "table", "rows", "row", "curve", "dataset", "sample", "changes",
}  # fmt: skip
_KEPT_BYTES = 64 << 20
_ENTRY_BYTES = 200
_MAX_ANSWER_BYTES = 32 << 20
# What is asked of a commit by its number never changes.
_KEPT_FOR = "private, max-age=86400, immutable"
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (InvalidNameError, 400), (TagNotFoundError, 404), (NotFoundError, 404), (ConfigError, 400),
    (AccessDeniedError, 403), (UnavailableError, 503), (FormatVersionError, 422), (HubError, 422),
    (IndexError, 400), (MemoryError, 507),
)  # fmt: skip
_SCRIPTS = (
    "main", "lib", "home", "look", "array", "array_lists", "array_pictures", "array_side", "table", "rowpage",
    "rowview", "overtime", "dataset", "versions", "comparison", "cloud", "plot", "tiles",
)  # fmt: skip
_VENDORED = ("three.module.min.js", "OrbitControls.js", "uPlot.iife.min.js")
_JAVASCRIPT, _CSS = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    **{path: (path, _CSS) for path in ("style.css", "vendor/uPlot.min.css")},
    **{f"{name}.js": (f"{name}.js", _JAVASCRIPT) for name in _SCRIPTS},
    **{f"vendor/{path}": (f"vendor/{path}", _JAVASCRIPT) for path in _VENDORED},
}

_HEADS = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8", "image/webp": b"RIFF"}
_FIXED = re.compile(r":[^@]*@\d{1,16}$", re.ASCII)

Answer = dict[str, Any] | bytes
Page = Callable[[Query], Answer]


class _Kept:
    """Answers of commits by their address, up to some bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> bytes | None:
        """An answer, if it is there."""
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
            return held

    def put(self, key: str, data: bytes) -> None:
        """Keep an answer, and forget the oldest."""
        with self._lock:
            if key in self._held:
                return
            self._held[key] = data
            self._bytes += len(data) + len(key) + _ENTRY_BYTES
            while self._bytes > _KEPT_BYTES:
                old, dropped = self._held.popitem(last=False)
                self._bytes -= len(dropped) + len(old) + _ENTRY_BYTES


class Viewer:
    """The application's state: what is open, and who waits.

    Parameters
    ----------
    root : Root
    """

    def __init__(self, root: Root) -> None:
        self._opened = Opened(root)
        self._choices = table_pages.Choices()
        self._fixed_answers = _Kept()
        self._zarr = ZarrFiles(self._opened)
        self._slots: dict[int, asyncio.Semaphore] = {}
        self._large_files = asyncio.Semaphore(LARGE_ZARR_AT_ONCE)
        self._waiting = 0

    def application(self) -> Starlette:
        """The routes."""
        opened, choices = self._opened, self._choices
        pages: dict[str, Page] = {
            "home": partial(home_pages.home, opened),
            "facts": partial(home_pages.facts, opened),
            "log": partial(home_pages.log, opened),
            "changes": partial(change_pages.changes, opened),
            "first-difference": partial(change_pages.first_difference, opened),
            "differing": partial(change_pages.differing, opened),
            "array": partial(array_pages.array, opened),
            "window": partial(array_pages.window, opened),
            "picture": partial(array_pages.picture, opened),
            "values": partial(array_pages.values, opened),
            "line": partial(line_pages.line, opened),
            "chunks": partial(array_pages.chunk_map, opened),
            "table": partial(table_pages.table, opened),
            "rows": partial(table_pages.rows, opened, choices),
            "row": partial(row_pages.row, opened, choices),
            "cell": partial(row_pages.cell, opened, choices),
            "image": partial(row_pages.image, opened, choices),
            "points": partial(row_pages.points, opened, choices),
            "curve": partial(table_pages.curve, opened, choices),
            "dataset": partial(dataset_pages.dataset, opened),
            "sample": partial(dataset_pages.sample, opened),
            "sample-image": partial(dataset_pages.image, opened),
            "sample-points": partial(dataset_pages.points, opened),
        }
        routes = [Route(f"/api/{name}", self._endpoint(name, page)) for name, page in pages.items()]
        routes.append(Route("/zarr/{path:path}", self._zarr_file, methods=["GET", "HEAD"]))
        routes.append(Route("/{path:path}", _file))
        return Starlette(routes=routes)

    def _endpoint(self, name: str, page: Page) -> Callable[[Request], Any]:
        at_once = PICTURES_AT_ONCE if name in _PICTURES else PAGES_AT_ONCE

        async def answer(request: Request) -> Response:
            pairs = request.query_params.multi_items()
            parameters = dict(pairs)
            if len(parameters) != len(pairs):
                return _error_response(400, "ConfigError", "a parameter is there twice")
            key = f"{request.url.path}?{request.url.query}"
            # A tag may move, and a bare name goes on.
            named = [parameters[parameter] for parameter in ("name", "one", "two") if parameter in parameters]
            is_fixed = name in _OF_A_COMMIT and bool(named) and all(map(_FIXED.search, named))
            if is_fixed and (cached := self._fixed_answers.get(key)) is not None:
                return Sent(_response(name, cached, is_fixed=True))
            if self._waiting >= MAX_WAITING:
                return _error_response(
                    503, "UnavailableError", "too many requests at once; try again when some have been answered"
                )

            async def make() -> Response:
                if await request.is_disconnected():
                    # A tile that is no longer wanted is not fetched.
                    return Response(status_code=499)
                data, is_whole = await run_in_threadpool(lambda: _encoded(page(Query(parameters))))
                if is_fixed and is_whole:
                    self._fixed_answers.put(key, data)
                return _response(name, data, is_fixed=is_fixed and is_whole)

            slots = self._slots.setdefault(at_once, asyncio.Semaphore(at_once))
            return _Counted(self, Paced(slots, make, _failed))

        return answer

    async def _zarr_file(self, request: Request) -> Response:
        slots = self._slots.setdefault(ZARR_AT_ONCE, asyncio.Semaphore(ZARR_AT_ONCE))
        if await run_in_threadpool(self._zarr.is_large, request.path_params["path"]):
            slots = self._large_files
        return Paced(slots, partial(self._zarr.answer, request), _failed)


class _Counted(Response):
    """An answer that is counted as long as somebody waits for it."""

    def __init__(self, viewer: Viewer, made: Response) -> None:
        self._viewer, self._made, self.background = viewer, made, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._viewer._waiting += 1
        try:
            await self._made(scope, receive, send)
        finally:
            self._viewer._waiting -= 1


def _encoded(answer: Answer) -> tuple[bytes, bool]:
    """The bytes of an answer, and whether it is whole: what is broken today may be there tomorrow."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer, allow_nan=False, default=str).encode()
    if len(data) > _MAX_ANSWER_BYTES:
        raise ConfigError(f"the answer has {len(data):,} bytes, and {_MAX_ANSWER_BYTES:,} are sent; ask for less")
    return data, isinstance(answer, bytes) or not answer.get("broken")


def _response(page: str, data: bytes, *, is_fixed: bool) -> Response:
    if page in _IMAGES:
        kind = next(kind for kind, head in _HEADS.items() if data.startswith(head))
    else:
        kind = "application/octet-stream" if page in _POINTS else "application/json"
    return Response(data, media_type=kind, headers={"cache-control": _KEPT_FOR} if is_fixed else None)


def _failed(error: Exception) -> Response:
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return _error_response(status, type(error).__name__, shown_text(str(error)))
    log.exception("the viewer failed")
    return _error_response(500, type(error).__name__, "the viewer failed; its log says more")


def _error_response(status: int, kind: str, text: str) -> Response:
    return JSONResponse({"error": kind, "message": text[:2000]}, status)


async def _file(request: Request) -> Response:
    """A file of the package: those that are named above, and nothing else."""
    file = _FILES.get(request.path_params["path"])
    if file is None:
        return _error_response(404, "NotFoundError", "there is no such page")
    data = resources.files("hubarray.viewer").joinpath("static", *file[0].split("/")).read_bytes()
    return Response(data, media_type=file[1], headers={"cache-control": "no-cache"})
