"""Drafts: the changes that an operation makes to a base record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hubarray.blobs.ref import REF, Refs, homes
from hubarray.history.log.version import Version
from hubarray.history.records.manifest import Manifest, TreeRoot
from hubarray.history.records.overlay import EMPTY_OVERLAY, Numbers, Overlay, split_for_fold
from hubarray.history.records.record import Record


@dataclass(frozen=True)
class Contents:
    """All chunks of a record, which do not depend on the base.

    Attributes
    ----------
    manifest, overlay, homes
        As in the record.
    changed : array
        Chunk numbers that the record lists as changed.
    """

    manifest: TreeRoot | None
    overlay: Overlay
    homes: tuple[str, ...]
    changed: Numbers = field(default_factory=lambda: np.zeros(0, np.uint64))

    @staticmethod
    def of(record: Record) -> Contents:
        """Return the contents of a record."""
        return Contents(record.manifest, record.overlay, record.homes)

    @staticmethod
    def made(version: Version, numbers: Numbers, refs: Refs) -> Contents:
        """Return contents of these chunks alone. Writes the manifest nodes that they need."""
        home = version.name.home
        unfolded, folded = split_for_fold(EMPTY_OVERLAY.merged(numbers, refs))
        manifest = Manifest(version.fetcher, None).folded(folded.numbers, folded.refs, home)
        return Contents(manifest.root, unfolded, (home, *sorted(homes.names(refs) - {home})))


@dataclass(frozen=True)
class ChunkChanges:
    """Changes to the chunks of the base, in this order.

    Attributes
    ----------
    dropped : sequence of (int, int)
        Ranges of chunk numbers, first and end, that become absent.
    renumbered : callable or None
        Maps numbers and refs of the base to new ones. The manifest is rebuilt from the result.
    numbers, refs : arrays
        Chunks that are set. A null ref makes a chunk absent.
    """

    dropped: Sequence[tuple[int, int]] = ()
    renumbered: Callable[[Numbers, Refs], tuple[Numbers, Refs]] | None = None
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.uint64))
    refs: Refs = field(default_factory=lambda: np.zeros(0, REF))

    @property
    def changed(self) -> Numbers:
        """Chunk numbers that the record lists as changed."""
        return self.numbers


@dataclass(frozen=True)
class Draft:
    """The changes that an operation makes to a base record. A field that is None leaves the base's value.

    The first record of a line has no base. Its draft names the kind; the other fields that are None are empty, and it
    is not frozen.

    Attributes
    ----------
    kind, description, attrs, tags, grid, frozen, expired_to
        As in the record.
    chunks : ChunkChanges or Contents
        Changes to the base's chunks, or all chunks, which replace the base's.
    fresh : bool
        Whether a new generation begins, without the base's chunks.
    source : str or None
        The commit that was merged or restored.
    message : str
        What the log says if the caller gave no message.
    """

    kind: str | None = None
    description: dict[str, Any] | None = None
    attrs: dict[str, Any] | None = None
    tags: dict[str, int] | None = None
    grid: tuple[int, ...] | None = None
    frozen: bool | None = None
    expired_to: int | None = None
    chunks: ChunkChanges | Contents = ChunkChanges()
    fresh: bool = False
    source: str | None = None
    message: str = ""
