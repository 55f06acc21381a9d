"""Credentials that the user's own function supplies, and supplies again before they expire."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from hubarray.errors import AccessDeniedError, ConfigError, HubError, UnavailableError
from hubarray.storage.base import Buffer, ObjectInfo, Store
from hubarray.storage.patience import unanswered

Credentials: TypeAlias = Callable[[], tuple[Mapping[str, Any], datetime | None]]
Connect: TypeAlias = Callable[[Mapping[str, Any]], Store]

# Before they expire; at most this share of the time that they are valid for.
_LEAD_SECONDS, _LEAD_SHARE = 300.0, 0.5
_PAUSE_AFTER_FAILURE_SECONDS = 10.0
_ATTEMPTS = 3
_SCHEMES = ("s3", "s3a", "gs", "gcs", "http", "https")
_OWN_NAMES = ("key", "secret", "token", "profile", "anon")
_PLACE = "endpoint_url"

log = logging.getLogger("hubarray.storage")


def check_credentials(url: str, credentials: object, options: Mapping[str, Any]) -> None:
    """Refuse a ``credentials=`` that cannot work for a root.

    Raises
    ------
    ConfigError
    """
    if credentials is None:
        return
    if not callable(credentials):
        raise ConfigError(
            f"{url}: credentials must be a function that returns (options, expires_at), "
            f"not {type(credentials).__name__}; pass fixed credentials as storage_options"
        )
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise ConfigError(f"{url}: credentials= is for s3://, gs:// and https://; pass storage_options")
    both = [name for name in _OWN_NAMES if name in options]
    if both:
        raise ConfigError(f"{url}: {both[0]!r} is in storage_options, and credentials= is given too; pass one of them")


def merged_options(url: str, fixed: Mapping[str, Any], supplied: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a root with those that its ``credentials`` returned; mappings in them are merged.

    Raises
    ------
    ConfigError
        They are empty, or say where the root is, which its caches are named after.

    Examples
    --------
    >>> merged_options("https://h/x", {"headers": {"A": "1"}}, {"headers": {"B": "2"}})
    {'headers': {'A': '1', 'B': '2'}}
    """
    if not supplied:
        raise ConfigError(f"{url}: credentials() returned no options, such as {{'key': ..., 'secret': ...}}")
    inner = supplied.get("client_kwargs")
    if _PLACE in supplied or (isinstance(inner, Mapping) and _PLACE in inner):
        raise ConfigError(f"{url}: credentials() returned {_PLACE!r}, which belongs in storage_options=")
    merged = dict(fixed)
    for name, value in supplied.items():
        option = merged.get(name)
        merged[name] = {**option, **value} if isinstance(option, Mapping) and isinstance(value, Mapping) else value
    return merged


def call_credentials(url: str, credentials: Credentials) -> tuple[Mapping[str, Any], datetime | None]:
    """Call ``credentials`` and check what it returns.

    Raises
    ------
    ConfigError
        It does not return ``(options, expires_at)``.
    UnavailableError
        The function fails, as most functions do without a network. Its error may contain a secret, and is not shown.
    AccessDeniedError
        It returns credentials that have expired.
    """
    try:
        returned = credentials()
    except HubError:
        raise
    except Exception as error:
        raise UnavailableError(
            f"{url}: credentials() raised {type(error).__name__}; call it by itself to see why"
        ) from error
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], Mapping):
        raise ConfigError(
            f"{url}: credentials() must return a tuple (options, expires_at), where options are as storage_options "
            "and expires_at is a datetime or None"
        )
    options, expires_at = returned
    if expires_at is None:
        return options, None
    if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
        raise ConfigError(
            f"{url}: credentials() must return as expires_at a datetime with a time zone, such as "
            "datetime.now(timezone.utc) + timedelta(hours=1), or None"
        )
    if expires_at.timestamp() <= time.time():
        raise AccessDeniedError(
            f"{url}: credentials() returned credentials that expired at {expires_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} "
            "UTC; have it get new ones, and check the clock of this computer"
        )
    return options, expires_at


