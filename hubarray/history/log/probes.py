"""Facts about a store that only writing to it shows: whether it refuses to create a key twice, and its clock.

Some servers that speak S3 ignore ``If-None-Match``. On them two writers would both believe that they had committed.
The clock of the store decides the age of objects. It is never compared with the clock of a machine.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from datetime import datetime, timedelta

from hubarray import process
from hubarray.blobs.ref import new_id
from hubarray.errors import HubError, StorageError, UnsafeStoreError
from hubarray.process import uptime_seconds
from hubarray.storage.base import Store

PROBE_FOLDER = ".probe"


class _Proofs:
    def __init__(self) -> None:
        self._proven: set[str] = set()
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()

    def require(self, store: Store) -> None:
        place = store.where("")
        if store.proven_create or place in self._proven:
            return
        with self._lock:
            if place in self._proven:
                return
            key = f"{PROBE_FOLDER}/{new_id()}"
            first = store.put_if_absent(key, b"1")
            second = store.put_if_absent(key, b"2")
            with contextlib.suppress(HubError):
                store.delete([key])
            if not first or second:
                raise UnsafeStoreError(
                    f"{place}: this server let one key be created twice (it ignores If-None-Match), so two "
                    "writers could overwrite each other; commits are refused. Use another server or a newer release"
                )
            self._proven.add(place)


_proofs = _Proofs()


def require_atomic_create(store: Store) -> None:
    """Probe a store once in a process (three requests), unless its engine is atomic by construction.

    Raises
    ------
    UnsafeStoreError
        The store created one key twice.
    """
    _proofs.require(store)


def store_time(store: Store) -> datetime:
    """Now, as the store would stamp it: the time of an object written for the purpose. Three requests."""
    key = f"{PROBE_FOLDER}/{new_id()}"
    store.put(key, b"")
    try:
        modified = store.head(key).modified
    finally:
        store.delete([key])
    if modified is None:
        raise StorageError(f"{store.where(key)}: the store does not report when objects were written")
    return modified


class _Clocks:
    """The lead of each store's clock over this machine's uptime: looked for once a process."""

    def __init__(self) -> None:
        self._epochs: weakref.WeakKeyDictionary[Store, datetime] = weakref.WeakKeyDictionary()

    def now(self, store: Store) -> datetime:
        epoch = self._epochs.get(store)
        if epoch is None:
            asked_at = uptime_seconds()
            epoch = self._epochs[store] = store_time(store) - timedelta(seconds=asked_at)
        return epoch + timedelta(seconds=uptime_seconds())


_clocks = _Clocks()


def store_now(store: Store) -> datetime:
    """Now by the store's clock, never later than it is: as :func:`store_time`, which it asks once a process."""
    return _clocks.now(store)
