"""Many processes writing for one transaction: each uploads its own regions, the driver commits once.

A worker handle is small and picklable: root, name, and the commit the
transaction began from. What a process wrote through it comes back as a part:
refs, and which elements they cover. A worker that dies, or is run again, does
no harm: what it uploaded is not visible until the driver commits its part.
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
    """One worker's chunks, for ``Transaction.add``. Picklable.

    Attributes
    ----------
    transaction : str
        Which transaction it belongs to.
    coords : tuple
        Coordinates of the chunks.
    refs : bytes
        Their refs, packed, with homes as indices into ``homes``.
    homes : tuple of str
    written : tuple
        For each chunk the packed mask of the elements written, or None for all of them.
    shape : tuple of int
        The array's, as the worker saw it.
    """

    transaction: str
    coords: tuple[Coords, ...]
    refs: bytes
    homes: tuple[str, ...]
    written: tuple[bytes | None, ...]
    shape: tuple[int, ...]

    def mask(self, i: int, chunks: tuple[int, ...]) -> np.ndarray:
        """Mask of the elements written of the i-th chunk."""
        return mask_of(self.coords[i], self.written[i], self.shape, chunks)


class ArrayWorker:
    """A transaction as another process sees it: made by ``t.worker()``, used as a context manager there.

    ::

        def ingest(worker, i):
            with worker as w:
                w[100 * i : 100 * (i + 1)] = load_samples(i)
            return w.part

    Each block gives a :class:`PartWriter` of its own, so one handle may be used again, and by several threads.
    """

    def __init__(
        self, root: Root, name: Name, base: int, shape: tuple[int, ...], transaction: str, view: View | None = None
    ) -> None:
        self._description = (root, name, base, shape, transaction, view)
        self._blocks = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayWorker, self._description

    def open(self) -> ArrayPartWriter:
        """A writer that :meth:`ArrayPartWriter.close` ends; a ``with`` block does both."""
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
        """The array's shape in the transaction."""
        return self._description[3]

    @property
    def part(self) -> ArrayPart:
        """A part belongs to a block, and is refused."""
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
    """The writer that a worker's block writes through.

    Writing takes NumPy's indexing. Reading gives the commit the transaction
    began from, with this block's own writes over it. After the block,
    ``part`` is what the driver adds to the transaction.
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
        """The part that was written in the block; only after its end."""
        if self._part is None:
            raise HubError("a worker's part is there after its 'with' block")
        return self._part

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape in the transaction."""
        return self._staging.metadata.shape

    def __getitem__(self, key: Any) -> Any:
        """Read elements, this block's own writes included."""
        self._check_open()
        chosen = selection.parse(key, self.shape)
        with self._lock:
            result = chosen.from_canonical(self._staging.read(chosen))
        return result[()] if chosen.is_scalar else result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign elements; they are uploaded from this process."""
        self._check_open()
        chosen = selection.parse(key, self.shape)
        values = assignable(value, key, chosen, self._staging.metadata, self._staging.base.record.attrs)
        if chosen.size:
            with self._lock:
                self._staging.write(chosen, chosen.to_canonical(values))

    def close(self, *, abandon: bool) -> None:
        """End the block: upload what is left and make the part, or give up."""
        self._check_open()
        self._closed = True
        if abandon:
            self._packs.abandon()
            return
        staging = self._staging
        coords, refs = staging.flush()
        self._packs.finish()
        table = homes.store(refs, staging.base.version.name.home)
        packed = tuple(staging.packed(one) for one in coords)
        self._part = ArrayPart(self._transaction, tuple(coords), refs.tobytes(), tuple(table), packed, self.shape)

    def _check_open(self) -> None:
        if self._closed:
            raise HubError(_USE)
        if os.getpid() != self._process:
            raise ReadOnlyError("a worker's block belongs to the process that began it; begin one in this process")


def chunk_hashes(refs: np.ndarray) -> list[bytes]:
    """Hash and length of each ref's blob: equal for equal contents wherever they are stored."""
    return [ref["hash"].tobytes() + int(ref["length"]).to_bytes(8, "little") for ref in refs]
