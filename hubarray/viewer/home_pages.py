"""Names under the root, and of each a few facts. No data is read."""

from __future__ import annotations

from typing import Any

from hubarray import names
from hubarray.api import catalog, registry
from hubarray.history.log import listing
from hubarray.redaction import shown_text, shown_url
from hubarray.viewer.handle_cache import Opened, line_id, title
from hubarray.viewer.parameters import Query
from hubarray.viewer.values import attributes

MAX_NAMES = 20_000
_MAX_COMMITS = 200
_ID_LETTERS = 12


def home(opened: Opened, query: Query) -> dict[str, Any]:
    """Every name: a listing for each owner and name, and up to three requests a version."""
    owner, beginning = names.parse_prefix(query.text("prefix", "", most=200))
    live_versions = listing.live_versions(opened.root.store, owner, beginning)
    rows = [{"name": str(name), "problem": problem or ""} for name, problem in live_versions.items()]
    return {"root": shown_url(opened.root.url), "names": rows[:MAX_NAMES], "more": max(0, len(rows) - MAX_NAMES)}


def facts(opened: Opened, query: Query) -> dict[str, Any]:
    """Facts about a name: its kind, size and newest commit."""
    handle = opened.handle(query.text("name"))
    shape, dtype = registry.of(handle).summary(handle)
    commit = next(iter(handle.log()))
    return {
        "name": title(handle), "line_id": line_id(handle)[:_ID_LETTERS], "kind": handle.kind,
        "shape": shape, "dtype": dtype, "bytes": int(handle.nbytes),
        "commit": commit.number, "time": commit.time.isoformat(), "author": shown_text(commit.author),
        "message": shown_text(commit.message), "frozen": bool(handle.frozen), "attrs": attributes(handle.attrs),
    }  # fmt: skip


def log(opened: Opened, query: Query) -> dict[str, Any]:
    """Some hundred commits of a version, newest first, and where to continue."""
    name = names.parse(query.text("name"), commit_allowed=True)
    first = query.integer("before", 1, 1 << 53, 1 << 53)
    start = name if first == 1 << 53 else name.at(max(1, first - 1))
    rows: list[dict[str, Any]] = []
    for commit in catalog.log(str(start), root=opened.root):
        rows.append(
            {"number": commit.number, "time": commit.time.isoformat(), "author": shown_text(commit.author),
             "message": shown_text(commit.message), "kind": commit.kind, "tags": list(commit.tags),
             "frozen": commit.frozen, "source": commit.source}
        )  # fmt: skip
        if len(rows) == _MAX_COMMITS:
            break
    return {"name": str(name.at(None)), "commits": rows, "more": bool(rows) and rows[-1]["number"] > 1}
