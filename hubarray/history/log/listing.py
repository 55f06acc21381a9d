"""Names and versions that exist under a root, read from its folders."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from hubarray.blobs.scheduling import run_all
from hubarray.errors import CorruptDataError, FormatVersionError, NotFoundError, StorageError, UnavailableError
from hubarray.history.log.log import Log
from hubarray.history.records.record import Record
from hubarray.names import Name, is_part
from hubarray.storage.base import Store

# The attribute of versions that are being filled out of sight.
STAGING_NOTE = "hubarray.staging"

log = logging.getLogger("hubarray.history")


def live_versions(store: Store, owner: str, beginning: str) -> dict[Name, str | None]:
    """Versions that exist, sorted, and why one cannot be opened: of all owners, of one, or by a name's beginning.

    Costs a listing for each owner and name, and up to three requests for each
    version, because a deleted version still has its log.
    """
    candidates = [name for home in homes_of(store, owner, beginning) for name in versions_of(store, home)]
    kinds: dict[Name, str | None] = {}

    def look(name: Name) -> None:
        damage = None
        try:
            if not is_shown(store, name):
                return
        except UnavailableError:
            raise
        except (CorruptDataError, FormatVersionError, StorageError) as error:
            # One damaged version must not hide the others, nor be hidden itself.
            log.warning("%s cannot be opened: %s", name, error)
            damage = str(error)
        kinds[name] = damage

    run_all((1, partial(look, name)) for name in candidates if str(name).startswith(_key_prefix(owner, beginning)))
    return {name: kinds[name] for name in sorted(kinds, key=str)}


def versions_of(store: Store, name: Name) -> list[Name]:
    """Every version of a name that has a log, deleted ones too, sorted: one listing."""
    folder = f"{name.home}/log/"
    return [Name(name.owner, name.name, part) for part in _folders(store, folder)]


def names_of(store: Store, owner: str) -> list[str]:
    """The names of an owner, sorted: one listing."""
    return _folders(store, f"{owner}/")


def owners_of(store: Store) -> list[str]:
    """The owners under a root, sorted: one listing."""
    return _folders(store, "")


def is_live(store: Store, name: Name) -> bool:
    """Whether a version exists and is not deleted.

    Raises
    ------
    CorruptDataError
        Its newest record cannot be read.
    """
    return _live(store, name) is not None


def is_shown(store: Store, name: Name) -> bool:
    """Whether a version exists, and is not one that is being filled for another to appear.

    Raises
    ------
    CorruptDataError
        Its newest record cannot be read.
    """
    newest = _live(store, name)
    return newest is not None and STAGING_NOTE not in newest.attrs


def _live(store: Store, name: Name) -> Record | None:
    try:
        newest = Log(store, name).newest()
    except NotFoundError:
        return None
    return None if newest.head.kind == "deleted" else newest


def homes_of(store: Store, owner: str, beginning: str) -> Iterator[Name]:
    """The names under a root: of all owners, of one, or by a name's beginning. A listing for each owner."""
    for folder in [owner] if owner else owners_of(store):
        for part in names_of(store, folder):
            if part.startswith(beginning.partition(":")[0]):
                yield Name(folder, part)


def _key_prefix(owner: str, beginning: str) -> str:
    return f"{owner}/{beginning}" if owner else ""


def _folders(store: Store, prefix: str) -> list[str]:
    infos = store.list(prefix, shallow=True)
    names = (info.key.removeprefix(prefix).rstrip("/") for info in infos if info.is_folder)
    # What others keep beside, such as "raw data", is no name and none of our concern.
    return sorted(name for name in names if is_part(name))
