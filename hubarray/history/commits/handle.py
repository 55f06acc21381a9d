"""A handle on a version, or on one commit of it: which commit it reads, and whether it may write. Of any kind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

from hubarray import config
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.stats import Stats
from hubarray.errors import ConflictError, NotFoundError, ReadOnlyError
from hubarray.history.commits.commit import Operation, commit
from hubarray.history.log import timeline
from hubarray.history.log.timeline import Commit
from hubarray.history.log.version import Version, version_of
from hubarray.history.records.record import Record
from hubarray.names import Name
from hubarray.storage.url import Root


class Handle:
    """A place in the history of a version.

    A handle follows its version: it sees this process's commits at once and
    other machines' after ``max_staleness_seconds``, or after :meth:`refresh`.
    A pinned one stays at its commit and cannot write.

    Parameters
    ----------
    root : Root
    version : Version
    record : Record
        The commit to begin with.
    pinned : bool
        Whether to stay there.
    """

    # No other attributes: a slip such as a.shpae = ... is an error.
    __slots__ = (
        "__weakref__", "_generation", "_line", "_max_staleness_seconds", "_pinned", "_root", "_version",
    )  # fmt: skip

    def __init__(self, root: Root, version: Version, record: Record, *, pinned: bool) -> None:
        self._root = root
        self._version = version
        self._pinned = record if pinned else None
        self._line, self._generation = record.head.line, record.head.generation
        # Resolving the settings reads a file: too long for the handles that a read of rows makes.
        self._max_staleness_seconds = math.inf if pinned else config.current().max_staleness_seconds

    @property
    def name(self) -> str:
        """``owner/name``."""
        return self._version.name.home

    @property
    def version(self) -> str:
        """The version's name, such as ``main`` or ``v1``."""
        return self._version.name.version

    @property
    def kind(self) -> str:
        """The kind of the version: ``array`` or ``table``."""
        return self._record().head.kind

    @property
    def tags(self) -> dict[str, int]:
        """Commit numbers by tag, as of the commit that this handle reads."""
        return dict(self._record().tags)

    @property
    def commit(self) -> int:
        """The number of the commit that this handle reads."""
        return self._record().head.number

    @property
    def fixed(self) -> bool:
        """Whether this handle stays at its commit and cannot write, as one of ``name@number`` or :meth:`snapshot`."""
        return self._pinned is not None

    @property
    def frozen(self) -> bool:
        """Whether the version is frozen."""
        return self._record().head.frozen

    @property
    def root(self) -> Root:
        """The root it lives under."""
        return self._root

    @property
    def stats(self) -> Stats:
        """Counts of this process's requests to the root and of its caches; :func:`hubarray.stats` has all roots."""
        return self._version.fetcher.stats()

    def refresh(self) -> Self:
        """Look for newer commits now: one request when there are none. Returns the handle itself.

        Raises
        ------
        NotFoundError
            The version was deleted, or deleted and created again.
        """
        if self._pinned is None:
            self._checked(self._version.refresh())
        return self

    def log(self) -> Iterator[Commit]:
        """The commits of this version, from this handle's commit back to the first; lazy."""
        return timeline.history(self._version, self._record())

    def _record(self) -> Record:
        if self._pinned is not None:
            return self._pinned
        return self._view(self._checked(self._version.current(self._max_staleness_seconds)))

    def _view(self, record: Record) -> Record:
        """A record of the version as this handle sees it; one on a part of a version has another view."""
        return record

    def _checked(self, record: Record) -> Record:
        if record.head.kind == "deleted":
            raise NotFoundError(f"{self._version.name}: was deleted at commit {record.head.number}")
        if record.head.line != self._line:
            raise NotFoundError(f"{self._version.name}: was deleted and created again; load it again")
        if record.head.generation != self._generation:
            raise ConflictError(f"{self._version.name}: was overwritten since it was opened here; load it again")
        return record

    def _writable_record(self) -> Record:
        if self._pinned is not None:
            raise ReadOnlyError(
                f"{self._pinned.name}: a fixed commit can only be read; load {self._version.name} to write"
            )
        return self._record()

    def _commit(
        self,
        operation: Operation,
        base: Record,
        message: str | None = None,
        *,
        packs: PackWriter | None = None,
        began: float | None = None,
    ) -> None:
        commit(self._version, operation, base=base, message=message, packs=packs, began=began)


def seen_record(handle: Handle) -> Record:
    """Return the record of the commit that a handle reads. Costs a probe if the last one is too long ago."""
    return handle._record()


def newest_record(handle: Handle) -> tuple[Version, Record]:
    """Look for the newest commit, to write on it. Costs one request.

    Raises
    ------
    ReadOnlyError, NotFoundError, ConflictError
    """
    handle._writable_record()
    return handle._version, handle._view(handle._checked(handle._version.refresh()))


def commit_operation(
    handle: Handle,
    operation: Operation,
    base: Record,
    message: str | None = None,
    *,
    packs: PackWriter | None = None,
    began: float | None = None,
) -> None:
    """Commit an operation on a record that a handle saw. Costs as in :func:`hubarray.history.commits.commit.commit`."""
    handle._commit(operation, base, message, packs=packs, began=began)


def unpickled(root: Root, name: Name, number: int, *, pinned: bool) -> tuple[Version, Record]:
    """The version of a handle that was pickled, and a commit no older than that it was at; pinned, that one.

    Costs one request, none if this process knows the commit.
    """
    version = version_of(root, name)
    known = version.last_seen
    if not pinned and known is not None and known.head.number >= number:
        return version, known
    record = version.cached(number)
    if not pinned:
        # It counts as old: the first use looks for newer commits.
        version.observe(record, float("-inf"))
    return version, record
