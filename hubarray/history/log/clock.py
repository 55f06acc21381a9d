"""The clock of the store, which decides the age of objects. It is never compared with the clock of a machine."""

from __future__ import annotations

import weakref
from datetime import datetime, timedelta

from hubarray.blobs.ref import new_id
from hubarray.errors import StorageError
from hubarray.history.log.safety import PROBE_FOLDER
from hubarray.process import uptime_seconds
from hubarray.storage.base import Store


def store_time(store: Store) -> datetime:
    """Now, as the store would stamp it: the time of an object written for the purpose. Three requests."""
    key = f"{PROBE_FOLDER}/{new_id()}"
    store.put(key, b"")
    try:
        modified = store.head(key).modified
    finally:
        store.delete([key])
    if modified is None:
        raise StorageError(f"{store.where(key)}: the store does not tell when objects were written")
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
