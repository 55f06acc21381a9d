"""Footers of Parquet files: rows and bytes of the row groups, and the schema; read once for each state of a
file."""

from __future__ import annotations

import base64
import io
import json
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import blake3
import pyarrow as pa
import pyarrow.parquet as pq

from hubarray import process
from hubarray.blobs.disk_cache import DiskCache
from hubarray.errors import NotFoundError, SourceError
from hubarray.limits import parse_json
from hubarray.parquet_limits import arrow_schema
from hubarray.progress import progress
from hubarray.readers.parquet.files import DataFile, Location, readable, requested
from hubarray.threads import Threads

_THREADS = 16
_MAX_KEPT_BYTES = 64 << 20
# Rows of a row group: an order of them takes 8 bytes each. Arrow writes 64 Mi at most.
MAX_GROUP_ROWS = 1 << 27
_SEAL_BYTES = 16


@dataclass(frozen=True)
class Footer:
    """The facts of a file's footer.

    Attributes
    ----------
    rows, sizes : tuple of int
        Rows and stored bytes of each row group.
    schema : pyarrow.Schema
    """

    rows: tuple[int, ...]
    sizes: tuple[int, ...]
    schema: pa.Schema

    def to_json(self) -> dict[str, Any]:
        """As summaries and caches keep it."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        return {"rows": list(self.rows), "sizes": list(self.sizes), "schema": schema}

    @staticmethod
    def from_json(footer_json: Any, where: str) -> Footer:
        """A footer of JSON.

        Raises
        ------
        SourceError
        """
        try:
            rows, sizes = footer_json["rows"], footer_json["sizes"]
            for numbers in (rows, sizes):
                if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 1 << 48 for n in numbers):
                    raise ValueError("rows and sizes are lists of counts")
            if any(n > MAX_GROUP_ROWS for n in rows):
                raise ValueError(f"a row group of more than {MAX_GROUP_ROWS:,} rows")
            if len(rows) != len(sizes):
                raise ValueError("rows and sizes are of different lengths")
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(footer_json["schema"], validate=True)))
        except (KeyError, TypeError, ValueError, pa.ArrowException, OSError) as error:
            raise SourceError(f"{where}: is not a summary of a footer: {str(error)[:200]}") from None
        return Footer(tuple(rows), tuple(sizes), schema)


class Metadata:
    """A cache of parsed footers of files: the last used ones, up to 64 MiB."""

    def __init__(self) -> None:
        # Of each state of a file: its footer, the store's name for the contents, and whether a disk cache was given it.
        self._remembered: dict[tuple[Any, ...], tuple[pq.FileMetaData, bytes | None, bool]] = {}
        self._bytes = 0
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was read stays."""
        self._lock = threading.Lock()

    def of(self, location: Location, file: DataFile, cache: DiskCache | None = None) -> pq.FileMetaData:
        """The footer of a file, read where it is not known, here or in a cache.

        Raises
        ------
        SourceError
        """
        key = (*location.place, *file.state)
        with self._lock:
            known = self._remembered.pop(key, None)
            if known is not None:
                self._remembered[key] = known
        disk = None if file.is_fresh else cache
        if known is not None and (known[2] or disk is None):
            return known[0]
        where = f"{location.where}/{file.relative}"
        disk_key = cache_key("whole footer", *key)
        stored = None if disk is None else kept_in(disk, disk_key)
        tag: bytes | None = None
        if known is not None:
            metadata, tag, _ = known
        elif stored is not None:
            metadata = pq.read_metadata(pa.BufferReader(stored))
        else:
            metadata, tag = requested(location, where, partial(_read_footer, location, file))
        if disk is not None and stored is None:
            out = io.BytesIO()
            metadata.write_metadata_file(out)
            keep(disk, disk_key, out.getvalue())
        with self._lock:
            self._bytes += 0 if key in self._remembered else metadata.serialized_size
            self._remembered[key] = metadata, tag, disk is not None
            while self._bytes > _MAX_KEPT_BYTES and len(self._remembered) > 1:
                self._bytes -= self._remembered.pop(next(iter(self._remembered)))[0].serialized_size
        return metadata

    def forget(self, location: Location, file: DataFile) -> None:
        """Have the footer of a file read again."""
        with self._lock:
            known = self._remembered.pop((*location.place, *file.state), None)
            self._bytes -= known[0].serialized_size if known is not None else 0

    def require_same(self, location: Location, file: DataFile, opened: pa.NativeFile) -> None:
        """Refuse a file that is not the one whose footer was read, where the store tells.

        Raises
        ------
        SourceError
        """
        with self._lock:
            known = self._remembered.get((*location.place, *file.state))
        if known is not None and known[1] is not None and _tag(opened) != known[1]:
            raise _changed(location, file)


metadata = Metadata()


@contextmanager
def opened_as_listed(location: Location, file: DataFile) -> Iterator[pa.NativeFile]:
    """A file, if it is still the one that was listed.

    Raises
    ------
    SourceError
    """
    with location.client.filesystem.open_input_file(file.path) as opened:
        # A list of objects tells their times more exactly than a look at one does.
        exact_ns = 1 if location.client.is_local else 1_000_000_000
        changed_ns = _modified_ns(location, file, opened) - file.modified_ns
        if opened.size() != file.size_bytes or abs(changed_ns) >= exact_ns:
            raise _changed(location, file)
        yield opened


