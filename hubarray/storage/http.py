"""``https://`` and ``http://``: roots that somebody serves as plain files, to be read only.

A server is not trusted with memory, time or other hosts: no more of a reply is taken than was asked for, and a
redirect is followed only within the host that the user named.
"""

from __future__ import annotations

import email.utils
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import fsspec.asyn

from hubarray import process
from hubarray.errors import ConfigError, ObjectMissingError, ReadOnlyError, StorageError
from hubarray.redaction import hidden_urls, shown_text, shown_url
from hubarray.storage.base import Buffer, ObjectInfo, Store, max_seconds
from hubarray.storage.patience import unanswered
from hubarray.storage.refusals import refused

_PIECE_BYTES = 256 << 10
_MAX_OBJECT_BYTES = 8 << 30
_MAX_LISTING_BYTES = 16 << 20
_MAX_REDIRECTS = 5
_MAX_FOLDERS = 100_000
_MAX_LEVELS = 8
# Of each request, as aiohttp takes them; and of fsspec's filesystem.
_REQUEST_OPTIONS = ("headers", "auth", "cookies", "proxy", "proxy_auth", "ssl")
_FILESYSTEM_OPTIONS = ("client_kwargs", "get_client", "block_size", "cache_type", "cache_options", "encoded")
_FOUND, _PARTIAL, _PAST_THE_END = 200, 206, 416


