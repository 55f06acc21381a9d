"""Blobs in the disk cache: those that begin in the same MiB of a pack share a file, which is a section.

A file for each would take longer to make than small blobs take to fetch. A section's file is a table of stretches
(where in the section, how long, where in the file), and their bytes in the order in which they came. Space and a place
in the table are reserved under the cache's lock; a stretch counts once its length is written, which is after its bytes.
So whoever is killed when, nobody reads what was not written; what was damaged since, the hashes of the blobs tell.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.local_files import scratch
from hubarray.blobs.ref import BlobName, key_of
from hubarray.storage.base import Buffer
from hubarray.storage.local import write_all

SECTION_BYTES = 1 << 20
TABLE_BYTES = 4096

# A damaged table may name a place that no file has.
_UNREADABLE = (OSError, OverflowError)
_COUNT = struct.Struct("<12xI")
_STRETCH = struct.Struct("<IIQ")
_LENGTH = struct.Struct("<I")
_MAX_STRETCHES = (TABLE_BYTES - _COUNT.size) // _STRETCH.size


class DiskSections:
    """The blobs of one root in the disk cache.

    Parameters
    ----------
    cache : DiskCache
    identity : str
        What tells the root's objects from another's.
    """

    def __init__(self, cache: DiskCache, identity: str) -> None:
        self._cache = cache
        self._identity = identity

    @property
    def writable(self) -> bool:
        """Whether blobs can be put there."""
        return self._cache.space.writable

    def present(self, names: Sequence[BlobName], positions: Iterable[int], *, counted: bool = True) -> list[list[int]]:
        """Positions of the blobs that are there, by section; they may be gone a moment later.

        The others are counted as misses, unless the caller does so.
        """
        by_section: dict[tuple[str, bytes, int], list[int]] = {}
        for i in positions:
            home, pack, offset, _ = names[i]
            by_section.setdefault((home, pack, offset // SECTION_BYTES), []).append(i)
        sections = []
        for section in by_section.values():
            table = self._table(self._key(names[section[0]]))
            here = [i for i in section if table and _parts(table, names[i]) is not None]
            if counted:
                self._cache.count(misses=len(section) - len(here))
            if here:
                sections.append(here)
        return sections

    def read(self, names: Sequence[BlobName]) -> list[Buffer | None]:
        """The bytes of blobs of one section, not yet verified; None where they are not there. Marks them as used.

        They lie in memory that this thread uses again.
        """
        blobs: list[Buffer | None] = [None] * len(names)
        descriptor = self._cache.open(self._key(names[0]))
        if descriptor is not None:
            try:
                table = _read_table(descriptor)
                blobs = _read_parts(descriptor, [_parts(table, name) for name in names])
            finally:
                os.close(descriptor)
        misses = sum(data is None for data in blobs)
        self._cache.count(hits=len(blobs) - misses, misses=misses)
        return blobs

    def put(self, pack: str, blobs: Sequence[tuple[int, Buffer]]) -> None:
        """Keep blobs of a pack, given with their offsets and in that order."""
        if not self.writable:
            return
        try:
            for offset, buffers in stretches(blobs, self._cache.budget_bytes // 4):
                self._put(self._section(pack, offset), offset % SECTION_BYTES, buffers)
        except OSError as error:
            self._cache.space.complain(error)

    def reject(self, name: BlobName) -> None:
        """Forget the section of a blob whose bytes turned out to be wrong: a miss after all."""
        self._cache.reject(self._key(name))

    def _key(self, name: BlobName) -> str:
        return self._section(key_of(name), name[2])

    def _section(self, pack: str, offset: int) -> str:
        return f"{self._identity} {pack} section {offset // SECTION_BYTES}"

    def _table(self, key: str) -> list[tuple[int, int, int]]:
        descriptor = self._cache.open(key)
        if descriptor is None:
            return []
        try:
            return _read_table(descriptor)
        finally:
            os.close(descriptor)

    def _put(self, key: str, start: int, buffers: list[Buffer]) -> None:
        size = sum(map(len, buffers))
        if size > self._cache.budget_bytes // 4:
            return
        path = self._cache.path(key)
        self._cache.space.make_folder(Path(path).parent)
        with self._cache.space.locked():
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                entry, position = self._reserve(descriptor, path, start, size)
            except BaseException:
                os.close(descriptor)
                raise
        try:
            if entry is not None:
                os.lseek(descriptor, position, os.SEEK_SET)
                write_all(descriptor, buffers)
                os.pwrite(descriptor, _LENGTH.pack(size), entry + _LENGTH.size)
        finally:
            os.close(descriptor)

    def _reserve(self, descriptor: int, path: str, start: int, size: int) -> tuple[int | None, int]:
        """Where a stretch's entry and its bytes belong; no entry where there is no room for them. Under the lock."""
        end = max(TABLE_BYTES, before := os.fstat(descriptor).st_size)
        count = min(_read_count(descriptor), _MAX_STRETCHES)
        entry = _COUNT.size + count * _STRETCH.size
        if count == _MAX_STRETCHES:
            return None, 0
        if not self._cache.space.make_room(end + size - before):
            if before == 0:
                os.unlink(path)
            return None, 0
        if os.fstat(descriptor).st_nlink == 0:
            # It was the one to go when room was made.
            return None, 0
        os.ftruncate(descriptor, end + size)
        os.pwrite(descriptor, _STRETCH.pack(start, 0, end), entry)
        os.pwrite(descriptor, _COUNT.pack(count + 1), 0)
        return entry, end


