"""Count the bytes of a version: its own, those it shares, and those that are kept only for others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import ID_TEXT, REF, Refs, homes
from hubarray.errors import NotFoundError
from hubarray.history.log.listing import versions_of
from hubarray.history.log.log import Log
from hubarray.history.log.version import Version
from hubarray.history.maintenance.reachability import read_log, readable, strictly, walk
from hubarray.history.maintenance.verify import distinct_refs
from hubarray.history.records.record import Record
from hubarray.history.records.referrers import referrers
from hubarray.names import Name, parse
from hubarray.storage.base import Store


@dataclass(frozen=True)
class StorageUsage:
    """The bytes that :func:`hubarray.du` counts.

    Attributes
    ----------
    own : int
        Stored bytes that only the newest commit of this version reaches, including `dead`.
    shared : int
        Stored bytes that other versions also reach, or that are in the folders of other names.
    dead : int
        Bytes that nothing reaches, in packs that the version keeps alive: a pack stays while something in it is
        reached. `hub.compact` frees them for arrays, and `hub.write_index(move=True)` leaves them behind for tables.
    held : int
        Bytes in the folder of the name that other names reach, but no live commit of this name.
    logical : int
        Bytes of the contents: of the blocks of a table, or of an array in memory.
    holders : tuple of str
        The names that read from the folder of this name, and the other versions of this name that share bytes.
    """

    own: int
    shared: int
    held: int
    logical: int
    holders: tuple[str, ...]
    dead: int = 0


def usage(version: Version, record: Record, logical: int) -> StorageUsage:
    """Count the bytes of a version. Costs the manifest nodes of its name, and of the names that refer to it.

    For a deleted version, only the held bytes are left.
    """
    fetcher, home = version.fetcher, version.name.home
    index = homes.index(home)
    mine = _reached(fetcher, [record] if record.head.kind != "deleted" else [])
    others = np.zeros(0, REF)
    held, holders = 0, []
    for sibling in versions_of(fetcher.store, version.name):
        if sibling != version.name:
            theirs = _reached(fetcher, _live(fetcher, sibling))
            if np.isin(_names(mine), _names(theirs)).any():
                holders.append(str(sibling))
            others = np.concatenate([others, theirs])
    here = _names(np.concatenate([others, _reached(fetcher, _live(fetcher, version.name))]))
    for other in sorted({referrer for _, referrer in referrers(fetcher.store, home)} - {home}):
        names = versions_of(fetcher.store, parse(other))
        theirs = _reached(fetcher, [live_record for name in names for live_record in _live(fetcher, name)])
        theirs = theirs[theirs["home"] == index]
        unreferenced = theirs[~np.isin(_names(theirs), here)]
        if len(theirs):
            holders.append(other)
        held += int(unreferenced["length"].sum())
        others, here = np.concatenate([others, theirs]), np.concatenate([here, _names(unreferenced)])
    shared = (mine["home"] != index) | np.isin(_names(mine), _names(others))
    lengths = mine["length"]
    every = distinct_refs([mine, others])
    dead = _dead_bytes(fetcher.store, home, mine[mine["home"] == index], every[every["home"] == index])
    own = int(lengths[~shared].sum()) + dead
    return StorageUsage(own, int(lengths[shared].sum()), held, logical, tuple(holders), dead)


def _dead_bytes(store: Store, home: str, mine: Refs, every: Refs) -> int:
    """Bytes of the packs that some refs point into, less those that any live ref reaches: a list of the folder."""
    packs = {pack_name.tobytes() for pack_name in np.unique(_packs(mine))}
    if not packs:
        return 0
    named, which = np.unique(_packs(every), return_inverse=True)
    lengths = np.bincount(which, weights=every["length"]).astype(np.int64).tolist()
    live = dict(zip((pack_name.tobytes() for pack_name in named), lengths, strict=True))
    dead = 0
    for info in store.list(f"{home}/packs/"):
        name = info.key.rpartition("/")[2]
        pack = bytes.fromhex(name) if ID_TEXT.fullmatch(name) else b""
        if pack in packs:
            dead += max(0, (info.size_bytes or 0) - live.get(pack, 0))
    return dead


def _packs(refs: Refs) -> np.ndarray:
    return np.ascontiguousarray(refs["pack"]).view(f"V{refs.dtype['pack'].itemsize}").reshape(-1)


def holders_of(store: Store, home: str) -> list[str]:
    """Return the names that read from the folder of a name. Costs a listing, and a record per version of these
    names."""
    records = []
    for other in sorted({referrer for _, referrer in referrers(store, home)} - {home}):
        for name in versions_of(store, parse(other)):
            try:
                record = Log(store, name).newest()
            except NotFoundError:
                continue
            if record.head.kind != "deleted" and home in record.homes:
                records.append(other)
                break
    return records


def _live(fetcher: Fetcher, name: Name) -> list[Record]:
    """The records of a version that can be read; none of one that was deleted."""
    records = read_log(fetcher.store, name)[0]
    if records and records[max(records)].head.kind == "deleted":
        return []
    return list(readable(records))


def _reached(fetcher: Fetcher, records: Iterable[Record]) -> Refs:
    """Every blob that records reach, once."""
    records = list(records)
    ref_parts: list[Refs] = [np.zeros(0, REF)]
    ref_parts += [record.overlay.refs[record.overlay.refs["length"] > 0] for record in records]
    walk(records, strictly(fetcher), ref_parts.append)
    return distinct_refs(ref_parts)


def _names(refs: Refs) -> np.ndarray:
    return np.ascontiguousarray(refs).view(f"V{REF.itemsize}")
