"""Blobs and objects one at a time, each checked against the hash it was stored under."""

from __future__ import annotations

from collections.abc import Iterator

from hubarray.blobs.ref import Blobs, blob_hash, key_of
from hubarray.errors import CorruptDataError, ObjectMissingError
from hubarray.storage.base import Buffer, Store


def read_alone(store: Store, blobs: Blobs, i: int) -> Buffer:
    """One blob by a request of its own; if it was altered on the way, it is requested again.

    Raises
    ------
    CorruptDataError, StorageError
    """
    name = blobs.names[i]
    key, (_, _, offset, length) = key_of(name), name
    for _ in range(2):
        data = unverified(store, key, offset, length)
        if blobs.is_intact(i, data):
            return data
    raise CorruptDataError(
        f"{store.where(key)}: bytes {offset} to {offset + length} do not match the hash they were stored under "
        f"({len(data)} bytes came); restore the object from a copy"
    )


def unverified(store: Store, key: str, start: int, length: int) -> Buffer:
    """Bytes of an object that a commit names as they come, which the caller has to check.

    Raises
    ------
    CorruptDataError
        The object is gone.
    StorageError
    """
    try:
        return store.get(key, start, length)
    except ObjectMissingError:
        raise gone(store, key) from None


def arriving(store: Store, key: str, start: int, length: int) -> Iterator[Buffer]:
    """As :func:`unverified`, in pieces as they arrive."""
    try:
        yield from store.pieces(key, start, length)
    except ObjectMissingError:
        raise gone(store, key) from None


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
