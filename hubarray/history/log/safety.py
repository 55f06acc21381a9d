"""Proof, before the first commit to a place, that it refuses to create a key twice.

Some servers that speak S3 ignore ``If-None-Match``; on them two writers would
both believe they had committed.
"""

from __future__ import annotations

import contextlib
import threading

from hubarray import process
from hubarray.blobs.ref import new_id
from hubarray.errors import HubError, UnsafeStoreError
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
