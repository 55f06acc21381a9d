"""Handles on what is looked at, each at one commit: opened once, a few kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from hubarray.api import catalog
from hubarray.errors import ConfigError, NotFoundError
from hubarray.history.commits.handle import seen_record
from hubarray.redaction import shown_text, with_article
from hubarray.storage.url import Root

_MAX_HELD = 16


class Opened:
    """The names under a root, as the pages ask for them.

    Parameters
    ----------
    root : Root
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Any] = OrderedDict()

    def handle(self, name: str) -> Any:
        """An array, table or dataset at one commit: the one that is named, else the newest.

        Raises
        ------
        HubError
        """
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        snapshot = catalog.load(name, root=self.root).snapshot()
        with self._lock:
            # What is named by its number alone stays what it is, unless the version was wiped and made again.
            held = self._held.get(title(snapshot))
            if held is not None and line_id(held) != line_id(snapshot):
                beginning = f"{snapshot.name}:{snapshot.version}@"
                self._held = OrderedDict(
                    (key, handle) for key, handle in self._held.items() if not key.startswith(beginning)
                )
            self._held[title(snapshot)] = snapshot
            while len(self._held) > _MAX_HELD:
                self._held.popitem(last=False)
        return snapshot

    def array(self, name: str, key: str) -> Any:
        """An array, or one of a dataset.

        Raises
        ------
        HubError
        """
        handle = self.handle(name)
        if handle.kind == "dataset":
            if key not in handle:
                raise NotFoundError(f"{name}: has no array {shown_text(key)[:80]!r}")
            return handle[key]
        if handle.kind != "array" or key:
            raise ConfigError(f"{name}: is {with_article(handle.kind)}, which has no such pictures")
        return handle

    def table(self, name: str) -> Any:
        """A table.

        Raises
        ------
        HubError
        """
        handle = self.handle(name)
        if handle.kind != "table":
            raise ConfigError(f"{name}: is {with_article(handle.kind)} and no table")
        return handle


def line_id(handle: Any) -> str:
    """The id of the line of commits that a handle is on: a version that was wiped and made again has another."""
    return str(seen_record(handle).head.line)


def title(handle: Any) -> str:
    """The name of a handle, with its commit."""
    return f"{handle.name}:{handle.version}@{handle.commit}"
