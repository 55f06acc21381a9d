"""Footers of Parquet files: rows and bytes of the row groups, and the schema; read once for each state of a
file."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import blake3
import pyarrow as pa
import pyarrow.parquet as pq

from hubarray import process
from hubarray.blobs.disk_cache import DiskCache
from hubarray.errors import SourceError
from hubarray.interop.parquet_dataset.files import DataFile, Location, readable
from hubarray.progress import progress

_THREADS = 16
_MOST_KEPT_BYTES = 64 << 20
# Rows of a row group: an order of them takes 8 bytes each. Arrow writes 64 Mi at most.
MAX_GROUP_ROWS = 1 << 27


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
    def from_json(told: Any, where: str) -> Footer:
        """A footer of JSON.

        Raises
        ------
        SourceError
        """
        try:
            rows, sizes = told["rows"], told["sizes"]
            for one in (rows, sizes):
                if not isinstance(one, list) or not all(type(n) is int and 0 <= n < 1 << 48 for n in one):
                    raise ValueError("rows and sizes are lists of counts")
            if any(n > MAX_GROUP_ROWS for n in rows):
                raise ValueError(f"a row group of more than {MAX_GROUP_ROWS:,} rows")
            if len(rows) != len(sizes):
                raise ValueError("rows and sizes are of different lengths")
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(told["schema"], validate=True)))
        except (KeyError, TypeError, ValueError, pa.ArrowException, OSError) as error:
            raise SourceError(f"{where}: is no summary of a footer: {str(error)[:200]}") from None
        return Footer(tuple(rows), tuple(sizes), schema)


class Metadata:
    """Parsed footers of files, for whoever reads them; the ones used last, up to 64 MiB."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], pq.FileMetaData] = {}
        self._bytes = 0
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child; what was read stays."""
        self._lock = threading.Lock()

    def of(self, location: Location, file: DataFile) -> pq.FileMetaData:
        """The footer of a file, read where it is not known.

        Raises
        ------
        SourceError
        """
        key = (*location.place, *file.state)
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
                return found
        where = f"{location.where}/{file.relative}"
        with readable(where), opened_as_listed(location, file) as opened:
            found = pq.read_metadata(opened)
        with self._lock:
            self._kept[key] = found
            self._bytes += found.serialized_size
            while self._bytes > _MOST_KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.pop(next(iter(self._kept))).serialized_size
        return found


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
            raise SourceError(
                f"{location.where}/{file.relative}: was changed since the dataset was opened; open it again"
            )
        yield opened


def _modified_ns(location: Location, file: DataFile, opened: pa.NativeFile) -> int:
    """When a file that is open was written; a bucket said it when it was opened."""
    told = (opened.metadata() or {}).get("Last-Modified")
    if told is None:
        return int(location.client.filesystem.get_file_info(file.path).mtime_ns or 0)
    return int(datetime.fromisoformat(told.decode()).timestamp()) * 1_000_000_000


def footers_of(
    location: Location, files: Sequence[DataFile], known: dict[str, Footer], cache: DiskCache | None
) -> list[Footer]:
    """The footer of each file: of a summary, of the cache, or read, many at once.

    Parameters
    ----------
    known : dict of str to Footer
        What a summary said, by the files' relative paths.
    cache : DiskCache or None
        Keeps what was read.
    """
    found = [known.get(file.relative) for file in files]
    missing = [i for i, one in enumerate(found) if one is None]
    if missing:
        with (
            ThreadPoolExecutor(min(_THREADS, len(missing)), "hubarray-footers") as threads,
            progress(len(missing), f"reading footers of {location.where}", unit=" files") as bar,
        ):
            for i, one in zip(missing, threads.map(_reader(location, files, cache), missing), strict=True):
                found[i] = one
                bar.update(1)
    return [one for one in found if one is not None]


def _reader(location: Location, files: Sequence[DataFile], cache: DiskCache | None) -> Callable[[int], Footer]:
    def read(i: int) -> Footer:
        file = files[i]
        where = f"{location.where}/{file.relative}"
        key = cache_key("footer", *location.place, *file.state)
        kept = None if cache is None else checked(cache.get(key))
        if kept is not None:
            return Footer.from_json(json.loads(kept), where)
        made = footer_of(metadata.of(location, file), where)
        if cache is not None:
            cache.put(key, sealed(json.dumps(made.to_json()).encode()))
        return made

    return read


def footer_of(found: pq.FileMetaData, where: str) -> Footer:
    """The facts of a parsed footer.

    Raises
    ------
    SourceError
    """
    with readable(where):
        groups = [found.row_group(i) for i in range(found.num_row_groups)]
        rows, sizes = [one.num_rows for one in groups], [one.total_byte_size for one in groups]
        schema = found.schema.to_arrow_schema()
    if any(n > MAX_GROUP_ROWS for n in rows):
        raise SourceError(f"{where}: has a row group of {max(rows):,} rows, more than {MAX_GROUP_ROWS:,}")
    if any(n < 0 for n in rows) or sum(rows) != found.num_rows:
        raise SourceError(f"{where}: its footer says {found.num_rows} rows, and its row groups {sum(rows)}")
    return Footer(tuple(rows), tuple(max(0, n) for n in sizes), schema.remove_metadata())


def cache_key(*parts: Any) -> str:
    """The name of something in a disk cache."""
    return f"epochs/{blake3.blake3(json.dumps(parts).encode()).hexdigest()[:40]}"


def sealed(data: bytes | memoryview) -> bytes:
    """Bytes and their hash, for a cache whose files anybody may have cut."""
    return blake3.blake3(data).digest()[:16] + bytes(data)


def checked(kept: bytes | None) -> bytes | None:
    """The bytes that were sealed, or None where they are not whole."""
    if kept is None or len(kept) < 16 or blake3.blake3(memoryview(kept)[16:]).digest()[:16] != kept[:16]:
        return None
    return kept[16:]
