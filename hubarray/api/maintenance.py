"""Collect, compact, verify, repair, measure and transfer versions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hubarray.api import registry
from hubarray.api.resolve import RootLike, checked_grace, existing, locate, suggestions
from hubarray.blobs.fetch import fetcher_for
from hubarray.errors import ConfigError, HubError, NotFoundError, ReadOnlyError
from hubarray.history.commits.commit import commit
from hubarray.history.log import listing
from hubarray.history.log.version import Version, version_of
from hubarray.history.maintenance import garbage, staging_versions
from hubarray.history.maintenance import repair as repairing
from hubarray.history.maintenance import transfer as transferring
from hubarray.history.maintenance import verify as verification
from hubarray.history.maintenance.compact import MAX_MOVED_CHUNKS, Compact, Compaction, packs_of, worth_moving
from hubarray.history.maintenance.garbage import CollectionReport
from hubarray.history.maintenance.repair import RepairReport
from hubarray.history.maintenance.transfer import TransferReport
from hubarray.history.maintenance.usage import StorageUsage, usage
from hubarray.history.maintenance.verify import VerifyReport
from hubarray.history.records.record import record_key
from hubarray.process import uptime_seconds
from hubarray.redaction import shown_url
from hubarray.storage.url import resolve

MAX_AFFECTED = 1000


def collect_garbage(
    name: str, *, grace_seconds: float | None = None, dry_run: bool = False, root: RootLike = None
) -> CollectionReport:
    """Remove packs and manifest nodes that nothing needs: of expired commits, failed writes and deleted versions.

    This is safe while writers, readers of live commits, copies and other collectors run. It removes nothing that is
    younger than the grace period. It reads every live record and manifest node of the name and of its copies, and says
    so on stderr before it starts. It deletes what killed writers of tables left in versions beside the table, after
    four grace periods.

    Parameters
    ----------
    name : str
        ``owner/name``, without a version, because versions share data.
    grace_seconds : float, optional
        A longer grace period than that of the name (7 days by default). It cannot be shortened.
    dry_run : bool
        Only report what would be removed.

    Returns
    -------
    CollectionReport

    Raises
    ------
    CorruptDataError
        Something that may protect objects is not readable. Nothing was removed.
    NotFoundError
    """
    where, parsed = locate(name, root)
    if parsed.version_given:
        raise ConfigError(
            f"{shown_url(name)}: garbage is collected for all versions of a name, which share data: {parsed.home}"
        )
    # A writer that died before its first commit has left packs under a name that nobody else knows.
    if not listing.versions_of(where.store, parsed) and next(iter(where.store.list(f"{parsed.home}/")), None) is None:
        raise NotFoundError(f"{parsed.home}: there is no such name under {where.url}{suggestions(where, parsed)}")
    grace = None if grace_seconds is None else checked_grace(grace_seconds)
    if not dry_run:
        staging_versions.remove_abandoned(fetcher_for(where), parsed.home)
    return garbage.collect(fetcher_for(where), parsed.home, grace_seconds=grace, dry_run=dry_run)


def compact(name: str, *, dry_run: bool = False, root: RootLike = None, message: str | None = None) -> Compaction:
    """Rewrite chunks of mostly dead packs, and chunks that are scattered over many packs, as a commit.

    Elements do not change. Data of older commits stays until they expire and :func:`collect_garbage` has run, so
    expire, compact, collect is the order that frees the most space. A pack is mostly dead if live commits of all
    versions need less than half of its bytes. Neighboring chunks are scattered if reading them takes more than four
    times as many requests as it would if they were side by side.

    Costs reading every record and manifest node of the name and of its copies, and reading and writing the chunks that
    move.

    Parameters
    ----------
    name : str
        ``owner/name:version``. Data that it shares with another name does not move. Data that it shares with another
        version of the same name is written again, so compacting both stores it twice.
    dry_run : bool
        Only report what would be rewritten.

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
    version, record = existing(where, parsed)
    registry.kind_of(record).require_compactable(version)
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


