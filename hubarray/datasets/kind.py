"""Datasets as a kind of version; see :class:`hubarray.api.registry.Kind`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from hubarray.arrays import kind as array_kind
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.blobs.ref import Refs, blob_names
from hubarray.datasets.description import description_of, view
from hubarray.datasets.diff import DatasetDiff, diff_datasets
from hubarray.datasets.handle import DatasetHandle
from hubarray.datasets.merge import MergeDataset
from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.history.records.contents import present_refs
from hubarray.history.records.record import Record
from hubarray.redaction import counted

Side = tuple[Version, Record]

BORN_FROZEN = False
_BATCH_BYTES = 64 << 20


def check(record: Record) -> None:
    """Whether it describes a dataset, and each of its arrays an array."""
    for name in description_of(record).arrays:
        metadata_of(view(record, name))


def diff(before: Side, after: Side, *, elements: bool, on: Sequence[str] | None) -> DatasetDiff:
    """Arrays that were added, dropped, renamed and changed, and where."""
    if on is not None:
        raise ConfigError(f"on={on!r}: pairs the rows of tables, and {before[0].name} is a dataset")
    return diff_datasets(before, after, elements=elements)


def same_state(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits hold the same arrays."""
    if old.attrs != new.attrs or list(description_of(old).arrays) != list(description_of(new).arrays):
        return False
    return all(array_kind.same_state(version, view(old, name), view(new, name)) for name in description_of(old).arrays)


def summary(handle: DatasetHandle) -> tuple[str, str]:
    """Arrays and dimensions."""
    dims = ", ".join(f"{dim}: {length:,}" for dim, length in handle.dims.items())
    return counted(len(handle), "array"), dims or "no dimensions"


def facts(handle: DatasetHandle) -> dict[str, Any]:
    """The arrays, and what all of them take."""
    return {
        "dimensions": handle.dims,
        "arrays": {
            name: f"{array.dtype} {array.shape}" + (", lossy" if is_lossy(array.codec) else "")
            for name, array in handle.arrays.items()
        },
        "memory_bytes": handle.nbytes,
        "stored_bytes": sum(array.stored_bytes() for array in handle.arrays.values()),
    }


def logical_bytes(record: Record) -> int:
    """Bytes of all elements in memory."""
    every = [metadata_of(view(record, name)) for name in description_of(record).arrays]
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in every)


def require_compactable(version: Version) -> None:
    """Datasets can be compacted."""


def unreadable(version: Version, record: Record) -> Iterable[str]:
    """Nothing, because hashes identify the chunks of its arrays."""
    return ()


def affected(version: Version, record: Record, damaged: Refs) -> Iterable[str]:
    """The arrays that damaged chunks are of."""
    lost = set(blob_names(damaged))
    for name in description_of(record).arrays:
        present = present_refs(version.fetcher, view(record, name), batch_bytes=_BATCH_BYTES)
        count = sum(blob_name in lost for _, refs in present for blob_name in blob_names(refs))
        if count:
            yield f"array {name!r}, {count:,} chunks" if count > 1 else f"array {name!r}, 1 chunk"


def merge(version: Version, record: Record, on_conflict: str | None) -> MergeDataset:
    """The merge of a dataset's changes into another version of it."""
    return MergeDataset(version, record, on_conflict)
