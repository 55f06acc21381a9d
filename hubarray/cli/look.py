"""Commands that look: what is there, what it is, what changed."""

from __future__ import annotations

import itertools
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hubarray as hub
from hubarray import names
from hubarray.api import registry
from hubarray.cli.command import DONE, PROBLEMS, argument, command, count
from hubarray.cli.output import Output, table_lines
from hubarray.errors import ConfigError, CorruptDataError, FormatVersionError
from hubarray.history.log import listing
from hubarray.interop.notebook.html import human_bytes
from hubarray.redaction import shown_text
from hubarray.storage.url import Root, resolve


@command(
    "ls",
    "List versions.",
    examples=(
        "hubarray ls",
        "hubarray ls lab --long",
    ),
    arguments=(
        argument("prefix", nargs="?", default="", help="an owner, or the beginning of owner/name"),
        argument("-l", "--long", action="store_true", help="also show kind, shape, dtype and commit, which opens each"),
    ),
)
def ls(arguments: Namespace, output: Output) -> int:
    """``hubarray ls``."""
    require_root(arguments.root)
    owner, beginning = names.parse_prefix(arguments.prefix)
    live_versions = listing.live_versions(resolve(arguments.root).store, owner, beginning)
    rows = [
        {"name": str(name), "state": "damaged" if problem else "", "problem": problem}
        for name, problem in live_versions.items()
    ]
    if not arguments.long:
        output.value(rows, (f"{row['name']}  (damaged)" if row["problem"] else str(row["name"]) for row in rows))
        return DONE
    rows = [_described(row, arguments.root) for row in rows]
    output.value(rows, table_lines([{key: cell for key, cell in row.items() if key != "problem"} for row in rows]))
    return DONE


def require_root(root: str | None) -> None:
    """Refuse a folder that is named as the root and does not exist: a slip, where an empty list would hide it."""
    if root is not None and (place := Root(root)).scheme == "file" and not Path(place.path).is_dir():
        raise ConfigError(f"--root {root}: there is no such folder")


def _described(row: dict[str, Any], root: str | None) -> dict[str, Any]:
    """A row of ``ls`` with what is found on opening the version."""
    about: dict[str, Any] = {"kind": "", "shape": "", "dtype": "", "commit": ""}
    if not row["problem"]:
        try:
            handle = hub.load(row["name"], root=root)
            shape, dtype = registry.of(handle).summary(handle)
            about = {"kind": handle.kind, "shape": shape, "dtype": dtype, "commit": handle.commit}
            row = row | {"state": "frozen" if handle.frozen else ""}
        except (CorruptDataError, FormatVersionError) as error:
            row = row | {"state": "damaged", "problem": str(error)}
    return {"name": row["name"], **about, "state": row["state"], "problem": row["problem"]}


@command(
    "info",
    "Describe an array, a dataset or a table.",
    examples=(
        "hubarray info lab/scans:v1",
        "hubarray info lab/scans:v1@12 --json",
    ),
    arguments=(argument("name"),),
)
def info(arguments: Namespace, output: Output) -> int:
    """``hubarray info``."""
    handle = hub.load(arguments.name, root=arguments.root)
    newest = next(iter(handle.log()))
    facts = {
        "name": f"{handle.name}:{handle.version}",
        "kind": handle.kind,
        "commit": handle.commit,
        "frozen": handle.frozen,
        **registry.of(handle).facts(handle),
        "attrs": dict(handle.attrs),
        "tags": handle.tags,
        "time": str(newest.time),
        "author": newest.author,
        "root": handle.root.url,
    }
    shown: list[tuple[str, Any]] = []
    for key, fact in facts.items():
        if isinstance(fact, dict) and fact:
            # A line for each.
            shown += [(key, ""), *((f"  {name}", value) for name, value in fact.items())]
        else:
            shown.append((key, human_bytes(float(fact)) if key.endswith("_bytes") else "-" if fact == {} else fact))
    output.facts(facts, shown)
    return DONE