def verify(name: str, *, data: bool = True, root: RootLike = None) -> VerifyReport:
    """Read everything that live commits of a name reach, without caches, and report what is wrong.

    Parameters
    ----------
    name : str
        ``owner/name`` for all versions, or ``owner/name:version`` for one.
    data : bool
        Whether to read every blob and compare its hash, which costs as much as reading all the data, and to check the
        index and the locations of tables. If not, only records and manifest nodes are read, and the sizes of packs
        compared.
    root : str, path or Root, optional

    Returns
    -------
    VerifyReport
        Its ``problems`` are empty if everything is right.

    Raises
    ------
    NotFoundError
        Nothing is stored under this name.

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
        versions = [version for version in versions if version.version == parsed.version]
    if not versions:
        raise NotFoundError(f"{shown_url(name)}: there is nothing under {where.url}{suggestions(where, parsed)}")
    report = verification.verify(fetcher_for(where), versions, data=data, check=registry.check)
    if data and not report.problems:
        _note_unreadable([version_of(where, version) for version in versions], report)
    if report.damage.refs:
        report.affected += _affected([version_of(where, version) for version in versions], report)
    return report


def _note_unreadable(versions: list[Version], report: VerifyReport) -> None:
    """Add problems that hashes do not show: the author of a record may have named objects that are not pieces of it."""
    for version in versions:
        record = version.newest()
        if record is not None and record.head.kind != "deleted":
            for what in registry.unreadable(version, record):
                report.add(record_key(record.name, record.head.number), what)


def _affected(versions: list[Version], report: VerifyReport) -> Iterator[str]:
    """The data in the newest commit of each version that the damage of a report harms, as far as it can be read."""
    damaged = verification.distinct_refs(report.damage.refs)
    for version in versions:
        try:
            record = version.newest()
            if record is None or record.head.kind == "deleted":
                continue
            lines = list(itertools.islice(registry.affected(version, record, damaged), MAX_AFFECTED + 1))
        except HubError as error:
            lines = [f"more, which cannot be listed: {error}"]
        yield from (f"{version.name}: {line}" for line in lines[:MAX_AFFECTED])
        if len(lines) > MAX_AFFECTED:
            yield f"{version.name}: and more"


def repair(name: str, *, root: RootLike = None) -> RepairReport:
    """Restore missing or altered data that exists elsewhere, and report what does not.

    Hints and referrers are rewritten. A chunk is restored from any version or commit, of this name or of one that
    shares its data, that holds the same bytes. Chunks, manifest nodes and records are also restored from the disk cache
    of this machine. Hashes identify everything, so wrong data is never restored. Costs :func:`verify` with all data,
    twice if something was restored.

    Parameters
    ----------
    name : str
        ``owner/name``, for all its versions.

    Returns
    -------
    RepairReport
        Its ``problems`` list what is still wrong, each with a remedy.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.array(3, "docs/repaired:v0")[:] = 1
    >>> hub.repair("docs/repaired")
    RepairReport(repaired=[], problems=[])
    """
    where, parsed = locate(name, root)
    if parsed.version_given:
        raise ConfigError(
            f"{shown_url(name)}: all versions of a name are repaired together, as they share data: {parsed.home}"
        )
    if not listing.versions_of(where.store, parsed):
        raise NotFoundError(f"{parsed.home}: there is no such name under {where.url}{suggestions(where, parsed)}")
    return repairing.repair(fetcher_for(where), parsed.home, check=registry.check)


def du(name: str, *, root: RootLike = None) -> StorageUsage:
    """Count the bytes of a version: its own, those it shares, and those that its folder keeps for others.

    Parameters
    ----------
    name : str
        ``owner/name:version``. For a deleted version, the result tells what is held for which names.
    root : str, path or Root, optional

    Returns
    -------
    StorageUsage

    Raises
    ------
    NotFoundError, CorruptDataError

    Notes
    -----
    Costs reading every record and manifest node of the name and of the names that refer to it, and no data.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(1000, "docs/counted:v0", dtype="uint8", chunks=1000, codec="none")
    >>> a[:] = 1
    >>> hub.du("docs/counted:v0")
    StorageUsage(own=1000, shared=0, held=0, logical=1000, holders=(), dead=0)
    """
    where, parsed = locate(name, root)
    version = version_of(where, parsed)
    record = version.newest()
    if record is None:
        version, record = existing(where, parsed)
    deleted = record.head.kind == "deleted"
    return usage(version, record, 0 if deleted else registry.kind_of(record).logical_bytes(record))


def transfer(name: str, to: RootLike, *, root: RootLike = None) -> TransferReport:
    """Send a version, with its history, to another root; data that is already there is not sent again.

    The target may already have the beginning of the same history. Packs and manifest nodes are checked while they are
    sent. If a transfer is interrupted, call it again to continue. Until then, the target has the complete commits.

    Parameters
    ----------
    name : str
        ``owner/name:version``.
    to : str, path or Root
        The target.
    root : str, path or Root, optional
        The root of ``name``.

    Returns
    -------
    TransferReport

    Raises
    ------
    ConflictError
        The target has commits that the source does not have. Nothing was sent.
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
