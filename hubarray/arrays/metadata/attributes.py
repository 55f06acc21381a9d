"""An array's attributes: a small mapping of JSON values, each change a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from hubarray.values.attributes import checked_attrs


class Attributes(MutableMapping[str, Any]):
    """``a.attrs``: reads the newest commit; setting, deleting and ``update`` are commits.

    Values are what JSON holds; all of them together take at most 64 KiB.

    Parameters
    ----------
    current : callable
        Gives the attributes as they are now.
    change : callable
        Commits updates and removals.
    """

    def __init__(
        self,
        current: Callable[[], Mapping[str, Any]],
        change: Callable[[dict[str, Any], tuple[str, ...]], None],
    ) -> None:
        self._current = current
        self._change = change

    def __getitem__(self, key: str) -> Any:
        # A copy, because changing a list in place would look as if it were stored.
        return json.loads(json.dumps(self._current()[key]))

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        if key not in self._current():
            raise KeyError(key)
        self._change({}, (key,))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._current()))

    def __len__(self) -> int:
        return len(self._current())

    def __repr__(self) -> str:
        return f"Attributes({dict(self._current())!r})"

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes in one commit."""
        updates = dict(*args, **kwargs)
        checked_attrs({**self._current(), **updates})
        self._change(checked_attrs(updates), ())

    def clear(self) -> None:
        """Remove all attributes in one commit."""
        self._change({}, tuple(self._current()))
