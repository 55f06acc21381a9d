"""Where a read puts its blobs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.ref import BlobName
from hubarray.storage.base import Buffer


class Sink:
    """Takes the blobs of one read by their positions, on whatever thread has them.

    This one drops them: subclasses override what they need. At most one thread per core decodes at a time.

    Attributes
    ----------
    keys : sequence of key or None, or None
        The key of each blob in the memory cache, None for one that is never there. None for all of them reads without
        the memory cache.
    """

    keys: Sequence[Hashable | None] | None = None

    def recall(self, i: int, value: Any) -> None:
        """Take what the memory cache has for a blob."""

    def buffers(self, i: int) -> list[memoryview] | None:
        """Return memory for the bytes of a blob in a local file, in pieces; None if :meth:`take` is to get them."""
        return None

    def are_final(self, i: int, buffers: list[memoryview]) -> bool:
        """Whether these, filled with the right bytes, are all that is needed; otherwise :meth:`take` is called."""
        return True

    def take(self, i: int, data: Buffer, is_fetched: bool) -> None:
        """Decode a blob, and keep it in the memory cache or not.

        Parameters
        ----------
        i : int
        data : buffer
            It may lie in memory that is used again.
        is_fetched : bool
            Whether a request to a server brought it, rather than a file of this machine.
        """


class Copies(Sink):
    """Holds the bytes of each blob in memory of its own.

    Attributes
    ----------
    data : list of buffer
        Writable.
    """

    def __init__(self, names: Sequence[BlobName]) -> None:
        self._names = names
        self.data: list[Buffer] = [b""] * len(names)

    def buffers(self, i: int) -> list[memoryview]:
        """See :class:`Sink`."""
        self.data[i] = buffer = np.empty(self._names[i][3], "u1").data
        return [buffer]

    def take(self, i: int, data: Buffer, is_fetched: bool) -> None:
        """See :class:`Sink`."""
        self.data[i] = bytearray(data)
