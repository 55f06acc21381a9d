"""Expiry and collection: what no live record names any more, and how it goes.

The collector marks everything that live records reach, then deletes what is
neither marked nor younger than the grace period G. What makes that safe beside
running writers, copiers and other collectors is time (``docs/FORMAT.md``, rule 10):
a commit is created within G/2 of its first upload and of reading what it builds
on, and a mark is acted upon within G/2, so whatever a commit builds on was
either marked or is too young.

All ages are the store's: Last-Modified of the object against Last-Modified of an
object written just before the mark.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import ID_TEXT, Refs, homes
from hubarray.errors import NotFoundError, StorageError
from hubarray.history.log.listing import versions_of
from hubarray.history.log.log import Log
from hubarray.history.log.probes import PROBE_FOLDER, store_time
from hubarray.history.maintenance.reachability import read_log, strictly, walk
from hubarray.history.records.head import Head
from hubarray.history.records.manifest import NodeRef
from hubarray.history.records.record import Record, encode_stub, record_key
from hubarray.history.records.referrers import referrers
from hubarray.names import Name, parse
from hubarray.process import uptime_seconds
from hubarray.progress import announce
from hubarray.storage.base import ObjectInfo, Store

DELETE_BATCH = 500
MAX_MARKS = 3


log = logging.getLogger("hubarray.history")


@dataclass
class CollectionReport:
    """The amount that a collection removed, or with ``dry_run`` would remove.

    Attributes
    ----------
    packs, nodes, referrers : int
        Objects of each kind.
    leftovers : int
        Temporary files and probes of processes that were killed.
    commits : int
        Expired commits whose state was given up.
    bytes : int
        Stored bytes of the objects.
    """

    packs: int = 0
    nodes: int = 0
    referrers: int = 0
    leftovers: int = 0
    commits: int = 0
    bytes: int = 0


@dataclass
class _Log:
    """One version's log, as the mark found it."""

    name: Name
    records: dict[int, Record]
    dead: set[int]

    @property
    def roots(self) -> list[Record]:
        """The records whose chunks have to be kept."""
        live_records = (record for number, record in self.records.items() if number not in self.dead)
        return [record for record in live_records if record.head.kind not in ("deleted", "expired")]


@dataclass
class _Mark:
    """The live objects of one home, as far as they are found."""

    cutoff: datetime
    began: float
    logs: list[_Log]
    nodes: set[str] = field(default_factory=set)
    packs: set[bytes] = field(default_factory=set)
    roots: list[Record] = field(default_factory=list)
    idle_referrers: list[str] = field(default_factory=list)


def collect(fetcher: Fetcher, home: str, *, grace_seconds: float | None, dry_run: bool) -> CollectionReport:
    """Remove what no live record reaches from a home.

    Parameters
    ----------
    fetcher : Fetcher
    home : str
        ``owner/name``.
    grace_seconds : float or None
        At least the grace period of the name's records, which is the default.
    dry_run : bool
        Only say what would go.

    Raises
    ------
    CorruptDataError
        Something that may protect objects cannot be read; then nothing is removed.
    """
    for _ in range(MAX_MARKS):
        grace = _grace(fetcher, home, grace_seconds)
        mark = _marked(fetcher, home, grace)
        garbage = _swept(fetcher, home, mark, grace, dry_run=dry_run)
        if garbage is not None:
            return garbage
        log.info("%s: the mark is older than half the grace period; marking again", home)
    raise StorageError(
        f"{fetcher.store.where(home)}: collecting takes longer than half the grace period of {grace:.0f} s; "
        "give a longer one with grace_seconds="
    )


def _grace(fetcher: Fetcher, home: str, asked_seconds: float | None) -> float:
    """The longest grace period of the home's versions and of those that refer to it: all judge by the same."""
    grace, known = asked_seconds or 0.0, False
    for referring_home in sorted({home} | {referrer for _, referrer in referrers(fetcher.store, home)}):
        for name in versions_of(fetcher.store, parse(referring_home)):
            # A folder without a record is what a writer left that was killed, or has not come to its record yet.
            with contextlib.suppress(NotFoundError):
                grace, known = max(grace, Log(fetcher.store, name).newest().head.grace_seconds), True
    # Where no record says it, a writer may be about to write the first.
    return grace if known or asked_seconds is not None else Head.grace_seconds


def _marked(fetcher: Fetcher, home: str, grace_seconds: float) -> _Mark:
    began = uptime_seconds()
    cutoff = store_time(fetcher.store) - timedelta(seconds=grace_seconds)
    own = [_read_log(fetcher.store, name, cutoff) for name in versions_of(fetcher.store, parse(home))]
    mark = _Mark(cutoff, began, own)
    notes = referrers(fetcher.store, home)
    names = sorted({referrer for _, referrer in notes})
    announce(
        f"collecting {home}: reading {sum(len(mark.records) for mark in own)} records, those of "
        f"{len(names)} names that refer to it, and every manifest node they reach; what is younger than "
        f"{grace_seconds:,.0f} s stays"
    )
    reached: set[str] = set()
    for record in (record for mark in own for record in mark.roots):
        _note(record, home, mark)
    for referrer in names:
        for name in versions_of(fetcher.store, parse(referrer)):
            for record in _read_log(fetcher.store, name, cutoff).roots:
                if home in record.homes:
                    reached.add(referrer)
                    _note(record, home, mark)
    load = strictly(fetcher)

    def visit(node: NodeRef, level: int) -> np.ndarray | None:
        if node.home == home:
            mark.nodes.add(node.id)
        return load(node, level)

    walk(mark.roots, visit, lambda refs: _note_refs(refs, home, mark))
    mark.idle_referrers = [info.key for info, referrer in notes if referrer not in reached and _is_older(info, cutoff)]
    return mark


