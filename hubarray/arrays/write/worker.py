"""Many processes that write for one transaction. Each uploads its own regions; the driver commits once.

A worker handle is small and picklable: the root, the name, and the commit at the start of the transaction. A process
returns what it wrote as a part: refs, and the elements that they cover. A worker may die or run twice, because its
uploads are not visible until the driver commits the part.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays.indexing import selection
from hubarray.arrays.read.snapshot import ArraySnapshot
from hubarray.arrays.write.assignment import assignable
from hubarray.arrays.write.staging import Staging, mask_of
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import homes
from hubarray.errors import HubError, ReadOnlyError
from hubarray.history.log.version import version_of
from hubarray.history.records.record import Record
from hubarray.names import Name
from hubarray.storage.url import Root

Coords = tuple[int, ...]

# What an array sees of a record of its version; picklable.
View = Callable[[Record], Record]

_USE = "use a worker within 'with worker as w:', through w; w.part is there after the block"


@dataclass(frozen=True)
class ArrayPart:
    """The chunks of one worker, for ``Transaction.add``. Picklable.

    Attributes
    ----------
    transaction : str
        The transaction that it belongs to.
    coords : tuple
        Coordinates of the chunks.
    refs : bytes
        The packed refs, with homes as indices into ``homes``.
    homes : tuple of str
    written : tuple
        For each chunk, the packed mask of its written elements, or None for all elements.
    shape : tuple of int
        The shape of the array that the worker saw.
    """

    transaction: str
    coords: tuple[Coords, ...]
    refs: bytes
    homes: tuple[str, ...]
    written: tuple[bytes | None, ...]
    shape: tuple[int, ...]

    def mask(self, i: int, chunks: tuple[int, ...]) -> np.ndarray:
        """Return the mask of the written elements of the i-th chunk."""
        return mask_of(self.coords[i], self.written[i], self.shape, chunks)


class ArrayWorker:
    """A transaction in another process: ``t.worker()`` returns it, and the process uses it as a context manager.

    ::

        def ingest(worker, i):
            with worker as w:
                w[100 * i : 100 * (i + 1)] = load_samples(i)
            return w.part

    Each block has its own :class:`ArrayPartWriter`, so you can use a handle several times and in several threads.
    """

    def __init__(
        self, root: Root, name: Name, base: int, shape: tuple[int, ...], transaction: str, view: View | None = None
    ) -> None:
        self._description = (root, name, base, shape, transaction, view)
        self._blocks = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayWorker, self._description

    def open(self) -> ArrayPartWriter:
        """Return a writer that :meth:`ArrayPartWriter.close` ends. A ``with`` block does both."""
        root, name, base, shape, transaction, view = self._description
        version = version_of(root, name)
        record = version.uncached(base)
        if view is not None:
            record = view(record)
        return ArrayPartWriter(ArraySnapshot.of(version, record), shape, transaction)

    def __enter__(self) -> ArrayPartWriter:
        writer = self.open()
        self._open_blocks().append(writer)
        return writer

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._open_blocks().pop().close(abandon=kind is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array in the transaction."""
        return self._description[3]

    @property
    def part(self) -> ArrayPart:
        """Raise an error, because a part belongs to a block."""
        raise HubError(_USE)

    def __getitem__(self, key: Any) -> Any:
        raise HubError(_USE)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise HubError(_USE)

    def _open_blocks(self) -> list[ArrayPartWriter]:
        """The blocks that this thread is in, innermost last."""
        if not hasattr(self._blocks, "open"):
            self._blocks.open = []
        blocks: list[ArrayPartWriter] = self._blocks.open
        return blocks


class ArrayPartWriter:
    """The writer in the block of a worker.

    It supports NumPy's indexing. Reading returns the commit at the start of the transaction, with the writes of this
    block on top. After the block, the driver adds ``part`` to the transaction.
    """

    def __init__(self, base: ArraySnapshot, shape: tuple[int, ...], transaction: str) -> None:
        self._packs = PackWriter(base.version.store, base.version.name.home)
        self._staging = Staging(base, base.metadata.with_shape(shape), self._packs)
        self._transaction = transaction
        self._part: ArrayPart | None = None
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.RLock()

    @property
    def part(self) -> ArrayPart:
        """The part that the block wrote, after its end."""
        if self._part is None:
            raise HubError("a worker's part is there after its 'with' block")
        return self._part

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array in the transaction."""
        return self._staging.metadata.shape

    def __getitem__(self, key: Any) -> Any:
        """Read elements, including the writes of this block."""
        self._check_open()
        chosen = selection.parse(key, self.shape)
        with self._lock:
            result = chosen.from_canonical(self._staging.read(chosen))
        return result[()] if chosen.is_scalar else result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign elements. This process uploads them."""
        self._check_open()
        chosen = selection.parse(key, self.shape)
        values = assignable(value, key, chosen, self._staging.metadata, self._staging.base.record.attrs)
        if chosen.size:
            with self._lock:
                self._staging.write(chosen, chosen.to_canonical(values))

    def close(self, *, abandon: bool) -> None:
        """End the block: upload the rest and make the part, or give up."""
        self._check_open()
        self._closed = True
        if abandon:
            self._packs.abandon()
            return
        staging = self._staging
        coords, refs = staging.flush()
        self._packs.finish()
        table = homes.store(refs, staging.base.version.name.home)
        packed = tuple(staging.packed(chunk_coords) for chunk_coords in coords)
        self._part = ArrayPart(self._transaction, tuple(coords), refs.tobytes(), tuple(table), packed, self.shape)

    def _check_open(self) -> None:
        if self._closed:
            raise HubError(_USE)
        if os.getpid() != self._process:
            raise ReadOnlyError("a worker's block belongs to the process that began it; begin one in this process")


def chunk_hashes(refs: np.ndarray) -> list[bytes]:
    """Return the hash and length of the blob of each ref, which are equal for equal contents."""
    return [ref["hash"].tobytes() + int(ref["length"]).to_bytes(8, "little") for ref in refs]
