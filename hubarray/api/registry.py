"""Kinds of versions, which register themselves: what each can do, and the class of the handle that users get.

Code that opens, compares or merges versions uses this registry. No other code chooses by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hubarray import process
from hubarray.blobs.ref import Refs
from hubarray.errors import AlreadyExistsError, FormatVersionError, NotFoundError
from hubarray.history.commits.commit import Operation
from hubarray.history.log.version import Version, version_of
from hubarray.history.records.record import Record, record_key
from hubarray.names import Name
from hubarray.redaction import with_article
from hubarray.storage.url import Root

Side = tuple[Version, Record]


class Kind(Protocol):
    """The functions that a kind's module has.

    Attributes
    ----------
    BORN_FROZEN : bool
        Whether versions of the kind are usually frozen from the first, so that a copy of a frozen one is frozen.
    """

    BORN_FROZEN: bool

    def check(self, record: Record) -> None:
        """Raise CorruptDataError or FormatVersionError if the record describes nothing of this kind."""

    def diff(self, before: Side, after: Side, *, elements: bool, on: Sequence[str] | None) -> Any:
        """Where two records differ, by refs alone or element by element; ``on`` pairs rows by fields of theirs."""

    def same_state(self, version: Version, old: Record, new: Record) -> bool:
        """Whether two commits of a version show the same."""

    def summary(self, handle: Any) -> tuple[str, str]:
        """How large it is and of which type, each in a word or two."""

    def facts(self, handle: Any) -> dict[str, Any]:
        """Facts about it, as JSON; names that end in ``_bytes`` are numbers of bytes."""

    def logical_bytes(self, record: Record) -> int:
        """Return the bytes of its contents, including those that other versions store."""

    def require_compactable(self, version: Version) -> None:
        """Raise ConfigError if compaction makes no sense for the kind."""

    def unreadable(self, version: Version, record: Record) -> Iterable[str]:
        """The parts that are as their hashes say, and that no reader can make sense of."""

    def affected(self, version: Version, record: Record, damaged: Refs) -> Iterable[str]:
        """The data that damaged blobs are of, in its own terms; nothing where the keys say enough."""

    def merge(self, version: Version, record: Record, on_conflict: str | None) -> Operation:
        """The operation that brings a record's changes into the version it is committed to."""


@dataclass(frozen=True)
class Registration:
    """A kind, and the classes that users get.

    Attributes
    ----------
    kind : Kind
    handle : type
        Made of a root, a version, a record and ``pinned=``.
    row_loader : type, optional
        For tables, the class of the loader of some of their rows.
    """

    kind: Kind
    handle: type[Any]
    row_loader: type[Any] | None = None


_registered: dict[str, Callable[[], Registration]] = {}


def register(kind: str, registration: Callable[[], Registration]) -> None:
    """Register a kind. The function imports what it returns when a version of the kind is first opened."""
    _registered[kind] = registration


def kind_of(record: Record) -> Kind:
    """Return the kind of a record that is not a deletion.

    Raises
    ------
    FormatVersionError
        This hubarray does not know it.
    """
    return _registration_of(record).kind


def _registration_of(record: Record) -> Registration:
    if record.head.kind not in _registered:
        raise FormatVersionError(
            f"{record_key(record.name, record.head.number)}: is of the kind {record.head.kind!r}, which this hubarray "
            "cannot open; upgrade hubarray"
        )
    return _registration(record.head.kind)


def require(record: Record, kind: str, remedy: str) -> None:
    """Refuse to build on a version that is of another kind.

    Raises
    ------
    AlreadyExistsError
    """
    stored_kind = record.head.kind
    if stored_kind != kind:
        raise AlreadyExistsError(
            f"{record.name.at(None)}: exists, and is {with_article(stored_kind)} and no {kind}; {remedy}"
        )


def _registration(kind: str) -> Registration:
    with process.importing:
        return _registered[kind]()


def row_loader(numbers: Any, names: Any, root: Root | None) -> Any:
    """The loader of rows, given by their numbers in each table, and the names of their index's columns."""
    loader: Any = _registration("table").row_loader
    return loader(numbers, names, root)


def of(handle: Any) -> Kind:
    """The kind of a handle."""
    return _registration(handle.kind).kind


def check(record: Record) -> None:
    """Raise CorruptDataError or FormatVersionError of a record whose description its kind cannot read."""
    kind_of(record).check(record)


def unreadable(version: Version, record: Record) -> Iterable[str]:
    """The parts of a record that are as their hashes say, and that no reader can make sense of."""
    return kind_of(record).unreadable(version, record)


def affected(version: Version, record: Record, damaged: Refs) -> Iterable[str]:
    """The data that damaged blobs are of, in the terms of the record's kind."""
    return kind_of(record).affected(version, record, damaged)


def handle(root: Root, version: Version, record: Record) -> Any:
    """The handle on a version, which follows what is committed."""
    return _handle(root, version, record, pinned=False)


def _handle(root: Root, version: Version, record: Record, *, pinned: bool) -> Any:
    return _registration_of(record).handle(root, version, record, pinned=pinned)


def opened(root: Root, name: Name) -> Any:
    """The handle on a version, or on one commit of it.

    Raises
    ------
    NotFoundError
    """
    version = version_of(root, name)
    record = version.reopen() if name.commit is None else version.cached(name.commit)
    if record.head.kind == "deleted":
        if name.commit is not None:
            raise NotFoundError(f"{name}: at this commit the version was deleted; an earlier one can be read")
        # Such as "renamed to lab/scans:v2".
        note = f" ({record.head.message})" if record.head.message else ""
        raise NotFoundError(
            f"{name}: was deleted at commit {record.head.number}{note}; its earlier commits can be read"
        )
    return _handle(root, version, record, pinned=name.commit is not None)
