"""Blobs of one root one at a time, each checked against the hash it was stored under."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hubarray.blobs.ref import BlobPlace, blob_hash
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.storage.base import Buffer, Store
from hubarray.storage.url import Root

Consume = Callable[[int, Buffer], None]
"""Takes the verified bytes of the blob at a position."""


class VerifiedReads:
    """Reads of objects that commits name, checked, from a root's store.

    Parameters
    ----------
    root : Root
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    @property
    def store(self) -> Store:
        """This process's store of the root."""
        return self._root.store

    def blob(self, place: BlobPlace, is_intact: Callable[[Buffer], bool] | None = None) -> Buffer:
        """One blob; what was altered on the way is asked for again. By default its hash proves it.

        Raises
        ------
        CorruptDataError, StorageError
        """
        proved = is_intact or place.is_intact
        for _ in range(2):
            data = self.unverified(place.key, place.offset, place.length)
            if proved(data):
                return data
        end = place.offset + place.length
        raise CorruptDataError(
            f"{self.store.where(place.key)}: bytes {place.offset} to {end} do not match the hash they were stored "
            f"under ({len(data)} bytes came); restore the object from a copy"
        )

    def unverified(self, key: str, start: int | None = None, length: int | None = None) -> Buffer:
        """Bytes as they come, which the caller has to check.

        Raises
        ------
        CorruptDataError
            The object is gone.
        StorageError
        """
        try:
            return self.store.get(key, start, length)
        except ObjectMissingError:
            raise gone(self.store, key) from None

    def arriving(self, key: str, start: int, length: int) -> Iterator[Buffer]:
        """As :meth:`unverified`, in pieces as they arrive."""
        try:
            yield from self.store.pieces(key, start, length)
        except ObjectMissingError:
            raise gone(self.store, key) from None


def whole_object(store: Store, key: str, length: int, digest: bytes) -> Buffer:
    """An immutable object that a commit names, whole, checked against the hash it was stored under.

    Raises
    ------
    CorruptDataError, StorageError
    """
    try:
        data = store.get(key, 0, length + 1)
    except ObjectMissingError:
        raise gone(store, key) from None
    if len(data) != length or blob_hash(data) != digest:
        raise CorruptDataError(
            f"{store.where(key)}: the object does not match the hash it was stored under ({len(data)} bytes, "
            f"{length} expected); restore it from a copy"
        )
    return data


def gone(store: Store, key: str) -> CorruptDataError:
    """The error for an object that a commit names and the store does not have."""
    return CorruptDataError(f"{store.where(key)}: a commit names this object and it is gone; restore it from a copy")
