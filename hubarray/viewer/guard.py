"""Who may ask: the secret in the path, the host that was meant, the origin that asks; and what answers say to browsers.

A page from elsewhere can have a browser ask this server for anything, and a name that resolves to this machine (DNS
rebinding) makes it look like the same site. So the host has to be one of ours, and every path begins with a secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
MAX_URL_BYTES = 8 << 10
# An address of IPv4 as a socket of IPv6 has it.
_MAPPED = "::ffff:"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Guard:
    """An ASGI application before another one.

    Parameters
    ----------
    app
        The application for allowed requests, whose paths come without the secret.
    token : str
        The first part of every path.
    hosts : iterable of str
        Names of this server beside loopback, without ports. With "any", the address of the connection is allowed as
        well. A name that was rebound to this machine is not an address.
    origins : iterable of str
        Pages of others that may read ``/zarr/``.
    """

    def __init__(self, app: Any, token: str, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._origins = frozenset(origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        origin = Headers(scope=scope).get("origin")
        path = scope["path"]
        is_zarr = path.split("/")[2:3] == ["zarr"]
        allowed = origin if is_zarr and origin in self._origins else None

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                _harden(MutableHeaders(scope=message), allowed)
            await send(message)

        if refused is not None:
            await PlainTextResponse(*refused)(scope, receive, answer)
            return
        if scope["method"] == "OPTIONS" and allowed is not None:
            await PlainTextResponse("", 204)(scope, receive, answer)
            return
        inside = "/" + path.split("/", 2)[2] if path.count("/") > 1 else "/"
        await self._app({**scope, "path": inside, "raw_path": inside.encode()}, receive, answer)

    def _refused(self, scope: Any) -> tuple[str, int] | None:
        headers = Headers(scope=scope)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > MAX_URL_BYTES:
            return "the address is too long", 414
        if len(headers.getlist("origin")) > 1:
            return "an origin is given twice", 400
        hosts = headers.getlist("host")
        if len(hosts) != 1 or "@" in hosts[0] or not self._is_ours(_hostname(hosts[0]), scope):
            return "this server is not known by that name", 421
        parts = scope["path"].split("/")
        token = parts[1].encode() if len(parts) > 1 else b""
        if not hmac.compare_digest(token, self._token):
            return "the address lacks its secret, or has another one's: use the one that was printed", 403
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and origin.partition("://")[2] != headers["host"]:
            return "pages of other sites may not read this", 403
        is_page = headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") == "cross-site" and not is_page and origin not in self._origins:
            return "pages of other sites may not read this", 403
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") or (scope["method"] == "OPTIONS" and origin is None):
            return "nothing can be changed here", 405
        return None

    def _is_ours(self, name: str, scope: Any) -> bool:
        if name in self._hosts:
            return True
        if self._hosts == LOOPBACK or not scope.get("server"):
            return False
        own = str(scope["server"][0]).lower().removeprefix(_MAPPED)
        return name == (f"[{own}]" if ":" in own else own)


def _hostname(host: str) -> str:
    """The name in a Host header, without its port."""
    name = host.lower()
    if name.startswith("["):
        address, _, rest = name.partition("]")
        return f"{address}]" if not rest or (rest[:1] == ":" and rest[1:].isdigit()) else ""
    return name.partition(":")[0]


def _harden(headers: MutableHeaders, allowed: str | None) -> None:
    headers["content-security-policy"] = _POLICY
    headers["x-content-type-options"] = "nosniff"
    headers["referrer-policy"] = "no-referrer"
    headers["cross-origin-opener-policy"] = "same-origin"
    headers["cross-origin-resource-policy"] = "same-origin" if allowed is None else "cross-origin"
    headers.setdefault("cache-control", "no-store")
    if allowed is not None:
        headers["access-control-allow-origin"] = allowed
        headers["access-control-allow-methods"] = "GET, HEAD"
        headers["access-control-allow-headers"] = "range"
        headers["access-control-expose-headers"] = "content-range, content-length, accept-ranges"
        headers["vary"] = "origin"
