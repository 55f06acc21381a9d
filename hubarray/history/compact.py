"""Compaction: chunks of mostly dead packs, and chunks that lie scattered, written again side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Refs, homes, same_refs
from hubarray.history import numbering, scatter
from hubarray.history.listing import versions_of
from hubarray.history.numbering import Numbers
from hubarray.history.reach import read_log, readable, strictly, walk
from hubarray.history.record import Record
from hubarray.history.referrers import referrers
from hubarray.history.transaction import Draft, counts_of
from hubarray.history.verify import distinct_refs
from hubarray.history.version import Version
from hubarray.names import parse
from hubarray.progress import progress

BATCH_BYTES = 64 << 20
MAX_MOVED_CHUNKS = 1 << 20

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Compaction:
    """What :func:`hubarray.compact` wrote again, or with ``dry_run`` would.

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
    records = [one for name in versions for one in readable(read_log(fetcher.store, name)[0])]
    index = homes.index(home)
    found: list[Refs] = []

    def note(refs: Refs) -> None:
        found.append(refs[(refs["home"] == index) & (refs["length"] > 0)])

    for record in records:
        note(record.overlay.refs)
    walk(records, strictly(fetcher), note)
    stored = ((info.key.rpartition("/")[2], info.size_bytes) for info in fetcher.store.list(f"{home}/packs/"))
    sizes = {bytes.fromhex(name): size for name, size in stored if _ID.fullmatch(name)}
    return Packs(scatter.alive_bytes(distinct_refs(found)), sizes)


def worth_moving(version: Version, record: Record, packs: Packs) -> Iterator[tuple[Numbers, Refs]]:
    """The chunks of a record that are worth writing again, in batches of about 64 MiB of what is looked at."""
    own = homes.index(version.name.home)
    for numbers, refs in version.present(record, batch_bytes=BATCH_BYTES):
        ours = refs["home"] == own
        numbers, refs = numbers[ours], refs[ours]
        if len(refs):
            chosen = scatter.in_sparse_packs(refs, packs.alive, packs.sizes) | scatter.scattered(refs)
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

    on_frozen = False

    def __init__(self, packs: Packs) -> None:
        self._packs = packs
        self._moved: list[tuple[np.ndarray, Refs, Refs]] | None = None
        self.done = Compaction()

    def apply(self, base: Record, version: Version, packs: PackWriter) -> Draft | None:
        """See :class:`hubarray.history.transaction.Operation`."""
        ndim = len(base.array["shape"])
        if self._moved is None:
            self._moved = list(self._move(base, version, packs, ndim))
        numbers, refs = self._still_there(base, version, ndim)
        if not len(numbers):
            return None
        self.done = Compaction(len(refs), int(refs["length"].sum()))
        return Draft(
            counts=counts_of(base), grid=base.grid, numbers=numbers, refs=refs, message=f"compact {len(refs):,} chunks"
        )

    def _move(
        self, base: Record, version: Version, packs: PackWriter, ndim: int
    ) -> Iterator[tuple[np.ndarray, Refs, Refs]]:
        moved = 0
        with progress(None, f"compacting {version.name}") as bar:
            for numbers, refs in worth_moving(version, base, self._packs):
                new = np.zeros(len(refs), REF)
                for i, blob in enumerate(version.fetcher.blobs(refs)):
                    new[i] = packs.add(blob)
                bar.update(int(refs["length"].sum()))
                yield numbering.coords_array(numbers, base.grid, ndim), refs, new
                moved += len(refs)
                if moved >= MAX_MOVED_CHUNKS:
                    return

    def _still_there(self, base: Record, version: Version, ndim: int) -> tuple[Numbers, Refs]:
        """Of what was moved, the chunks that nobody has written or cut off since."""
        numbers, refs = [np.zeros(0, np.uint64)], [np.zeros(0, REF)]
        counts = np.array(counts_of(base), np.uint64)
        for coords, old, new in self._moved or []:
            inside = (coords < counts).all(axis=1)
            strides = np.array(numbering.strides(base.grid), np.uint64)[:ndim]
            here = (coords[inside] * strides).sum(axis=1, dtype=np.uint64)
            same = same_refs(version.refs(base, here), old[inside])
            numbers.append(here[same])
            refs.append(new[inside][same])
        return np.concatenate(numbers), np.concatenate(refs)
