"""Arrays as a kind of version; see :class:`hubarray.api.registry.Kind`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hubarray.arrays.codecs.dtypes import dtype_name
from hubarray.arrays.codecs.image_codecs import is_lossy
from hubarray.arrays.diff import Diff, diff_elements, differing_chunks
from hubarray.arrays.diff import diff as diff_records
from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.merge import Merge
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.blobs.ref import Refs
from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.history.records.record import Record
from hubarray.values import packing

Side = tuple[Version, Record]

BORN_FROZEN = False


def check(record: Record) -> None:
    """Whether it describes an array."""
    metadata_of(record)


def diff(before: Side, after: Side, *, elements: bool, on: Sequence[str] | None) -> Diff:
    """Chunks and regions that differ."""
    if on is not None:
        raise ConfigError(f"on={on!r}: pairs the rows of tables, and {before[0].name} is an array")
    return diff_elements(before, after) if elements else diff_records(before, after)


def same_state(version: Version, old: Record, new: Record) -> bool:
    """Whether two commits hold the same array."""
    if (old.head.generation, old.description, old.attrs) != (new.head.generation, new.description, new.attrs):
        return False
    return not differing_chunks((version, old), (version, new))[0]


def summary(handle: ArrayHandle) -> tuple[str, str]:
    """Shape and dtype."""
    return str(handle.shape), dtype_name(handle.dtype)


def facts(handle: ArrayHandle) -> dict[str, Any]:
    """The array's metadata, and what it takes."""
    return {
        "shape": list(handle.shape),
        **({"dims": list(handle.dims)} if any(handle.dims) else {}),
        "dtype": str(handle.dtype),
        "chunks": list(handle.chunks),
        "codecs": [codec["name"] for codec in handle.codec],
        **({"lossy": True} if is_lossy(handle.codec) else {}),
        **(
            {"packed": packing.described(handle.attrs, handle.dtype)}
            if packing.is_packed(handle.attrs, handle.dtype)
            else {}
        ),
        "fill_value": np.asarray(handle.fill_value).tolist(),
        "memory_bytes": handle.nbytes,
        "stored_bytes": handle.stored_bytes(),
    }


def logical_bytes(record: Record) -> int:
    """Bytes of all elements in memory."""
    metadata = metadata_of(record)
    return math.prod(metadata.shape) * metadata.dtype.itemsize


def require_compactable(version: Version) -> None:
    """Arrays can be compacted."""


def unreadable(version: Version, record: Record) -> Iterable[str]:
    """Nothing, because hashes identify the chunks of an array."""
    return ()


def affected(version: Version, record: Record, damaged: Refs) -> Iterable[str]:
    """Nothing besides the keys."""
    return ()


def merge(version: Version, record: Record, on_conflict: str | None) -> Merge:
    """The merge of an array's changes into another version of it."""
    return Merge(version, record, on_conflict)