def _read_footer(location: Location, file: DataFile) -> tuple[pq.FileMetaData, bytes | None]:
    with opened_as_listed(location, file) as opened:
        return pq.read_metadata(opened), _tag(opened)


def _changed(location: Location, file: DataFile) -> SourceError:
    return SourceError(f"{location.where}/{file.relative}: was changed since the dataset was opened; open it again")


def _tag(opened: pa.NativeFile) -> bytes | None:
    """The name that a store has for the contents of an object."""
    opened_metadata: bytes | None = (opened.metadata() or {}).get("ETag")
    return opened_metadata


def _modified_ns(location: Location, file: DataFile, opened: pa.NativeFile) -> int:
    """When a file that is open was written; a bucket said it when it was opened."""
    header = (opened.metadata() or {}).get("Last-Modified")
    if header is None:
        return int(location.client.filesystem.get_file_info(file.path).mtime_ns or 0)
    return int(datetime.fromisoformat(header.decode()).timestamp()) * 1_000_000_000


def footers_of(
    location: Location,
    files: Sequence[DataFile],
    known: dict[str, Footer],
    cache: DiskCache | None,
    *,
    skip_errors: bool = False,
) -> tuple[list[Footer], set[str]]:
    """The footer of each file: of a summary, of the cache, or read, many at once; and the files that have none.

    Parameters
    ----------
    known : dict of str to Footer
        The footers of a summary, by the relative paths of files.
    cache : DiskCache or None
        Keeps what was read.
    skip_errors : bool
        Warn about an unreadable file and continue, unless there is no other.
    """
    refused: dict[str, SourceError | NotFoundError] = {}
    footers: list[Footer | None] = [known.get(file.relative) for file in files]
    missing = [i for i, footer in enumerate(footers) if footer is None]
    if missing:
        with (
            Threads(min(_THREADS, len(missing)), "hubarray-footers") as threads,
            progress(len(missing), f"reading footers of {location.where}", unit=" files") as bar,
        ):
            read = _reader(location, files, cache)

            def tried(i: int) -> Footer | None:
                try:
                    return read(i)
                except (SourceError, NotFoundError) as error:
                    if not skip_errors:
                        raise
                    refused[files[i].path] = error
                    return None

            for i, footer in zip(missing, threads.map(tried, missing), strict=True):
                footers[i] = footer
                bar.update(1)
    if refused and len(refused) == len(files):
        raise next(iter(refused.values()))
    for error in refused.values():
        warnings.warn(f"{error}: the file is left out", stacklevel=2)
    return [footer for footer in footers if footer is not None], set(refused)


def _reader(location: Location, files: Sequence[DataFile], cache: DiskCache | None) -> Callable[[int], Footer]:
    def read(i: int) -> Footer:
        file = files[i]
        where = f"{location.where}/{file.relative}"
        key = cache_key("footer 2", *location.place, *file.state)
        disk = None if file.is_fresh else cache
        stored = None if disk is None else kept_in(disk, key)
        if stored is not None:
            return Footer.from_json(parse_json(stored), where)
        if file.is_fresh:
            metadata.forget(location, file)
        made = footer_of(metadata.of(location, file), where)
        if disk is not None:
            keep(disk, key, json.dumps(made.to_json()).encode())
        return made

    return read


def footer_of(metadata: pq.FileMetaData, where: str) -> Footer:
    """The facts of a parsed footer.

    Raises
    ------
    SourceError
    """
    with readable(where):
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        rows, sizes = [group.num_rows for group in groups], [group.total_byte_size for group in groups]
        schema = arrow_schema(metadata)
    if any(n > MAX_GROUP_ROWS for n in rows):
        raise SourceError(f"{where}: has a row group of {max(rows):,} rows, more than {MAX_GROUP_ROWS:,}")
    if any(n < 0 for n in rows) or sum(rows) != metadata.num_rows:
        raise SourceError(f"{where}: its footer declares {metadata.num_rows} rows, and its row groups {sum(rows)}")
    return Footer(tuple(rows), tuple(max(0, n) for n in sizes), schema)


def cache_key(*parts: Any) -> str:
    """The name of something in a disk cache."""
    return f"epochs/{blake3.blake3(json.dumps(parts).encode()).hexdigest()[:40]}"


def keep(disk: DiskCache, key: str, data: bytes | memoryview) -> None:
    """Put bytes into a cache, with a hash of them and their key: anybody may have cut its files, or changed them about.

    See :func:`kept_in`.
    """
    disk.put(key, _seal(key, data) + bytes(data))


def kept_in(disk: DiskCache, key: str) -> bytes | None:
    """The bytes that were kept under a key; None where there are none, or others, which are removed."""
    stored = disk.get(key)
    if stored is None:
        return None
    data = memoryview(stored)[_SEAL_BYTES:]
    if _seal(key, data) != stored[:_SEAL_BYTES]:
        disk.reject(key)
        return None
    return bytes(data)


def _seal(key: str, data: bytes | memoryview) -> bytes:
    return blake3.blake3(data, key=blake3.blake3(key.encode()).digest()).digest()[:_SEAL_BYTES]
