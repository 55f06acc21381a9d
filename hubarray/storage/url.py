"""Roots: a URL, the options to reach it, and the store that serves it in this process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hubarray import config, process
from hubarray.errors import ConfigError
from hubarray.redaction import has_user, shown_url
from hubarray.storage.base import Store
from hubarray.storage.credentials import (
    Credentials,
    RenewingStore,
    call_credentials,
    check_credentials,
    merged_options,
    sent_credentials,
)
from hubarray.storage.forked import has_live_obstore
from hubarray.storage.options import checked_endpoint, endpoint_from_environment, for_s3fs

# A URL without one of its slashes or its colon, or the name of a version where a root is expected.
_SLIP = re.compile(r"(?![.~]?/)(?!\.\./)[^:]*:|(s3a?|gs|gcs|https?|memory|file)//", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)


class Root:
    """A place that contains names: a bucket with a prefix, or a folder.

    Parameters
    ----------
    url : str or path
        ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``https://...`` (read-only), ``memory://name``, another URL of
        fsspec, or a folder.
    storage_options : mapping, optional
        Credentials and endpoint, in the form of s3fs and gcsfs. A pickle contains them, so that a worker can connect.
        They are never shown.
    retry_timeout_seconds : float, optional
        Same as in :func:`hubarray.configure`, for this root.
    credentials : callable, optional
        A function that returns ``(options, expires_at)``: credentials in the form of ``storage_options``, and the time
        of their expiry as a datetime with a time zone, or None. Each process calls it before its first request, five
        minutes before the expiry (or halfway, if the credentials last less than ten minutes), and when the server says
        that they have expired. It must work with cloudpickle, because it is sent to workers. For ``s3://``, ``gs://``
        and ``https://``.

    Raises
    ------
    ConfigError
        The URL is malformed or contains credentials.

    Notes
    -----
    The result of ``credentials`` is kept only in memory. :func:`hubarray.import_` reads a file with the credentials at
    the time of opening.

    Examples
    --------
    >>> Root("s3://bucket/hub", storage_options={"key": "k", "secret": "s"})
    Root('s3://bucket/hub')
    """

    __slots__ = ("_credentials", "_options", "_retry_timeout_seconds", "url")

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        retry_timeout_seconds: float | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.url = normalize(url)
        self._retry_timeout_seconds = config.retry_timeout(retry_timeout_seconds)
        if storage_options is not None and not isinstance(storage_options, Mapping):
            raise ConfigError("storage_options is a mapping, such as {'key': ..., 'secret': ...}")
        self._options: dict[str, Any] = dict(storage_options or {})
        if self._options.get("endpoint_url") is not None:
            checked_endpoint(self._options["endpoint_url"])
        check_credentials(self.url, credentials, self._options)
        self._credentials = credentials

    @property
    def scheme(self) -> str:
        """The scheme of the URL; ``file`` for a folder."""
        return self.url.partition("://")[0]

    @property
    def identity(self) -> str:
        """The text that distinguishes objects of this root from those of others: its URL, and its endpoint if set.

        Two servers may have buckets with the same name. Cached data of one must not be used for the other.
        """
        endpoint = self._options.get("endpoint_url")
        endpoint = endpoint or dict(self._options.get("client_kwargs") or {}).get("endpoint_url")
        if not endpoint and self.scheme == "s3":
            endpoint = endpoint_from_environment()
        if self.scheme not in _ENGINES and self._options:
            # Of other services the options may name the place too, such as an account.
            encoded = json.dumps(self._options, sort_keys=True, default=str).encode()
            return f"{self.url} with {hashlib.blake2b(encoded, digest_size=16).hexdigest()}"
        return f"{self.url} at {endpoint}" if endpoint else self.url

    @property
    def path(self) -> str:
        """The path, if the root is a folder."""
        return unquote(urlsplit(self.url).path)

    @property
    def store(self) -> Store:
        """The store in this process, shared by all roots with the same URL and options."""
        return _stores.get(self)

    def below(self, folder: str) -> Root:
        """Return a folder of this root, with the same options."""
        return Root(
            f"{self.url}/{folder}",
            storage_options=self._options,
            retry_timeout_seconds=self._retry_timeout_seconds,
            credentials=self._credentials,
        )

    def _options_now(self) -> dict[str, Any]:
        """The storage options, with those that ``credentials`` returns now."""
        if self._credentials is None:
            return dict(self._options)
        return merged_options(self.url, self._options, call_credentials(self.url, self._credentials)[0])

    def __repr__(self) -> str:
        return f"Root({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and self._compared() == other._compared()

    def _compared(self) -> tuple[Any, ...]:
        return self.url, self._options, self._retry_timeout_seconds, self._credentials

    def __hash__(self) -> int:
        return hash(self.url)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        state = {name: getattr(self, name) for name in self.__slots__}
        if self._credentials is not None:
            state["_credentials"] = sent_credentials(self.url, self._credentials)
        return None, state

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        # A pickle of 0.1 has only a URL and options.
        self._credentials, self._retry_timeout_seconds = None, None
        for name, value in state[1].items():
            setattr(self, name, value)


def normalize(url: str | os.PathLike[str]) -> str:
    """Return the normal form of a URL.

    Examples
    --------
    >>> normalize("s3://bucket/hub/"), normalize("/data/hub")
    ('s3://bucket/hub', 'file:///data/hub')
    """
    text = os.fspath(url)
    if not isinstance(text, str) or not text:
        raise ConfigError("a root is a URL or a folder")
    if "://" not in text:
        if isinstance(url, str) and _SLIP.match(text) and not os.path.exists(text):
            raise ConfigError(
                f"{shown_url(text)}: is neither a URL, such as s3://bucket/prefix, nor a folder that exists; for a new "
                f"folder write ./{shown_url(text)}"
            )
        return Path(os.path.abspath(os.path.expanduser(text))).as_uri()
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme == "file":
        if urlsplit(text).netloc not in ("", "localhost"):
            raise ConfigError(f"{shown_url(text)}: a folder has no host; write file:///folder")
        return Path(os.path.abspath(unquote(urlsplit(text).path))).as_uri()
    if scheme not in _ENGINES and not _is_known_to_fsspec(scheme.partition("::")[0]):
        raise ConfigError(
            f"{shown_url(text)}: no store is known for {scheme}://; use s3://, gs://, https://, memory:// or a folder, "
            "or a scheme of fsspec, such as az://"
        )
    if has_user(text):
        raise ConfigError(f"{scheme}://...: credentials do not belong in a URL; pass storage_options")
    if re.search("[?#]", rest) and scheme in ("http", "https"):
        raise ConfigError(
            f"{shown_url(text)}: a root has no query, such as a signature, nor a fragment; pass storage_options"
        )
    if not rest.strip("/") or rest.startswith("/"):
        raise ConfigError(f"{shown_url(text)}: the bucket or host is missing")
    if scheme in ("s3", "gs", "gcs") and not _BUCKET.fullmatch(rest.partition("/")[0]):
        raise ConfigError(f"{shown_url(text)}: {rest.partition('/')[0]!r} is not the name of a bucket")
    return f"{scheme}://{rest.rstrip('/')}"


def _is_known_to_fsspec(scheme: str) -> bool:
    with process.importing:
        from fsspec.registry import known_implementations, registry
    return scheme in known_implementations or scheme in registry


def resolve(root: str | os.PathLike[str] | Root | None) -> Root:
    """Return the root for an argument: itself, a URL, or the configured root.

    The configured ``storage_options`` apply to the configured root and to URLs of the same scheme, and never to another
    kind of service.
    """
    if isinstance(root, Root):
        return root
    settings = config.current()
    configured = Root(settings.root, storage_options=settings.storage_options)
    if root is None:
        return configured
    parsed = Root(root)
    if parsed.scheme == configured.scheme:
        return Root(parsed.url, storage_options=settings.storage_options)
    return parsed


def fsspec_options(place: str | Root) -> dict[str, Any]:
    """Return the keyword arguments of fsspec for a place: those of the Root, or the configured ones.

    A URL gets the configured options if it is in the bucket of the configured root, or on its host.
    """
    options = place._options_now() if isinstance(place, Root) else _configured_for(place)
    scheme = place.scheme if isinstance(place, Root) else place.partition("://")[0]
    return for_s3fs(options) if scheme in ("s3", "s3a") else dict(options)


def beside_the_root(url: str) -> Root:
    """Return a place to write to, with the configured options if it is in the bucket of the configured root."""
    return Root(url, storage_options=_configured_for(url))


def _configured_for(url: str) -> Mapping[str, Any]:
    settings = config.current()
    return settings.storage_options if _bucket(url) == _bucket(normalize(settings.root)) else {}


def _bucket(url: str) -> str:
    """Scheme and bucket, or host, of a URL."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme.lower()}{slashes}{re.split('[/?#]', rest, maxsplit=1)[0]}"


