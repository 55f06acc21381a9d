"""An array's attributes: a small mapping of JSON values, each change a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from hubarray.errors import ConfigError
from hubarray.history.fields import MAX_DEPTH, is_deep
from hubarray.history.record import MAX_ATTRS_BYTES


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


def checked_attrs(attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes as JSON will give them back.

    Raises
    ------
    ConfigError
        A key is no string, a value is not JSON, or all together are over 64 KiB.
    """
    if attrs is not None and not isinstance(attrs, Mapping):
        raise ConfigError(f"attrs is a mapping of strings to JSON values, not {type(attrs).__name__}")
    attrs = dict(attrs or {})
    wrong = [key for key in attrs if not isinstance(key, str)]
    if wrong:
        raise ConfigError(f"attrs: keys are strings, not {wrong[0]!r}")
    try:
        text = json.dumps(attrs, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"attrs: values are what JSON holds: {error}") from None
    if is_deep(attrs, MAX_DEPTH - 8):
        raise ConfigError(f"attrs are nested more than {MAX_DEPTH - 8} deep; keep such things in arrays")
    if len(text) > MAX_ATTRS_BYTES:
        raise ConfigError(
            f"attrs take {len(text)} bytes and {MAX_ATTRS_BYTES} are allowed; keep large things in arrays"
        )
    return dict(json.loads(text))


def _plain(value: Any) -> Any:
    """NumPy's scalars and small arrays, as JSON writes them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