def _is_older(info: ObjectInfo, cutoff: datetime) -> bool:
    return info.modified is not None and info.modified < cutoff


def _read_log(store: Store, name: Name, cutoff: datetime) -> _Log:
    """Every record of a version, and which of them are dead."""
    records, infos = read_log(store, name)
    old = [number for number, info in infos.items() if number in records and _is_older(info, cutoff)]
    return _Log(name, records, dead_numbers(records, old))


def dead_numbers(records: Mapping[int, Record], old: Collection[int]) -> set[int]:
    """Which records of a log are dead. Pure.

    Parameters
    ----------
    records : mapping
        All records by number.
    old : collection of int
        Those that are older than the grace period.

    Returns
    -------
    set of int
        What had expired, or was deleted, by a record older than the grace period. Not the newest record,
        and not what a tag has named within the grace period.
    """
    newest = max(records, default=0)
    if newest in old and records[newest].head.kind == "deleted":
        return set(records) - {newest}
    dead_to = max((records[number].head.expired_to for number in old), default=0)
    # The last old record is what stood when the grace period began.
    recent = {newest, max(old, default=newest), *(set(records) - set(old))}
    tagged = {commit for number in recent if number in records for commit in records[number].tags.values()}
    return {number for number in records if number <= dead_to} - tagged - {newest}


def _note(record: Record, home: str, mark: _Mark) -> None:
    _note_refs(record.overlay.refs, home, mark)
    mark.nodes.update(node.id for node in record.lone_nodes if node.home == home)
    mark.roots.append(record)


def _note_refs(refs: Refs, home: str, mark: _Mark) -> None:
    ours = refs[(refs["length"] > 0) & (refs["home"] == homes.index(home))]
    mark.packs.update(pack.tobytes() for pack in np.unique(ours["pack"], axis=0))


def _swept(fetcher: Fetcher, home: str, mark: _Mark, grace_seconds: float, *, dry_run: bool) -> CollectionReport | None:
    """Act upon a mark; None if it has become too old to act upon."""
    garbage = CollectionReport()
    store = fetcher.store
    # Records say that they expired before their data goes, so that nobody meets a commit without it.
    for log in mark.logs:
        for number in sorted(log.dead):
            if log.records[number].head.kind != "expired":
                garbage.commits += 1
                if not dry_run:
                    store.put(record_key(log.name, number), encode_stub(log.records[number]), no_store=True)
    for infos, what in _dead_objects(store, home, mark):
        if not dry_run:
            if uptime_seconds() - mark.began > grace_seconds / 2:
                return None
            store.delete([info.key for info in infos])
        _count(garbage, what, infos)
    return garbage


def _dead_objects(store: Store, home: str, mark: _Mark) -> Iterator[tuple[list[ObjectInfo], str]]:
    """Batches of objects that may go, and what kind they are."""
    live = {"packs": {pack.hex() for pack in mark.packs}, "manifest": mark.nodes}
    for folder, live_names in live.items():
        batch: list[ObjectInfo] = []
        for info in store.list(f"{home}/{folder}/"):
            name = info.key.rpartition("/")[2]
            if ID_TEXT.fullmatch(name) and name not in live_names and _is_older(info, mark.cutoff):
                batch.append(info)
            if len(batch) == DELETE_BATCH:
                yield batch, folder
                batch = []
        if batch:
            yield batch, folder
    abandoned = itertools.chain(store.leftovers(f"{home}/"), store.list(f"{PROBE_FOLDER}/"))
    old = [info for info in abandoned if _is_older(info, mark.cutoff)]
    for first in range(0, len(old), DELETE_BATCH):
        yield old[first : first + DELETE_BATCH], "leftovers"
    if mark.idle_referrers:
        yield [ObjectInfo(key, 0, None) for key in mark.idle_referrers], "referrers"


def _count(garbage: CollectionReport, what: str, infos: list[ObjectInfo]) -> None:
    attribute = {"manifest": "nodes"}.get(what, what)
    setattr(garbage, attribute, getattr(garbage, attribute) + len(infos))
    garbage.bytes += sum(info.size_bytes for info in infos)


def expired_up_to(newest: Record, log_: Log, *, keep_last: int | None, older_than: datetime | None) -> int:
    """The number up to which commits expire: all but the newest ``keep_last``, and only those before a moment.

    Costs log2(commits) small requests when a moment is given.
    """
    limit = newest.head.number - max(1, keep_last or 1)
    if older_than is not None:
        low, high = newest.head.expired_to, newest.head.number
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromisoformat(log_.read_head(middle).time) < older_than:
                low = middle
            else:
                high = middle
        limit = min(limit, low)
    return max(limit, newest.head.expired_to)