class SentCredentials:
    """A ``credentials`` function from another process; two are equal if they were sent as the same bytes.

    Without that, each task of a cluster would bring a root, and so caches, of its own.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __call__(self) -> tuple[Mapping[str, Any], datetime | None]:
        """Call the function."""
        returned: tuple[Mapping[str, Any], datetime | None] = pickle.loads(self._data)()
        return returned

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SentCredentials) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)


def sent_credentials(url: str, credentials: Credentials) -> SentCredentials:
    """Return ``credentials`` as it travels to another process, also where plain pickle would not send it.

    Raises
    ------
    ConfigError
        Neither does cloudpickle.
    """
    if isinstance(credentials, SentCredentials):
        return credentials
    import cloudpickle

    try:
        return SentCredentials(cloudpickle.dumps(credentials))
    except Exception as error:
        named = getattr(credentials, "__qualname__", type(credentials).__qualname__)
        raise ConfigError(
            f"{url}: credentials={named} cannot be sent to another process: {str(error)[:200]}; "
            "open what it refers to inside of it"
        ) from None


@dataclass(frozen=True)
class _Session:
    """An engine with the credentials that it uses, and when to replace them (seconds since the epoch)."""

    engine: Store
    renew_at: float
    expires_at: float


class RenewingStore(Store):
    """The store of a root with ``credentials``: an engine, replaced by another one before its credentials expire.

    Parameters
    ----------
    url : str
    kind : type of Store
        The class of its engines.
    connect : callable
        Makes an engine from options.
    credentials : callable
    options : mapping
        Those that stay the same.
    """

    def __init__(
        self, url: str, kind: type[Store], connect: Connect, credentials: Credentials, options: Mapping[str, Any]
    ) -> None:
        super().__init__(url)
        self.remote, self.read_only = kind.remote, kind.read_only
        self.streams, self.proven_create = kind.streams, kind.proven_create
        self._connect, self._credentials, self._fixed = connect, credentials, options
        self._session: _Session | None = None
        self._renewing = threading.Lock()

    def where(self, key: str) -> str:
        """As the engine names a key; before there is one, the URL."""
        session = self._session
        return super().where(key) if session is None else session.engine.where(key)

    def _current(self) -> _Session:
        session = self._session
        now = time.time()
        if session is not None and now < session.renew_at:
            return session
        is_valid = session is not None and now < session.expires_at
        # One thread asks; as long as what there is is valid, the others go on with it.
        if not self._renewing.acquire(blocking=not is_valid):
            assert session is not None
            return session
        try:
            if self._session is session or self._session is None:
                self._session = self._renewed(session if is_valid else None)
            return self._session
        finally:
            self._renewing.release()

    def _renewed(self, valid: _Session | None) -> _Session:
        began = time.time()
        try:
            options, expires_at = call_credentials(self.url, self._credentials)
            engine = self._connect(merged_options(self.url, self._fixed, options))
        except HubError as error:
            if valid is None:
                raise
            log.warning("%s; the credentials from before are used until they expire", error)
            return _Session(valid.engine, time.time() + _PAUSE_AFTER_FAILURE_SECONDS, valid.expires_at)
        if expires_at is None:
            return _Session(engine, float("inf"), float("inf"))
        end = expires_at.timestamp()
        return _Session(engine, end - min(_LEAD_SECONDS, _LEAD_SHARE * (end - began)), end)

    def _drop(self, session: _Session, error: AccessDeniedError) -> None:
        """Have the next request call ``credentials``, unless another thread has done so since.

        Raises
        ------
        AccessDeniedError
            It is not about their age.
        """
        if not error.has_expired:
            raise error
        with self._renewing:
            if self._session is session:
                self._session = None

    def _using(self, verb: str, *args: Any) -> Any:
        """Call an engine's method; again with new credentials if the server says that they have expired."""
        for attempt in range(_ATTEMPTS):
            session = self._current()
            try:
                return getattr(session.engine, verb)(*args)
            except AccessDeniedError as error:
                self._drop(session, error)
                if attempt == _ATTEMPTS - 1:
                    raise _refused_again(error) from None
        raise AssertionError("unreachable")

    def _yielding(self, verb: str, *args: Any) -> Iterator[Any]:
        """As ``_using``, for a method that yields: once it has, the caller has to begin again."""
        for attempt in range(_ATTEMPTS):
            session, has_begun = self._current(), False
            try:
                for mechanism in getattr(session.engine, verb)(*args):
                    has_begun = True
                    yield mechanism
                return
            except AccessDeniedError as error:
                self._drop(session, error)
                if has_begun:
                    raise unanswered(self.where(args[0]), str(error), is_alive=True) from None
                if attempt == _ATTEMPTS - 1:
                    raise _refused_again(error) from None

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        data: Buffer = self._using("_get", key, start, length)
        return data

    def _pieces(self, key: str, start: int, length: int) -> Iterator[Buffer]:
        return self._yielding("_pieces", key, start, length)

    def _read_into(self, key: str, start: int, out: Sequence[memoryview]) -> int:
        return int(self._using("_read_into", key, start, out))

    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None:
        self._using("_put", key, pieces, no_store, atomic)

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        return bool(self._using("_put_if_absent", key, data))

    def _head(self, key: str) -> ObjectInfo:
        info: ObjectInfo = self._using("_head", key)
        return info

    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        return self._yielding("_list", prefix, shallow)

    def _delete(self, keys: Sequence[str]) -> None:
        self._using("_delete", keys)


def _refused_again(error: AccessDeniedError) -> AccessDeniedError:
    """The error for keys that are new and are refused as well."""
    message = str(error.args[0]).rpartition("): ")[0]
    return AccessDeniedError(
        f"{message}): credentials() returned these keys just now; it has to return keys that the server accepts; check "
        "the clocks of both"
    )
