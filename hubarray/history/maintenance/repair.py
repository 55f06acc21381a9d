"""Putting back what is missing or altered, from whatever still holds the same bytes.

A blob is known by its hash, so it can be put back from any other place that
has it: a chunk that another version or commit wrote alike, or this machine's disk
cache. The object gets its old key, so that every commit and copy that names
it is whole again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, Blobs, Refs, blob_hash, blob_key, blob_place, matches
from hubarray.errors import CorruptDataError, FormatVersionError, NotFoundError, ObjectMissingError, StorageError
from hubarray.history.log.hints import encode_hint, hint_key
from hubarray.history.log.listing import versions_of
from hubarray.history.log.log import Log
from hubarray.history.log.offline import OfflineRecords
from hubarray.history.maintenance.reachability import walk
from hubarray.history.maintenance.verify import Check, Damage, Problem, distinct_refs, verify
from hubarray.history.records.manifest import NodeRef, decode_node
from hubarray.history.records.record import RECORD_NAME, Record, record_key
from hubarray.history.records.referrers import referrers, write_referrer
from hubarray.names import Name, parse
from hubarray.storage.base import Buffer

_REMEDY = "it cannot be re-created from here: put the object back from a copy of the bucket, or copy an older commit"


@dataclass
class RepairReport:
    """The blobs that :func:`hubarray.repair` put back, and the problems that are left.

    Attributes
    ----------
    repaired : list of Problem
        Problems that are now fixed.
    problems : list of Problem
        Problems that are left, empty if everything is right.
    """

    repaired: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def repair(fetcher: Fetcher, home: str, *, check: Check) -> RepairReport:
    """Look at everything a name's live commits reach and put back what can be found elsewhere.

    Parameters
    ----------
    fetcher : Fetcher
    home : str
        ``owner/name``.
    """
    versions = versions_of(fetcher.store, parse(home))
    problems: dict[str, Problem] = {}
    while True:
        # What a lost record or node leads to shows only once that is back.
        report = verify(fetcher, versions, data=False, check=check)
        problems |= {str(problem): problem for problem in report.problems}
        put_back = [
            _put_back_record(fetcher, *place) for place in sorted(report.damage.records, key=lambda place: -place[1])
        ]
        put_back += [_put_back_node(fetcher, node) for node in report.damage.nodes]
        if not any(put_back):
            break
    for home_of_data, referrer in sorted(report.damage.referrers):
        write_referrer(fetcher.store, home_of_data, referrer)
    for name in report.damage.hints:
        _put_back_hint(fetcher, name)
    report = verify(fetcher, versions, data=True, check=check)
    problems |= {str(problem): problem for problem in report.problems}
    if _put_back_blobs(fetcher, home, report.damage):
        report = verify(fetcher, versions, data=True, check=check)
    left = {str(problem): problem for problem in report.problems}
    return RepairReport(
        [problem for text, problem in sorted(problems.items()) if text not in left],
        [replace(problem, what=f"{problem.what}; {_REMEDY}") for problem in left.values()],
    )


def _put_back_hint(fetcher: Fetcher, name: Name) -> None:
    try:
        newest = Log(fetcher.store, name).newest().head.number
    except (NotFoundError, CorruptDataError, FormatVersionError):
        return
    fetcher.store.put(hint_key(name), encode_hint(newest), no_store=True)


def _put_back_record(fetcher: Fetcher, name: Name, number: int) -> bool:
    """Whether the disk cache has a record, and the one after it calls it its parent."""
    log = Log(fetcher.store, name)
    offline = OfflineRecords(fetcher, log)
    record, data = offline.get(number), offline.encoded(number)
    try:
        if record is None or data is None or log.read(number + 1).head.parent != record.digest:
            return False
    except (CorruptDataError, FormatVersionError, ObjectMissingError):
        return False
    fetcher.store.put(record_key(name, number), data, no_store=True)
    return True


def _put_back_node(fetcher: Fetcher, node: NodeRef) -> bool:
    cached = None if fetcher.disk is None else fetcher.disk.get(f"{fetcher.identity} {node.key}")
    if cached is None or len(cached) != node.length or blob_hash(cached) != node.digest:
        return False
    fetcher.store.put(node.key, cached)
    return True


def _put_back_blobs(fetcher: Fetcher, home: str, damage: Damage) -> bool:
    lost = distinct_refs(damage.refs)
    if not len(lost):
        return False
    alike = _places_by_hash(fetcher, home, lost)
    packs: dict[str, list[np.void]] = {}
    for ref in lost:
        packs.setdefault(blob_key(ref), []).append(ref)
    put_back = False
    for key, refs in packs.items():
        copies = [(ref, blob) for ref in refs if (blob := _intact_copy(fetcher, ref, alike)) is not None]
        if copies:
            _rewrite_pack(fetcher, key, copies, damage.reached)
            put_back = True
    return put_back


def _rewrite_pack(fetcher: Fetcher, key: str, copies: list[tuple[np.void, Buffer]], reached: Refs) -> None:
    """A pack with blobs put back at their places; what is still missing stays so, and its hashes tell."""
    try:
        pack_bytes = bytes(fetcher.store.get(key))
    except ObjectMissingError:
        pack_bytes = b""
    ours = reached[(reached["pack"] == copies[0][0]["pack"]).all(axis=1) & (reached["home"] == copies[0][0]["home"])]
    size = max(len(pack_bytes), int((ours["offset"] + ours["length"]).max()))
    content = bytearray(size)
    content[: len(pack_bytes)] = pack_bytes
    for ref, blob in copies:
        content[int(ref["offset"]) : int(ref["offset"]) + len(blob)] = blob
    fetcher.store.put(key, content)


def _intact_copy(fetcher: Fetcher, ref: np.void, alike: dict[bytes, list[np.void]]) -> Buffer | None:
    """The bytes of a lost blob, from the disk cache or from a place that has the same."""
    cached = fetcher.cached_blob(Blobs.at(blob_place(ref)))
    if cached is not None:
        return cached
    for place in alike.get(ref["hash"].tobytes(), []):
        try:
            data = fetcher.store.get(blob_key(place), int(place["offset"]), int(place["length"]))
        except StorageError:
            continue
        if matches(ref, data):
            return data
    return None


def _places_by_hash(fetcher: Fetcher, home: str, lost: Refs) -> dict[bytes, list[np.void]]:
    """Every place that commits of this name, or of one that shares data with it, have for the lost blobs' hashes."""
    lost_hashes = {ref["hash"].tobytes() for ref in lost}
    copied_refs: list[Refs] = []

    def note(refs: Refs) -> None:
        present = refs[refs["length"] > 0]
        hits = [ref["hash"].tobytes() in lost_hashes for ref in present]
        copied_refs.append(present[np.array(hits, bool)] if hits else np.zeros(0, REF))

    def load(node: NodeRef, level: int) -> np.ndarray | None:
        try:
            data = fetcher.object(node.key, node.length, node.digest)
            return decode_node(data, level, node, fetcher.store.where(node.key))
        except (CorruptDataError, StorageError):
            return None

    records = list(_all_records(fetcher, home))
    for record in records:
        note(record.overlay.refs)
    walk(records, load, note)
    places: dict[bytes, list[np.void]] = {}
    for ref in distinct_refs(copied_refs):
        places.setdefault(ref["hash"].tobytes(), []).append(ref)
    return places


def _all_records(fetcher: Fetcher, home: str) -> Iterator[Record]:
    """Whatever records can be read, of a name and of those it shares data with."""
    seen: set[str] = set()
    waiting = {home}
    with contextlib.suppress(CorruptDataError):
        waiting |= {referrer for _, referrer in referrers(fetcher.store, home)}
    while waiting - seen:
        next_home = min(waiting - seen)
        seen.add(next_home)
        for name in versions_of(fetcher.store, parse(next_home)):
            log = Log(fetcher.store, name)
            for info in fetcher.store.list(f"{next_home}/log/{name.version}/"):
                match = RECORD_NAME.fullmatch(info.key.rpartition("/")[2])
                if match is None:
                    continue
                try:
                    record = log.read(int(match.group(1)))
                except (CorruptDataError, FormatVersionError, ObjectMissingError):
                    continue
                waiting |= set(record.homes)
                if record.head.kind not in ("deleted", "expired"):
                    yield record
