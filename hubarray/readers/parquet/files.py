"""The files of a Parquet dataset: where they are, through whose client, and what tells one state of a file from the
next."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs as pafs

from hubarray import process
from hubarray.errors import (
    ConfigError,
    HubError,
    MissingPackageError,
    NotFoundError,
    SourceError,
    StorageError,
    UnavailableError,
)
from hubarray.readers.parquet.fsspec_mtimes import DatedHandler
from hubarray.redaction import hidden_urls, shown_text, shown_url
from hubarray.sources.folders import PARQUET_SUFFIXES, is_part, refuse_table_format
from hubarray.storage.options import endpoint_from_environment, flatten_s3
from hubarray.storage.patience import UnansweredError, retried, unanswered
from hubarray.storage.refusals import code_of, refused, status_of
from hubarray.threads import interruptible

T = TypeVar("T")

MAX_FILES = 1 << 22
_MAX_PATHS = 64
_AWAY = (errno.EIO, errno.ESTALE, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOTCONN)
# As Arrow's S3 client names errors.
_ARROW_ERROR = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status (\d+)\))?")
_REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE")
_BUSY = ("SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "REQUEST_TIMEOUT", "SLOW_DOWN", "THROTTLING", "RequestTimeout")
_BUSY_STATUSES = (408, 425, 429, 500, 502, 503, 504)
# The number that curl gives a transfer that ended before its end.
_BROKE_OFF = "curlCode: 18"
# Waits of 25 ms and twice as long each time, 26 s together: a stream that a file is written by cannot begin again.
_WRITE_ATTEMPTS = 10
# By this machine's clock, as the store's is not asked: so minutes, for what takes a second.
_SETTLED_NS = 300 * 1_000_000_000


@dataclass(frozen=True)
class DataFile:
    """One Parquet file.

    Attributes
    ----------
    path : str
        As the file system takes it.
    relative : str
        Below the dataset.
    size_bytes : int
    modified_ns : int
    is_named : bool
        Whether it was named itself, and not the folder that it is in: then all folders of its path may say columns.
    is_fresh : bool
        Whether it was written so lately that it may be written again within the same second, which is as exactly as
        stores tell times, or nobody says when it was. Nothing of it is kept on this machine.
    """

    path: str
    relative: str
    size_bytes: int
    modified_ns: int
    is_named: bool = False
    is_fresh: bool = False

    @property
    def state(self) -> list[Any]:
        """Facts that change when the file does."""
        return [self.relative, self.size_bytes, self.modified_ns]

    @property
    def keys(self) -> dict[str, str]:
        """The columns that the names of its folders say (``name=value``)."""
        parts = (part.partition("=") for part in (self.path if self.is_named else self.relative).split("/")[:-1])
        return {unquote(name): unquote(value) for name, equals, value in parts if equals and name}


class Client:
    """A file system, which is made when it is needed, and again in another process.

    Parameters
    ----------
    scheme : str
        Of the URL; ``file`` for a path.
    options : mapping
        Storage options, as fsspec has them.
    """

    def __init__(self, scheme: str, options: Mapping[str, Any]) -> None:
        self.scheme, self._options = scheme, dict(options)
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._opened: dict[bool, pafs.FileSystem] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Client, (self.scheme, self._options)

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The file system, for calls that :func:`requested` makes again where need be."""
        return self._filesystem(patient=False)

    @property
    def patient_filesystem(self) -> pafs.FileSystem:
        """The file system, of which each request is made again for half a minute: to write files by streams."""
        return self._filesystem(patient=True)

    def _filesystem(self, *, patient: bool) -> pafs.FileSystem:
        with self._lock:
            if patient not in self._opened:
                self._opened[patient] = self._open(patient)
            return self._opened[patient]

    @property
    def endpoint(self) -> str:
        """The server of an S3 URL, where it is not Amazon's."""
        if not self.scheme.startswith("s3"):
            return ""
        inner = self._options.get("client_kwargs")
        endpoint_url = self._options.get("endpoint_url") or (
            inner.get("endpoint_url") if isinstance(inner, Mapping) else None
        )
        return str(endpoint_url or endpoint_from_environment() or "")

    @property
    def is_local(self) -> bool:
        """Whether its files are this machine's."""
        return self.scheme == "file"

    def _open(self, patient: bool) -> pafs.FileSystem:
        if self.scheme == "file":
            return pafs.LocalFileSystem()
        if self.scheme in ("s3", "s3a", "s3n") and "profile" not in self._options:
            flat = flatten_s3(self._options)
            named = {
                "access_key": flat.get("access_key_id"),
                "secret_key": flat.get("secret_access_key"),
                "session_token": flat.get("session_token"),
                "region": flat.get("region") or ("us-east-1" if flat.get("endpoint") else None),
                "endpoint_override": flat.get("endpoint") or endpoint_from_environment(),
                "anonymous": bool(flat.get("skip_signature", False)),
                "retry_strategy": pafs.AwsDefaultS3RetryStrategy(max_attempts=_WRITE_ATTEMPTS) if patient else None,
            }
            return pafs.S3FileSystem(**{name: value for name, value in named.items() if value is not None})
        import fsspec

        scheme = {"s3a": "s3", "s3n": "s3"}.get(self.scheme, self.scheme)
        try:
            return pafs.PyFileSystem(DatedHandler(fsspec.filesystem(scheme, **self._options)))
        except ImportError as error:
            raise MissingPackageError(
                f"{self.scheme}:// needs a package that is not installed: {str(error)[:200]}"
            ) from None
        except ValueError as error:
            raise ConfigError(f"{self.scheme}://: {hidden_urls(str(error))[:200]}") from None
        except OSError as error:
            # Arrow looks for Hadoop's libraries when a client is made.
            missing = next((library for library in ("libjvm", "libhdfs") if library in str(error)), None)
            if missing is None:
                raise
            raise MissingPackageError(
                f"{self.scheme}:// needs {missing}, which was not found: install Java and Hadoop, and set JAVA_HOME, "
                "HADOOP_HOME and CLASSPATH"
            ) from None


