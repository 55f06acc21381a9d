"""``s3://`` through obstore, the data plane: Rust, no GIL, zero-copy bytes.

obstore hangs in a forked child of a process that used it, whichever store the
child makes, unless its library is loaded again (:mod:`hubarray.storage.forked`).
"""

from __future__ import annotations

import itertools
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import obstore
from obstore import exceptions as rust
from obstore.store import S3Store

from hubarray import process
from hubarray.errors import (
    AccessDeniedError,
    ConfigError,
    ObjectMissingError,
    StorageError,
)
from hubarray.redaction import shown_line
from hubarray.storage.base import BUSY_ATTEMPTS, PIECE_BYTES, Buffer, ObjectInfo, Store
from hubarray.storage.options import endpoint_from_environment, flatten_s3
from hubarray.storage.patience import unanswered
from hubarray.storage.refusals import refused
from hubarray.threads import interruptible

T = TypeVar("T")

_NO_MORE = object()
_NO_STORE = {"Cache-Control": "no-store"}
_RETRY: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=12)}
_CLIENT = {"connect_timeout": "4s", "read_timeout": "8s", "timeout": "300s"}
# Records, hints and nodes are shorter. Larger requests are faster without the cap, which takes a loop in Python.
_CAPPED_BYTES = 1 << 20
_CREDENTIAL_SECONDS = 900
_ASKS_FOR_LATER = (408, 429, 500, 502, 503, 504)
# A conflict that goes on; and a proxy in between that wants a login.
_OF_OTHERS = (407, 409)
_STATUS = re.compile(r"status code: (\d{3})")
# What obstore says of its own attempts, and what the system said below.
_ATTEMPTS = re.compile(r" in [\d.]+\w?s, after \d+ retries, max_retries: \d+, retry_timeout: \S+ *")
_CAUSE = re.compile(r'(?:message|error): "([^"]{1,200})"')
_CODE = re.compile(r"<Code>(\w+)</Code>")


