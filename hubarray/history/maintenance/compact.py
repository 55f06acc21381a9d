"""Compaction: chunks of mostly dead packs, and chunks that lie scattered, written again side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubarray.blobs.coalesce import MAX_RUN_BYTES, plan_runs
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.pack import OWN_PACK_BYTES, PackWriter
from hubarray.blobs.ref import ID_BYTES, ID_TEXT, REF, Refs, blob_names, homes, same_refs
from hubarray.history.commits.draft import ChunkChanges, Draft
from hubarray.history.log.listing import versions_of
from hubarray.history.log.version import Version
from hubarray.history.maintenance.reachability import read_log, readable, strictly, walk
from hubarray.history.maintenance.verify import distinct_refs
from hubarray.history.records.contents import present_refs, refs_of
from hubarray.history.records.overlay import Numbers
from hubarray.history.records.record import Record
from hubarray.history.records.referrers import referrers
from hubarray.names import parse
from hubarray.progress import progress
from hubarray.redaction import counted

MIN_ALIVE_SHARE = 0.5
SCATTERED_FACTOR = 4
COMPACT_BATCH_BYTES = 64 << 20
MAX_MOVED_CHUNKS = 1 << 20


def alive_bytes(refs: Refs) -> dict[bytes, int]:
    """Bytes that distinct refs need of each pack, by pack id."""
    packs, inverse = _packs_of(refs)
    sums = np.bincount(inverse, weights=refs["length"].astype(np.float64), minlength=len(packs))
    return {pack: int(total) for pack, total in zip(packs, sums.tolist(), strict=True)}


def in_sparse_packs(refs: Refs, alive: dict[bytes, int], sizes: dict[bytes, int]) -> npt.NDArray[np.bool_]:
    """Which refs point into packs that are less than half alive.

    Parameters
    ----------
    refs : array of REF
    alive, sizes : dict
        Bytes of each pack that anything live needs, and that it has, by pack id. A pack of unknown size is left alone.
    """
    packs, inverse = _packs_of(refs)
    sparse = np.array([alive.get(pack, 0) < MIN_ALIVE_SHARE * sizes.get(pack, 0) for pack in packs], bool)
    return np.asarray(sparse[inverse])


def _packs_of(refs: Refs) -> tuple[list[bytes], npt.NDArray[np.intp]]:
    """The distinct packs of refs, and the index among them of each ref's."""
    packs, inverse = np.unique(np.ascontiguousarray(refs["pack"]).view(f"V{ID_BYTES}"), return_inverse=True)
    return [pack.tobytes() for pack in packs], inverse.reshape(-1)


def scattered(refs: Refs, *, run_bytes: int = MAX_RUN_BYTES) -> npt.NDArray[np.bool_]:
    """Which refs lie in stretches that take far more requests to read than they would side by side.

    A stretch is neighbouring chunks of about ``run_bytes`` together. It is scattered when it takes more than
    four requests for each that its bytes would need. Blobs that are packs by themselves neither count nor move.

    Parameters
    ----------
    refs : array of REF
        In chunk order, present ones only.
    """
    chosen = np.zeros(len(refs), bool)
    small = np.flatnonzero(refs["length"] < OWN_PACK_BYTES)
    if len(small) == 0:
        return chosen
    stretches = (np.cumsum(refs["length"][small].astype(np.int64)) - 1) // run_bytes
    for members in np.split(small, np.flatnonzero(np.diff(stretches)) + 1):
        # A stretch that was written as one may still lie across two packs.
        if len(plan_runs(blob_names(refs[members]), max_run_bytes=run_bytes)) > SCATTERED_FACTOR + 1:
            chosen[members] = True
    return chosen


@dataclass(frozen=True)
class Compaction:
    """The amount that :func:`hubarray.compact` wrote again, or with ``dry_run`` would.

    Attributes
    ----------
    chunks : int
    bytes : int
        Stored bytes of those chunks.
    """

    chunks: int = 0
    bytes: int = 0

    def plus(self, chunks: int, size_bytes: int) -> Compaction:
        """This and some more."""
        return Compaction(self.chunks + chunks, self.bytes + size_bytes)


@dataclass(frozen=True)
class Packs:
    """How much of each pack of a home is alive, and how large it is, by pack id."""

    alive: dict[bytes, int]
    sizes: dict[bytes, int]


