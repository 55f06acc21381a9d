"""Filling an array out of sight and showing it when it is whole: a version of its own is copied, without its data."""

from __future__ import annotations

from dataclasses import replace

from hubarray import catalog
from hubarray.arrays.array import Array
from hubarray.errors import AlreadyExistsError, ConflictError, NotFoundError
from hubarray.names import Name
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


def publish(staging: Array, name: Name, *, message: str, overwrite: bool = False) -> Array:
    """Give the filled array its name, and remove the staging version."""
    staged = f"{staging.name}:{staging.version}"
    try:
        if overwrite and catalog.exists(str(name), root=staging.root):
            catalog.delete(str(name), root=staging.root, message="overwritten")
        array = catalog.copy(staged, str(name), root=staging.root, message=message)
        catalog.delete(staged, root=staging.root)
    except NotFoundError as error:
        raise ConflictError(f"{name}: somebody else is making it too ({error})") from error
    return array
