"""Filling an array out of sight and showing it when it is whole: a version of its own is copied, without its data."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hubarray import catalog
from hubarray.arrays.array import Array
from hubarray.arrays.attributes import checked_attrs
from hubarray.arrays.write import Replace
from hubarray.errors import AlreadyExistsError, ConflictError, HubError, NotFoundError
from hubarray.history import copying, transaction
from hubarray.history.version import Version, version_of
from hubarray.lookup import newest
from hubarray.names import Name
from hubarray.process import uptime_seconds
from hubarray.storage.url import Root

NOTE = "hubarray.staging"


def staging_name(name: Name, what: str, *, own: bool) -> str:
    """The version that is filled: ``<version>.importing`` and the like; with ``own`` one that nobody else fills."""
    return str(replace(name, version=f"{name.version}.{what}" + (f"-{secrets.token_hex(4)}" if own else "")))


@contextlib.contextmanager
def removed_on_failure(name: str, root: Root) -> Iterator[None]:
    """Remove a staging version that nobody can go on with where filling it fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(HubError):
            catalog.delete(name, root=root)
        raise


def left_over(name: str, root: Root) -> Array | None:
    """What an earlier attempt left under a staging name.

    Raises
    ------
    AlreadyExistsError
        It is not an attempt's, but somebody's array.
    """
    try:
        there = catalog.load(name, root=root)
    except NotFoundError:
        return None
    if NOTE not in there.attrs:
        raise AlreadyExistsError(f"{name}: is needed for a while, and is an array of yours; choose another version")
    return there


def publish(staging: Array, name: Name, *, attrs: Mapping[str, Any], message: str, overwrite: bool = False) -> Array:
    """Give the filled array its name and its attributes, in one commit, and remove the staging version.

    With ``overwrite`` a version that exists begins a new generation; its old commits stay in the log.

    Raises
    ------
    AlreadyExistsError, ConflictError
        Somebody else made it meanwhile, or removed what was filled.
    """
    root, kept = staging.root, checked_attrs(attrs)
    try:
        while not _published(staging, version_of(root, name), kept, message, overwrite):
            pass
    except NotFoundError as error:
        raise ConflictError(f"{name}: somebody else is making it too ({error})") from error
    with contextlib.suppress(NotFoundError):
        catalog.delete(f"{staging.name}:{staging.version}", root=root)
    return catalog.load(str(name), root=root)


def _published(staging: Array, version: Version, attrs: dict[str, Any], message: str, overwrite: bool) -> bool:
    """One attempt; False if another one's overwriting came between, so that the next one is on top of that."""
    began = uptime_seconds()
    record, base = staging.refresh()._record(), newest(version)
    if base is None or base.head.kind == "deleted":
        _, ours = copying.copy(staging._version, record, version, base=base, message=message, began=began, attrs=attrs)
        if ours:
            return True
    if not overwrite:
        raise AlreadyExistsError(f"{version.name}: somebody else created it meanwhile")
    if base is None or base.head.kind == "deleted":
        return False
    try:
        transaction.commit(version, Replace(record, attrs), base=base, message=message, began=began)
    except ConflictError:
        now = newest(version)
        if now is None or now.head.generation == base.head.generation:
            raise
        return False
    return True