@command(
    "log",
    "Show the commits of a version, newest first.",
    examples=("hubarray log lab/scans:v1 -n 5",),
    arguments=(
        argument("name"),
        argument("-n", "--number", type=count, help="maximum number of commits"),
    ),
)
def log(arguments: Namespace, output: Output) -> int:
    """``hubarray log``."""
    commits = itertools.islice(hub.log(arguments.name, root=arguments.root), arguments.number)
    if output.json:
        output.value([asdict(commit) for commit in commits], [])
        return DONE
    for commit in commits:
        print(shown_text(f"{commit.number:>6}  {commit.time:%Y-%m-%d %H:%M:%S}  {commit.author}  {commit.message}"))
    return DONE


@command(
    "diff",
    "Show the differences of two versions or commits. The exit status is 3 if there are any.",
    examples=("hubarray diff lab/scans:v1@3 lab/scans:v1",),
    arguments=(
        argument("a"),
        argument("b"),
        argument("--elements", action="store_true", help="read the chunks that differ, and compare their elements"),
        argument("--on", nargs="+", metavar="FIELD", help="index fields that pair the rows of two tables"),
    ),
)
def diff(arguments: Namespace, output: Output) -> int:
    """``hubarray diff``; 3 if they differ."""
    difference = hub.diff(arguments.a, arguments.b, elements=arguments.elements, on=arguments.on, root=arguments.root)
    if isinstance(difference, hub.results.TableDiff):
        output.value(asdict(difference), str(difference).splitlines())
        return PROBLEMS if difference else DONE
    if isinstance(difference, hub.results.DatasetDiff):
        shown: dict[str, Any] = {name: list(getattr(difference, name)) for name in ("added", "dropped", "replaced")}
        shown |= {
            "renamed": dict(difference.renamed),
            "changed": {name: len(array_diff.chunks) for name, array_diff in difference.changed.items()},
        }
        output.value(shown, str(difference).splitlines() if difference else [])
        return PROBLEMS if difference else DONE
    regions = [[[part.start, part.stop] for part in region] for region in difference.regions]
    lines = ["[" + ", ".join(f"{part.start}:{part.stop}" for part in region) + "]" for region in difference.regions]
    facts: dict[str, Any] = {"regions": regions, "shapes": [list(shape) for shape in difference.shapes]}
    if arguments.elements:
        facts["elements"] = difference.elements
        lines.append(f"{difference.elements:,} elements differ")
    output.value(facts, lines)
    return PROBLEMS if difference else DONE


@command(
    "du",
    "Show how many bytes names take in the bucket.",
    examples=(
        "hubarray du",
        "hubarray du lab/scans --json",
        "hubarray du lab/drives:v2",
    ),
    arguments=(argument("prefix", nargs="?", default=""),),
)
def du(arguments: Namespace, output: Output) -> int:
    """``hubarray du``: what every name takes, all versions and commits together; of one version what is shared."""
    require_root(arguments.root)
    if ":" in arguments.prefix:
        usage = asdict(hub.du(arguments.prefix, root=arguments.root))
        shown = {name: human_bytes(float(value)) for name, value in usage.items() if isinstance(value, int)}
        shown["read by"] = ", ".join(usage["holders"]) or "nobody else"
        output.value(usage, [f"{name}: {value}" for name, value in shown.items()])
        return DONE
    store = resolve(arguments.root).store
    # Those of which all versions are deleted, too: their bytes may be held for others.
    homes = [home.home for home in listing.homes_of(store, *names.parse_prefix(arguments.prefix))]
    rows = []
    for home in homes:
        sizes = [info.size_bytes for info in store.list(f"{home}/")]
        rows.append({"name": home, "objects": len(sizes), "bytes": sum(sizes)})
    if output.json:
        output.table(rows)
        return DONE
    output.table([row | {"bytes": human_bytes(float(str(row["bytes"])))} for row in rows])
    return DONE
