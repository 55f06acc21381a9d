"""Building the next record from a base record and a draft."""

from __future__ import annotations

import getpass
import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hubarray import config
from hubarray.blobs.ref import blob_hash, homes, new_id
from hubarray.history.commits.draft import ChunkChanges, Contents, Draft
from hubarray.history.log.version import Version
from hubarray.history.records.head import Head
from hubarray.history.records.json_fields import NUMBER_KEY
from hubarray.history.records.long_descriptions import NODE_FROM_BYTES, PACKED_FROM_BYTES, LongDescription, deflated
from hubarray.history.records.manifest import Manifest, NodeRef
from hubarray.history.records.overlay import Numbers, Overlay, split_for_fold
from hubarray.history.records.record import (
    FORMAT_OF_NUMBERS,
    MAX_CHANGED_RUNS,
    Changed,
    Record,
    check_length,
    encode_runs,
    runs_of,
)


def build_record(
    version: Version, base: Record | None, draft: Draft, commit_id: str, message: str | None, **extra_fields: Any
) -> Record:
    """Return the record that follows ``base``, or the first record of a line. Writes the nodes that it needs.

    Parameters
    ----------
    version : Version
    base : Record or None
    draft : Draft
    commit_id : str
    message : str or None
        By default, the draft's.
    **extra_fields
        Fields of the head that differ.
    """
    head, chunks = _next_head(version, base, draft, commit_id, message, extra_fields), draft.chunks
    before = base if base is not None else Record(head)
    described = _described(version, before, draft)
    record = Record(
        head=head,
        described=described,
        min_format=_min_format(before, described),
        attrs=before.attrs if draft.attrs is None else draft.attrs,
        # They go on through a deletion, for a restore; whoever creates the version anew begins without any.
        tags=before.tags if draft.tags is None else draft.tags,
        grid=before.grid if draft.grid is None else draft.grid,
        changed=_changed(version, chunks.changed),
    )
    if isinstance(chunks, Contents):
        return replace(record, manifest=chunks.manifest, overlay=chunks.overlay, homes=chunks.homes)
    if base is None or draft.fresh or "deleted" in (head.kind, base.head.kind):
        return replace(record, homes=(version.name.home,))
    manifest, overlay = _carry_over(version, base, chunks)
    overlay = overlay.merged(chunks.numbers, chunks.refs)
    unfolded, folded = split_for_fold(overlay)
    manifest = manifest.folded(folded.numbers, folded.refs, version.name.home)
    used = {version.name.home, *base.homes, *homes.names(unfolded.refs), *homes.names(folded.refs)}
    ordered = (version.name.home, *sorted(used - {version.name.home}))
    return replace(record, manifest=manifest.root, overlay=unfolded, homes=ordered)


def _carry_over(version: Version, base: Record, changes: ChunkChanges) -> tuple[Manifest, Overlay]:
    """The base's chunks, without those that were dropped, under the numbers that they have now."""
    home = version.name.home
    manifest, overlay = Manifest(version.fetcher, base.manifest), base.overlay
    for first, end in changes.dropped:
        manifest = manifest.without(first, end, home)
        overlay = overlay.where((overlay.numbers < np.uint64(first)) | (overlay.numbers > np.uint64(end - 1)))
    if changes.renumbered is not None:
        parts = [changes.renumbered(*part) for part in manifest.entries()]
        manifest = Manifest(version.fetcher, None)
        if parts:
            numbers, refs = (np.concatenate(part) for part in zip(*parts, strict=True))
            manifest = manifest.folded(numbers, refs, home)
        overlay = Overlay(*changes.renumbered(overlay.numbers, overlay.refs))
    return manifest, overlay


def _next_head(
    version: Version,
    base: Record | None,
    draft: Draft,
    commit_id: str,
    message: str | None,
    extra_fields: dict[str, Any],
) -> Head:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    name = version.name
    common: dict[str, Any] = {
        "id": commit_id,
        "message": message if message is not None else draft.message,
        "author": author(),
        **({} if draft.kind is None else {"kind": draft.kind}),
        **extra_fields,
    }
    if base is None:
        fresh: dict[str, Any] = {"line": new_id(), "generation": new_id(), "frozen": bool(draft.frozen)}
        return Head(name.owner, name.name, name.version, 1, time=now, **(fresh | common))
    revived = base.head.kind == "deleted"
    changes: dict[str, Any] = {
        "number": base.head.number + 1,
        "parent": base.digest,
        "time": max(now, base.head.time),
        "source": draft.source,
        **common,
    }
    if revived:
        changes["line"] = new_id()
    if draft.fresh or revived:
        changes |= {"generation": new_id(), "frozen": bool(draft.frozen)}
    elif draft.frozen is not None:
        changes["frozen"] = draft.frozen
    if draft.expired_to is not None:
        changes["expired_to"] = max(draft.expired_to, base.head.expired_to)
    return replace(base.head, **changes)


def _described(version: Version, before: Record, draft: Draft) -> dict[str, Any] | LongDescription:
    """The description of the next record: the base's, the draft's, or a node that has it, which is written."""
    description, stored = draft.description, before.described
    if isinstance(stored, LongDescription):
        # One under another home was left there by a rename.
        if stored.node.home == version.name.home and (
            description is None or (stored.is_read and stored.value == description)
        ):
            return stored
        description = stored.value if description is None else description
    elif description is None:
        return stored
    text = json.dumps(description, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) <= PACKED_FROM_BYTES:
        return description
    check_length(version.name, text)
    data = deflated(text)
    if len(data) <= NODE_FROM_BYTES:
        return description
    node = _written(version, data)
    # Whoever opens the version here, be it without a network, has it as they have its record.
    version.fetcher.keep_object(node.key, data)
    return LongDescription.of(node, description)


def _min_format(before: Record, described: dict[str, Any] | LongDescription) -> int:
    """The format that attributes in the node of a long description ask for; a record tells of its own."""
    if not isinstance(described, LongDescription):
        return 0
    if described is before.described:
        return before.min_format
    return FORMAT_OF_NUMBERS if NUMBER_KEY in json.dumps(described.value) else 0


def _written(version: Version, data: bytes) -> NodeRef:
    """A node that holds bytes, under the version's own home."""
    node = NodeRef(version.name.home, new_id(), len(data), blob_hash(data))
    version.store.put(node.key, data)
    return node


def _changed(version: Version, numbers: Numbers) -> Changed:
    runs = runs_of(np.sort(numbers))
    if len(runs) <= MAX_CHANGED_RUNS:
        return Changed(runs=tuple(runs))
    return Changed(node=_written(version, encode_runs(runs)))


def author() -> str:
    """Who commits: the setting, or ``user@host``."""
    configured = config.current().author
    if configured:
        return configured[:200]
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