@dataclass(frozen=True)
class Location:
    """The place of a dataset: the path of its folder or file, and its name in messages."""

    client: Client
    path: str
    where: str

    @property
    def place(self) -> tuple[str, str, str]:
        """The identity of the store, for keys of the cache."""
        return self.client.scheme, self.client.endpoint, self.path


def located(source: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Location:
    """The place that a path or URL means.

    Raises
    ------
    ConfigError
        It contains a user and a password, or is not a URL.
    """
    text = os.fspath(source)
    if "://" not in text:
        path = os.path.abspath(os.path.expanduser(text))
        return Location(Client("file", {}), path, shown_text(text))
    parts = urlsplit(text)
    scheme = parts.scheme.lower()
    if scheme == "file":
        return Location(Client("file", {}), unquote(parts.path).rstrip("/") or "/", shown_text(text))
    if parts.username or parts.password:
        raise ConfigError(f"{shown_url(text)}: credentials do not belong in a URL; give storage_options=")
    filesystem_options = dict(options or {})
    if scheme in ("http", "https"):
        # Whose client in fsspec names files by whole URLs.
        return Location(Client(scheme, filesystem_options), text.rstrip("/"), shown_url(text))
    if scheme == "hdfs" and parts.netloc and "host" not in filesystem_options:
        host, _, port = parts.netloc.partition(":")
        filesystem_options |= {"host": host} | ({"port": int(port)} if port.isdigit() else {})
    path = parts.path.lstrip("/") if scheme != "hdfs" else parts.path
    path = f"{parts.netloc}/{path}".rstrip("/") if scheme != "hdfs" else path.rstrip("/")
    return Location(Client(scheme, filesystem_options), path, shown_url(text))


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Errors of a file system and of Parquet, as ours that name the file.

    Raises
    ------
    SourceError, NotFoundError
    StorageError
        It is the store that failed, which says nothing of the file.
    """
    try:
        with _translated(where):
            yield
    except UnansweredError as error:
        raise UnavailableError(*error.args) from None


def requested(location: Location, where: str, call: Callable[[], T]) -> T:
    """Return what a call of a location's file system gives, made again while its store asks to try later.

    Raises
    ------
    SourceError, NotFoundError, StorageError
        As :func:`readable` does.
    """

    def attempt() -> T:
        try:
            with _translated(where):
                return call()
        except StorageError as error:
            if "HeadObject" not in str(error) or isinstance(error, UnansweredError):
                raise
        # A reply to a HEAD has no body that says why; one to a listing does.
        with _translated(where):
            location.client.filesystem.get_file_info(pafs.FileSelector(location.path, allow_not_found=True))
            return call()

    return retried(attempt if location.client.is_local else partial(interruptible, attempt), where)


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError(f"{where}: there is no such file or folder") from None
    except HubError:
        raise
    except Exception as error:
        is_known = isinstance(error, (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError))
        # Clients below fsspec have exceptions of their own, or raise ValueError.
        is_theirs = type(error).__module__ != "builtins" or ("://" in where and isinstance(error, ValueError))
        if not (is_known or is_theirs):
            raise
        raise _failure(error, where) from None


def _failure(error: Exception, where: str) -> HubError:
    """Our error: Arrow has OSError for damage, too, but then without a number or a word of AWS."""
    message = hidden_urls(shown_text(str(error)))[:300] or type(error).__name__
    named = _ARROW_ERROR.search(message)
    name = named.group(1) if named else ""
    is_remote = "://" in where
    status = int(named.group(2) or 0) if named else status_of(error) if is_remote else None
    if status in _BUSY_STATUSES or (named and (name in _BUSY or "RequestTimeout" in message or _BROKE_OFF in message)):
        return unanswered(where, message, is_alive=True)
    if name == "NO_SUCH_BUCKET":
        return NotFoundError(f"{where}: {message}")
    if is_remote:
        status = 403 if any(word in name for word in _REFUSED) or isinstance(error, PermissionError) else status or 400
        if (denied := refused(where, status, message, code=code_of(error))) is not None:
            return denied
    is_away = isinstance(error, (ConnectionError, TimeoutError)) or getattr(error, "errno", None) in _AWAY
    if name == "NETWORK_CONNECTION" or (is_remote and is_away):
        return unanswered(where, message)
    if is_away:
        return UnavailableError(f"{where}: {message}")
    return StorageError(f"{where}: {message}") if named else SourceError(f"{where}: {message}")


def listed(location: Location) -> list[DataFile]:
    """The Parquet files of a dataset, by their paths; what begins with ``_`` or ``.`` is none.

    Raises
    ------
    NotFoundError
        The file or folder does not exist, or has no Parquet files.
    SourceError
        The folder is a table of another format, whose rows are not all that its files hold.
    """
    is_file, entries = requested(location, location.where, partial(_entries, location))
    if is_file:
        return [replace(_file(location, entries[0], os.path.basename(location.path)), is_named=True)]
    files = []
    prefix = location.path.rstrip("/") + "/"
    below = [(entry.path[len(prefix) :] if entry.path.startswith(prefix) else entry.path, entry) for entry in entries]
    refuse_table_format(location.where, (relative for relative, _ in below))
    for relative, entry in below:
        is_file = entry.type == pafs.FileType.File
        if is_file and is_part(relative) and (entry.size or relative.lower().endswith(PARQUET_SUFFIXES)):
            files.append(_file(location, entry, relative))
    if len(files) > MAX_FILES:
        raise SourceError(f"{location.where}: has {len(files):,} files, more than {MAX_FILES:,}")
    named = [file for file in files if file.relative.lower().endswith(PARQUET_SUFFIXES)]
    if not (named or files):
        raise NotFoundError(f"{location.where}: has no Parquet files")
    return sorted(named or files, key=lambda file: file.relative)


def _entries(location: Location) -> tuple[bool, list[Any]]:
    """Whether a location is a single file, and facts about it, or about all files below."""
    info = location.client.filesystem.get_file_info(location.path)
    if info.type == pafs.FileType.NotFound:
        raise NotFoundError(f"{location.where}: there is no such file or folder")
    if info.type == pafs.FileType.File:
        return True, [info]
    if location.client.is_local:
        return False, list(_walked(location.path, location.where))
    return False, location.client.filesystem.get_file_info(pafs.FileSelector(location.path, recursive=True))


@dataclass(frozen=True)
class _Info:
    """As much of Arrow's FileInfo as is used."""

    path: str
    size: int
    mtime_ns: int
    type: pafs.FileType = pafs.FileType.File


def _walked(folder: str, where: str) -> Iterator[_Info]:
    """The files below a folder. Links are followed, but for those to a folder that they are in.

    Raises
    ------
    SourceError
    """
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [(folder, ())]
    paths: dict[tuple[int, int], int] = {}
    while waiting:
        below, above = waiting.pop()
        status = os.stat(below)
        own = (status.st_dev, status.st_ino)
        if own in above:
            continue
        # Links may lead to a folder by more paths than anybody can walk.
        paths[own] = paths.get(own, 0) + 1
        if paths[own] > _MAX_PATHS:
            raise SourceError(
                f"{shown_text(below)}: links lead to this folder by more than {_MAX_PATHS} paths; remove them, or read "
                "the folders that are meant"
            )
        if len(paths) > MAX_FILES:
            raise SourceError(f"{where}: has more than {MAX_FILES:,} folders, with those that links lead to")
        with os.scandir(below) as entries:
            for entry in entries:
                try:
                    entry.name.encode()
                except UnicodeEncodeError:
                    raise SourceError(f"{where}: has a name that is not text, {entry.name!r}; rename it") from None
                if entry.is_dir():
                    waiting.append((entry.path, (*above, own)))
                elif entry.is_file():
                    about = entry.stat()
                    yield _Info(entry.path, about.st_size, about.st_mtime_ns)


def listed_of(locations: Sequence[Location]) -> tuple[Location, list[DataFile]]:
    """The files of one place, or of several that are read as one dataset, with the place that they are below.

    Raises
    ------
    NotFoundError
    ConfigError
        They are not of one store.
    """
    first = locations[0]
    if len(locations) == 1:
        return first, listed(first)
    for location in locations[1:]:
        if (location.client.scheme, location.client.endpoint) != (first.client.scheme, first.client.endpoint):
            raise ConfigError(
                f"{location.where}: is on another store than {first.where}; read each as a dataset of its own"
            )
    files = [file for location in locations for file in listed(location)]
    base = os.path.commonpath([os.path.dirname(file.path) for file in files])
    where = shown_text(base) if first.client.is_local else f"{first.client.scheme}://{shown_text(base)}"
    named = [
        replace(file, relative=os.path.relpath(file.path, base) if base else file.path, is_named=True) for file in files
    ]
    return Location(first.client, base, where), named


def _file(location: Location, info: pafs.FileInfo | _Info, relative: str) -> DataFile:
    modified_ns = int(info.mtime_ns or 0)
    # Of a file whose time is not known nobody knows either whether it is the one that was kept.
    fresh = not location.client.is_local and (not modified_ns or time.time_ns() - modified_ns < _SETTLED_NS)
    return DataFile(info.path, relative, int(info.size or 0), modified_ns, is_fresh=fresh)


def read_small(location: Location, name: str, max_bytes: int) -> bytes | None:
    """The bytes of a file of metadata beside the data, or None."""
    path, where = f"{location.path}/{name}", f"{location.where}/{name}"

    def read() -> bytes | None:
        info = location.client.filesystem.get_file_info(path)
        if info.type != pafs.FileType.File:
            return None
        if info.size > max_bytes:
            raise SourceError(f"{where}: takes {info.size:,} bytes, more than is read")
        with location.client.filesystem.open_input_stream(path) as file:
            return bytes(file.read())

    return requested(location, where, read)


def write_small(location: Location, name: str, data: bytes | pa.Buffer) -> None:
    """Write a file of metadata beside the data."""

    def write() -> None:
        with location.client.filesystem.open_output_stream(f"{location.path}/{name}") as out:
            out.write(data)

    requested(location, f"{location.where}/{name}", write)


def modified_ns(location: Location, name: str) -> int:
    """When a file beside the data was written; 0 where that is not known."""

    def look() -> int:
        return int(location.client.filesystem.get_file_info(f"{location.path}/{name}").mtime_ns or 0)

    return requested(location, f"{location.where}/{name}", look)
