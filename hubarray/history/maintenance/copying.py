"""Copies: a new version whose record points at the data another one has.

No data moves within a root: the copy's record names the source's manifest and
packs, and a referrer left beside them keeps the collector from them. Where
that is not permitted, or the roots differ, the blobs are copied.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF
from hubarray.errors import AccessDeniedError
from hubarray.history.commits.commit import create_version
from hubarray.history.commits.draft import Contents, Draft
from hubarray.history.log.version import Version
from hubarray.history.records.contents import present_refs
from hubarray.history.records.manifest import Manifest
from hubarray.history.records.overlay import EMPTY_OVERLAY, MAX_OVERLAY_REFS
from hubarray.history.records.record import Record
from hubarray.history.records.referrers import write_referrer
from hubarray.progress import progress

COPY_BATCH_BYTES = 64 << 20

log = logging.getLogger("hubarray.history")


def copy(
    source: Version,
    record: Record,
    target: Version,
    *,
    base: Record | None,
    message: str | None,
    began: float,
    attrs: dict[str, Any] | None = None,
    frozen: bool = False,
) -> tuple[Record, bool]:
    """Write the first record of ``target`` as a copy of ``record``.

    Costs one referrer a foreign home and one record, whatever the array's size.

    Parameters
    ----------
    source, record : Version, Record
        What is copied.
    target : Version
    base : Record or None
        The target's newest record if it had been deleted.
    began : float
        Before the source's record was read, in :func:`~hubarray.process.uptime_seconds`.
    attrs : dict, optional
        In place of the source's attributes.
    frozen : bool
        Whether the copy is frozen.

    Returns
    -------
    (record, ours)
        As :func:`hubarray.history.commits.commit.create_version` does.
    """
    return create_version(
        target,
        Draft(
            grid=record.grid,
            description=record.description,
            attrs=record.attrs if attrs is None else attrs,
            tags={},
            kind=record.head.kind,
            frozen=frozen,
            chunks=_shared_contents(source, record, target) or _copied_contents(source, record, target),
            message=f"copy of {record.name}",
        ),
        base=base,
        message=message,
        began=began,
        source=str(record.name),
        grace_seconds=record.head.grace_seconds,
    )


def _shared_contents(source: Version, record: Record, target: Version) -> Contents | None:
    """The source's own chunks, once a referrer protects them; None where they cannot be shared."""
    if source.fetcher.root != target.fetcher.root:
        return None
    foreign = sorted(home for home in record.homes if home != target.name.home)
    try:
        for home in foreign:
            write_referrer(target.store, home, target.name.home)
    except AccessDeniedError:
        log.warning("%s: no permission to refer to the data of %s, so it is copied", target.name, foreign)
        return None
    return Contents(record.manifest, record.overlay, (target.name.home, *foreign))


def _copied_contents(source: Version, record: Record, target: Version) -> Contents:
    """Copy every blob that a record reaches into packs of the target's own."""
    packs = PackWriter(target.store, target.name.home)
    manifest, held = Manifest(target.fetcher, None), EMPTY_OVERLAY
    with progress(None, f"copying {source.name}") as bar:
        for numbers, refs in present_refs(source.fetcher, record, batch_bytes=COPY_BATCH_BYTES):
            moved = np.zeros(len(refs), REF)
            for i, blob in enumerate(source.fetcher.blobs(refs)):
                moved[i] = packs.add(blob)
            bar.update(int(refs["length"].sum()))
            held = held.merged(numbers, moved)
            if len(held) > MAX_OVERLAY_REFS:
                packs.finish()
                manifest, held = manifest.folded(held.numbers, held.refs, target.name.home), EMPTY_OVERLAY
    packs.finish()
    return Contents(manifest.root, held, (target.name.home,))
