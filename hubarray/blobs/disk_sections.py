"""Blobs in the disk cache: those that begin in the same MiB of a pack share a file, which is a section.

A file for each would take longer to make than small blobs take to fetch. A section's file is a table of stretches
(where in the section, how long, where in the file), and their bytes in the order in which they came. Space and a place
in the table are reserved under the cache's lock; a stretch counts once its length is written, which is after its bytes.
So whoever is killed when, nobody reads what was not written; what was damaged since, the hashes of the blobs tell.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from hubarray.blobs.disk_cache import DiskCache
from hubarray.blobs.ref import BlobName, pack_key
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

    def present(self, names: Sequence[BlobName], *, counted: bool = True) -> list[list[int]]:
        """Positions of the blobs that are there, by section; they may be gone a moment later.

        Those that are not are counted as misses, unless whoever asks does so.
        """
        by_section: dict[tuple[str, bytes, int], list[int]] = {}
        for i, (home, pack, offset, _) in enumerate(names):
            by_section.setdefault((home, pack, offset // SECTION_BYTES), []).append(i)
        evicted = []
        for (home, pack, number), positions in by_section.items():
            table = self._table(self._key(pack_key(home, pack.hex()), number * SECTION_BYTES))
            here = [
                i for i in positions if table and _position(table, names[i][2] % SECTION_BYTES, names[i][3]) is not None
            ]
            if counted:
                self.count_missed(len(positions) - len(here))
            if here:
                evicted.append(here)
        return evicted

    def count_missed(self, misses: int) -> None:
        """Count blobs that were asked for and not there."""
        self._cache.count(misses=misses)

    def read(self, pack: str, offsets: Sequence[int], lengths: Sequence[int]) -> list[Buffer | None]:
        """The bytes of blobs of one section, not yet verified; None where they are not there. Marks them as used."""
        descriptor = self._cache.open(self._key(pack, offsets[0]))
        if descriptor is None:
            self._cache.count(misses=len(offsets))
            return [None] * len(offsets)
        try:
            table = _read_table(descriptor)
            places = [_position(table, o % SECTION_BYTES, n) for o, n in zip(offsets, lengths, strict=True)]
            sections: list[Buffer | None] = []
            for position, size, count in _back_to_back(places, lengths):
                data = None if position is None else _pread(descriptor, size, position)
                view, at = memoryview(data or b""), 0
                for length in lengths[len(sections) : len(sections) + count]:
                    sections.append(None if data is None else view[at : at + length])
                    at += length
        finally:
            os.close(descriptor)
        misses = sum(data is None for data in sections)
        self._cache.count(hits=len(sections) - misses, misses=misses)
        return sections

    def read_into(self, pack: str, offset: int, out: memoryview) -> bool:
        """Fill ``out`` with the bytes of a blob as long, if stretches have all of them; marks them as used."""
        descriptor = self._cache.open(self._key(pack, offset))
        is_filled = False
        if descriptor is not None:
            try:
                is_filled = _fill(descriptor, _read_table(descriptor), offset % SECTION_BYTES, out)
            except _UNREADABLE:
                pass
            finally:
                os.close(descriptor)
        self._cache.count(hits=is_filled, misses=not is_filled)
        return is_filled

    def put(self, pack: str, blobs: Sequence[tuple[int, Buffer]]) -> None:
        """Keep blobs of a pack, given with their offsets and in that order."""
        if not self.writable:
            return
        try:
            for offset, buffers in stretches(blobs, self._cache.budget_bytes // 4):
                self._put(self._key(pack, offset), offset % SECTION_BYTES, buffers)
        except OSError as error:
            self._cache.space.complain(error)

    def reject(self, pack: str, offset: int) -> None:
        """Forget the section of a blob whose bytes turned out to be wrong: a miss after all."""
        self._cache.reject(self._key(pack, offset))

    def _key(self, pack: str, offset: int) -> str:
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


def _pread(descriptor: int, length: int, position: int) -> bytes | None:
    try:
        return os.pread(descriptor, length, position)
    except _UNREADABLE:
        return None


def _read_table(descriptor: int) -> list[tuple[int, int, int]]:
    table = _pread(descriptor, TABLE_BYTES, 0)
    if table is None or len(table) < TABLE_BYTES:
        return []
    count = min(_COUNT.unpack_from(table)[0], _MAX_STRETCHES)
    return list(_STRETCH.iter_unpack(table[_COUNT.size : _COUNT.size + count * _STRETCH.size]))


def _position(table: Sequence[tuple[int, int, int]], start: int, length: int) -> int | None:
    """Where in the file a part of the section is, if a stretch has all of it."""
    for begin, size, position in table:
        if begin <= start and start + length <= begin + size:
            return position + start - begin
    return None


def _fill(descriptor: int, table: Sequence[tuple[int, int, int]], start: int, out: memoryview) -> bool:
    """Read a part of the section from its stretches, because parts of a chunk file arrive one by one."""
    position = _position(table, start, len(out))
    if position is not None:
        return os.preadv(descriptor, [out], position) == len(out)
    at, end = start, start + len(out)
    while at < end:
        # Each step goes beyond where it was: there are no more of them than stretches.
        stop, position = max(
            ((begin + size, place + at - begin) for begin, size, place in table if begin <= at < begin + size),
            default=(at, 0),
        )
        part = out[at - start : min(stop, end) - start]
        if not part or os.preadv(descriptor, [part], position) != len(part):
            return False
        at = stop
    return True


def _back_to_back(places: Sequence[int | None], lengths: Sequence[int]) -> Iterator[tuple[int | None, int, int]]:
    """Stretches that one read each gets: where, how long, how many blobs; what is not there comes blob by blob."""
    first = 0
    while first < len(places):
        position, size, end = places[first], lengths[first], first + 1
        while position is not None and end < len(places) and places[end] == position + size:
            size += lengths[end]
            end += 1
        yield position, size, end - first
        first = end
