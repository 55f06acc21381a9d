"""The files of a Parquet dataset: where they are, through whose client, and what tells one state of a file from the
next."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs as pafs

from hubarray import process
from hubarray.errors import (
    AccessDeniedError,
    ConfigError,
    HubError,
    MissingPackageError,
    NotFoundError,
    SourceError,
    StorageError,
    UnavailableError,
)
from hubarray.interop.parquet_dataset.dated import DatedHandler
from hubarray.shown import hidden_urls, shown_text, shown_url
from hubarray.sources.folders import PARQUET_SUFFIXES, is_part, refuse_table_format
from hubarray.storage.options import endpoint_from_environment, flatten_s3

MAX_FILES = 1 << 22
_MAX_PATHS = 64
_AWAY = (errno.EIO, errno.ESTALE, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOTCONN)
# Of the errors that Arrow's S3 client names, those that say more than that the store refused.
_OF_AWS: dict[str, type[HubError]] = {
    "NO_SUCH_BUCKET": NotFoundError,
    "ACCESS_DENIED": AccessDeniedError,
    "INVALID_ACCESS_KEY_ID": AccessDeniedError,
    "SIGNATURE": AccessDeniedError,
    "NETWORK_CONNECTION": UnavailableError,
    "SERVICE_UNAVAILABLE": UnavailableError,
    "INTERNAL_FAILURE": UnavailableError,
    "REQUEST_TIMEOUT": UnavailableError,
    "SLOW_DOWN": UnavailableError,
    "THROTTLING": UnavailableError,
}
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
        parts = (one.partition("=") for one in (self.path if self.is_named else self.relative).split("/")[:-1])
        return {unquote(name): unquote(value) for name, equals, value in parts if equals and name}


class Client:
    """A file system, made when it is needed and anew in another process.

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
        self._opened: pafs.FileSystem | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Client, (self.scheme, self._options)

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The file system."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    @property
    def endpoint(self) -> str:
        """The server of an S3 URL, where it is not Amazon's."""
        if not self.scheme.startswith("s3"):
            return ""
        inner = self._options.get("client_kwargs")
        given = self._options.get("endpoint_url") or (inner.get("endpoint_url") if isinstance(inner, Mapping) else None)
        return str(given or endpoint_from_environment() or "")

    @property
    def is_local(self) -> bool:
        """Whether its files are this machine's."""
        return self.scheme == "file"

    def _open(self) -> pafs.FileSystem:
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
            missing = next((one for one in ("libjvm", "libhdfs") if one in str(error)), None)
            if missing is None:
                raise
            raise MissingPackageError(
                f"{self.scheme}:// needs {missing}, which was not found: install Java and Hadoop, and set JAVA_HOME, "
                "HADOOP_HOME and CLASSPATH"
            ) from None


@dataclass(frozen=True)
class Location:
    """Where a dataset is: the path of its folder or file, and how it is told."""

    client: Client
    path: str
    where: str

    @property
    def place(self) -> tuple[str, str, str]:
        """Of which store it is, for the names of what is cached."""
        return self.client.scheme, self.client.endpoint, self.path


def located(source: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Location:
    """The place that a path or URL means.

    Raises
    ------
    ConfigError
        It has user and password in it, or is no URL.
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
    given = dict(options or {})
    if scheme == "hdfs" and parts.netloc and "host" not in given:
        host, _, port = parts.netloc.partition(":")
        given |= {"host": host} | ({"port": int(port)} if port.isdigit() else {})
    path = parts.path.lstrip("/") if scheme != "hdfs" else parts.path
    path = f"{parts.netloc}/{path}".rstrip("/") if scheme != "hdfs" else path.rstrip("/")
    return Location(Client(scheme, given), path, shown_url(text))


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
        yield
    except FileNotFoundError:
        raise NotFoundError(f"{where}: there is no such file or folder") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError) as error:
        told = hidden_urls(shown_text(str(error)))[:300] or type(error).__name__
        raise _class_of(error, told)(f"{where}: {told}") from None


def _class_of(error: Exception, told: str) -> type[HubError]:
    """The class of an error: Arrow has OSError for damage, too, but then without a number or a word of AWS."""
    if "AWS Error" in told:
        return next((kind for word, kind in _OF_AWS.items() if word in told), StorageError)
    is_away = isinstance(error, (ConnectionError, TimeoutError)) or getattr(error, "errno", None) in _AWAY
    return UnavailableError if is_away else SourceError


def listed(location: Location) -> list[DataFile]:
    """The Parquet files of a dataset, by their paths; what begins with ``_`` or ``.`` is none.

    Raises
    ------
    NotFoundError
        There is no such file or folder, or none in it.
    SourceError
        The folder is a table of another format, whose rows are not all that its files hold.
    """
    with readable(location.where):
        info = location.client.filesystem.get_file_info(location.path)
        if info.type == pafs.FileType.NotFound:
            raise NotFoundError(f"{location.where}: there is no such file or folder")
        if info.type == pafs.FileType.File:
            return [replace(_file(location, info, os.path.basename(location.path)), is_named=True)]
        if location.client.is_local:
            found = list(_walked(location.path, location.where))
        else:
            found = location.client.filesystem.get_file_info(pafs.FileSelector(location.path, recursive=True))
    files = []
    prefix = location.path.rstrip("/") + "/"
    below = [(one.path[len(prefix) :] if one.path.startswith(prefix) else one.path, one) for one in found]
    refuse_table_format(location.where, (relative for relative, _ in below))
    for relative, one in below:
        is_file = one.type == pafs.FileType.File
        if is_file and is_part(relative) and (one.size or relative.lower().endswith(PARQUET_SUFFIXES)):
            files.append(_file(location, one, relative))
    if len(files) > MAX_FILES:
        raise SourceError(f"{location.where}: has {len(files):,} files, more than {MAX_FILES:,}")
    named = [one for one in files if one.relative.lower().endswith(PARQUET_SUFFIXES)]
    if not (named or files):
        raise NotFoundError(f"{location.where}: has no Parquet files")
    return sorted(named or files, key=lambda one: one.relative)


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
            for one in entries:
                try:
                    one.name.encode()
                except UnicodeEncodeError:
                    raise SourceError(f"{where}: has a name that is no text, {one.name!r}; rename it") from None
                if one.is_dir():
                    waiting.append((one.path, (*above, own)))
                elif one.is_file():
                    about = one.stat()
                    yield _Info(one.path, about.st_size, about.st_mtime_ns)


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
    for one in locations[1:]:
        if (one.client.scheme, one.client.endpoint) != (first.client.scheme, first.client.endpoint):
            raise ConfigError(f"{one.where}: is on another store than {first.where}; read each as a dataset of its own")
    files = [file for one in locations for file in listed(one)]
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


def read_small(location: Location, name: str, most_bytes: int) -> bytes | None:
    """The bytes of a file of metadata beside the data, or None."""
    path = f"{location.path}/{name}"
    with readable(f"{location.where}/{name}"):
        info = location.client.filesystem.get_file_info(path)
        if info.type != pafs.FileType.File:
            return None
        if info.size > most_bytes:
            raise SourceError(f"{location.where}/{name}: takes {info.size:,} bytes, more than is read")
        with location.client.filesystem.open_input_stream(path) as file:
            return bytes(file.read())


def modified_ns(location: Location, name: str) -> int:
    """When a file beside the data was written; 0 where that is not known."""
    with readable(f"{location.where}/{name}"):
        return int(location.client.filesystem.get_file_info(f"{location.path}/{name}").mtime_ns or 0)
