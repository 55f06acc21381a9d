"""Moving a version to another root with its history: the same objects under the same keys.

Order, as for any commit: referrers, then packs and nodes, then the records from the oldest on, then the hint. So a
reader at the target always sees a prefix of the history, and an interrupted transfer can continue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np

from hubarray.blobs.ref import REF, Refs, blob_hash, blob_key, matches
from hubarray.blobs.scheduling import run_all
from hubarray.errors import ConflictError, CorruptDataError, HubError, NotFoundError, ObjectMissingError
from hubarray.history.log.hints import encode_hint, hint_key
from hubarray.history.log.probes import require_atomic_create, store_time
from hubarray.history.log.version import Version
from hubarray.history.maintenance.reachability import read_log, readable, walk
from hubarray.history.records.manifest import NodeRef, decode_node
from hubarray.history.records.record import MAX_RECORD_BYTES, Record, record_key
from hubarray.history.records.referrers import write_referrer
from hubarray.process import uptime_seconds
from hubarray.progress import progress
from hubarray.storage.base import Buffer, ObjectInfo, Store

# What a pack has beside what is reached goes along, as far as packs usually reach.
_USUAL_PACK_BYTES = 64 << 20


@dataclass(frozen=True)
class TransferReport:
    """The amount that a transfer moved.

    Attributes
    ----------
    commits : int
        Records that the target did not have.
    objects, bytes : int
        Packs and manifest nodes that were sent, and their bytes.
    skipped : int
        Packs and nodes that were there already.
    """

    commits: int
    objects: int
    bytes: int
    skipped: int


def transfer(source: Version, target: Version) -> TransferReport:
    """Bring the target's log up to the source's.

    Raises
    ------
    NotFoundError
        The source's version does not exist, or is deleted.
    ConflictError
        The target has a commit that the source does not have.
    CorruptDataError
        An object of the source is missing or altered. The target's log ends before the commits that need it.
    """
    began = uptime_seconds()
    records, _ = read_log(source.store, source.name)
    if not records or records[max(records)].head.kind == "deleted":
        raise NotFoundError(f"{source.name}: there is no such version under {source.store.url}, or it is deleted")
    require_atomic_create(target.store)
    known = _common_prefix(source, target, records)
    readable_now = list(readable(records))
    live = [record for record in readable_now if record.head.number > known]
    objects = _objects(source, live)
    homes = {home for record in live for home in record.homes}
    sizes = {
        info.key: info
        for home in sorted(homes)
        for folder in ("packs", "manifest")
        for info in target.store.list(f"{home}/{folder}/")
    }
    for home in sorted(homes - {target.name.home}):
        write_referrer(target.store, home, target.name.home)
    # What is there and no commit needs yet may be about to be collected, unless it is young: that is sent again.
    held = _objects(source, [record for record in readable_now if record.head.number == known])
    young = store_time(target.store) - timedelta(seconds=_grace(records) / 2) if sizes else None
    old = {
        key for key, info in sizes.items()
        if key in objects and key not in held and young and (info.modified is None or info.modified < young)
    }  # fmt: skip
    missing = {
        key: size_and_name
        for key, size_and_name in objects.items()
        if key in old or _size(sizes.get(key)) < size_and_name[0]
    }
    with progress(sum(size for size, _ in missing.values()), f"transferring {source.name}") as bar:

        def send(key: str, size: int, load: Callable[[], Buffer]) -> None:
            target.store.put(key, load())
            bar.update(size)

        run_all((size, partial(send, key, size, load)) for key, (size, load) in missing.items())
    _extend_log(source, target, records, known, began)
    for key in sorted(old):
        # A collector that had listed it before it was sent again may have taken it; none that begins now will.
        try:
            target.store.head(key)
        except ObjectMissingError:
            target.store.put(key, objects[key][1]())
    return TransferReport(
        len(records) - known, len(missing), sum(size for size, _ in missing.values()), len(objects) - len(missing)
    )


def _size(info: ObjectInfo | None) -> int:
    return -1 if info is None else info.size_bytes


def _grace(records: dict[int, Record]) -> float:
    return min(record.head.grace_seconds for record in records.values())


def _objects(source: Version, records: list[Record]) -> dict[str, tuple[int, Callable[[], Buffer]]]:
    """Every node and pack that records reach, with its size (of a pack: at least) and what loads it."""
    nodes, packs = _reached(source, records)
    objects: dict[str, tuple[int, Callable[[], Buffer]]] = {
        node.key: (node.length, partial(_node, source, node)) for node in nodes
    }
    for key, refs in packs.items():
        size = int((refs["offset"] + refs["length"]).max())
        objects[key] = (size, partial(_pack, source.store, key, refs))
    return objects


def _common_prefix(source: Version, target: Version, records: dict[int, Record]) -> int:
    """The number of the target's newest record, which has to be the source's too; 0 if it has none."""
    try:
        newest = target.log.newest()
    except NotFoundError:
        return 0
    number = newest.head.number
    same = (
        number in records
        and records[number].head.id == newest.head.id
        and records[number].head.line == newest.head.line
    )
    if not same:
        raise ConflictError(
            f"{target.name}: {target.store.url} has commit {number}, which is not part of the history of "
            f"{source.store.url}; nothing was sent. Copy to another version instead: hub.copy"
        )
    return number


def _reached(source: Version, records: list[Record]) -> tuple[list[NodeRef], dict[str, Refs]]:
    """Every node that records reach, and the refs into every pack."""
    # Many records may have the same description.
    nodes = list({node.key: node for record in records for node in record.lone_nodes}.values())
    ref_parts: list[Refs] = [record.overlay.refs[record.overlay.refs["length"] > 0] for record in records]

    def load(node: NodeRef, level: int) -> np.ndarray:
        nodes.append(node)
        return decode_node(_node(source, node), level, node, source.store.where(node.key))

    walk(records, load, ref_parts.append)
    refs = np.concatenate([*ref_parts, np.zeros(0, REF)])
    packs: dict[str, Any] = {}
    if len(refs):
        order = np.lexsort((refs["offset"], *refs["pack"].T, refs["home"]))
        refs = refs[order]
        apart = np.flatnonzero(
            (refs["pack"][1:] != refs["pack"][:-1]).any(axis=1) | (refs["home"][1:] != refs["home"][:-1])
        )
        for group in np.split(refs, apart + 1):
            packs[blob_key(group[0])] = group
    return nodes, packs


def _node(source: Version, node: NodeRef) -> Buffer:
    return source.fetcher.object(node.key, node.length, node.digest)


def _pack(store: Store, key: str, refs: Refs) -> Buffer:
    """A pack's bytes, every blob of it that is reached checked."""
    try:
        needed = int((refs["offset"] + refs["length"]).max())
        data = memoryview(store.get(key, 0, max(needed, _USUAL_PACK_BYTES)))
    except ObjectMissingError:
        raise CorruptDataError(
            f"{store.where(key)}: a commit names this object and it is gone; hub.repair may help"
        ) from None
    for ref in refs:
        begin = int(ref["offset"])
        if not matches(ref, data[begin : begin + int(ref["length"])]):
            raise CorruptDataError(
                f"{store.where(key)}: bytes {begin} to {begin + int(ref['length'])} do not match their hash; "
                "hub.repair may help"
            )
    return data


def _extend_log(source: Version, target: Version, records: dict[int, Record], known: int, began: float) -> None:
    grace, newest = _grace(records), None
    for number in range(known + 1, max(records) + 1):
        if uptime_seconds() - began > grace / 2:
            raise HubError(
                f"{target.name}: sending took longer than half the grace period of {grace:,.0f} s, so what was "
                f"sent may be collected; {number - 1} commits are there. Transfer again: what is there is skipped"
            )
        key = record_key(target.name, number)
        data = source.store.get(record_key(source.name, number), 0, MAX_RECORD_BYTES)
        if source.log.decode(data, number).digest != records[number].digest:
            raise ConflictError(f"{source.store.where(key)}: was exchanged while it was sent; transfer again")
        if not target.store.put_if_absent(key, data) and blob_hash(target.store.get(key, 0, MAX_RECORD_BYTES)) != (
            blob_hash(data)
        ):
            raise ConflictError(f"{target.store.where(key)}: somebody else has committed {number} in the meantime")
        newest = target.log.decode(data, number)
    target.store.put(hint_key(target.name), encode_hint(max(records)), no_store=True)
    if newest is not None:
        # Handles of this process see it at once.
        target.observe(newest)
