"""Looking after what lives under names: going back, merging, letting go, collecting, checking."""

from __future__ import annotations

import operator
from typing import Any

from hubarray import kinds, names
from hubarray.arrays.array import Array
from hubarray.blobs.fetch import fetcher_for
from hubarray.errors import ConfigError, ConflictError, NotFoundError, ReadOnlyError
from hubarray.history import garbage, listing, operations, timeline
from hubarray.history import repair as repairing
from hubarray.history import transfer as transferring
from hubarray.history import verify as verification
from hubarray.history.commit import commit, create_version
from hubarray.history.compact import MAX_MOVED_CHUNKS, Compact, Compaction, packs_of, worth_moving
from hubarray.history.garbage import Garbage
from hubarray.history.record import Record
from hubarray.history.repair import Repair
from hubarray.history.transfer import Transferred
from hubarray.history.verify import Report
from hubarray.history.version import Version, version_of
from hubarray.lookup import RootLike, checked_grace, existing, locate, suggestions
from hubarray.process import uptime_seconds
from hubarray.shown import shown_url
from hubarray.storage.url import Root, resolve


def restore(name: str, commit: int | str, *, root: RootLike = None, message: str | None = None) -> Array:
    """Make an older commit's state the newest one, as a commit of its own; nothing in between is lost.

    Elements, shape and attributes become those of ``name@commit``; no data
    moves. Open arrays follow, unless the old commit was of another array
    (before an ``overwrite=True``): then they have to be loaded again. Also
    brings back a deleted version.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    commit : int or str
        The number of the commit to go back to, or its tag.

    Raises
    ------
    NotFoundError
        There is no such commit, or it is a deletion.
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
    old = version.to_build_on(number)
    if old.head.kind == "deleted":
        raise NotFoundError(f"{old.name}: is a deletion; restore an earlier commit")
    operation = operations.Restore(old, only_onto)
    if newest.head.kind == "deleted":
        record, ours = create_version(version, operation.draft(newest), base=newest, message=message, began=began)
        if not ours:
            raise ConflictError(f"{version.name}: somebody else created it meanwhile; nothing was written")
    else:
        record = commit(version, operation, base=newest, message=message, began=began)
    restored: Array = kinds.handle(where, version, record)
    return restored


def undo(name: str, *, steps: int = 1, root: RootLike = None, message: str | None = None) -> Array:
    """Take back the newest change: make the state before it the newest one. Undoing twice redoes, but for a deletion.

    Commits that changed nothing of the array are passed over: tags, expiry, freezing, compaction.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    steps : int
        How many changes are taken back.

    Raises
    ------
    NotFoundError
        Nothing was changed since the creation, or since a deletion.
    ConflictError
        Somebody else committed meanwhile, so the newest commit is another one. Nothing was written.

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
        while before and state.head.kind != "deleted" and _same_state(version, version.to_build_on(before), state):
            before -= 1
        if not before:
            done = f"only {step} changes were made" if step else "nothing was changed"
            raise NotFoundError(f"{parsed}: {done} since it was created; delete it instead")
        state = version.to_build_on(before)
    return _restore(where, version, before, newest, message=message, only_onto=number)