# Of a URL's scheme: the module and class that serve it. Whatever else fsspec speaks can be read.
_ENGINES = {
    "file": "local.LocalStore",
    "s3": "objectstore.ObjectStore",
    "s3a": "s3_filesystem.S3FilesystemStore",
    "gs": "gcs.GcsStore",
    "gcs": "gcs.GcsStore",
    "http": "http.HttpStore",
    "https": "http.HttpStore",
    "memory": "memory.MemoryStore",
}
_AFTER_A_FORK = {"s3": "s3_filesystem.S3FilesystemStore"}
_OTHER = "filesystem.FilesystemStore"


def open_store(root: Root) -> Store:
    """Open a new store for a root. :attr:`Root.store` shares one in the process."""
    engine = _ENGINES.get(root.scheme, _OTHER)
    if root.scheme in _AFTER_A_FORK and process.is_forked_child() and not has_live_obstore():
        engine = _AFTER_A_FORK[root.scheme]
    module, _, name = engine.partition(".")
    with process.importing:
        store_class = getattr(importlib.import_module(f"hubarray.storage.{module}"), name)
    store: Store
    if root.scheme == "file":
        store = store_class(root.path)
    elif root._credentials is not None:
        store = RenewingStore(root.url, store_class, partial(store_class, root.url), root._credentials, root._options)
    else:
        store = store_class(root.url, root._options)
    store.retry_timeout_seconds = root._retry_timeout_seconds
    return store


class _Stores:
    """The process's stores. A forked child starts with none: connections do not survive a fork."""

    def __init__(self) -> None:
        self._stores: dict[Root, Store] = {}
        self._inherited: list[dict[Root, Store]] = []
        self._lock = threading.Lock()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        # Kept for good: dropping obstore's client tells its threads, which are not here, and waits for ever for a
        # lock if one of them held it at the fork (seen once in a thousand forks).
        self._inherited.append(self._stores)
        self._stores = {}
        self._lock = threading.Lock()

    def get(self, root: Root) -> Store:
        store = self._stores.get(root)
        if store is None:
            with self._lock:
                store = self._stores.get(root)
                if store is None:
                    store = self._stores[root] = open_store(root)
        return store


_stores = _Stores()
