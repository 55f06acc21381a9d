"""Columns by globs: which names ``columns=`` means. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from hubarray.errors import ConfigError

_EVERY = ("*", ".*")
_NEAR = 5


def matching(columns: str | Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """The names that globs match, in the order of the names; None, ``*`` and ``.*`` are all.

    Raises
    ------
    ConfigError
        A glob matches nothing; near names are in the message.

    Examples
    --------
    >>> matching(["cam*.image", "speed"], ["speed", "camera.image", "camera.time"])
    ['speed', 'camera.image']
    """
    if columns is None:
        return list(names)
    if not isinstance(columns, Iterable):
        raise ConfigError(f"columns={columns!r}: give names, or patterns such as 'camera.*'")
    asked_names = [columns] if isinstance(columns, str) else list(columns)
    chosen: set[str] = set()
    for glob in asked_names:
        if not isinstance(glob, str):
            raise ConfigError(
                f"columns={asked_names!r}: {glob!r} is not a name; give names, or patterns such as 'camera.*'"
            )
        matched = set(names) if glob in _EVERY else {glob} if glob in names else _matching(glob, names)
        if not matched:
            near = difflib.get_close_matches(glob, names, n=_NEAR, cutoff=0.4)
            hint = f"near names are {', '.join(near)}" if near else f"there are {', '.join(names)}"
            raise ConfigError(f"columns: {glob!r} matches no column; {hint}"[:400])
        chosen |= matched
    return [name for name in names if name in chosen]


def _matching(glob: str, names: Sequence[str]) -> set[str]:
    return {name for name in names if fnmatchcase(name, glob)}
