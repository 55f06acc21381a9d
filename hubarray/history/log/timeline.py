"""Commits as users see them: what ``hub.log`` and ``a.log()`` yield."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from hubarray.errors import ConfigError, NotFoundError
from hubarray.history.log.version import Version
from hubarray.history.records.head import Head
from hubarray.history.records.record import Record


@dataclass(frozen=True)
class Commit:
    """One commit of a version.

    Attributes
    ----------
    number : int
        From 1; the first one created the version.
    id : str
        Unique, fixed across retries.
    time : datetime
        UTC; by the committer's clock, but never before the commit before it.
    author, message : str
    kind : str
        ``array`` or ``table``; ``deleted`` for a deletion; ``expired`` when its state is gone.
    frozen : bool
        Whether the version is frozen from here on.
    source : str or None
        For a copy, the commit it was copied from, for a merge or
        a restore the one merged or restored, ``owner/name:version@number``.
    tags : tuple of str
        The tags that name this commit, sorted.
    """

    number: int
    id: str
    time: datetime
    author: str
    message: str
    kind: str
    frozen: bool
    source: str | None
    tags: tuple[str, ...] = ()

    @staticmethod
    def of(head: Head, tags: Mapping[str, int]) -> Commit:
        """The commit that a record's head describes."""
        return Commit(
            head.number,
            head.id,
            datetime.fromisoformat(head.time),
            head.author,
            head.message,
            head.kind,
            head.frozen,
            head.source,
            tuple(sorted(tag for tag, number in tags.items() if number == head.number)),
        )


def history(version: Version, newest: Record) -> Iterator[Commit]:
    """Commits from a record back to the first: one small request each, made when asked for."""
    return (Commit.of(head, newest.tags) for head in version.log.heads(newest.head))


def number_at(version: Version, newest: Record, moment: datetime) -> int:
    """The commit that was the newest at a moment: log2(commits) small requests.

    Raises
    ------
    NotFoundError
        The version did not exist yet.
    """

    class _Times:
        def __len__(self) -> int:
            return newest.head.number

        def __getitem__(self, index: int) -> datetime:
            return datetime.fromisoformat(version.log.read_head(index + 1).time)

    number = bisect.bisect_right(_Times(), moment)
    if number == 0:
        first = version.log.read_head(1).time
        raise NotFoundError(
            f"{version.name}: did not exist yet at {moment.isoformat()}; its first commit was at {first}. A moment "
            "without a time zone is taken as UTC"
        )
    return int(number)


def parse_moment(at: Any, what: str = "at") -> datetime:
    """A moment: a datetime, a date, a datetime64, or ISO 8601 text; without a time zone it is UTC.

    Examples
    --------
    >>> parse_moment("2026-11-01")
    datetime.datetime(2026, 11, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        if isinstance(at, np.datetime64):
            at = at.astype("M8[us]").item()
        elif isinstance(at, date) and not isinstance(at, datetime):
            at = at.isoformat()
        moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{what}={at!r}: give a datetime, or text such as '2026-11-01'; without a time zone it is UTC"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
