"""From the arguments of the public functions to roots, names and versions, and what to say when there is none."""

from __future__ import annotations

import difflib
import os

from hubarray import names
from hubarray.errors import ConfigError, HubError, NotFoundError, TagNotFoundError
from hubarray.history.log import listing
from hubarray.history.log.version import Version, version_of
from hubarray.history.records.head import MAX_GRACE_SECONDS
from hubarray.history.records.record import Record
from hubarray.names import Name
from hubarray.redaction import shown_url
from hubarray.storage.url import Root, resolve

RootLike = str | os.PathLike[str] | Root | None

_SHOWN_NAMES = 5


def locate(name: str, root: RootLike, *, commit_allowed: bool = False) -> tuple[Root, Name]:
    """The root and the name that the arguments of a public function mean; a tag becomes the number it names."""
    url, rest = names.split_root(name)
    parsed = names.parse(rest, commit_allowed=commit_allowed)
    if url is not None and root is not None:
        raise ConfigError(f"{shown_url(name)}: the name has a root in it, so root= cannot be given too")
    where = resolve(url if url is not None else root)
    if parsed.tag is None:
        return where, parsed
    try:
        return where, parsed.at(version_of(where, parsed).tagged(parsed.tag))
    except TagNotFoundError:
        raise
    except NotFoundError as error:
        raise TagNotFoundError(f"{parsed}: {error}{suggestions(where, parsed)}") from None


def existing(root: Root, name: Name) -> tuple[Version, Record]:
    """Return a version and its newest record, or raise NotFoundError with similar names."""
    version = version_of(root, name)
    record = version.newest()
    if record is None or record.head.kind == "deleted":
        state = "was deleted" if record else f"there is no such version under {root.url}"
        raise NotFoundError(f"{name.at(None)}: {state}{suggestions(root, name)}")
    return version, record


def checked_grace(seconds: float) -> float:
    """A grace period, or ConfigError."""
    known = not isinstance(seconds, bool) and isinstance(seconds, (int, float))
    if not known or not 0 < seconds <= MAX_GRACE_SECONDS:
        raise ConfigError(f"grace_seconds={seconds!r}: give a number of seconds above 0, at most a hundred years")
    return float(seconds)


def suggestions(root: Root, name: Name) -> str:
    """Names that the caller may have meant, as the end of an error message."""
    try:
        versions = [
            version.version for version in listing.versions_of(root.store, name) if listing.is_live(root.store, version)
        ]
        if versions:
            return f". {name.home} has {', '.join(f':{version}' for version in versions)}"
        others = [other for other in listing.names_of(root.store, name.owner) if other != name.name]
        owners = [] if others else [owner for owner in listing.owners_of(root.store) if owner != name.owner]
    except (HubError, OSError):
        # A neighbour that is damaged must not stand before what went wrong here.
        return ""
    if len(others) >= _SHOWN_NAMES:
        others = difflib.get_close_matches(name.name, others, n=_SHOWN_NAMES, cutoff=0.5)
    if others:
        return f". Names there: {', '.join(f'{name.owner}/{other}' for other in others)}"
    owners = owners if len(owners) <= _SHOWN_NAMES else difflib.get_close_matches(name.owner, owners, n=_SHOWN_NAMES)
    return f". {name.owner} has no other names; owners here: {', '.join(owners)}" if owners else ""