def packs_of(fetcher: Fetcher, home: str) -> Packs:
    """Look at every pack of a home, and at everything that has not expired and may need some of it.

    Costs every record and manifest node of the name and of those copied from it, and a listing.
    """
    versions = versions_of(fetcher.store, parse(home))
    for other in sorted({referrer for _, referrer in referrers(fetcher.store, home)} - {home}):
        versions += versions_of(fetcher.store, parse(other))
    records = [record for name in versions for record in readable(read_log(fetcher.store, name)[0])]
    index = homes.index(home)
    found_refs: list[Refs] = []

    def note(refs: Refs) -> None:
        found_refs.append(refs[(refs["home"] == index) & (refs["length"] > 0)])

    for record in records:
        note(record.overlay.refs)
    walk(records, strictly(fetcher), note)
    stored = ((info.key.rpartition("/")[2], info.size_bytes) for info in fetcher.store.list(f"{home}/packs/"))
    sizes = {bytes.fromhex(name): size for name, size in stored if ID_TEXT.fullmatch(name)}
    return Packs(alive_bytes(distinct_refs(found_refs)), sizes)


def worth_moving(version: Version, record: Record, packs: Packs) -> Iterator[tuple[Numbers, Refs]]:
    """The chunks of a record that are worth writing again, in batches of about 64 MiB of what is looked at."""
    own = homes.index(version.name.home)
    for numbers, refs in present_refs(version.fetcher, record, batch_bytes=COMPACT_BATCH_BYTES):
        ours = refs["home"] == own
        numbers, refs = numbers[ours], refs[ours]
        if len(refs):
            chosen = in_sparse_packs(refs, packs.alive, packs.sizes) | scattered(refs)
            if chosen.any():
                yield numbers[chosen], refs[chosen]


class Compact:
    """Write chunks again, side by side; elements stay what they are.

    At most about a million chunks; what is left is for the next one. Only the version's own
    blobs move, never those it shares with the name it was copied from.

    Parameters
    ----------
    packs : Packs

    Attributes
    ----------
    done : Compaction
    """

    allowed_when_frozen = False
    is_small = False

    def __init__(self, packs: Packs) -> None:
        self._packs = packs
        self._moved: list[tuple[Numbers, Refs, Refs]] | None = None
        self._grid: tuple[int, ...] = ()
        self.done = Compaction()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.commits.commit.Operation`."""
        if self._moved is None:
            self._moved, self._grid = list(self._move(base, version, packs)), base.grid
        numbers, refs = (self._still_there if base.grid == self._grid else self._found_again)(base, version)
        if not len(numbers):
            return None
        self.done = Compaction(len(refs), int(refs["length"].sum()))
        return Draft(chunks=ChunkChanges(numbers=numbers, refs=refs), message=f"compact {counted(len(refs), 'chunk')}")

    def _move(self, base: Record, version: Version, packs: PackWriter) -> Iterator[tuple[Numbers, Refs, Refs]]:
        moved = 0
        with progress(None, f"compacting {version.name}") as bar:
            for numbers, refs in worth_moving(version, base, self._packs):
                new = np.zeros(len(refs), REF)
                for i, blob in enumerate(version.fetcher.blobs(refs)):
                    new[i] = packs.add(blob)
                bar.update(int(refs["length"].sum()))
                yield numbers, refs, new
                moved += len(refs)
                if moved >= MAX_MOVED_CHUNKS:
                    return

    def _still_there(self, base: Record, version: Version) -> tuple[Numbers, Refs]:
        """Return the moved chunks that nobody has changed since."""
        numbers, refs = [np.zeros(0, np.uint64)], [np.zeros(0, REF)]
        for here, old, new in self._moved or []:
            same = same_refs(refs_of(version.fetcher, base, here), old)
            numbers.append(here[same])
            refs.append(new[same])
        return np.concatenate(numbers), np.concatenate(refs)

    def _found_again(self, base: Record, version: Version) -> tuple[Numbers, Refs]:
        """The same where somebody has numbered the chunks anew: by their refs, of which each is moved the same way."""
        if not self._moved:
            return np.zeros(0, np.uint64), np.zeros(0, REF)
        old, new = (np.concatenate([part[i] for part in self._moved]) for i in (1, 2))
        keys, firsts = np.unique(_keys(old), return_index=True)
        numbers, refs = [np.zeros(0, np.uint64)], [np.zeros(0, REF)]
        for some_numbers, some_refs in present_refs(version.fetcher, base, batch_bytes=COMPACT_BATCH_BYTES):
            ref_keys = _keys(some_refs)
            places = np.minimum(np.searchsorted(keys, ref_keys), len(keys) - 1)
            is_known = keys[places] == ref_keys
            numbers.append(some_numbers[is_known])
            refs.append(new[firsts[places[is_known]]])
        return np.concatenate(numbers), np.concatenate(refs)


def _keys(refs: Refs) -> np.ndarray:
    """Refs as bytes, which NumPy sorts and compares."""
    return np.ascontiguousarray(refs).view(f"S{REF.itemsize}").reshape(-1)
