"""Whatever fsspec speaks.

fsspec's own ``pipe_file(mode="create")`` is not atomic everywhere, so commits
are allowed only where it is known to be, by the engines made from this one:
GCS (:mod:`hubarray.storage.gcs`), S3 in a forked child
(:mod:`hubarray.storage.s3_filesystem`), which send the condition to the server,
and memory (:mod:`hubarray.storage.memory`), under a lock of this process.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import fsspec
import fsspec.asyn

from hubarray import process
from hubarray.errors import (
    ConfigError,
    HubError,
    ObjectMissingError,
    StorageError,
    UnavailableError,
    UnsafeStoreError,
)
from hubarray.redaction import shown_line
from hubarray.storage.base import BUSY_ATTEMPTS, Buffer, ObjectInfo, Store, max_seconds
from hubarray.storage.patience import unanswered
from hubarray.storage.refusals import code_of, refused, status_of

_DELETE_BATCH = 64
UNCACHED_OPTIONS = {"use_listings_cache": False, "skip_instance_cache": True}


class FilesystemStore(Store):
    """A root on an fsspec filesystem; it can be read, and commits to it are refused.

    Parameters
    ----------
    url : str
        Any URL that fsspec knows.
    options : mapping
        Keyword arguments of that filesystem.

    Attributes
    ----------
    no_store : mapping
        The options of a write that forbid caching of the object.
    """

    no_store: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        super().__init__(url)
        self.protocol = url.partition("://")[0]
        self.endpoint = options.get("endpoint_url") or dict(options.get("client_kwargs") or {}).get("endpoint_url")
        self._fs = self._connected(options)
        self._base = str(self._fs._strip_protocol(url)).rstrip("/")
        self._was_used = False

    def _connected(self, options: Mapping[str, Any]) -> Any:
        try:
            with process.importing:
                return self._filesystem(options)
        except HubError:
            raise
        except OSError as error:
            # gcsfs tries a token as soon as it has it.
            raise unanswered(f"{self.protocol}://", _reason(error)) from None
        except Exception as error:
            # fsspec's filesystems check their arguments in as many ways as there are authors.
            raise ConfigError(f"{self.protocol}:// cannot be used as a root: {_reason(error)}") from None

    def _filesystem(self, options: Mapping[str, Any]) -> Any:
        """A new filesystem."""
        filesystem = fsspec.get_filesystem_class(self.protocol)
        # Of some, such as ftp://, the URL names the host.
        return filesystem(**filesystem._get_kwargs_from_urls(self.url) | dict(options) | UNCACHED_OPTIONS)

    def where(self, key: str) -> str:
        """The key's URL and, where one was given, the server's address."""
        return f"{self.url}/{key} (at {self.endpoint})" if self.endpoint else f"{self.url}/{key}"

    def _path(self, key: str) -> str:
        return f"{self._base}/{key}".rstrip("/")

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the filesystem; again where a bucket that was used is said not to be there.

        A server under load has been seen to say so.
        """
        for attempt in range(BUSY_ATTEMPTS - 1):
            try:
                answer = self._timed(method, *args, **kwargs)
            except Exception as error:
                if not (self._was_used and _is_about_the_bucket(error)):
                    raise
            else:
                self._was_used = True
                return answer
            time.sleep(random.uniform(0.02, 0.1) * 2**attempt)
        return self._timed(method, *args, **kwargs)

    def _timed(self, method: str, *args: Any, payload_bytes: int = 0, **kwargs: Any) -> Any:
        """Run a method of the filesystem within a time limit, where it is asynchronous."""
        if not self._fs.async_impl:
            return getattr(self._fs, method)(*args, **kwargs)
        seconds = max_seconds(payload_bytes)
        return fsspec.asyn.sync(self._fs.loop, getattr(self._fs, f"_{method}"), *args, timeout=seconds, **kwargs)

    def _get(self, key: str, start: int | None, length: int | None) -> Buffer:
        if length == 0:
            return b""
        begin = start or 0
        stop = None if length is None else begin + length
        limits = {} if start is None and length is None else {"start": begin, "end": stop}
        try:
            data = self._call("cat_file", self._path(key), payload_bytes=length or 0, **limits)
        except Exception as error:
            if is_past_the_end(error):
                return b""
            raise self._error(error, key) from None
        return bytes(data)

    def _put(self, key: str, pieces: Sequence[Buffer], no_store: bool, atomic: bool) -> None:
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        try:
            self._write(key, data, no_store)
        except Exception as error:
            raise self._error(error, key) from None

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        raise UnsafeStoreError(
            f"{self.where(key)}: {self.protocol}:// cannot create a key only if it is absent, so commits "
            "are refused; use a folder, s3:// or gs:// as the root"
        )

    def _create(self, key: str, data: Buffer) -> bool:
        """Create a key if it is absent, of a server that takes the condition with the write."""
        for attempt in range(BUSY_ATTEMPTS):
            try:
                self._write(key, data, no_store=True, mode="create")
                return True
            except FileExistsError:
                return False
            except Exception as error:
                if _is_precondition_failure(error):
                    return False
                if not _is_busy(error) or attempt == BUSY_ATTEMPTS - 1:
                    raise self._error(error, key) from None
            time.sleep(random.uniform(0.02, 0.1) * 2**attempt)
        raise AssertionError("unreachable")

    def _write(self, key: str, data: Buffer, no_store: bool, **mode: str) -> None:
        extra = mode | (dict(self.no_store) if no_store else {})
        if not self._fs.async_impl:
            self._call("makedirs", self._path(key).rpartition("/")[0], exist_ok=True)
        self._call("pipe_file", self._path(key), bytes(data), payload_bytes=len(data), **extra)

    def _head(self, key: str) -> ObjectInfo:
        try:
            info = self._call("info", self._path(key))
        except Exception as error:
            raise self._error(error, key) from None
        if info.get("type") == "directory":
            raise ObjectMissingError(f"{self.where(key)}: no such object")
        return ObjectInfo(key, int(info.get("size") or 0), _modified(info))

    def _list(self, prefix: str, shallow: bool) -> Iterator[ObjectInfo]:
        path = self._path(prefix)
        try:
            if shallow:
                entries = self._call("ls", path, detail=True)
            else:
                entries = list(self._call("find", path, detail=True).values())
        except FileNotFoundError as error:
            if self._bucket_is_missing(error):
                raise StorageError(
                    f"{self.where(prefix)}: there is no such bucket; create it first, or check the root's URL"
                ) from None
            return
        except Exception as error:
            raise self._error(error, prefix) from None
        for info in entries:
            key = str(info["name"]).removeprefix(self._base).strip("/")
            if not key.startswith(prefix) or key == prefix.rstrip("/"):
                continue
            if info["type"] == "directory":
                if shallow:
                    yield ObjectInfo(f"{key}/", 0, None, is_folder=True)
            else:
                yield ObjectInfo(key, int(info.get("size") or 0), _modified(info))

    def _bucket_is_missing(self, error: Exception) -> bool:
        return _is_about_the_bucket(error)

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            if not self._fs.async_impl:
                for key in keys:
                    if self._call("exists", self._path(key)):
                        self._call("rm_file", self._path(key))
                return
            for first in range(0, len(keys), _DELETE_BATCH):
                paths = [self._path(key) for key in keys[first : first + _DELETE_BATCH]]
                fsspec.asyn.sync(self._fs.loop, self._delete_all, paths, timeout=3 * max_seconds(0))
        except Exception as error:
            raise self._error(error, keys[0]) from None

    async def _delete_all(self, paths: list[str]) -> None:
        outcomes = await asyncio.gather(*map(self._fs._rm_file, paths), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, FileNotFoundError):
                raise outcome

    def _error(self, error: Exception, key: str) -> Exception:
        if isinstance(error, StorageError):
            return error
        where = self.where(key)
        reason = _reason(error)
        status = status_of(error)
        if _is_about_the_bucket(error):
            return StorageError(f"{where}: there is no such bucket; create it first, or check the root's URL")
        if isinstance(error, FileNotFoundError) or status == 404:
            return ObjectMissingError(f"{where}: no such object")
        if status != 401 and (isinstance(error, PermissionError) or "credentials" in reason.lower()):
            status = 403
        if (denied := refused(where, status, reason, code=code_of(error))) is not None:
            return denied
        if (status or 0) >= 500 or status in (408, 429) or code_of(error) == "RequestTimeout":
            return unanswered(where, reason, is_alive=True)
        if isinstance(error, (asyncio.TimeoutError, TimeoutError, ConnectionError)) or status is None:
            return unanswered(where, reason)
        if status == 409:
            return UnavailableError(f"{where}: the server asks to try later: {reason}")
        return StorageError(f"{where}: {reason}")


def _modified(info: Mapping[str, Any]) -> datetime | None:
    value = info.get("LastModified") or info.get("mtime") or info.get("updated") or info.get("created")
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, (int, float)):
        value = datetime.fromtimestamp(value, UTC)
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value if isinstance(value, datetime) else None


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {shown_line(text)}" if text else type(error).__name__


def is_past_the_end(error: BaseException) -> bool:
    """Whether a failure says that a range has no byte of the object."""
    text = str(error)
    return status_of(error) == 416 or "InvalidRange" in text or "not satisfiable" in text.lower()


def _is_precondition_failure(error: BaseException) -> bool:
    return status_of(error) == 412 or "conditionNotMet" in str(error)


def _is_about_the_bucket(error: BaseException) -> bool:
    """Return whether an error says that the bucket does not exist."""
    text = str(error).lower()
    return code_of(error) == "NoSuchBucket" or "nosuchbucket" in text or "bucket does not exist" in text


def _is_busy(error: BaseException) -> bool:
    return status_of(error) in (409, 429)
