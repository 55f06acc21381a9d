"""Filling an array out of sight and showing it when it is whole: a version of its own is copied, without its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hubarray import catalog
from hubarray.arrays.array import Array
from hubarray.arrays.attributes import checked_attrs
from hubarray.arrays.write import Replace
from hubarray.errors import AlreadyExistsError, ConflictError, NotFoundError
from hubarray.history import copying, transaction
from hubarray.history.version import version_of
from hubarray.lookup import newest
from hubarray.names import Name
from hubarray.process import uptime_seconds
from hubarray.storage.url import Root

NOTE = "hubarray.staging"


def staging_name(name: Name, what: str) -> str:
    """The version that is filled: ``<version>.importing`` and the like."""
    return str(replace(name, version=f"{name.version}.{what}"))


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
    began = uptime_seconds()
    root, kept = staging.root, checked_attrs(attrs)
    try:
        record = staging.refresh()._record()
        version = version_of(root, name)
        base = newest(version)
        if base is None or base.head.kind == "deleted":
            _, ours = copying.copy(
                staging._version, record, version, base=base, message=message, began=began, attrs=kept
            )
            if not ours:
                raise AlreadyExistsError(f"{name}: somebody else created it meanwhile")
        elif overwrite:
            transaction.commit(version, Replace(record, kept), base=base, message=message, began=began)
        else:
            raise AlreadyExistsError(f"{name}: somebody else created it meanwhile")
        catalog.delete(f"{staging.name}:{staging.version}", root=root)
        return catalog.load(str(name), root=root)
    except NotFoundError as error:
        raise ConflictError(f"{name}: somebody else is making it too ({error})") from error
