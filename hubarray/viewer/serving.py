"""Start and stop the server of the viewer: a thread of this process that listens on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
import urllib.parse
import webbrowser
from collections.abc import Iterable
from typing import Any

from hubarray import process
from hubarray.api.catalog import load
from hubarray.api.resolve import RootLike
from hubarray.errors import ConfigError, MissingPackageError, NotFoundError
from hubarray.names import parse
from hubarray.redaction import shown_text
from hubarray.storage.url import Root, resolve

_STARTING_SECONDS = 15.0
_ORIGIN = re.compile(r"https?://[^/\s*@?#]+")
_NEUROGLANCER = "https://neuroglancer-demo.appspot.com"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Served:
    """A running viewer; see :func:`hubarray.view`.

    Attributes
    ----------
    url : str
        The address of the first page, with its secret.
    """

    def __init__(self, server: Any, thread: threading.Thread, listening: socket.socket, url: str, port: int) -> None:
        self._server, self._thread, self._listening, self.url, self.port = server, thread, listening, url, port
        process.register(self)

    def after_fork(self) -> None:
        """Stop listening in a forked child."""
        with contextlib.suppress(OSError):
            self._listening.close()

    def stop(self) -> None:
        """Stop the server. Open pages say so."""
        self._server.should_exit = True
        self._thread.join(_STARTING_SECONDS)

    def wait(self) -> None:
        """Wait until the server has stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<hubarray viewer at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noopener">{self.url.partition("#")[0]}</a>'


