"""Where the chunks of a read go: into memory of their own, or into a result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hubarray.arrays.codecs.text_codec import held_bytes
from hubarray.arrays.indexing.plan import Plan, chunk_view
from hubarray.arrays.indexing.selection import Selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import decode_into
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import BlobName
from hubarray.blobs.sinks import Sink
from hubarray.storage.base import Buffer


@dataclass(eq=False)
class ChunkSink(Sink):
    """Decodes chunks into memory of their own, for the memory cache. Subclasses put them into results.

    A chunk that a result has room for is decoded there, and is not kept, if a file has it and it is read for the first
    time: to keep it costs a copy, and what is read once need not be kept.

    Attributes
    ----------
    fetcher : Fetcher
    metadata : ArrayMetadata
    names : sequence of BlobName
        The chunks.
    keys : sequence of key, or None
        Of :func:`chunk_keys`; None reads chunks that neither come from the memory cache nor go there.
    """

    fetcher: Fetcher
    metadata: ArrayMetadata
    names: Sequence[BlobName]
    # A field without a default, which the class attribute of Sink would be.
    keys: Sequence[Hashable] | None = field()
    _staying: dict[int, bool] | None = field(default=None, init=False)
    # Whether chunks go into the memory cache, too.
    keeps: ClassVar[bool] = True

    def target(self, i: int) -> np.ndarray | None:
        """Return the part of the result that a chunk is, contiguous; None if it is not one."""
        return None

    def buffers(self, i: int) -> list[memoryview] | None:
        """See :class:`Sink`."""
        metadata = self.metadata
        header_bytes = metadata.codec.raw_header_bytes(self.names[i][3], metadata.chunk_bytes)
        target = None if header_bytes is None else self.target(i)
        if target is None or header_bytes is None or self._stays(i, False):
            return None
        flat = target.reshape(-1).view("u1").data
        return [memoryview(bytearray(header_bytes)), flat] if header_bytes else [flat]

    def are_final(self, i: int, buffers: list[memoryview]) -> bool:
        """See :class:`Sink`."""
        return self.metadata.codec.is_raw(buffers[0], self.metadata.chunk_bytes)

    def take(self, i: int, data: Buffer, is_fetched: bool) -> None:
        """See :class:`Sink`."""
        target = self.target(i)
        if target is not None and not self._stays(i, is_fetched):
            decode_into(self.fetcher, self.metadata, data, target, self.names[i])
            return
        chunk = np.empty(self.metadata.chunks, self.metadata.dtype)
        decode_into(self.fetcher, self.metadata, data, chunk, self.names[i])
        chunk.setflags(write=False)
        self.recall(i, chunk)
        if self.keys is not None and self.keeps:
            self.fetcher.memory.put(self.keys[i], chunk, held_bytes(chunk))

    def _stays(self, i: int, is_fetched: bool) -> bool:
        """Whether a chunk stays in the memory cache although it could be decoded into the result."""
        if self.keys is None:
            return False
        if is_fetched:
            return True
        if self._staying is None:
            self._staying = {}
        stays = self._staying.get(i)
        if stays is None:
            stays = self._staying[i] = self.fetcher.memory.seen_before(self.keys[i])
        return stays


@dataclass(eq=False)
class PartsOfResult(ChunkSink):
    """Puts chunks into a result as their projections say.

    Attributes
    ----------
    plan : Plan
    projections : sequence of int
        The projection of each chunk, by its position in the plan.
    selection : Selection
    out : ndarray
        Of the canonical shape.
    """

    plan: Plan
    projections: Sequence[int]
    selection: Selection
    out: np.ndarray

    def recall(self, i: int, chunk: np.ndarray) -> None:
        """See :class:`Sink`."""
        projection = self.plan[self.projections[i]]
        self.out[projection.in_result] = chunk_view(chunk, self.selection)[projection.in_chunk]

    def target(self, i: int) -> np.ndarray | None:
        """See :class:`ChunkSink`."""
        projection = self.plan[self.projections[i]]
        if not projection.whole:
            return None
        target: np.ndarray = self.out[(*projection.in_result, ...)]
        return target if target.shape == self.metadata.chunks and target.flags.c_contiguous else None


@dataclass(eq=False)
class WholeChunks(ChunkSink):
    """Puts chunks into a result that is whole chunks, each contiguous.

    Attributes
    ----------
    targets : ndarray
        Of shape ``(n, *chunks)``.
    order : sequence of int
        Which of them each chunk is.
    """

    targets: np.ndarray
    order: Sequence[int]

    def recall(self, i: int, chunk: np.ndarray) -> None:
        """See :class:`Sink`."""
        self.targets[self.order[i]] = chunk

    def target(self, i: int) -> np.ndarray:
        """See :class:`ChunkSink`."""
        target: np.ndarray = self.targets[self.order[i]]
        return target


@dataclass(eq=False)
class SingleChunk(ChunkSink):
    """Has the part of one chunk that an index selects.

    Attributes
    ----------
    index : tuple
    result : ndarray or scalar
        Never shares memory with what is kept.
    """

    index: Any
    result: Any = None

    def recall(self, i: int, chunk: np.ndarray) -> None:
        """See :class:`Sink`."""
        self.result = own_part(chunk, self.index)

    def target(self, i: int) -> np.ndarray | None:
        """See :class:`ChunkSink`."""
        chunk = np.empty(self.metadata.chunks, self.metadata.dtype)
        part = chunk[self.index]
        if not isinstance(part, np.ndarray) or part.size < chunk.size:
            return None
        self.result = part
        return chunk


def own_part(chunk: np.ndarray, index: Any) -> Any:
    """Return the part of a chunk that an index selects, in memory of its own."""
    part = chunk[index]
    return part.copy() if isinstance(part, np.ndarray) else part
