"""Copy, freeze, delete, restore, undo and merge versions, and expire old commits."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from hubarray import names
from hubarray.api import registry
from hubarray.api.resolve import RootLike, existing, locate, suggestions
from hubarray.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError, ReadOnlyError
from hubarray.history.commits import operations
from hubarray.history.commits.commit import commit, create_version
from hubarray.history.log import listing, timeline
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance import copying, garbage
from hubarray.history.maintenance.usage import holders_of
from hubarray.history.records.record import Record
from hubarray.process import uptime_seconds
from hubarray.progress import progress
from hubarray.storage.url import Root

if TYPE_CHECKING:
    from hubarray.handles.array import Array


def copy(src: str, dst: str, *, root: RootLike = None, message: str | None = None) -> Any:
    """Make a new version with the contents of a version or commit, without copying data.

    The two are independent: writing to one never changes the other.

    Parameters
    ----------
    src : str
        A version, or a commit by its number or tag: ``owner/name:v0@12``.
    dst : str
        Must not exist.
    root : str, path or Root, optional
        Root of names without a URL. Between different roots, and if the folder of the source cannot be written, the
        data is copied.
    message : str, optional

    Returns
    -------
    Array, Dataset or Table
        The copy. Its log starts at 1 and names the source commit.

    Raises
    ------
    NotFoundError, AlreadyExistsError
    """
    source_root, source_name = locate(src, root, commit_allowed=True)
    target_root, target_name = locate(dst, root)
    if target_root.store.read_only:
        raise ReadOnlyError(f"{target_root.url}: this root can only be read; copy to another root")
    source = version_of(source_root, source_name)
    began = uptime_seconds()
    record = source.base_record(source_name.commit) if source_name.commit else existing(source_root, source_name)[1]
    if record.head.kind == "deleted":
        raise NotFoundError(f"{source_name}: is deleted at this commit; copy an earlier one")
    target = version_of(target_root, target_name)
    base = target.newest()
    if base is not None and base.head.kind != "deleted":
        raise AlreadyExistsError(f"{target_name}: exists already; delete it first, or copy to another version")
    frozen = record.head.frozen and registry.kind_of(record).BORN_FROZEN
    created, ours = copying.copy(source, record, target, base=base, message=message, began=began, frozen=frozen)
    if not ours:
        raise AlreadyExistsError(f"{target_name}: somebody else has created it in the meantime")
    made: Array = registry.handle(target_root, target, created)
    return made


def freeze(name: str, *, root: RootLike = None, message: str | None = None) -> None:
    """Make a version immutable. Every later write, append or resize raises FrozenError.

    This is one commit, which cannot be undone. Freezing a frozen version does nothing. You can delete a frozen version,
    and create its name again. Handles of the frozen version never show data of the new array. They do not look for
    newer commits, because no commit can change an element, so they notice a deletion only at ``refresh()``.
    """
    where, parsed = locate(name, root)
    version, record = existing(where, parsed)
    commit(version, operations.Freeze(), base=record, message=message)


def delete(name: str, *, root: RootLike = None, message: str | None = None) -> list[str]:
    """Delete a version, ``owner/name:v1``, or all versions of a name, ``owner/name``.

    This is one commit per version. From then on, readers and writers on every machine get NotFoundError; handles of a
    frozen version get it when they are refreshed. Past commits can be read until their data is collected, after the
    grace period.

    Returns
    -------
    list of str
        Other names that read the data of this name, because they were copied from it or share its blocks. The data
        stays as long as they need it; :func:`hubarray.du` counts it as held. Other versions of the same name keep
        shared data, too, and are not in the list. ``du`` reports them before the deletion.

    Raises
    ------
    NotFoundError
        Nothing is stored under this name.
    """
    where, parsed = locate(name, root)
    if parsed.version_given:
        doomed = [parsed]
    else:
        doomed = [
            version for version in listing.versions_of(where.store, parsed) if listing.is_live(where.store, version)
        ]
        if not doomed:
            raise NotFoundError(f"{parsed.home}: there is no such name under {where.url}{suggestions(where, parsed)}")
    with progress(len(doomed), f"deleting {parsed.home}", unit="version") as bar:
        for version_name in doomed:
            version, record = existing(where, version_name)
            commit(version, operations.Delete(), base=record, message=message)
            bar.update(1)
    return holders_of(where.store, parsed.home)


def restore(name: str, commit: int | str, *, root: RootLike = None, message: str | None = None) -> Any:
    """Make the state of an older commit the newest one, as a new commit. The commits in between stay.

    Elements, shape and attributes become those of ``name@commit``, without copying data. Open arrays follow. If the
    commit belongs to another array (before an ``overwrite=True``), load the array again. This also restores a deleted
    version.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    commit : int or str
        The number or tag of the commit to restore.

    Raises
    ------
    NotFoundError
        The commit does not exist, or is a deletion.
    FrozenError, ConflictError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/restored:v0", dtype="int64")
    >>> a[:] = 5
    >>> hub.restore("docs/restored:v0", 1)[:]
    array([0, 0, 0])
    """
    where, parsed = locate(name, root)
    version = version_of(where, parsed)
    newest = _newest(where, version)
    number = version.tagged(names.checked_tag(commit)) if isinstance(commit, str) else _counted(commit, "commit")
    return _restore(where, version, number, newest, message=message)


def _restore(
    where: Root, version: Version, number: int, newest: Record, *, message: str | None, only_onto: int | None = None
) -> Array:
    began = uptime_seconds()
    old = version.base_record(number)
    if old.head.kind == "deleted":
        raise NotFoundError(f"{old.name}: is a deletion; restore an earlier commit")
    operation = operations.Restore(old, only_onto)
    if newest.head.kind == "deleted":
        record, ours = create_version(version, operation.draft(newest), base=newest, message=message, began=began)
        if not ours:
            raise ConflictError(f"{version.name}: somebody else has created it in the meantime; nothing was written")
    else:
        record = commit(version, operation, base=newest, message=message, began=began)
    restored: Array = registry.handle(where, version, record)
    return restored


def undo(name: str, *, steps: int = 1, root: RootLike = None, message: str | None = None) -> Any:
    """Undo the newest change: make the state before it the newest one. Undoing twice redoes, except for a deletion.

    Commits that do not change the array are skipped: tags, expiry, freezing and compaction.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    steps : int
        How many changes to undo.

    Raises
    ------
    NotFoundError
        Nothing has changed since the creation, or since a deletion.
    ConflictError
        Somebody else has committed in the meantime. Nothing was written.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/undone:v0", dtype="int64")
    >>> a[:] = 5
    >>> hub.undo("docs/undone:v0")[:]
    array([0, 0, 0])
    """
    where, parsed = locate(name, root)
    version = version_of(where, parsed)
    newest = _newest(where, version)
    number, before, state = newest.head.number, newest.head.number, newest
    for step in range(_counted(steps, "steps")):
        before -= 1
        while before and state.head.kind != "deleted" and _same_state(version, version.base_record(before), state):
            before -= 1
        if not before:
            done = f"only {step} changes were made" if step else "nothing was changed"
            raise NotFoundError(f"{parsed}: {done} since it was created; delete it instead")
        state = version.base_record(before)
    return _restore(where, version, before, newest, message=message, only_onto=number)


def _same_state(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits of a version show the same."""
    return old.head.kind == new.head.kind and registry.kind_of(new).same_state(version, old, new)