def stretches(blobs: Sequence[tuple[int, Buffer]], max_bytes: int) -> Iterator[tuple[int, list[Buffer]]]:
    """Blobs that lie back to back and begin in one section, together, up to so many bytes.

    Examples
    --------
    >>> [(offset, len(some)) for offset, some in stretches([(0, b"ab"), (2, b"c"), (9, b"d"), (2**20, b"e")], 100)]
    [(0, 2), (9, 1), (1048576, 1)]
    """
    buffers: list[Buffer] = []
    first = end = -1
    for offset, data in blobs:
        goes_on = offset == end and offset // SECTION_BYTES == first // SECTION_BYTES
        if not goes_on or offset + len(data) - first > max_bytes:
            if buffers:
                yield first, buffers
            first, buffers = offset, []
        buffers.append(data)
        end = offset + len(data)
    if buffers:
        yield first, buffers


def _read_count(descriptor: int) -> int:
    head = os.pread(descriptor, _COUNT.size, 0)
    return int(_COUNT.unpack(head)[0]) if len(head) == _COUNT.size else 0


def _read_table(descriptor: int) -> list[tuple[int, int, int]]:
    try:
        table = os.pread(descriptor, TABLE_BYTES, 0)
    except _UNREADABLE:
        return []
    if len(table) < TABLE_BYTES:
        return []
    count = min(_COUNT.unpack_from(table)[0], _MAX_STRETCHES)
    return list(_STRETCH.iter_unpack(table[_COUNT.size : _COUNT.size + count * _STRETCH.size]))


def _parts(table: Sequence[tuple[int, int, int]], name: BlobName) -> list[tuple[int, int]] | None:
    """Where in the file a blob is, and how long, part by part; None unless stretches have all of it.

    It has several parts where those of a chunk file arrived one by one.
    """
    at, end = name[2] % SECTION_BYTES, name[2] % SECTION_BYTES + name[3]
    for begin, size, place in table:
        if begin <= at and end <= begin + size:
            return [(place + at - begin, name[3])]
    parts: list[tuple[int, int]] = []
    while at < end:
        # Each step goes beyond where it was: there are no more of them than stretches.
        stop, position = max(
            ((begin + size, place + at - begin) for begin, size, place in table if begin <= at < begin + size),
            default=(at, 0),
        )
        if stop == at:
            return None
        parts.append((position, min(stop, end) - at))
        at = stop
    return parts


def _read_parts(descriptor: int, blobs: Sequence[list[tuple[int, int]] | None]) -> list[Buffer | None]:
    """Read blobs by one call for parts that lie back to back; all are None if the file turns out to be damaged."""
    runs: list[list[int]] = []
    ends, end = [], 0
    for parts in blobs:
        for position, size in parts or ():
            if runs and runs[-1][0] + runs[-1][1] == position:
                runs[-1][1] += size
            else:
                runs.append([position, size])
            end += size
        ends.append(end)
    out, at = scratch(end), 0
    try:
        for position, size in runs:
            if os.preadv(descriptor, [out[at : at + size]], position) != size:
                return [None] * len(blobs)
            at += size
    except _UNREADABLE:
        return [None] * len(blobs)
    begins = [0, *ends]
    return [None if parts is None else out[begins[i] : ends[i]] for i, parts in enumerate(blobs)]
