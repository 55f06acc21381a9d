"""A dict that remembers a bounded number of values which can be computed again."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(dict[K, V]):
    """A dict that is emptied before it gets more than ``max_items`` keys.

    A lookup is that of a dict, without a lock, which the caches of cachetools would need: these reorder their keys on
    each lookup. An assignment of a new key costs one comparison more.

    Examples
    --------
    >>> squares = BoundedDict(2)
    >>> for n in (1, 2, 3):
    ...     squares[n] = n * n
    >>> squares
    {3: 9}
    """

    __slots__ = ("_max_items",)

    def __init__(self, max_items: int) -> None:
        super().__init__()
        self._max_items = max_items

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._max_items and key not in self:
            self.clear()
        super().__setitem__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy begins empty.
        return BoundedDict, (self._max_items,)