def _same_state(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits of a version show the same."""
    return old.head.kind == new.head.kind and kinds.kind_of(new).same_state(version, old, new)


def _newest(where: Root, version: Version) -> Record:
    """The newest record, a deletion too, or NotFoundError with what may have been meant."""
    try:
        return version.refresh()
    except NotFoundError as error:
        raise NotFoundError(f"{error}{suggestions(where, version.name)}") from None


def _counted(value: Any, what: str) -> int:
    """A number from 1, of whatever integer type."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ConfigError(f"{what}={value!r}: give a number, 1 or more{', or a tag' if what == 'commit' else ''}")
    return number


def merge_version(
    source: str, *, into: str, on_conflict: str | None = None, root: RootLike = None, message: str | None = None
) -> Array:
    """Bring the changes that a copied version has seen into the version it was copied from, or the other way.

    Three ways: what either side changed since their last merge, or since the copy, is told chunk by chunk from
    refs; where both changed a chunk, element by element. Attributes are merged by key.

    Parameters
    ----------
    source : str
        The version whose changes are wanted, ``owner/name:mine``; it stays as it is.
    into : str
        The version that gets them, as one commit.
    on_conflict : "ours" or "theirs", optional
        Whose elements stay where both sides changed one to different values: those of ``into`` or those of
        ``source``. Without it such elements are a ConflictError that names their regions, and nothing is written.

    Returns
    -------
    Array
        The version merged into.

    Raises
    ------
    ConflictError
        Both changed the same elements or attributes, or resized the same axis; or ``source`` shrank one.
    NotFoundError
        They have no commit in common, or it has expired.

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
    operation = kinds.kind_of(theirs[1]).merge(*theirs, on_conflict)
    record = commit(ours[0], operation, base=ours[1], message=message, began=began)
    merged: Array = kinds.handle(our_root, ours[0], record)
    return merged


def expire(
    name: str,
    *,
    keep_last: int | None = None,
    older_than: Any = None,
    root: RootLike = None,
    message: str | None = None,
) -> int:
    """Let old commits go, as a commit of its own; the newest one always stays.

    Time travel to them, copying them and restoring them ends; their data goes with
    :func:`collect_garbage` once the grace period has passed. Numbers are never used again.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    keep_last : int, optional
        How many of the newest commits stay, at least 1.
    older_than : str or datetime, optional
        Only commits from before this moment go (ISO 8601; UTC unless it says otherwise).

    Returns
    -------
    int
        The number up to which commits have expired.

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
    kept = None if keep_last is None else _counted(keep_last, "keep_last")
    moment = None if older_than is None else timeline.parse_moment(older_than, what="older_than")
    where, parsed = locate(name, root)
    version, record = existing(where, parsed)
    number = garbage.expired_up_to(record, version.log, keep_last=kept, older_than=moment)
    return commit(version, operations.Expire(number), base=record, message=message).head.expired_to


def collect_garbage(
    name: str, *, grace_seconds: float | None = None, dry_run: bool = False, root: RootLike = None
) -> Garbage:
    """Remove packs and manifest nodes that nothing needs: of expired commits, failed writes, deleted versions.

    Safe beside running writers, readers of live commits, copiers and a second collector. Nothing younger than the
    grace period goes. Reads every live record and manifest node of the name and of the names
    that were copied from it, and says so on the error stream before it starts.

    Parameters
    ----------
    name : str
        ``owner/name``; a version is not taken, because versions share data.
    grace_seconds : float, optional
        Longer than the grace period the name was created with (default 7 days); it cannot be shortened.
    dry_run : bool
        Only report what would go.

    Returns
    -------
    Garbage

    Raises
    ------
    CorruptDataError
        Something that may protect objects cannot be read. Nothing was removed.
    NotFoundError
    """
    where, parsed = locate(name, root)
    if parsed.version_given:
        raise ConfigError(
            f"{shown_url(name)}: garbage is collected for all versions of a name, which share data: {parsed.home}"
        )
    if not listing.versions_of(where.store, parsed):
        raise NotFoundError(f"{parsed.home}: there is no such name under {where.url}{suggestions(where, parsed)}")
    grace = None if grace_seconds is None else checked_grace(grace_seconds)
    return garbage.collect(fetcher_for(where), parsed.home, grace_seconds=grace, dry_run=dry_run)


def compact(name: str, *, dry_run: bool = False, root: RootLike = None, message: str | None = None) -> Compaction:
    """Write chunks again, side by side, that lie in mostly dead packs or scattered over many; as a commit.

    Elements stay what they are. What the older commits still need stays until they expire and
    :func:`collect_garbage` has run, so the order that frees most space is expire, compact, collect. A pack counts as
    mostly dead when less than half its bytes are needed by commits that have not expired, of whatever version.
    Neighbouring chunks count as scattered when they take more than four times as many requests as side by side.

    Costs reading every record and manifest node of the name and of those copied from it, and reading
    and writing the chunks that move.

    Parameters
    ----------
    name : str
        ``owner/name:version``. Data that it shares with the name it was copied from does not move; what it shares
        with another version of its own name is written anew, so compacting both stores it twice.
    dry_run : bool
        Only report what would be written again.

    Returns
    -------
    Compaction

    Raises
    ------
    FrozenError, NotFoundError, CorruptDataError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/compacted:v0", dtype="int64")
    >>> a[:] = 5
    >>> hub.compact("docs/compacted:v0")
    Compaction(chunks=0, bytes=0)
    """
    where, parsed = locate(name, root)
    total = Compaction()
    while True:
        began = uptime_seconds()
        version, record = existing(where, parsed)
        packs = packs_of(version.fetcher, parsed.home)
        if dry_run:
            for _, refs in worth_moving(version, record, packs):
                total = total.plus(len(refs), int(refs["length"].sum()))
            return total
        operation = Compact(packs)
        commit(version, operation, base=record, message=message, began=began)
        if not operation.done.chunks:
            return total
        total = total.plus(operation.done.chunks, operation.done.bytes)
        if operation.done.chunks < MAX_MOVED_CHUNKS:
            return total


def verify(name: str, *, data: bool = True, root: RootLike = None) -> Report:
    """Read everything that a name's live commits reach, past every cache, and report what is wrong.

    Parameters
    ----------
    name : str
        ``owner/name`` for all versions, or ``owner/name:version`` for one.
    data : bool
        Whether to read every blob and compare its hash, which costs as much as reading all the data; else only
        records and manifest nodes are read and the packs' sizes compared.
    root : str, path or Root, optional

    Returns
    -------
    Report
        Its ``problems`` are empty when all is well.

    Raises
    ------
    NotFoundError
        There is nothing under this name.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.array(3, "docs/verified:v0")[:] = 1
    >>> hub.verify("docs/verified:v0").problems
    []
    """
    where, parsed = locate(name, root)
    versions = listing.versions_of(where.store, parsed)
    if parsed.version_given:
        versions = [one for one in versions if one.version == parsed.version]
    if not versions:
        raise NotFoundError(f"{shown_url(name)}: there is nothing under {where.url}{suggestions(where, parsed)}")
    return verification.verify(fetcher_for(where), versions, data=data, check=kinds.check)


def repair(name: str, *, root: RootLike = None) -> Repair:
    """Put back what is missing or altered and can be found elsewhere, and say what cannot.

    Hints and referrers are written anew. A chunk is put back from any version or commit, of this name or one that it
    shares data with, that holds the same bytes; chunks, manifest nodes and records also from this machine's disk cache.
    Everything is known by its hash, so nothing wrong can take its place. Costs :func:`verify` with all data, twice
    when something was put back.

    Parameters
    ----------
    name : str
        ``owner/name``; all its versions.

    Returns
    -------
    Repair
        Its ``problems`` are what is still wrong, each with what to do.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.array(3, "docs/repaired:v0")[:] = 1
    >>> hub.repair("docs/repaired")
    Repair(repaired=[], problems=[])
    """
    where, parsed = locate(name, root)
    if parsed.version_given:
        raise ConfigError(
            f"{shown_url(name)}: all versions of a name are repaired together, as they share data: {parsed.home}"
        )
    if not listing.versions_of(where.store, parsed):
        raise NotFoundError(f"{parsed.home}: there is no such name under {where.url}{suggestions(where, parsed)}")
    return repairing.repair(fetcher_for(where), parsed.home, check=kinds.check)


def transfer(name: str, to: RootLike, *, root: RootLike = None) -> Transferred:
    """Bring a version, with its history, to another root; what is there already is not sent again.

    The target's version may exist with the beginning of the same history. Packs and manifest nodes are checked on the
    way. One that was interrupted goes on when it is called again; until then the target has the commits that are whole.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    to : str, path or Root
        Where to.
    root : str, path or Root, optional
        Where from.

    Returns
    -------
    Transferred

    Raises
    ------
    ConflictError
        The target has commits that the source does not have; nothing was sent.
    NotFoundError, CorruptDataError, StorageError

    Examples
    --------
    >>> import tempfile
    >>> import hubarray as hub
    >>> hub.array(3, "docs/transferred:v0", dtype="int64")[:] = 1
    >>> elsewhere = tempfile.mkdtemp()
    >>> hub.transfer("docs/transferred:v0", elsewhere).commits
    2
    >>> hub.load("docs/transferred:v0", root=elsewhere)[:].tolist()
    [1, 1, 1]
    """
    where, parsed = locate(name, root)
    target = resolve(to)
    if target == where:
        raise ConfigError(f"{target.url}: is where {parsed} is already")
    if target.store.read_only:
        raise ReadOnlyError(f"{target.url}: this root can only be read; transfer to another one")
    return transferring.transfer(existing(where, parsed)[0], version_of(target, parsed))