class HttpStore(Store):
    """A root on a web server.

    Parameters
    ----------
    url : str
        ``https://host/path``.
    options : mapping
        As fsspec's ``HTTPFileSystem`` takes them: ``headers``, ``auth``, ``client_kwargs``, ...
    """

    read_only = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        super().__init__(url)
        with process.importing:
            from fsspec.implementations.http import HTTPFileSystem

        unknown = [name for name in options if name not in (*_REQUEST_OPTIONS, *_FILESYSTEM_OPTIONS)]
        if unknown:
            known = ", ".join((*_REQUEST_OPTIONS, *_FILESYSTEM_OPTIONS))
            raise ConfigError(f"{url}: storage_options: {unknown[0]!r} is not supported; supported are {known}")
        client = {**dict(options.get("client_kwargs") or {}), "auto_decompress": False}
        self._request_options = {name: options[name] for name in _REQUEST_OPTIONS if name in options}
        self._fs = HTTPFileSystem(
            client_kwargs=client,
            **{name: options[name] for name in ("get_client",) if name in options},
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        if length == 0:
            return b""
        return self._sync(self._body(self._address(key), start or 0, length), key, length or 0)

    def _head(self, key: str) -> ObjectInfo:
        headers = self._sync(self._headers(self._address(key)), key)
        size = headers.get("Content-Length", "")
        return ObjectInfo(key, int(size) if size.isascii() and size.isdigit() else 0, _moment(headers))

    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        folders, met = [prefix], 1
        while folders:
            folder = folders.pop()
            for name in self._names(folder):
                if not name.endswith("/"):
                    yield ObjectInfo(folder + name, 0, None)
                elif shallow:
                    yield ObjectInfo(folder + name, 0, None, is_folder=True)
                elif folder.count("/") < _MAX_LEVELS:
                    folders.append(folder + name)
                    met += 1
            if met > _MAX_FOLDERS:
                raise StorageError(f"{self.where(prefix)}: lists more than {_MAX_FOLDERS:,} folders; check the server")

    def _names(self, folder: str) -> list[str]:
        """Return the names directly below a folder that its page links to, or none without a page."""
        address = f"{self.url}/{quote(folder)}"
        try:
            page = self._sync(self._body(address, 0, _MAX_LISTING_BYTES), folder)
        except ObjectMissingError:
            if not folder:
                raise StorageError(
                    f"{self.url}: this server does not list its folders; give the names, as in hub.load(name)"
                ) from None
            return []
        links = _Links()
        links.feed(bytes(page).decode("utf-8", "replace"))
        names = dict.fromkeys(_name_below(address, link) for link in links.found)
        return [name for name in names if name]

    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None:
        raise ReadOnlyError(f"{self.where(key)}: this root can only be read")

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        raise ReadOnlyError(f"{self.where(key)}: this root can only be read")

    def _delete(self, keys: Sequence[str]) -> None:
        raise ReadOnlyError(f"{self.where(keys[0])}: this root can only be read")

    def _address(self, key: str) -> str:
        return f"{self.url}/{quote(key)}"

    def _sync(self, request: Any, key: str, payload_bytes: int = 0) -> Any:
        """Run a request on fsspec's loop within a time limit."""
        seconds = max_seconds(payload_bytes)
        try:
            return fsspec.asyn.sync(self._fs.loop, lambda: request, timeout=seconds)
        except StorageError:
            raise
        except _Refused as error:
            raise self._refusal(error, key) from None
        except TimeoutError:
            raise unanswered(self.where(key), f"within {seconds:.0f} s") from None
        except Exception as error:
            # aiohttp raises in as many ways as a connection can break.
            reason = shown_text(hidden_urls(str(error)))[:300] or type(error).__name__
            broke_off = type(error).__name__ == "ClientPayloadError"
            raise unanswered(self.where(key), reason, is_alive=broke_off) from None

    def _refusal(self, error: _Refused, key: str) -> StorageError:
        where, status = self.where(key), error.status
        if error.reason:
            return StorageError(f"{where}: {error.reason}")
        if status in (404, 410):
            return ObjectMissingError(f"{where}: no such object")
        if (denied := refused(where, status, str(status))) is not None:
            return denied
        if status >= 500 or status in (408, 425, 429):
            return unanswered(where, str(status), is_alive=True, retry_after_seconds=error.retry_after_seconds)
        return StorageError(f"{where}: the server answered {status}")

    async def _body(self, address: str, start: int, length: int | None) -> bytes:
        """At most ``length`` bytes from ``start``, however many the server sends."""
        left_bytes = _MAX_OBJECT_BYTES if length is None else length
        ranged = start > 0 or length is not None
        headers = {"Range": f"bytes={start}-{'' if length is None else start + length - 1}"} if ranged else {}
        async with await self._answer("GET", address, headers) as reply:
            if reply.status == _PAST_THE_END:
                return b""
            if reply.status not in (_FOUND, _PARTIAL):
                raise _Refused(reply.status, headers=reply.headers)
            if reply.headers.get("Content-Encoding", "identity") != "identity":
                raise _Refused(reply.status, "the server compresses its responses although hubarray asks it not to")
            # A server that knows no ranges sends all from the beginning.
            passed = start if reply.status == _FOUND else 0
            pieces = []
            while left_bytes > 0 and (piece := await reply.content.read(min(_PIECE_BYTES, passed or left_bytes))):
                if passed:
                    passed -= len(piece)
                    continue
                pieces.append(piece)
                left_bytes -= len(piece)
            if left_bytes == 0 and length is None:
                raise _Refused(reply.status, f"is longer than {_MAX_OBJECT_BYTES:,} bytes")
            return b"".join(pieces)

    async def _headers(self, address: str) -> Mapping[str, str]:
        async with await self._answer("HEAD", address, {}) as reply:
            if reply.status != _FOUND:
                raise _Refused(reply.status, headers=reply.headers)
            headers: Mapping[str, str] = reply.headers
            return headers

    async def _answer(self, method: str, address: str, headers: dict[str, str]) -> Any:
        """The reply at the end of redirects within the host."""
        session = await self._fs.set_session()
        headers = {**(self._request_options.get("headers") or {}), "Accept-Encoding": "identity", **headers}
        options = {**self._request_options, "headers": headers, "allow_redirects": False}
        for _ in range(_MAX_REDIRECTS):
            reply = await session.request(method, address, **options)
            if reply.status not in (301, 302, 303, 307, 308):
                return reply
            target = urljoin(address, reply.headers.get("Location", ""))
            reply.close()
            if not _same_host(address, target):
                shown = shown_text(shown_url(target))[:200]
                raise _Refused(
                    reply.status, f"the server sends readers on to another host, {shown}; name that one if it is meant"
                )
            address = target
        raise _Refused(reply.status, "the server sends readers on and on")


class _Refused(Exception):
    def __init__(self, status: int, reason: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        header = (headers or {}).get("Retry-After", "")
        # In seconds; a date, which it may also be, is a longer wait than ours.
        self.retry_after_seconds = float(header) if header.isascii() and header.isdigit() and len(header) < 8 else 0.0


class _Links(HTMLParser):
    """Where the links of a page lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a link."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _name_below(folder: str, link: str) -> str | None:
    """The name right below a folder that a link on its page is to; a folder's ends in ``/``.

    Examples
    --------
    >>> [_name_below("http://h/x/", link) for link in ("a", "b%20c/", "/x/d", "../y", "http://i/x/e", "a/b", "?C=N")]
    ['a', 'b c/', 'd', None, None, None, None]
    """
    try:
        target = urljoin(folder, link).partition("#")[0].partition("?")[0]
    except ValueError:
        return None
    if not target.startswith(folder):
        return None
    name = unquote(target.removeprefix(folder))
    return name if name and "/" not in name[:-1] and name != "/" else None


def _same_host(first: str, second: str) -> bool:
    try:
        here, there = urlsplit(first), urlsplit(second)
        same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        upgraded = (here.scheme, there.scheme) == ("http", "https") and here.hostname == there.hostname
    except ValueError:
        return False
    return same or (upgraded and here.port is None and there.port is None)


def _moment(headers: Mapping[str, str]) -> datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(headers["Last-Modified"])
    except (KeyError, ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