def _newest(where: Root, version: Version) -> Record:
    """The newest record, a deletion too, or NotFoundError with what may have been meant."""
    try:
        return version.refresh()
    except NotFoundError as error:
        raise NotFoundError(f"{error}{suggestions(where, version.name)}") from None


def merge_version(
    source: str, *, into: str, on_conflict: str | None = None, root: RootLike = None, message: str | None = None
) -> Any:
    """Merge the changes of a copied version into its original, or the other way around.

    This is a three-way merge. Changes since the last merge, or since the copy, are found by comparing chunk refs. If
    both sides changed a chunk, its elements are compared. Attributes are merged by key.

    Parameters
    ----------
    source : str
        The version with the changes, ``owner/name:mine``. It does not change.
    into : str
        The version that receives them, as one commit.
    on_conflict : "ours" or "theirs", optional
        Which value to keep if both sides changed an element: that of ``into`` ("ours") or of ``source`` ("theirs").
        Without it, such elements raise a ConflictError that names their regions, and nothing is written.

    Returns
    -------
    Array, Dataset or Table
        The version ``into``.

    Raises
    ------
    ConflictError
        Both changed the same elements or attributes, or resized the same axis, or ``source`` shrank an axis.
    NotFoundError
        The versions have no commit in common, or it has expired.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array((4, 2), "docs/merged:v1", dtype="int64")
    >>> mine = hub.copy("docs/merged:v1", "docs/merged:mine")
    >>> mine[0] = 1
    >>> a[3] = 3
    >>> hub.merge_version("docs/merged:mine", into="docs/merged:v1")[:, 0].tolist()
    [1, 0, 0, 3]
    """
    their_root, their_name = locate(source, root)
    our_root, our_name = locate(into, root)
    if their_root != our_root:
        raise ConfigError("merge_version works within one root; copy the version over first")
    began = uptime_seconds()
    theirs, ours = existing(their_root, their_name), existing(our_root, our_name)
    operation = registry.kind_of(theirs[1]).merge(*theirs, on_conflict)
    record = commit(ours[0], operation, base=ours[1], message=message, began=began)
    merged: Array = registry.handle(our_root, ours[0], record)
    return merged


def expire(
    name: str,
    *,
    keep_last: int | None = None,
    older_than: Any = None,
    root: RootLike = None,
    message: str | None = None,
) -> int:
    """Expire old commits, as a new commit. The newest commit always stays.

    Expired commits can no longer be read, copied or restored. :func:`collect_garbage` removes their data after the
    grace period. Numbers are never reused.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    keep_last : int, optional
        How many of the newest commits to keep, at least 1.
    older_than : str or datetime, optional
        Expire only commits before this time (ISO 8601, UTC by default).

    Returns
    -------
    int
        All commits up to this number have expired.

    Raises
    ------
    ConfigError
        Neither ``keep_last`` nor ``older_than`` is given.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/expired:v0")
    >>> for i in range(3):
    ...     a[i] = 1
    >>> hub.expire("docs/expired:v0", keep_last=2)
    2
    """
    if keep_last is None and older_than is None:
        raise ConfigError("expire: say how many commits stay (keep_last=) or which go (older_than=)")
    keep_count = None if keep_last is None else _counted(keep_last, "keep_last")
    moment = None if older_than is None else timeline.parse_moment(older_than, what="older_than")
    where, parsed = locate(name, root)
    version, record = existing(where, parsed)
    number = garbage.expired_up_to(record, version.log, keep_last=keep_count, older_than=moment)
    return commit(version, operations.Expire(number), base=record, message=message).head.expired_to


def _counted(value: Any, what: str) -> int:
    """A number from 1, of whatever integer type."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ConfigError(f"{what}={value!r}: give a number, 1 or more{', or a tag' if what == 'commit' else ''}")
    return number
