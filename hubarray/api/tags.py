"""Tag commits and rename versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubarray import names
from hubarray.api import registry
from hubarray.api.resolve import RootLike, existing, locate
from hubarray.errors import ConfigError, ConflictError, NotFoundError
from hubarray.history.commits import operations
from hubarray.history.commits.commit import commit
from hubarray.history.log.version import version_of
from hubarray.history.maintenance import renaming
from hubarray.process import uptime_seconds

if TYPE_CHECKING:
    from hubarray.handles.array import Array

_RENAMINGS = 5


def tag(name: str, tag: str, *, root: RootLike = None, message: str | None = None) -> int:
    """Name a commit, so that ``name@tag`` reads it and it does not expire until :func:`untag`.

    This is one commit. A tag does not move. It ends with :func:`untag`, or when the version is deleted. A copy has no
    tags. Frozen versions can be tagged.

    Parameters
    ----------
    name : str
        ``owner/name:version`` for its newest commit, or ``owner/name:version@number``.
    tag : str
        A letter, then letters, digits, ``.``, ``_`` and ``-``; at most 128 characters.
    root : str, path or Root, optional
    message : str, optional
        Message of the commit in the log.

    Returns
    -------
    int
        The number of the tagged commit.

    Raises
    ------
    AlreadyExistsError
        The tag names another commit.
    NotFoundError
        The commit does not exist or has expired.
    InvalidNameError, ConfigError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/tagged:v0", dtype="int64")
    >>> a[:] = 5
    >>> hub.tag("docs/tagged:v0", "paper")
    2
    >>> a[:] = 6
    >>> hub.load("docs/tagged:v0@paper")[:]
    array([5, 5, 5])
    """
    checked = names.checked_tag(tag)
    where, parsed = locate(name, root, commit_allowed=True)
    version, record = existing(where, parsed)
    began = uptime_seconds()
    tagged = record if parsed.commit is None else version.base_record(parsed.commit)
    if tagged.head.kind == "deleted":
        raise NotFoundError(f"{parsed}: is a deletion and cannot be tagged")
    operation = operations.Tag(checked, tagged.head.number)
    commit(version, operation, base=record, message=message, began=began)
    return tagged.head.number


def untag(name: str, tag: str, *, root: RootLike = None, message: str | None = None) -> int:
    """Remove a tag, as a commit. Data that only the tag protected may be collected after the grace period.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    tag : str

    Returns
    -------
    int
        The number of the commit that the tag named.

    Raises
    ------
    TagNotFoundError
        The tag does not exist.

    Examples
    --------
    >>> import hubarray as hub
    >>> _ = hub.array(3, "docs/untagged:v0")
    >>> _ = hub.tag("docs/untagged:v0", "draft")
    >>> hub.untag("docs/untagged:v0", "draft")
    1
    >>> hub.tags("docs/untagged:v0")
    {}
    """
    checked = names.checked_tag(tag)
    where, parsed = locate(name, root)
    version, record = existing(where, parsed)
    number = version.tagged(checked)
    commit(version, operations.Untag(checked), base=record, message=message)
    return number


def tags(name: str, *, root: RootLike = None) -> dict[str, int]:
    """Return the tags of a version with the numbers of their commits, sorted by tag.

    Examples
    --------
    >>> import hubarray as hub
    >>> _ = hub.array(3, "docs/tags:v0")
    >>> _ = hub.tag("docs/tags:v0", "empty")
    >>> hub.tags("docs/tags:v0")
    {'empty': 1}
    """
    where, parsed = locate(name, root)
    return dict(sorted(existing(where, parsed)[1].tags.items()))


def rename(name: str, to: str, *, root: RootLike = None, message: str | None = None) -> Any:
    """Rename a version, with its commits, their numbers, times and messages, its tags and its freeze.

    No data moves. It stays in the folder of the old name, protected by a referrer. The records are written again under
    the new name, one small request each, and the old name is deleted last. If the process is killed, the old name is
    still whole, and readers of the new name may see the beginning of the history. Call the function again to continue.

    Parameters
    ----------
    name, to : str
        ``owner/name:version``. ``to`` must never have been used.
    root : str, path or Root, optional
        The root of both names.
    message : str, optional
        Message of the deletion in the log of the old name.

    Raises
    ------
    NotFoundError, AlreadyExistsError
    ConflictError
        Somebody wrote to the new name, or continued to write to the old one.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.array(3, "docs/old-name:v0", dtype="int64")[:] = 5
    >>> hub.rename("docs/old-name:v0", "docs/new-name:v0")[:].tolist()
    [5, 5, 5]
    >>> [commit.number for commit in hub.log("docs/new-name:v0")], hub.exists("docs/old-name:v0")
    ([2, 1], False)
    """
    (where, source_name), (there, target_name) = locate(name, root), locate(to, root)
    if where != there:
        raise ConfigError("rename works within one root; hub.transfer brings a version to another one")
    if source_name.at(None) == target_name.at(None):
        raise ConfigError(f"{source_name}: is already its name")
    source, target = version_of(where, source_name), version_of(where, target_name)
    for _ in range(_RENAMINGS):
        made = renaming.write_anew(source, target)
        if made is None:
            break
        try:
            operation = operations.Delete(only_onto=made.head.number)
            note = message if message is not None else f"renamed to {target_name}"
            commit(source, operation, base=source.refresh(), message=note)
            break
        except ConflictError:
            # Somebody committed under the old name meanwhile: that goes along.
            continue
    else:
        raise ConflictError(
            f"{source_name}: somebody is still writing under this name; everything is under {target_name} too, and "
            "nothing was deleted: rename again when they have stopped"
        )
    renamed: Array = registry.opened(where, target_name)
    return renamed
