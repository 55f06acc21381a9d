"""Reading everything that a name's live commits reach, and saying what is wrong with it.

Nothing is taken from a cache, and one problem does not end the search.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hubarray.blobs.coalesce import RangeRequest, plan_runs
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, Refs, blob_hash, blob_key, blob_names, matches
from hubarray.blobs.scheduling import run_all
from hubarray.errors import CorruptDataError, FormatVersionError, ObjectMissingError
from hubarray.history.log.hints import MAX_HINT_BYTES, decode_hint, hint_key
from hubarray.history.log.log import Log
from hubarray.history.maintenance.reachability import readable, walk
from hubarray.history.records.manifest import NodeRef, decode_node
from hubarray.history.records.record import RECORD_NAME, Record, record_key
from hubarray.history.records.referrers import notes
from hubarray.names import Name
from hubarray.progress import progress

_SHOWN_GAP = 1000


@dataclass(frozen=True)
class Problem:
    """One object that is not as a live commit needs it.

    Attributes
    ----------
    key : str
        The object's key under the root.
    what : str
        Its problem.
    """

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


@dataclass
class Damage:
    """The problems of a report as :mod:`hubarray.history.maintenance.repair` needs them.

    Attributes
    ----------
    refs : list of REF
        Blobs that are missing or altered.
    nodes : list of NodeRef
    records : list of (Name, int)
        Records that are missing or altered.
    hints : list of Name
        Versions whose hint cannot be read.
    referrers : set of (str, str)
        Homes that lack a referrer, and the name that should have left it.
    reached : array of REF
        Every blob that was looked for.
    """

    refs: list[Refs] = field(default_factory=list)
    nodes: list[NodeRef] = field(default_factory=list)
    records: list[tuple[Name, int]] = field(default_factory=list)
    hints: list[Name] = field(default_factory=list)
    referrers: set[tuple[str, str]] = field(default_factory=set)
    reached: Refs = field(default_factory=lambda: np.zeros(0, REF))


@dataclass
class VerifyReport:
    """The findings of :func:`hubarray.verify`.

    Attributes
    ----------
    problems : list of Problem
        Each missing, truncated or altered object; empty when all is well.
    records, nodes, blobs : int
        How many were looked at.
    bytes : int
        Stored bytes of the blobs.
    affected : list of str
        For tables, the affected partition, group and rows.
    """

    problems: list[Problem] = field(default_factory=list)
    records: int = 0
    nodes: int = 0
    blobs: int = 0
    bytes: int = 0
    affected: list[str] = field(default_factory=list)
    damage: Damage = field(default_factory=lambda: Damage(), repr=False)

    def add(self, key: str, what: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(key, what))


Check = Callable[[Record], object]


def verify(fetcher: Fetcher, versions: list[Name], *, data: bool, check: Check) -> VerifyReport:
    """Check the records, nodes and blobs that versions reach.

    Parameters
    ----------
    fetcher : Fetcher
    versions : list of Name
    data : bool
        Whether every blob is read and hashed; else only the packs' sizes are looked at.
    check : callable
        Raises CorruptDataError or FormatVersionError of a record whose description its kind cannot read.
    """
    report = VerifyReport()
    refs: list[Refs] = []
    records = [record for name in versions for record in _records(fetcher, name, report)]
    # Many records may have the same description.
    lone = {node.key: node for record in records for node in record.lone_nodes}
    run_all((node.length, partial(_check_object, fetcher, node, report)) for node in lone.values())
    damaged = {node.key for node in report.damage.nodes}
    for record in records:
        refs.append(record.overlay.refs[record.overlay.refs["length"] > 0])
        if damaged.intersection(node.key for node in record.lone_nodes):
            continue
        try:
            check(record)
        except (CorruptDataError, FormatVersionError) as error:
            report.add(record_key(record.name, record.head.number), str(error))

    _check_referrers(fetcher, records, report)

    def load(node: NodeRef, level: int) -> np.ndarray | None:
        data = _check_object(fetcher, node, report)
        if data is None:
            return None
        try:
            return decode_node(data, level, node, fetcher.store.where(node.key))
        except CorruptDataError as error:
            report.add(node.key, str(error))
            return None

    walk(records, load, refs.append)
    distinct = distinct_refs(refs)
    report.damage.reached = distinct
    report.blobs, report.bytes = len(distinct), int(distinct["length"].sum())
    _check_blobs(fetcher, distinct, report, data=data)
    report.problems.sort(key=str)
    return report


def _check_referrers(fetcher: Fetcher, records: list[Record], report: VerifyReport) -> None:
    """Every foreign home that a live record reaches has to know of it, or its collector takes the data for garbage."""
    names = {f"{record.head.owner}/{record.head.name}" for record in records}
    needed = {(home, record.homes[0]) for record in records for home in record.homes[1:]}
    for home in sorted({home for home, _ in needed} | names):
        known: set[str] = set()
        for info, note in notes(fetcher.store, home):
            if isinstance(note, CorruptDataError):
                report.add(info.key, f"the referrer cannot be read ({note}), so nothing of {home} is collected")
            else:
                known.add(note)
        for _, referrer in sorted(
            reference for reference in needed if reference[0] == home and reference[1] not in known
        ):
            report.add(f"{home}/referrers/", f"nothing there protects the data that {referrer} reads")
            report.damage.referrers.add((home, referrer))


def distinct_refs(refs: list[Refs]) -> Refs:
    """Each ref once, by pack and offset."""
    return np.unique(np.concatenate([np.zeros(0, REF), *refs]).view(f"V{REF.itemsize}")).view(REF)


def _records(fetcher: Fetcher, name: Name, report: VerifyReport) -> Iterator[Record]:
    """The live records of a version that can be read; what is wrong with its log goes into the report."""
    log = Log(fetcher.store, name)
    # The hint first: what is committed after the listing is not missing from it.
    hinted = _hinted(fetcher, name, report)
    folder = f"{name.home}/log/{name.version}/"
    matches = [RECORD_NAME.fullmatch(info.key.removeprefix(folder)) for info in fetcher.store.list(folder)]
    numbers = sorted(int(match.group(1)) for match in matches if match)
    for below, after in itertools.pairwise([0, *numbers, max([0, *numbers[-1:], hinted]) + 1]):
        # Whoever wrote a record or hint may have given it any number, so a gap may be endless.
        for number in range(below + 1, min(after, below + 1 + _SHOWN_GAP)):
            report.add(record_key(name, number), "the record is missing")
            report.damage.records.append((name, number))
        if after - below - 1 > _SHOWN_GAP:
            report.add(record_key(name, after - 1), f"and {after - below - 1 - _SHOWN_GAP:,} records before it, too")
    records: dict[int, Record] = {}

    def read(number: int) -> None:
        try:
            records[number] = log.read(number)
        except (CorruptDataError, FormatVersionError, ObjectMissingError) as error:
            report.add(record_key(name, number), str(error))
            report.damage.records.append((name, number))

    run_all((1 << 16, partial(read, number)) for number in numbers)
    report.records += len(numbers)
    for number, record in sorted(records.items()):
        before = records.get(number - 1)
        if before is not None and before.head.kind != "expired" and record.head.parent != before.digest:
            report.add(record_key(name, number), "does not follow the record before it: one of the two was exchanged")
    yield from readable(dict(sorted(records.items())))


def _hinted(fetcher: Fetcher, name: Name, report: VerifyReport) -> int:
    try:
        number = decode_hint(fetcher.store.get(hint_key(name), 0, MAX_HINT_BYTES + 1))
    except ObjectMissingError:
        return 0
    if number is None:
        report.add(hint_key(name), "not a hint; the next commit replaces it")
        report.damage.hints.append(name)
    return number or 0


def _check_object(fetcher: Fetcher, node: NodeRef, report: VerifyReport) -> bytes | None:
    report.nodes += 1
    try:
        data = bytes(fetcher.store.get(node.key, 0, node.length + 1))
    except ObjectMissingError:
        report.add(node.key, "the object is missing")
        report.damage.nodes.append(node)
        return None
    if len(data) != node.length or blob_hash(data) != node.digest:
        report.add(node.key, f"does not match its hash ({len(data)} bytes, {node.length} expected)")
        report.damage.nodes.append(node)
        return None
    return data


def _check_blobs(fetcher: Fetcher, refs: Refs, report: VerifyReport, *, data: bool) -> None:
    runs = plan_runs(blob_names(refs)) if data else _whole_packs(refs)
    with progress(report.bytes, "verifying") as bar:

        def check(run: RangeRequest) -> None:
            (_check_run if data else _check_size)(fetcher, refs, run, report)
            bar.update(run.length)

        run_all((run.length if data else 1, partial(check, run)) for run in runs)


def _whole_packs(refs: Refs) -> list[RangeRequest]:
    """One run a pack, up to the last byte that is needed."""
    return plan_runs(blob_names(refs), max_run_bytes=1 << 62, max_gap_bytes=1 << 62)


def _check_size(fetcher: Fetcher, refs: Refs, run: RangeRequest, report: VerifyReport) -> None:
    key = blob_key(refs[run.members[0]])
    try:
        size = fetcher.store.head(key).size_bytes
    except ObjectMissingError:
        report.add(key, "the pack is missing")
        report.damage.refs.append(refs[run.members])
        return
    if size < run.start + run.length:
        report.add(key, f"the pack has {size} bytes and {run.start + run.length} are needed")
        members = refs[run.members]
        report.damage.refs.append(members[members["offset"] + members["length"] > size])


def _check_run(fetcher: Fetcher, refs: Refs, run: RangeRequest, report: VerifyReport) -> None:
    key = blob_key(refs[run.members[0]])
    try:
        data = memoryview(fetcher.store.get(key, run.start, run.length))
    except ObjectMissingError:
        report.add(key, "the pack is missing")
        report.damage.refs.append(refs[run.members])
        return
    for i in run.members:
        begin = int(refs[i]["offset"]) - run.start
        if not matches(refs[i], data[begin : begin + int(refs[i]["length"])]):
            end = int(refs[i]["offset"]) + int(refs[i]["length"])
            report.add(key, f"bytes {int(refs[i]['offset'])} to {end} do not match their hash")
            report.damage.refs.append(refs[i : i + 1])
