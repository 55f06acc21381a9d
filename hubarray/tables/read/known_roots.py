"""The roots of the indexes that this process has read, by commit id, so that a loader finds them.

Every index contains a commit id, which the owner of another root may have copied. So an id that was seen under two
roots names neither.
"""

from __future__ import annotations

from collections import OrderedDict

from hubarray.errors import ConfigError
from hubarray.redaction import shown_text, shown_url
from hubarray.storage.url import Root

_MAX_IDS = 4096
_roots: OrderedDict[str, dict[str, Root]] = OrderedDict()


def note(commit_id: str, root: Root) -> None:
    """Remember a root of a commit."""
    roots = _roots.setdefault(commit_id, {})
    if len(roots) < 2:
        roots.setdefault(root.identity, root)
    _roots.move_to_end(commit_id)
    while len(_roots) > _MAX_IDS:
        _roots.popitem(last=False)


def of(commit_id: str) -> Root | None:
    """Return the root of a commit that an index was read from; None if none was.

    Raises
    ------
    ConfigError
        There are several.
    """
    roots = list(_roots.get(commit_id, {}).values())
    if len(roots) > 1:
        first, second = (shown_text(shown_url(root.url)) for root in roots)
        raise ConfigError(
            f"the commit of this index was seen under two roots, {first} and {second}; pass root= to say which one is "
            "meant"
        )
    return roots[0] if roots else None
