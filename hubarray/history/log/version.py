"""A version as this process knows it: the newest record seen, shared by all handles on it."""

from __future__ import annotations

import threading
import weakref
from datetime import timedelta

from hubarray import process
from hubarray.blobs.fetch import Fetcher, fetcher_for
from hubarray.errors import (
    CorruptDataError,
    HubError,
    NotFoundError,
    TagNotFoundError,
    UnavailableError,
)
from hubarray.history.log.commit_queue import MachineQueue
from hubarray.history.log.hints import hint_writer
from hubarray.history.log.log import Log
from hubarray.history.log.offline import OfflineRecords, Sighting
from hubarray.history.log.probes import store_time
from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.record import Record, record_key
from hubarray.names import Name
from hubarray.process import uptime_seconds
from hubarray.storage.base import Buffer, Store
from hubarray.storage.url import Root

_SHOWN_TAGS = 10


class Version:
    """The line of commits under one name and version.

    There is one instance for each (root, version) in a process, so a commit
    made through one array is seen at once by every other one.

    Attributes
    ----------
    name : Name
    fetcher : Fetcher
    queue : MachineQueue
        Where this machine's committers wait for each other.
    commit_lock : Lock
        Held by this process's committers in turn, so that they do not race
        each other for a number.
    """

    def __init__(self, fetcher: Fetcher, name: Name) -> None:
        self.fetcher = fetcher
        self.name = Name(name.owner, name.name, name.version)
        self._newest: Record | None = None
        self._checked_at = float("-inf")
        self._noted: Sighting | None = None
        space = None if fetcher.disk is None else fetcher.disk.space
        self.queue = MachineQueue(f"{fetcher.identity} {self.name}", space)
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self.commit_lock = threading.Lock()

    @property
    def store(self) -> Store:
        """This process's store of the root."""
        return self.fetcher.store

    @property
    def log(self) -> Log:
        """The version's log, on this process's store."""
        return Log(self.store, self.name, self._node)

    def _node(self, node: NodeRef) -> Buffer:
        return self.fetcher.object(node.key, node.length, node.digest)

    @property
    def _offline(self) -> OfflineRecords:
        return OfflineRecords(self.fetcher, self.log)

    @property
    def checked_at(self) -> float:
        """When the newest record seen was known to be the newest, in :func:`~hubarray.process.uptime_seconds`."""
        return self._checked_at

    @property
    def last_seen(self) -> Record | None:
        """The newest record seen so far, without looking."""
        return self._newest

    def refresh(self) -> Record:
        """Look for the newest record now: one probe when nothing is newer.

        Raises
        ------
        NotFoundError
            The version does not exist, or was deleted.
        """
        known = self._newest
        asked_at = uptime_seconds()
        try:
            by_hint = known is None or self.store.read_only
            record = self.log.newest() if by_hint else self.log.newest_after(known)
        except UnavailableError as error:
            return self._frozen_from_disk(error)
        self._noted = self._offline.note(record, self._noted)
        return self.observe(record, asked_at)

    def reopen(self) -> Record:
        """The newest record, for a new handle: as :meth:`refresh`, but a log that was taken away is noticed.

        Costs a probe more when the version is known.
        """
        known = self._newest
        if known is not None and not self.store.read_only:
            try:
                exists = self.log.exists(known.head.number)
            except UnavailableError as error:
                return self._frozen_from_disk(error)
            if not exists:
                # Somebody removed the root, or put another in its place; records are never deleted otherwise.
                with self._lock:
                    self._newest = None
        return self.refresh()

    def newest(self) -> Record | None:
        """Return the newest record, which may be a deletion, or None if the version was never created."""
        try:
            return self.reopen()
        except NotFoundError:
            return None

    def current(self, max_staleness_seconds: float) -> Record:
        """The newest record, as known no longer ago than ``max_staleness_seconds``.

        A frozen version is not looked up again: what can follow (tags, expiry, its deletion) changes no element.
        """
        newest = self._newest
        if newest is not None and (newest.head.frozen or uptime_seconds() - self._checked_at <= max_staleness_seconds):
            return newest
        return self.refresh()

    def observe(self, record: Record, at: float | None = None) -> Record:
        """Take note of a record; the newest known never moves to a smaller number."""
        with self._lock:
            if self._newest is None or record.head.number >= self._newest.head.number:
                self._newest = record
                self._checked_at = max(self._checked_at, at if at is not None else uptime_seconds())
            return self._newest

    def committed(self, record: Record) -> None:
        """Take note of a record this process created, and have the hint follow."""
        self.observe(record)
        hint_writer.note(self.store, self.name, record.head.number)

    def cached(self, number: int) -> Record:
        """One commit, whatever came after it: no probe, one request, none when it is in the disk cache.

        Raises
        ------
        NotFoundError
            The number is not in the log, or its state has expired.
        """
        newest = self._newest
        if newest is not None and newest.head.number == number:
            return newest
        offline = self._offline
        record = offline.get(number, counted=True)
        if record is None:
            record = self.uncached(number)
            offline.put(record)
        return record

    def uncached(self, number: int) -> Record:
        """One commit as it is in the log now, past the cache.

        Raises
        ------
        NotFoundError
            The number is not in the log, or its state has expired.
        """
        record = self.log.read_if_made(number)
        if record.head.kind == "expired":
            raise self._expired(number)
        return record

    def tagged(self, tag: str) -> int:
        """The number of the commit that a tag names: looks for the newest record.

        Without the store, the newest one that was seen on this machine says it.

        Raises
        ------
        TagNotFoundError
        """
        try:
            tags = self.refresh().tags
        except UnavailableError:
            seen = self._offline.newest()
            if seen is None or tag not in seen.record.tags:
                raise
            self._offline.remark(seen, tag)
            tags = seen.record.tags
        if tag not in tags:
            known = f"its tags are {', '.join(sorted(tags)[:_SHOWN_TAGS])}" if tags else "it has no tags"
            raise TagNotFoundError(f"{self.name}@{tag}: there is no such tag; {known}")
        return tags[tag]

    def base_record(self, number: int) -> Record:
        """One commit to build a new commit on: one that has not expired, though its data may still be there.

        If it expires later, its data is kept for the grace period from then, which is enough time for the new commit.

        Raises
        ------
        NotFoundError
            The number is not in the log, has expired, or belongs to a version deleted so long ago that its
            data may be on its way out.
        """
        try:
            newest = self.refresh()
        except CorruptDataError:
            # A version whose newest record is lost can be saved by copying an older commit: nothing is collected
            # from a name while one of its logs cannot be read.
            return self.uncached(number)
        if number <= newest.head.expired_to and number not in newest.tags.values():
            raise self._expired(number)
        if newest.head.kind == "deleted" and self.deleted_long_ago(newest):
            raise NotFoundError(
                f"{self.name.at(number)}: the version was deleted longer than half its grace period ago, so its "
                "data may be on its way out; it can no longer be restored or copied"
            )
        return self.uncached(number)

    def has_expired(self, record: Record) -> bool:
        """Whether a record's data may be gone by right: its commit expired, or the version was deleted."""
        try:
            newest = self.refresh()
        except (HubError, OSError):
            return False
        number = record.head.number
        expired = number <= newest.head.expired_to and number not in newest.tags.values()
        return number != newest.head.number and (expired or newest.head.kind == "deleted")

    def deleted_long_ago(self, deletion: Record) -> bool:
        """Whether a deletion is older than half the grace period: a collector may be at work on what was before it."""
        deleted_at = self.store.head(record_key(self.name, deletion.head.number)).modified
        age = store_time(self.store) - deleted_at if deleted_at else timedelta.max
        return age > timedelta(seconds=deletion.head.grace_seconds / 2)

    def _expired(self, number: int) -> NotFoundError:
        return NotFoundError(
            f"{self.name.at(number)}: this commit has expired; it cannot be kept, because its data may be deleted at "
            "any time"
        )

    def _frozen_from_disk(self, error: UnavailableError) -> Record:
        """Stand in for a store that does not answer: a frozen version's last record from the disk cache."""
        seen = self._offline.newest()
        if seen is None or not seen.record.head.frozen:
            raise UnavailableError(f"{error.args[0]}{self._offline.at_hand()}") from None
        self._offline.remark(seen)
        return self.observe(seen.record)


class _Versions:
    """The process's versions; one nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)
        self._versions: weakref.WeakValueDictionary[tuple[int, Name], Version] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def get(self, root: Root, name: Name) -> Version:
        fetcher = fetcher_for(root)
        key = (id(fetcher), Name(name.owner, name.name, name.version))
        with self._lock:
            version = self._versions.get(key)
            if version is None:
                version = self._versions[key] = Version(fetcher, name)
            return version


_versions = _Versions()


def version_of(root: Root, name: Name) -> Version:
    """The shared :class:`Version` of this process."""
    return _versions.get(root, name)
