"""The store's own clock, by which ages of objects are told; never a machine's clock against the store's."""

from __future__ import annotations

from datetime import datetime

from hubarray.blobs.ref import new_id
from hubarray.errors import StorageError
from hubarray.history.safety import PROBE_FOLDER
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
