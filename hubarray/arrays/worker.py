"""Many processes writing for one transaction: each uploads its own regions, the driver commits once.

A worker handle is small and picklable: root, name, and the commit the
transaction began from. What a process wrote through it comes back as a part:
refs, and which elements they cover. A worker that dies, or is run again, does
no harm: what it uploaded is not visible until the driver commits its part.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from hubarray.arrays import selection
from hubarray.arrays.metadata import ArrayMetadata
from hubarray.arrays.staging import Staging, mask_of
from hubarray.arrays.values import assignable
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import homes
from hubarray.errors import HubError, ReadOnlyError
from hubarray.history.version import version_of
from hubarray.names import Name
from hubarray.storage.url import Root

Coords = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """What one worker wrote: give it to ``Transaction.add``. Picklable.

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


class Worker:
    """A transaction as another process sees it: made by ``t.worker()``, used as a context manager there.

    ::

        def ingest(worker, i):
            with worker as w:
                w[100 * i : 100 * (i + 1)] = load_samples(i)
            return w.part

    Writing takes NumPy's indexing. Reading gives the commit the transaction
    began from, with this worker's own writes over it. After the block,
    ``part`` is what the driver adds to the transaction.
    """

    def __init__(self, root: Root, name: Name, base: int, shape: tuple[int, ...], transaction: str) -> None:
        self._description = (root, name, base, shape, transaction)
        self._staging: Staging | None = None
        self._part: Part | None = None
        self._process = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Worker, self._description

    def __enter__(self) -> Worker:
        root, name, base, shape, _ = self._description
        version = version_of(root, name)
        record = version.live(base)
        metadata = ArrayMetadata.from_json(record.array).with_shape(shape)
        self._packs = PackWriter(version.store, version.name.home)
        self._staging = Staging(version, record, metadata, self._packs)
        self._part = None
        self._process = os.getpid()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        staging, self._staging = self._open(), None
        if kind is not None:
            self._packs.abandon()
            return
        coords, refs = staging.flush()
        self._packs.finish()
        table = homes.store(refs, staging.version.name.home)
        self._part = Part(
            self._description[-1],
            tuple(coords),
            refs.tobytes(),
            tuple(table),
            tuple(staging.packed(one) for one in coords),
            self.shape,
        )

    @property
    def part(self) -> Part:
        """What was written in the block; only after its end."""
        if self._part is None:
            raise HubError("a worker's part is there after its 'with' block")
        return self._part

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape in the transaction."""
        return self._description[3]

    def __getitem__(self, key: Any) -> Any:
        """Read elements, this worker's own writes included."""
        staging = self._open()
        chosen = selection.parse(key, staging.metadata.shape)
        result = chosen.from_canonical(staging.read(chosen))
        return result[()] if chosen.is_scalar else result

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign elements; they are uploaded from this process."""
        staging = self._open()
        chosen = selection.parse(key, staging.metadata.shape)
        values = assignable(value, key, chosen, staging.metadata.dtype)
        if chosen.size:
            staging.write(chosen, chosen.to_canonical(values))

    def _open(self) -> Staging:
        if self._staging is None:
            raise HubError("use a worker within 'with worker as w:'")
        if os.getpid() != self._process:
            raise ReadOnlyError("a worker's block belongs to the process that began it; begin one in this process")
        return self._staging


def chunk_hashes(refs: np.ndarray) -> list[bytes]:
    """Hash and length of each ref's blob: equal for equal contents wherever they are stored."""
    return [ref["hash"].tobytes() + int(ref["length"]).to_bytes(8, "little") for ref in refs]
