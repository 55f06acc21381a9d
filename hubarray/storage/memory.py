"""``memory://``: fsspec's dict of this process, for tests and trials."""

from __future__ import annotations

import threading
from typing import Any

from hubarray import process
from hubarray.storage.base import Buffer
from hubarray.storage.filesystem import FilesystemStore


class _Turn:
    """One at a time: fsspec's memory filesystem is a plain dict, which threads may not change while one lists it."""

    def __init__(self) -> None:
        self.after_fork()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        self.lock = threading.RLock()


_turn = _Turn()


class MemoryStore(FilesystemStore):
    """A root in this process's memory."""

    remote = False
    proven_create = True

    def _call(self, method: str, *args: Any, payload_bytes: int = 0, **kwargs: Any) -> Any:
        with _turn.lock:
            return super()._call(method, *args, payload_bytes=payload_bytes, **kwargs)

    def _put_if_absent(self, key: str, data: Buffer) -> bool:
        with _turn.lock:
            if self._call("exists", self._path(key)):
                return False
            self._write(key, data, no_store=True)
            return True
