"""Where the indexes of this process were read from: a commit id tells the root, so that a loader need not be told."""

from __future__ import annotations

from collections import OrderedDict

from hubarray.storage.url import Root

_MOST = 4096
_roots: OrderedDict[str, Root] = OrderedDict()


def note(commit_id: str, root: Root) -> None:
    """Remember the root of a commit."""
    _roots[commit_id] = root
    _roots.move_to_end(commit_id)
    while len(_roots) > _MOST:
        _roots.popitem(last=False)


def of(commit_id: str) -> Root | None:
    """The root of a commit that an index was read from."""
    return _roots.get(commit_id)
