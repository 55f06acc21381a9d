from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import hubarray as hub
from tests import servers


@dataclass
class Served:
    """A root as its owner writes to it, and as a reader reaches it."""

    own: hub.Root
    read: hub.Root


@pytest.fixture(params=["local", "s3", "http"])
def served(request: pytest.FixtureRequest, make_root) -> Iterator[Served]:
    """A root that somebody else fills: a folder, a bucket, or a folder behind a web server."""
    if request.param != "http":
        root = make_root(request.param)
        yield Served(root, root)
        return
    root = make_root("local")
    with servers.static_http(root.store.folder) as url:
        yield Served(root, hub.Root(url))