class ObjectStore(Store):
    """A bucket and prefix on S3 or a server that speaks its protocol.

    Parameters
    ----------
    url : str
        ``s3://bucket/prefix``.
    options : mapping
        As s3fs takes them. Without ``key`` or ``anon``, credentials come from
        botocore's standard chain: environment, shared files and profiles,
        containers, instances, web identity.
    """

    streams = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        super().__init__(url)
        self._was_used = False
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        config = flatten_s3(options)
        profile = config.pop("profile", None)
        config.setdefault("endpoint", endpoint_from_environment())
        config.setdefault("region", os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"))
        provider: Any = None
        if not config.get("skip_signature") and "access_key_id" not in config:
            provider = _StandardChain(profile)
            config["endpoint"] = config["endpoint"] or provider.setting("endpoint_url")
            config["region"] = config["region"] or provider.setting("region")
        config["region"] = config["region"] or "us-east-1"
        self.endpoint = config["endpoint"] or f"https://s3.{config['region']}.amazonaws.com"
        client: Any = _CLIENT | {"allow_http": self.endpoint.startswith("http://")}
        known: Any = {name: value for name, value in config.items() if value is not None}
        try:
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                config=known,
                client_options=client,
                retry_config=_RETRY,
                credential_provider=provider,
            )
        except Exception as error:
            raise ConfigError(f"{url}: {_first_line(error)}") from None

    def where(self, key: str) -> str:
        """The key's URL and the server's address."""
        return f"{self.url}/{key} (at {self.endpoint})"

    def _patiently(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call, and again where the answer will be another one: obstore does so by itself in all other cases.

        S3 answers 409 while another operation on the key is under way. And a server under load has been seen to say
        that a bucket is not there which had just been used.
        """
        request = partial(call, *args, **kwargs)
        for attempt in range(BUSY_ATTEMPTS - 1):
            try:
                listing = interruptible(request)
            except Exception as error:
                if not (_status(error) == 409 or (self._was_used and _code(error) == "NoSuchBucket")):
                    raise
            else:
                self._was_used = True
                return listing
            time.sleep(random.uniform(0.02, 0.1) * 2**attempt)
        return interruptible(request)

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        if length == 0:
            return b""
        try:
            if length is not None and length <= _CAPPED_BYTES:
                return self._patiently(self._capped, key, start or 0, length)
            if length is not None:
                return memoryview(self._patiently(obstore.get_range, self._store, key, start=start or 0, length=length))
            options: Any = {"range": {"offset": start}} if start else None
            return memoryview(self._patiently(lambda: obstore.get(self._store, key, options=options).bytes()))
        except Exception as error:
            if _status(error) == 416:
                return b""
            raise self._error(error, key) from None

    def _capped(self, key: str, start: int, length: int) -> Buffer:
        """A range of which no more is taken than was asked for, though the server may send more."""
        options: Any = {"range": (start, start + length)}
        pieces, received_bytes = [], 0
        for piece in obstore.get(self._store, key, options=options).stream(min_chunk_size=length):
            pieces.append(memoryview(piece))
            received_bytes += len(piece)
            if received_bytes >= length:
                break
        return (pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces)))[:length]

    def _pieces(self, key: str, start: int, length: int) -> Iterator[Buffer]:
        if length == 0:
            return
        try:
            options: Any = {"range": (start, start + length)}
            response = self._patiently(obstore.get, self._store, key, options=options)
            for piece in _each(response.stream(min_chunk_size=PIECE_BYTES)):
                yield memoryview(piece)
        except Exception as error:
            if _status(error) != 416:
                raise self._error(error, key) from None

    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None:
        # Several pieces go to obstore as they are; joined, an upload would hold each pack twice.
        data = pieces[0] if len(pieces) == 1 else list(pieces)
        attributes = _NO_STORE if no_store else None
        try:
            self._patiently(obstore.put, self._store, key, data, attributes=attributes, use_multipart=False)
        except Exception as error:
            raise self._error(error, key) from None

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        try:
            self._patiently(
                obstore.put, self._store, key, data, attributes=_NO_STORE, mode="create", use_multipart=False
            )
            return True
        except rust.AlreadyExistsError:
            return False
        except Exception as error:
            if _status(error) == 412:
                return False
            raise self._error(error, key) from None

    def _head(self, key: str) -> ObjectInfo:
        try:
            return _info(self._patiently(self._first_byte, key))
        except Exception as error:
            raise self._error(error, key) from None

    def _first_byte(self, key: str) -> Any:
        """An object's size and time, by a GET of a byte: only a GET has a body, which says if the bucket is gone."""
        try:
            response = obstore.get(self._store, key, options={"range": (0, 1)})
            # The connection is free again once the byte is taken.
            response.bytes()
        except Exception as error:
            # An empty object has no first byte, and the body of a refusal that breaks off is not asked for again.
            if _status(error) != 416 and "body error" not in str(error):
                raise
            return obstore.head(self._store, key)
        return response.meta

    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        try:
            is_empty = True
            for info in self._entries(prefix, shallow):
                is_empty = False
                yield info
            if is_empty:
                self._require_store(prefix)
        except Exception as error:
            raise self._error(error, prefix) from None

    def _entries(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        if not shallow:
            for page in _each(self._patiently(self._begun_list, prefix)):
                yield from map(_info, page)
            return
        listing = self._patiently(obstore.list_with_delimiter, self._store, prefix or None)
        for folder in listing["common_prefixes"]:
            yield ObjectInfo(f"{folder}/", 0, None, is_folder=True)
        yield from map(_info, listing["objects"])

    def _require_store(self, prefix: str) -> None:
        """Ask for a key that cannot be there, as obstore takes whatever page a server sends for an empty listing.

        Raises
        ------
        UnansweredError
            The key exists, so the server is not a store but, for example, the login page of a network.
        """
        try:
            interruptible(partial(self._first_byte, f"{prefix}.absent-{secrets.token_hex(16)}"))
        except (rust.NotFoundError, FileNotFoundError):
            return
        except Exception as error:
            if _status(error) in (403, 416):
                # It may be allowed to list and not to read.
                return
            raise
        raise unanswered(
            self.where(prefix), "it sends a page for whatever it is asked for; does this network want a login?"
        )

    def _begun_list(self, prefix: str) -> Iterator[Any]:
        """The pages of a listing, of which the first is there: as long as none was given, it can begin again."""
        pages = iter(obstore.list(self._store, prefix or None))
        first = list(itertools.islice(pages, 1))
        return itertools.chain(first, pages)

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            interruptible(partial(obstore.delete, self._store, list(keys)))
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error(error, keys[0]) from None

    def _error(self, error: Exception, key: str) -> Exception:
        if isinstance(error, StorageError):
            return error
        where = self.where(key)
        status, code, reason = _status(error), _code(error), _reason(error)
        if status in _ASKS_FOR_LATER or code == "RequestTimeout" or _broke_off(error):
            return unanswered(where, reason, is_alive=True)
        if code == "NoSuchBucket":
            return StorageError(f"{where}: there is no such bucket; create it first, or check the root's URL")
        if isinstance(error, (rust.NotFoundError, FileNotFoundError)) or status == 404:
            return ObjectMissingError(f"{where}: no such object")
        if isinstance(error, _NoCredentials) or "hubarray-no-credentials" in str(error):
            return AccessDeniedError(f"{where}: {_NO_CREDENTIALS}")
        if isinstance(error, rust.PermissionDeniedError):
            status = 403
        elif isinstance(error, rust.UnauthenticatedError):
            status = 401
        if (denied := refused(where, status, reason)) is not None:
            return denied
        if status is None or status >= 500 or status in _OF_OTHERS:
            return unanswered(where, reason)
        return StorageError(f"{where}: {reason}")


_NO_CREDENTIALS = (
    "no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, "
    "or storage_options={'key': ..., 'secret': ...}; for a public bucket {'anon': True}"
)


class _NoCredentials(Exception):
    pass


class _StandardChain:
    """botocore's credential chain, as a credential provider for obstore."""

    def __init__(self, profile: str | None) -> None:
        with process.importing:
            import botocore.exceptions
            import botocore.session

        self._session = botocore.session.Session(profile=profile)
        try:
            self._session.get_scoped_config()
        except botocore.exceptions.ProfileNotFound:
            raise ConfigError(f"there is no AWS profile {profile!r} in ~/.aws/config or ~/.aws/credentials") from None

    def setting(self, name: str) -> str | None:
        value = self._session.get_config_variable(name) or self._session.get_scoped_config().get(name)
        return str(value) if value else None

    def __call__(self) -> dict[str, Any]:
        credentials = self._session.get_credentials()
        if credentials is None:
            raise _NoCredentials("hubarray-no-credentials")
        frozen = credentials.get_frozen_credentials()
        expires = datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": expires,
        }


def _each(results: Iterable[T]) -> Iterator[T]:
    """Iterate over an iterator of obstore; Ctrl-C ends the wait for each item."""
    following = iter(results)
    while True:
        result = interruptible(partial(next, following, _NO_MORE))
        if result is _NO_MORE:
            return
        yield result


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"])


def _status(error: Exception) -> int | None:
    match = _STATUS.search(str(error))
    return int(match.group(1)) if match else None


def _code(error: Exception) -> str:
    """The server's name for it, if it has one."""
    code = _CODE.search(str(error))
    return code.group(1) if code else ""


def _reason(error: Exception) -> str:
    """The server's name for it, or what went wrong below, or else the first line of what is said; and the status."""
    status, cause = _status(error), _CAUSE.search(str(error))
    said = _code(error) or (shown_line(cause.group(1)) if cause else _first_line(error))
    return said if status is None or str(status) in said else f"{said}, status {status}"


def _broke_off(error: Exception) -> bool:
    """Whether a reply began and did not come to its end."""
    text = str(error).lower()
    return "response body" in text or "end of file before message length" in text or "incompletemessage" in text


def _first_line(error: Exception) -> str:
    return shown_line(_ATTEMPTS.sub("", str(error))) or type(error).__name__
