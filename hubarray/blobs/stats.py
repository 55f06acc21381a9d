"""Costs of reading and writing: requests, bytes, cache hits, and seconds by stage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from hubarray import process
from hubarray.storage.base import RequestStats


@dataclass(frozen=True)
class Stats:
    """Counts since the process began; subtract an earlier one to see what something cost.

    Attributes
    ----------
    requests : int
        Requests to storage, of whatever verb.
    gets, puts : int
        Those that read, and those that wrote or created an object.
    read_bytes, written_bytes : int
    memory_hits, memory_misses : int
        Chunks and manifest nodes looked for in the memory cache.
    disk_hits, disk_misses : int
        Blobs and nodes looked for in the disk cache; always 0 where the root is a local folder.
    request_seconds, decode_seconds, encode_seconds : float
        By stage, summed over threads, so they may exceed what a clock on the wall says.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(1000, "docs/measured:v0", dtype="int64", chunks=100)
    >>> a[:] = 1
    >>> before = hub.stats()
    >>> _ = a[250:750]
    >>> (hub.stats() - before).gets
    1
    """

    requests: int = 0
    gets: int = 0
    puts: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    memory_hits: int = 0
    memory_misses: int = 0
    disk_hits: int = 0
    disk_misses: int = 0
    request_seconds: float = 0.0
    decode_seconds: float = 0.0
    encode_seconds: float = 0.0

    def __sub__(self, earlier: Stats) -> Stats:
        differences: dict[str, Any] = {
            field.name: getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)
        }
        return Stats(**differences)


class StageSeconds:
    """Seconds spent in each stage, by all threads together."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def add(self, stage: str, seconds: float) -> None:
        """Count time spent."""
        with self._lock:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def seconds(self) -> Mapping[str, float]:
        """The seconds so far."""
        with self._lock:
            return dict(self._seconds)


class _Hits(Protocol):
    hits: int
    misses: int


def totals(
    stores: Sequence[RequestStats], memories: Sequence[_Hits], disks: Sequence[_Hits], stages: Sequence[StageSeconds]
) -> Stats:
    """The sum of what several stores, caches and stages have counted."""
    counts = sum((store.counts() for store in stores), Counter[str]())
    seconds = [stage.seconds() for stage in stages]
    return Stats(
        requests=sum(store.requests for store in stores),
        gets=counts["get"],
        puts=counts["put"] + counts["put_if_absent"],
        read_bytes=counts["read_bytes"],
        written_bytes=counts["written_bytes"],
        memory_hits=sum(memory.hits for memory in memories),
        memory_misses=sum(memory.misses for memory in memories),
        disk_hits=sum(disk.hits for disk in disks),
        disk_misses=sum(disk.misses for disk in disks),
        request_seconds=sum(store.seconds for store in stores),
        decode_seconds=sum(stage_seconds.get("decode", 0.0) for stage_seconds in seconds),
        encode_seconds=sum(stage_seconds.get("encode", 0.0) for stage_seconds in seconds),
    )
