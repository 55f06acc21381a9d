"""The operations that ask nothing of what a version holds: tags, expiry, freezing, deletion, taking over a state.

As every operation they can be applied to whatever record is the newest, of whatever kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hubarray.blobs.pack import PackWriter
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, TagNotFoundError
from hubarray.history.commits.draft import Contents, Draft
from hubarray.history.log.version import Version
from hubarray.history.records.record import MAX_TAGS, Record


class AttributeChanges:
    """Some attributes that are set and others that are removed, to be made of whatever attributes there are.

    Parameters
    ----------
    updates : mapping of str to value
    removals : iterable of str

    Examples
    --------
    >>> changes = AttributeChanges({"a": 1}, ["b"])
    >>> changes.change({"b": 2}, ["a"])
    >>> changes.on({"a": 0, "b": 0, "c": 0})
    {'b': 2, 'c': 0}
    """

    def __init__(self, updates: Mapping[str, Any] | None = None, removals: Iterable[str] = ()) -> None:
        self._updates, self._removals = dict(updates or {}), set(removals)

    def __bool__(self) -> bool:
        return bool(self._updates or self._removals)

    def change(self, updates: Mapping[str, Any], removals: Iterable[str]) -> None:
        """Set and remove more."""
        gone = set(removals)
        self._updates = {key: update for key, update in self._updates.items() if key not in gone} | dict(updates)
        self._removals = (self._removals | gone) - updates.keys()

    def on(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes after the changes."""
        return {key: value for key, value in attrs.items() if key not in self._removals} | self._updates


class SetAttributes:
    """Set some attributes and remove others; those of other writers stay."""

    allowed_when_frozen = False
    is_small = True

    def __init__(self, updates: dict[str, Any], removals: tuple[str, ...] = ()) -> None:
        self._changes = AttributeChanges(updates, removals)

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        attrs = self._changes.on(base.attrs)
        if attrs == base.attrs:
            return None
        return Draft(attrs=attrs, message="set attributes")


class Tag:
    """Name a commit for good.

    Parameters
    ----------
    tag : str
    number : int
        A commit that has not expired.
    """

    allowed_when_frozen = True
    is_small = True

    def __init__(self, tag: str, number: int) -> None:
        self._tag = tag
        self._number = number

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        tag = base.tags.get(self._tag)
        if tag == self._number:
            return None
        if tag is not None:
            raise AlreadyExistsError(
                f"{version.name}@{self._tag}: names commit {tag} already; choose another tag, or "
                "remove it with hub.untag"
            )
        if self._number <= base.head.expired_to and self._number not in base.tags.values():
            raise NotFoundError(f"{version.name.at(self._number)}: this commit has expired and cannot be tagged")
        if len(base.tags) >= MAX_TAGS:
            raise ConfigError(f"{version.name}: has {MAX_TAGS} tags already, which is the maximum; remove one first")
        message = f"tag {self._number} {self._tag}"
        tags = base.tags | {self._tag: self._number}
        return Draft(tags=tags, message=message)


class Untag:
    """Take a tag away."""

    allowed_when_frozen = True
    is_small = True

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        if self._tag not in base.tags:
            raise TagNotFoundError(f"{version.name}@{self._tag}: there is no such tag")
        tags = {tag: number for tag, number in base.tags.items() if tag != self._tag}
        return Draft(tags=tags, message=f"untag {base.tags[self._tag]} {self._tag}")


class Expire:
    """Let commits up to a number go; their data follows when it is collected, after the grace period."""

    allowed_when_frozen = True
    is_small = True

    def __init__(self, number: int) -> None:
        self._number = number

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        if self._number <= base.head.expired_to:
            return None
        message = f"expire commits up to {self._number}"
        return Draft(expired_to=self._number, message=message)


class Freeze:
    """Make the version immutable, for good."""

    allowed_when_frozen = True
    is_small = True

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        if base.head.frozen:
            return None
        return Draft(frozen=True, message="freeze")


class Delete:
    """Mark the version as deleted. Its numbers continue if it is created again.

    Parameters
    ----------
    only_onto : int or None
        The number of the commit that this is to follow, if it matters.
    """

    allowed_when_frozen = True
    is_small = True

    def __init__(self, only_onto: int | None = None) -> None:
        self._only_onto = only_onto

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        if self._only_onto not in (None, base.head.number):
            raise ConflictError(f"{version.name}: somebody else has committed {base.head.number} in the meantime")
        return Draft(kind="deleted", description={}, attrs={}, grid=(), frozen=False, message="delete")


class Restore:
    """Make an older record's state the newest one.

    Parameters
    ----------
    old : Record
        Of the same version.
    only_onto : int or None
        The number of the commit that this is to follow, if it matters.
    """

    allowed_when_frozen = False
    is_small = True

    def __init__(self, old: Record, only_onto: int | None = None) -> None:
        self._old = old
        self._only_onto = only_onto

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        return self.draft(base)

    def draft(self, base: Record) -> Draft:
        """The changes to a base, also to a deleted one."""
        old = self._old
        if self._only_onto not in (None, base.head.number):
            raise ConflictError(
                f"{base.name.at(None)}: somebody else has committed {base.head.number} in the meantime; nothing was "
                "written"
            )
        state = state_of(old, fresh=old.head.generation != base.head.generation, message=f"restore {old.name}")
        # What was frozen when it was deleted comes back so.
        return replace(state, frozen=True) if old.head.frozen else state


class Replace:
    """Begin a new generation with the state of another version of the same name; the history stays.

    Parameters
    ----------
    record : Record
        Of that version; live until the commit is made.
    attrs : dict
        In place of that version's attributes.
    """

    allowed_when_frozen = False
    is_small = True

    def __init__(self, record: Record, attrs: dict[str, Any]) -> None:
        self._record = record
        self._attrs = attrs

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        return replace(state_of(self._record, fresh=True, message="overwrite"), attrs=self._attrs)


def state_of(record: Record, *, fresh: bool, message: str) -> Draft:
    """A commit with the state that a record of the same name has."""
    return Draft(
        kind=record.head.kind,
        description=record.description,
        attrs=record.attrs,
        grid=record.grid,
        chunks=Contents.of(record),
        fresh=fresh,
        source=str(record.name),
        message=message,
    )
