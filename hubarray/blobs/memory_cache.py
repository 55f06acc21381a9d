"""The memory cache: least recently used out first, in two segments so that scans pass through."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from hubarray import process

_PROTECTED_SHARE = 0.8
_SEEN_KEYS = 65536


class MemoryCache:
    """Values by key, within a budget of bytes; thread-safe.

    Segmented LRU (Karedla, Love and Wherry, 1994): an entry begins on
    probation and is protected once it is used again, so data that is read
    once never pushes out data that is read often.

    Parameters
    ----------
    budget_bytes : int
        0 keeps nothing.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.hits = self.misses = 0
        self._probation: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._protected: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._seen: OrderedDict[Hashable, bool] = OrderedDict()
        self._used_bytes = self._protected_bytes = 0
        self._lock = threading.Lock()
        process.register(self)

    def after_fork(self) -> None:
        """Start afresh in a forked child."""
        # Another thread may have been halfway through an update, so the entries cannot be trusted.
        self._lock = threading.Lock()
        self.clear()

    @property
    def used_bytes(self) -> int:
        """Bytes held now."""
        return self._used_bytes

    def get(self, key: Hashable) -> Any | None:
        """The value, or None; marks it as used."""
        with self._lock:
            entry = self._protected.get(key)
            if entry is not None:
                self._protected.move_to_end(key)
                self.hits += 1
                return entry[0]
            entry = self._probation.pop(key, None)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._protected[key] = entry
            self._protected_bytes += entry[1]
            while self._protected_bytes > self.budget_bytes * _PROTECTED_SHARE and len(self._protected) > 1:
                old_key, old = self._protected.popitem(last=False)
                self._protected_bytes -= old[1]
                self._probation[old_key] = old
            return entry[0]

    def seen_before(self, key: Hashable) -> bool:
        """Whether this was asked of the key before, and not long ago; notes that it is asked now.

        For values that cost a copy to keep: one that is used once need not be kept at all.
        """
        with self._lock:
            if self._seen.pop(key, None):
                return True
            self._seen[key] = True
            if len(self._seen) > _SEEN_KEYS:
                self._seen.popitem(last=False)
            return False

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value that takes ``size_bytes``, unless it is over the whole budget."""
        if size_bytes > self.budget_bytes:
            return
        with self._lock:
            if key in self._protected or key in self._probation:
                return
            self._probation[key] = (value, size_bytes)
            self._used_bytes += size_bytes
            while self._used_bytes > self.budget_bytes:
                segment = self._probation if self._probation else self._protected
                _, (_, freed) = segment.popitem(last=False)
                self._used_bytes -= freed
                if segment is self._protected:
                    self._protected_bytes -= freed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._probation.clear()
            self._protected.clear()
            self._seen.clear()
            self._used_bytes = self._protected_bytes = 0
