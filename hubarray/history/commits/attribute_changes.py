"""Changes of attributes, gathered: what is set, and what is taken away. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class AttributeChanges:
    """Some attributes that are set and others that are removed, to be made of whatever attributes there are.

    Parameters
    ----------
    updates : mapping of str to value
    removals : iterable of str

    Examples
    --------
    >>> changes = AttributeChanges({"a": 1}, ["b"])
    >>> changes.change({"b": 2}, ["a"])
    >>> changes.on({"a": 0, "b": 0, "c": 0})
    {'b': 2, 'c': 0}
    """

    def __init__(self, updates: Mapping[str, Any] | None = None, removals: Iterable[str] = ()) -> None:
        self._updates, self._removals = dict(updates or {}), set(removals)

    def __bool__(self) -> bool:
        return bool(self._updates or self._removals)

    def change(self, updates: Mapping[str, Any], removals: Iterable[str]) -> None:
        """Set and remove more."""
        gone = set(removals)
        self._updates = {key: one for key, one in self._updates.items() if key not in gone} | dict(updates)
        self._removals = (self._removals | gone) - updates.keys()

    def on(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes after the changes."""
        return {key: value for key, value in attrs.items() if key not in self._removals} | self._updates
