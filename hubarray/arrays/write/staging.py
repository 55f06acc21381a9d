"""Chunks that a transaction has written so far: in memory while partial, uploaded once complete.

Chunks in memory have a bounded number of bytes (:data:`MAX_DIRTY_BYTES`). Beyond that the least recently written
partial chunks are uploaded, and read back if they are needed again. For an uploaded chunk, its ref stays in memory, and
a bit mask if it was only partly written.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from hubarray.arrays.codecs.dtypes import planned_bytes
from hubarray.arrays.indexing.chunk_grid import clipped
from hubarray.arrays.indexing.plan import Projection, chunk_view, plan
from hubarray.arrays.indexing.selection import Selection
from hubarray.arrays.metadata.metadata import ArrayMetadata
from hubarray.arrays.read.chunk_codec import Encoded, encoded
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.chunk_writer import WRITE_BATCH_BYTES
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import REF, Refs, null_ref
from hubarray.blobs.scheduling import run_in_order
from hubarray.errors import HubError

MAX_DIRTY_BYTES = 128 << 20

Coords = tuple[int, ...]


class Staging:
    """Chunks written on top of a base record, not visible to anybody else.

    Parameters
    ----------
    base : ArraySnapshot
        The record that it is written on.
    metadata : ArrayMetadata
        The array as the transaction sees it; its shape may grow beyond the base's.
    packs : PackWriter
        Takes the chunks that are uploaded.
    """

    def __init__(self, base: ArraySnapshot, metadata: ArrayMetadata, packs: PackWriter) -> None:
        self.base = base
        self.metadata = metadata
        self._packs = packs
        self._dirty: OrderedDict[Coords, np.ndarray] = OrderedDict()
        self._leaving: dict[Coords, np.ndarray] = {}
        self._torn = False
        self._failure = ""
        self._refs: dict[Coords, Refs] = {}
        self._written: dict[Coords, np.ndarray | None] = {}

    @property
    def touched(self) -> list[Coords]:
        """The chunks written so far."""
        return sorted(self._written)

    def written(self, coords: Coords) -> np.ndarray:
        """Mask of a chunk's elements that were written, of the chunk's shape."""
        return mask_of(coords, self.packed(coords), self.metadata.shape, self.metadata.chunks)

    def require_whole(self) -> None:
        """Refuse to continue after an assignment that failed partway.

        Raises
        ------
        HubError
        """
        if self._torn:
            raise HubError(
                f"{self.base.version.name}: an earlier assignment failed partway, so nothing of this transaction can "
                f"be committed; begin another one (it failed with {self._failure})"
            )

    def write(self, selection: Selection, value: np.ndarray) -> None:
        """Set elements; ``value`` is of the canonical shape.

        Raises
        ------
        HubError
            An earlier write failed partway.
        """
        self.require_whole()
        self._upload(self._replaced(selection, value))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """A block whose failure leaves changes that cannot be committed."""
        self.require_whole()
        with self._whole_at_the_end():
            self._torn = True
            yield

    @contextlib.contextmanager
    def _whole_at_the_end(self) -> Iterator[None]:
        """The end of a block of changes: whole again if all succeeded and they were whole before; else the failure."""
        torn = self._torn
        try:
            yield
        except BaseException as error:
            self._failure = f"{type(error).__name__}: {error}"
            raise
        self._torn = torn

    def _replaced(self, selection: Selection, value: np.ndarray) -> Iterator[tuple[Coords, np.ndarray]]:
        """Write into the chunks in memory, and yield those to upload: complete ones, and the oldest of too many."""
        batch = max(1, WRITE_BATCH_BYTES // max(1, self.metadata.chunk_bytes))
        for projections in plan(selection, self.metadata.shape, self.metadata.chunks).batches(batch):
            partial_ones = [projection for projection in projections if not projection.whole]
            chunks = self.chunks(
                [projection.coords for projection in partial_ones if projection.coords not in self._dirty]
            )
            complete: dict[Coords, np.ndarray] = {}
            self._torn = True
            for projection in projections:
                if projection.whole:
                    complete[projection.coords] = self._whole(projection, value)
                    self._written[projection.coords] = None
                    self._dirty.pop(projection.coords, None)
            for projection in partial_ones:
                chunk = self._dirty.get(projection.coords)
                chunk = chunks.pop(projection.coords).copy() if chunk is None else chunk
                chunk_view(chunk, selection)[projection.in_chunk] = value[(*projection.in_result, ...)]
                self._dirty[projection.coords] = chunk
                self._dirty.move_to_end(projection.coords)
                if self._mark(projection, selection):
                    complete[projection.coords] = self._dirty.pop(projection.coords)
            for coords in list(complete):
                yield coords, complete.pop(coords)
            yield from self._beyond(MAX_DIRTY_BYTES)

    def put(self, coords: Coords, chunk: np.ndarray, written: np.ndarray) -> None:
        """Set a whole chunk's contents; ``written`` marks the elements that this transaction wrote."""
        self._written[coords] = np.packbits(written)
        self._dirty[coords] = chunk
        self._upload(self._beyond(MAX_DIRTY_BYTES))

    def packed(self, coords: Coords) -> bytes | None:
        """The mask of a chunk's written elements as bits; None if they are all that lie within the array."""
        packed = self._written[coords]
        return None if packed is None else packed.tobytes()

    def take(self, coords: Coords, ref: Refs, packed: np.ndarray) -> None:
        """Take over an uploaded chunk, of one that nothing was written to yet."""
        self._refs[coords] = ref
        self._written[coords] = packed

    def adopt(self, coords: Coords, other: Staging) -> None:
        """Take over a chunk from another staging, uploaded or not."""
        self._written[coords] = other._written[coords]
        if coords in other._dirty:
            self._dirty[coords] = other._dirty[coords]
        if coords in other._refs:
            self._refs[coords] = other._refs[coords]

    def is_written(self, coords: Coords) -> bool:
        """Whether any element of a chunk was written."""
        return coords in self._written

    def read(self, selection: Selection) -> np.ndarray:
        """The canonical result of a selection: the base with what was written over it."""
        out = np.empty(selection.canonical_shape, self.metadata.dtype)
        batch = max(1, WRITE_BATCH_BYTES // max(1, self.metadata.chunk_bytes))
        for projections in plan(selection, self.metadata.shape, self.metadata.chunks).batches(batch):
            chunks = self.chunks([projection.coords for projection in projections])
            for projection in projections:
                out[projection.in_result] = chunk_view(chunks[projection.coords], selection)[projection.in_chunk]
        return out

    def chunks(self, coords: list[Coords]) -> dict[Coords, np.ndarray]:
        """Chunks as they are now; not to be written into."""
        in_memory = (
            (chunk_coords, self._dirty.get(chunk_coords, self._leaving.get(chunk_coords))) for chunk_coords in coords
        )
        chunks_in_memory = {chunk_coords: chunk for chunk_coords, chunk in in_memory if chunk is not None}
        rest = [chunk_coords for chunk_coords in dict.fromkeys(coords) if chunk_coords not in chunks_in_memory]
        if any(chunk_coords in self._refs for chunk_coords in rest):
            # Uploads may still be under way, and a chunk can be read back only after its own.
            self._packs.finish()
        return chunks_in_memory | self.base.chunks(rest, self._current_refs(rest))

    def flush(self) -> tuple[list[Coords], Refs]:
        """Upload everything that is still in memory; returns every chunk written and its ref."""
        self.require_whole()
        self._upload(self._beyond(0))
        coords = self.touched
        refs = np.zeros(len(coords), REF)
        for i, chunk_coords in enumerate(coords):
            refs[i] = self._refs[chunk_coords]
        return coords, refs

    def _whole(self, projection: Projection, value: np.ndarray) -> np.ndarray:
        part = value[(*projection.in_result, ...)]
        if part.shape == self.metadata.chunks and part.dtype == self.metadata.dtype:
            return np.ascontiguousarray(part)
        chunk = np.full(self.metadata.chunks, self.metadata.fill)
        chunk[projection.in_chunk] = part
        return chunk

    def _mark(self, projection: Projection, selection: Selection) -> bool:
        """Note the elements that a projection writes, and tell whether its chunk is complete now."""
        if projection.coords in self._written and self._written[projection.coords] is None:
            return False
        mask = (
            self.written(projection.coords).copy()
            if projection.coords in self._written
            else np.zeros(self.metadata.chunks, bool)
        )
        chunk_view(mask, selection)[projection.in_chunk] = True
        complete = bool(mask[self._inside(projection.coords)].all())
        self._written[projection.coords] = None if complete else np.packbits(mask)
        return complete

    def _inside(self, coords: Coords) -> tuple[slice, ...]:
        return tuple(slice(0, n) for n in clipped(coords, self.metadata.shape, self.metadata.chunks))

    def _current_refs(self, coords: list[Coords]) -> Refs:
        refs = np.zeros(len(coords), REF)
        in_base = []
        for i, chunk_coords in enumerate(coords):
            if chunk_coords in self._refs:
                refs[i] = self._refs[chunk_coords]
            else:
                in_base.append(i)
        if in_base:
            refs[in_base] = self.base.refs([coords[i] for i in in_base])
        return refs

    def _beyond(self, limit_bytes: int) -> Iterator[tuple[Coords, np.ndarray]]:
        """Remove the least recently written chunks from memory until at most this number of bytes is left."""
        limit = limit_bytes // max(1, self.metadata.chunk_bytes)
        while len(self._dirty) > limit:
            yield self._dirty.popitem(last=False)

    def _upload(self, chunks: Iterable[tuple[Coords, np.ndarray]]) -> None:
        """Encode chunks while the next ones are drawn; of a chunk that is drawn twice the later upload counts."""

        def encode(coords: Coords, chunk: np.ndarray) -> tuple[Coords, np.ndarray, Encoded | None]:
            return coords, chunk, encoded(self.base.fetcher, self.metadata, chunk)

        def tasks() -> Iterator[tuple[int, Callable[[], tuple[Coords, np.ndarray, Encoded | None]]]]:
            for coords, chunk in chunks:
                self._leaving[coords], self._torn = chunk, True
                yield chunk.nbytes, partial(encode, coords, chunk)

        def place(result: tuple[Coords, np.ndarray, Encoded | None]) -> None:
            coords, chunk, stored = result
            self._refs[coords] = null_ref() if stored is None else self._packs.add(*stored)
            if self._leaving[coords] is chunk:
                del self._leaving[coords]

        with self._whole_at_the_end():
            run_in_order(tasks(), place)


def mask_of(coords: Coords, packed: bytes | None, shape: tuple[int, ...], chunks: tuple[int, ...]) -> np.ndarray:
    """A chunk's mask of written elements, from its bits; None stands for all that lie within an array of this shape."""
    if packed is not None:
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=int(np.prod(chunks, dtype=np.int64)))
        return bits.view(bool).reshape(chunks)
    mask = np.zeros(chunks, bool)
    mask[tuple(slice(0, n) for n in clipped(coords, shape, chunks))] = True
    return mask


def rows_of(metadata: ArrayMetadata, start: int, stop: int, axis: int = 0) -> Iterator[tuple[int, int]]:
    """Row ranges along an axis of at most about 64 MiB each."""
    others = (*metadata.shape[:axis], *metadata.shape[axis + 1 :])
    row_bytes = max(1, int(np.prod(others, dtype=np.int64)) * planned_bytes(metadata.dtype))
    step = max(1, WRITE_BATCH_BYTES // row_bytes)
    for begin in range(start, stop, step):
        yield begin, min(begin + step, stop)
