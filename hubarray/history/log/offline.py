"""Records in the disk cache, and which was the newest when: a version opens with them without its store."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hubarray import config
from hubarray.blobs.fetch import Fetcher
from hubarray.bounded_dict import BoundedDict
from hubarray.errors import CorruptDataError, FormatVersionError
from hubarray.history.log.log import Log
from hubarray.history.records.record import Record, encode, record_key

_NUMBER_DIGITS, _TIME_DIGITS = 16, 12
_DIGEST = re.compile(rb"[0-9a-f]{64}")
# How far back from the newest record commits are looked for, one look into a folder each.
_MAX_LOOKED_FOR = 1000
_MAX_SHOWN = 10
_MAX_WARNED = 1024
_INTERVAL_SECONDS, _REPEAT_SECONDS = 1.0, 60.0

log = logging.getLogger("hubarray.history")
# The versions of which a reader was told that they come from the cache.
_warned: dict[str, bool] = BoundedDict(_MAX_WARNED)


@dataclass(frozen=True)
class Sighting:
    """The newest record of a version as somebody on this machine last saw it, and when (seconds since the epoch)."""

    record: Record
    at: float

    @property
    def moment(self) -> str:
        """When, to be shown."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M} UTC"


def _openable(record: Record) -> tuple[object, ...]:
    """The facts of a record that decide which names open without the store."""
    return record.head.kind, record.head.frozen, record.tags


class OfflineRecords:
    """The records of one version in the disk cache.

    A record is stored under its hash, and the hash under the number of the commit. A third entry has the number of the
    newest record and the time when it was seen. Only the entries of numbers are ever replaced.

    Parameters
    ----------
    fetcher : Fetcher
        Of the version's root.
    log : Log
    """

    def __init__(self, fetcher: Fetcher, log: Log) -> None:
        self._disk, self._log = fetcher.disk, log
        self._identity = fetcher.identity
        self._newest_key = f"{fetcher.identity} {log.name} newest"

    def get(self, number: int, *, counted: bool = False) -> Record | None:
        """The record of a commit; None if it is not there, or not whole."""
        if self._disk is None:
            return None
        digest = self._digest(number)
        key = self._record_key(digest)
        cached = self._disk.get(key, counted=counted)
        if cached is None:
            return None
        try:
            record = self._log.decode(cached, number)
        except (CorruptDataError, FormatVersionError):
            record = None
        if record is None or record.digest != digest:
            self._disk.reject(key)
            return None
        return record

    def encoded(self, number: int) -> bytes | None:
        """Return the unchecked bytes of the record of a commit, or None."""
        return None if self._disk is None else self._disk.get(self._record_key(self._digest(number)), counted=False)

    def put(self, record: Record) -> None:
        """Keep a record."""
        if self._disk is not None:
            data, sealed = encode(record)
            self._disk.put(self._record_key(sealed.digest), data)
            self._disk.put(self._key(record.head.number), sealed.digest.encode(), replace=True)

    def note(self, record: Record, last: Sighting | None) -> Sighting | None:
        """Keep what was just seen to be the newest record, unless the last such note says as much.

        Parameters
        ----------
        record : Record
        last : Sighting or None
            What this returned before, in this process.
        """
        if self._disk is None:
            return None
        now = time.time()
        if last is not None:
            is_same = last.record.digest == record.digest
            # What changes what there is without a store is not passed over.
            is_plain = _openable(record) == _openable(last.record)
            if 0 <= now - last.at < (_REPEAT_SECONDS if is_same else _INTERVAL_SECONDS if is_plain else 0):
                return last
        cached = self.get(record.head.number)
        if cached is None or cached.digest != record.digest:
            self.put(record)
        line = b"%0*d%0*d" % (_NUMBER_DIGITS, record.head.number, _TIME_DIGITS, int(now))
        self._disk.put(self._newest_key, line, replace=True)
        return Sighting(record, now)

    def newest(self) -> Sighting | None:
        """The newest record that was seen; None if none was, or it is not whole."""
        line = None if self._disk is None else self._disk.get(self._newest_key, counted=False)
        if line is None or len(line) != _NUMBER_DIGITS + _TIME_DIGITS or not line.isdigit():
            return None
        record = self.get(int(line[:_NUMBER_DIGITS]))
        return None if record is None else Sighting(record, min(time.time(), int(line[_NUMBER_DIGITS:])))

    def remark(self, seen: Sighting, commit: str | None = None) -> None:
        """Say once in a process that a version, or a tag of it, comes from the cache, and how old it is."""
        name = f"{self._log.name}@{commit}" if commit else str(self._log.name)
        key = f"{self._identity} {name}"
        if key in _warned:
            return
        _warned[key] = True
        advice = "" if config.is_offline() else "; the store did not answer, and offline=True skips the wait for it"
        log.warning("%s: read from the disk cache, as it was seen at %s%s", name, seen.moment, advice)

    def at_hand(self) -> str:
        """Which commits can be opened without the store, as the end of an error message."""
        seen = self.newest()
        if seen is None:
            return "; no commit of it is in the disk cache"
        tags = [tag for tag, number in sorted(seen.record.tags.items()) if self._has(number)]
        names = [f"{self._log.name}@{commit}" for commit in (*tags, *self._numbers(seen.record))]
        if not names:
            return "; no commit of it is in the disk cache"
        more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
        return (
            f"; which commit is the newest cannot be told without it. These can be read, as far as the disk cache has "
            f"their chunks: {', '.join(names[:_MAX_SHOWN])}{more} (the newest was seen at {seen.moment})"
        )

    def _numbers(self, newest: Record) -> Iterator[int]:
        last = newest.head.number - (newest.head.kind == "deleted")
        return (number for number in range(last, max(0, last - _MAX_LOOKED_FOR), -1) if self._has(number))

    def _has(self, number: int) -> bool:
        return self._disk is not None and self._disk.has(self._record_key(self._digest(number)))

    def _digest(self, number: int) -> str:
        """Return the hash of the record with a number, or nothing."""
        stored = None if self._disk is None else self._disk.get(self._key(number), counted=False)
        return stored.decode() if stored is not None and _DIGEST.fullmatch(stored) else ""

    def _record_key(self, digest: str) -> str:
        return f"{self._identity} record {digest}"

    def _key(self, number: int) -> str:
        return f"{self._identity} {record_key(self._log.name, number)}"
