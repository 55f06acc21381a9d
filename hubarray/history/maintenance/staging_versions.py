"""Filling a version out of sight and showing it when it is whole: a version of its own is copied, without its data."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hubarray.blobs.fetch import Fetcher
from hubarray.errors import AlreadyExistsError, ConflictError, HubError, NotFoundError
from hubarray.history.commits.commit import commit
from hubarray.history.commits.operations import Delete, Replace
from hubarray.history.log.listing import STAGING_NOTE, versions_of
from hubarray.history.log.probes import store_time
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance import copying
from hubarray.history.records.record import Record, record_key
from hubarray.names import Name, parse
from hubarray.process import uptime_seconds

NOTE = STAGING_NOTE
_ABANDONED_GRACES = 4
_OWN = re.compile(r".+\.[a-z]+-[0-9a-f]{8}")


def staging_name(name: Name, what: str, *, own: bool) -> Name:
    """The version that is filled: ``<version>.importing`` and the like; with ``own`` one that nobody else fills."""
    return replace(name, version=f"{name.version}.{what}" + (f"-{secrets.token_hex(4)}" if own else ""))


def left_over(staging: Version) -> Record | None:
    """A staging version that an earlier attempt left.

    Raises
    ------
    AlreadyExistsError
        It is not an attempt's, but somebody's own.
    """
    record = staging.newest()
    if record is None or record.head.kind == "deleted":
        return None
    if NOTE not in record.attrs:
        raise AlreadyExistsError(f"{staging.name}: is needed for a while, and is yours; choose another version")
    return record


def remove(staging: Version) -> None:
    """Delete a staging version, if it is there."""
    record = staging.newest()
    if record is not None and record.head.kind != "deleted":
        commit(staging, Delete(), base=record)


def remove_abandoned(fetcher: Fetcher, home: str) -> int:
    """Delete staging versions of killed attempts that no other attempt can continue.

    Their age tells: an attempt that is at work adds to its version before a part is too old, at half the grace period.

    Returns
    -------
    int
        How many were deleted.
    """
    count = 0
    for name in versions_of(fetcher.store, parse(home)):
        if not _OWN.fullmatch(name.version):
            continue
        version = version_of(fetcher.root, name)
        record = version.newest()
        if record is None or record.head.kind == "deleted" or NOTE not in record.attrs:
            continue
        written = fetcher.store.head(record_key(name, record.head.number)).modified
        age = timedelta() if written is None else store_time(fetcher.store) - written
        if age > _ABANDONED_GRACES * timedelta(seconds=record.head.grace_seconds):
            commit(version, Delete(), base=record)
            count += 1
    return count


@contextlib.contextmanager
def removed_on_failure(staging: Version) -> Iterator[None]:
    """Remove a staging version that nobody can continue, if filling it fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(HubError):
            remove(staging)
        raise


def publish(staging: Version, target: Version, *, attrs: dict[str, Any], message: str, overwrite: bool = False) -> None:
    """Give what was filled its name and its attributes, in one commit, and remove the staging version.

    With ``overwrite`` a version that exists begins a new generation; its old commits stay in the log.

    Raises
    ------
    AlreadyExistsError, ConflictError
        Somebody else has made it in the meantime, or has removed the staged data.
    """
    try:
        while not _published(staging, target, attrs, message, overwrite):
            pass
    except NotFoundError as error:
        raise ConflictError(f"{target.name}: somebody else is creating it too ({error})") from error
    with contextlib.suppress(NotFoundError):
        remove(staging)


def _published(staging: Version, target: Version, attrs: dict[str, Any], message: str, overwrite: bool) -> bool:
    """One attempt; False if another one's overwriting came between, so that the next one is on top of that."""
    began = uptime_seconds()
    record, base = staging.newest(), target.newest()
    if record is None or record.head.kind == "deleted":
        raise ConflictError(
            f"{target.name}: somebody else is creating it too, and has removed the parts that were written"
        )
    if base is None or base.head.kind == "deleted":
        _, ours = copying.copy(staging, record, target, base=base, message=message, began=began, attrs=attrs)
        if ours:
            return True
    if not overwrite:
        raise AlreadyExistsError(f"{target.name}: somebody else has created it in the meantime")
    if base is None or base.head.kind == "deleted":
        return False
    try:
        commit(target, Replace(record, attrs), base=base, message=message, began=began)
    except ConflictError:
        now = target.newest()
        if now is None or now.head.generation == base.head.generation:
            raise
        return False
    return True
