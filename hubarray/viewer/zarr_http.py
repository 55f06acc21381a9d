"""Every array as a Zarr v3 store over HTTP: ``/zarr/<owner>/<name>/<version>[/<array>]/zarr.json`` and its chunks.

For Neuroglancer, Vizarr, zarr-python and other readers of Zarr from a web server: GET, HEAD and one range.
"""

from __future__ import annotations

import math
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

from hubarray.errors import HubError, NotFoundError
from hubarray.viewer.handle_cache import Opened

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_KEY = re.compile(r"(?:[^/]{1,128}/)?(?:zarr\.json|c(?:/\d{1,19}){0,64})")
_MIN_PARTS = 4
_LARGE_BYTES = 32 << 20


class ZarrFiles:
    """The files of Zarr stores, made as they are asked for.

    Parameters
    ----------
    opened : Opened
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def is_large(self, path: str) -> bool:
        """Whether a file may take so much memory that few are read at once; of what cannot be read, no."""
        parts = path.split("/")
        if parts[-1] == "zarr.json":
            return False
        try:
            handle = self._opened.handle(f"{parts[0]}/{parts[1]}:{parts[2]}")
            array = handle if handle.kind == "array" else handle[parts[3]]
            return math.prod(array.chunks) * array.dtype.itemsize > _LARGE_BYTES
        except (HubError, IndexError, KeyError, TypeError, AttributeError):
            return False

    async def answer(self, request: Request) -> Response:
        """One file of one store.

        Raises
        ------
        HubError
        """
        from starlette.concurrency import run_in_threadpool

        parts = request.path_params["path"].split("/")
        if len(parts) < _MIN_PARTS:
            raise NotFoundError("a Zarr is at owner/name/version")
        owner, name, version, key = parts[0], parts[1], parts[2], "/".join(parts[3:])
        if not _KEY.fullmatch(key):
            raise NotFoundError("a Zarr has zarr.json and chunks")
        store = await run_in_threadpool(self._store, f"{owner}/{name}:{version}")
        return await _file(store, key, request.headers.get("range"), head=request.method == "HEAD")

    def _store(self, name: str) -> Any:
        handle = self._opened.handle(name)
        if handle.kind == "table":
            raise NotFoundError(f"{name}: is a table, which is not a Zarr")
        return handle.to_zarr_store()


async def _file(store: Any, key: str, asked: str | None, *, head: bool) -> Response:
    prototype = default_buffer_prototype()
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    byte_range = None if asked is None else _parsed_range(asked)
    if asked is not None and byte_range is None:
        return Response(status_code=416, headers=headers)
    response = await store.get(key, prototype, byte_range)
    if response is None:
        raise NotFoundError(f"there is no {key}")
    data = response.to_bytes()
    kind = "application/json" if key.endswith("zarr.json") else "application/octet-stream"
    if byte_range is None:
        return Response(b"" if head else data, media_type=kind, headers=headers | {"content-length": str(len(data))})
    whole = await store.getsize(key)
    if not data:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{whole}"})
    first = whole - len(data) if isinstance(byte_range, SuffixByteRequest) else _first(byte_range)
    range_headers = {
        "content-range": f"bytes {first}-{first + len(data) - 1}/{whole}",
        "content-length": str(len(data)),
    }
    return Response(b"" if head else data, 206, media_type=kind, headers=headers | range_headers)


def _first(byte_range: RangeByteRequest | OffsetByteRequest) -> int:
    return byte_range.start if isinstance(byte_range, RangeByteRequest) else byte_range.offset


def _parsed_range(asked: str) -> Any:
    """Return the range in a header, or None if it is not a single range."""
    match = _RANGE.fullmatch(asked.strip())
    if match is None:
        return None
    first, last = match.groups()
    if first and last:
        return RangeByteRequest(int(first), int(last) + 1) if int(last) >= int(first) else None
    if first:
        return OffsetByteRequest(int(first))
    return SuffixByteRequest(int(last)) if last and int(last) else None