def view(
    name: str | None = None,
    *,
    root: RootLike = None,
    key: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    open_browser: bool = True,
    allow_origins: Iterable[str] = (),
    allow_other_hosts: bool = False,
    with_: str | None = None,
) -> Served:
    """Show arrays, tables and datasets in the browser, with a small server on this machine.

    Parameters
    ----------
    name : str, optional
        What to show first: ``owner/name:version``, with ``@number`` or ``@tag`` for a commit. The default is the list
        of names.
    root : str, path or Root, optional
    key : str, optional
        An array of the dataset.
    host : str
        The address to listen on. With any other address than loopback, everybody who has the URL can read the root, so
        you must also pass ``allow_other_hosts=True``.
    port : int
        A free port by default.
    open_browser : bool
        Whether to open the page. Without a display, its address is printed with an ``ssh`` command that forwards the
        port.
    allow_origins : iterable of str
        Other sites that may read the arrays as Zarr, such as ``"https://neuroglancer-demo.appspot.com"``.
    allow_other_hosts : bool
    with_ : "neuroglancer", optional
        Open the array in another viewer.

    Returns
    -------
    Served
        It has ``url``, ``stop()`` and ``wait()``, and is a context manager.

    Raises
    ------
    ConfigError, MissingPackageError

    Notes
    -----
    The viewer is read-only. Each start generates a new secret, which is part of every address. Hosts and origins are
    checked. It makes no requests until a page needs data. A first picture costs the requests of opening and a GET for
    its chunks.

    Examples
    --------
    >>> import hubarray as hub
    >>> _ = hub.array((4, 64, 64), "docs/viewed:v0", dtype="uint8")
    >>> with hub.view("docs/viewed:v0", open_browser=False) as viewer:
    ...     viewer.url.startswith("http://127.0.0.1:")
    True
    """
    try:
        # The first picture is not to wait for it.
        import PIL.Image  # noqa: F401
        import uvicorn

        from hubarray.viewer.app import Viewer
        from hubarray.viewer.connections import patient_protocol
        from hubarray.viewer.guard import Guard
    except ImportError as error:
        raise MissingPackageError(
            f"the viewer needs the package {error.name!r}, which is not installed: pip install 'hubarray[view]'"
        ) from None
    if host not in _LOOPBACK and not allow_other_hosts:
        raise ConfigError(
            f"host={host!r} lets others reach the viewer; pass allow_other_hosts=True (--allow-other-hosts) to allow "
            "that. Over ssh, leave host out and forward the port"
        )
    if with_ not in (None, "neuroglancer"):
        raise ConfigError(f"with_={with_!r}: the other viewer that is known is 'neuroglancer'")
    where = resolve(root)
    _require(where, name, key, with_)
    for origin in allow_origins:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigError(f"allow_origins: {origin!r} is not an origin; give one such as 'https://example.org'")
    origins = [*allow_origins, *([_NEUROGLANCER] if with_ else [])]
    token = secrets.token_urlsafe(24)
    listening = _listening(host, port)
    bound = listening.getsockname()[1]
    names = () if host in _LOOPBACK else (host, socket.gethostname(), _own_address(host))
    app = Guard(Viewer(where).application(), token, hosts=names, origins=origins)
    config = uvicorn.Config(
        app,
        http=patient_protocol(),
        # Its own would close all handlers that the program has.
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    # Signals are the main program's.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="hubarray-viewer", daemon=True)
    thread.start()
    _wait_until_started(server, thread)
    shown = f"[{host}]" if ":" in host else host
    base = f"http://{_own_address(host) if host in ('0.0.0.0', '::') else shown}:{bound}/{token}/"
    url = _neuroglancer(base, name, key) if with_ else f"{base}{_page(name, key)}"
    if open_browser:
        _show(url, bound, is_loopback=host in _LOOPBACK)
    return Served(server, thread, listening, url, bound)


def _require(root: Root, name: str | None, key: str | None, with_: str | None) -> None:
    """Refuse what no page could show, before a server is started for it."""
    if name is None:
        if key is not None or with_ is not None:
            raise ConfigError("key= and with_= are of one name: give it")
        return
    handle = load(name, root=root)
    if key is not None and (handle.kind != "dataset" or key not in handle):
        raise NotFoundError(f"{name}: has no array {shown_text(key)[:80]!r}")
    if with_ is not None:
        array = handle[key] if key is not None else handle
        if array.kind != "array" or array.dtype.kind not in "buif":
            raise ConfigError(f"{name}: {with_} shows arrays of numbers; of a dataset name one with key=")


def view_handle(handle: Any, **options: Any) -> Served:
    """:func:`view` for a handle: its newest commit, or the commit that it is pinned to."""
    at = f"@{handle.commit}" if handle.fixed else ""
    key = getattr(handle, "key", None)
    return view(
        f"{handle.name}:{handle.version}{at}", root=handle.root, **({} if key is None else {"key": key}), **options
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sends small answers at once only on sockets that say TCP; on others each waits for the last one's ACK.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{host}:{port}: cannot listen there: {error}; leave port= out for a free one") from None
    return listener


def _wait_until_started(server: Any, thread: threading.Thread) -> None:
    ends = time.monotonic() + _STARTING_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > ends:
            raise ConfigError("the viewer's server did not start; its log says more")
        time.sleep(0.01)


def _own_address(host: str) -> str:
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def _page(name: str | None, key: str | None) -> str:
    if name is None:
        return ""
    member = "" if key is None else f"&key={urllib.parse.quote(key, safe='')}"
    return f"#name={urllib.parse.quote(name, safe='/:@')}{member}"


def _neuroglancer(base: str, name: str | None, key: str | None) -> str:
    if name is None:
        raise ConfigError("with_='neuroglancer' shows one array: name it")
    parsed = parse(name, commit_allowed=True)
    version = parsed.version if parsed.commit is None else f"{parsed.version}@{parsed.commit}"
    below = "" if key is None else f"/{urllib.parse.quote(key, safe='')}"
    source = f"zarr3://{base}zarr/{parsed.owner}/{parsed.name}/{version}{below}/"
    state = {"layers": [{"type": "image", "name": parsed.name, "source": source}]}
    return f"{_NEUROGLANCER}/#!{urllib.parse.quote(json.dumps(state))}"


def _show(url: str, port: int, *, is_loopback: bool) -> None:
    over_ssh = "SSH_CONNECTION" in os.environ
    has_display = sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    # At once, into a pipe too: the command goes on for as long as somebody looks.
    print(f"hubarray viewer: {url}", flush=True)
    if has_display and not over_ssh and webbrowser.open(url):
        return
    if is_loopback:
        user = os.environ.get("USER", "you")
        print(
            f"from your own machine: ssh -L {port}:127.0.0.1:{port} {user}@{socket.gethostname()}, then open it",
            flush=True,
        )
