"""An array at one commit: whose log, which record, and what that says; and from there to refs and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hubarray.arrays.indexing import numbering
from hubarray.arrays.metadata.metadata import ArrayMetadata, metadata_of
from hubarray.arrays.read.chunk_codec import chunk_keys
from hubarray.arrays.read.chunk_sinks import ChunkSink
from hubarray.blobs.fetch import Fetcher
from hubarray.blobs.ref import REF, Blobs, Refs, blob_place
from hubarray.bounded_dict import BoundedDict
from hubarray.history.log.version import Version
from hubarray.history.records.contents import present_refs, ref_of, refs_of
from hubarray.history.records.record import Record
from hubarray.process import cached_property

Coords = tuple[int, ...]

_REMEMBERED_BLOBS = 16384
_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class ArraySnapshot:
    """The beginning of every read and every operation.

    Attributes
    ----------
    version : Version
    record : Record
        Of an array.
    metadata : ArrayMetadata
        What the record says of it.
    """

    version: Version
    record: Record
    metadata: ArrayMetadata
    _blobs: dict[int, Blobs] = field(default_factory=partial(BoundedDict[int, Blobs], _REMEMBERED_BLOBS), repr=False)

    @staticmethod
    def of(version: Version, record: Record) -> ArraySnapshot:
        """The state that a record has.

        Raises
        ------
        FormatVersionError, CorruptDataError
            As :func:`hubarray.arrays.metadata.metadata.metadata_of`.
        """
        return ArraySnapshot(version, record, metadata_of(record))

    @property
    def fetcher(self) -> Fetcher:
        """The engine that reads its blobs."""
        return self.version.fetcher

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many chunks each axis has."""
        return numbering.chunk_counts(self.metadata.shape, self.metadata.chunks)

    def numbered(self, numbers: numbering.Numbers) -> Refs:
        """The refs of chunks within the array by their numbers, null where absent."""
        return refs_of(self.fetcher, self.record, numbers)

    def refs(self, coords: Sequence[Coords]) -> Refs:
        """The refs of chunks, null where they are absent or beyond the array's edge."""
        refs = np.zeros(len(coords), REF)
        if not len(coords):
            return refs
        grid = self.record.grid
        inside = [all(c < n for c, n in zip(chunk_coords, self.counts, strict=True)) for chunk_coords in coords]
        numbers = [
            numbering.number_of(chunk_coords, grid) for chunk_coords, keep in zip(coords, inside, strict=True) if keep
        ]
        refs[inside] = self.numbered(np.array(numbers, np.uint64))
        return refs

    def blob(self, coords: Coords) -> Blobs | None:
        """The blob of one chunk; None if it is absent. Remembered for the next time."""
        number = numbering.number_of(coords, self.record.grid)
        blob = self._blobs.get(number)
        if blob is None:
            ref = ref_of(self.fetcher, self.record, number)
            if ref is None or not ref["length"]:
                return None
            blob = self._blobs[number] = Blobs.at(blob_place(ref))
        return blob

    def chunks(self, coords: Sequence[Coords], refs: Refs | None = None) -> dict[Coords, np.ndarray]:
        """Decoded chunks, from the memory cache where it has them; absent ones are fill value. Not to be written into.

        Parameters
        ----------
        coords : sequence of tuple
        refs : array of REF, optional
            What to read for each, of an array stored alike; by default the state's own.
        """
        refs = self.refs(coords) if refs is None else refs
        present = np.flatnonzero(refs["length"]).tolist()
        blobs = Blobs.of_refs(refs[present])
        sink = _ReadOnce(self.fetcher, self.metadata, blobs.names, chunk_keys(self.fetcher, blobs.names, self.metadata))
        self.fetcher.read(blobs, sink, max_bytes=self.metadata.max_blob_bytes)
        chunks = {coords[i]: sink.chunks[position] for position, i in enumerate(present)}
        for i in np.flatnonzero(refs["length"] == 0).tolist():
            chunks[coords[i]] = np.full(self.metadata.chunks, self.metadata.fill)
        return chunks

    def present(self, *, batch_bytes: int = _BATCH_BYTES) -> Iterator[tuple[npt.NDArray[np.uint64], Refs]]:
        """Iterate over the coordinates and refs of all stored chunks, in batches of about this number of stored
        bytes."""
        for numbers, refs in present_refs(self.fetcher, self.record, batch_bytes=batch_bytes):
            inside = numbering.within(numbers, self.record.grid, self.counts)
            yield numbering.coords_array(numbers[inside], self.record.grid, len(self.counts)), refs[inside]

    def stored_bytes(self) -> int:
        """Bytes of its chunks in the bucket; reads the whole manifest. Blobs that copies share count in each."""
        return sum(int(refs["length"].sum()) for _, refs in self.present())


@dataclass(eq=False)
class _ReadOnce(ChunkSink):
    """Has decoded chunks, which are not kept: most of them are about to be replaced."""

    chunks: dict[int, np.ndarray] = field(default_factory=dict)
    keeps: ClassVar[bool] = False

    def recall(self, i: int, chunk: np.ndarray) -> None:
        """See :class:`ChunkSink`."""
        self.chunks[i] = chunk
