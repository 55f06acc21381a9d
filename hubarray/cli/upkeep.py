"""Commands that look after a root and this machine's cache."""

from __future__ import annotations

import shutil
import time
import uuid
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import hubarray as hub
from hubarray import config
from hubarray.cli.command import DONE, MESSAGE, PROBLEMS, argument, command, count
from hubarray.cli.output import Output
from hubarray.errors import ConfigError
from hubarray.interop.notebook.html import human_bytes
from hubarray.redaction import counted, shown_text
from hubarray.storage.url import resolve


@command(
    "verify",
    "Check that everything that versions need exists and is intact.",
    examples=(
        "hubarray verify lab/scans",
        "hubarray verify lab/scans:v1 --quick",
    ),
    arguments=(
        argument("name"),
        argument("--quick", action="store_true", help="check only sizes and manifests, without reading the data"),
    ),
)
def verify(arguments: Namespace, output: Output) -> int:
    """``hubarray verify``; 3 if anything is wrong."""
    report = hub.verify(arguments.name, data=not arguments.quick, root=arguments.root)
    problems = [str(problem) for problem in report.problems]
    lines = [*problems, *(f"harmed: {shown_text(affected)}" for affected in report.affected)]
    output.value({"problems": problems, "affected": report.affected}, lines or [f"{arguments.name}: all is well"])
    return PROBLEMS if problems else DONE


@command(
    "repair",
    "Restore missing or altered data from other versions, commits or the cache.",
    examples=("hubarray repair lab/scans",),
    arguments=(argument("name", help="owner/name"),),
)
def repair(arguments: Namespace, output: Output) -> int:
    """``hubarray repair``; 3 if anything is still wrong."""
    repaired = hub.repair(arguments.name, root=arguments.root)
    facts = {
        "repaired": [str(version) for version in repaired.repaired],
        "problems": [str(problem) for problem in repaired.problems],
    }
    lines = [
        *(f"repaired: {fact}" for fact in facts["repaired"]),
        *(f"still wrong: {fact}" for fact in facts["problems"]),
    ]
    output.value(facts, lines or [f"{arguments.name}: all is well"])
    return PROBLEMS if repaired.problems else DONE


@command(
    "gc",
    "Delete data that nothing needs any more.",
    examples=(
        "hubarray gc lab/scans --dry-run",
        "hubarray gc lab/scans",
    ),
    arguments=(
        argument("name", help="owner/name"),
        argument("--dry-run", action="store_true", help="only show what would be deleted"),
    ),
)
def gc(arguments: Namespace, output: Output) -> int:
    """``hubarray gc``."""
    collection = hub.collect_garbage(arguments.name, dry_run=arguments.dry_run, root=arguments.root)
    what = "would be deleted" if arguments.dry_run else "deleted"
    output.value(
        asdict(collection),
        [f"{what}: {collection.packs} packs, {collection.nodes} manifest nodes, {human_bytes(collection.bytes)}"],
    )
    return DONE


@command(
    "compact",
    "Rewrite scattered chunks and chunks in mostly dead packs side by side.",
    examples=(
        "hubarray compact lab/scans:v1 --dry-run",
        "hubarray compact lab/scans:v1",
    ),
    arguments=(
        argument("name"),
        argument("--dry-run", action="store_true", help="only show what would be rewritten"),
        MESSAGE,
    ),
)
def compact(arguments: Namespace, output: Output) -> int:
    """``hubarray compact``."""
    done = hub.compact(arguments.name, dry_run=arguments.dry_run, root=arguments.root, message=arguments.message)
    what = "would rewrite" if arguments.dry_run else "rewrote"
    output.value(asdict(done), [f"{what} {counted(done.chunks, 'chunk')}, {human_bytes(done.bytes)}"])
    return DONE


@command(
    "cache",
    "Show or empty the cache of this machine.",
    examples=(
        "hubarray cache",
        "hubarray cache --clear",
    ),
    arguments=(argument("--clear", action="store_true", help="delete the cache; no data is lost"),),
)
def cache(arguments: Namespace, output: Output) -> int:
    """``hubarray cache``."""
    settings = config.current()
    folder = Path(settings.cache_dir)
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files)
    if arguments.clear:
        shutil.rmtree(folder, ignore_errors=True)
    facts = {"folder": str(folder), "files": len(files), "bytes": size, "budget_bytes": settings.disk_cache_bytes}
    facts |= {"cleared": True} if arguments.clear else {}
    sizes = {key: human_bytes(float(str(facts[key]))) for key in ("bytes", "budget_bytes")}
    output.facts(facts, (facts | sizes).items())
    return DONE


@command(
    "bench",
    "Measure how fast this machine reads and writes the root.",
    examples=(
        "hubarray bench",
        "hubarray bench --root s3://bucket/hub --megabytes 200",
    ),
    arguments=(argument("--megabytes", type=count, default=100),),
)
def bench(arguments: Namespace, output: Output) -> int:
    """``hubarray bench``: writes an array of samples, reads it, and deletes it again."""
    side = 256
    count = max(16, arguments.megabytes * 1_000_000 // (side * side * 3))
    rng = np.random.default_rng(0)
    samples = (rng.integers(0, 8, (count, side, side, 3), np.uint8) + 100).astype(np.uint8)
    name = f"bench/{uuid.uuid4().hex}:v0"
    order = rng.permutation(count)[:50].tolist()
    settings = config.current()
    try:
        began = time.perf_counter()
        array = hub.array(samples.shape, name, "u1", chunks=(1, side, side, 3), root=arguments.root)
        with array.transaction("bench") as t:
            t[...] = samples
        written = time.perf_counter() - began
        hub.flush()
        # Cold is without any cache of ours; a folder's files are in the system's own all the same.
        hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
        array = hub.load(name, root=arguments.root)
        began = time.perf_counter()
        if not np.array_equal(array[...], samples):
            raise ConfigError(f"{name}: what was read is not what was written")
        read = time.perf_counter() - began
        cold = _seconds_of(lambda: [array[i] for i in order])
        hub.configure(disk_cache_bytes=settings.disk_cache_bytes, memory_cache_bytes=settings.memory_cache_bytes)
        array = hub.load(name, root=arguments.root)
        for _ in range(2):
            # The second time from the memory cache.
            warm = _seconds_of(lambda: [array[i] for i in order])
    finally:
        hub.configure(disk_cache_bytes=settings.disk_cache_bytes, memory_cache_bytes=settings.memory_cache_bytes)
        if hub.exists(name, root=arguments.root):
            hub.delete(name, root=arguments.root)
    facts = {
        "root": resolve(arguments.root).url,
        "write_megabytes_per_second": round(samples.nbytes / 1e6 / written, 1),
        "cold_read_megabytes_per_second": round(samples.nbytes / 1e6 / read, 1),
        "cold_random_sample_milliseconds": round(cold / len(order) * 1e3, 3),
        "warm_random_sample_milliseconds": round(warm / len(order) * 1e3, 3),
    }
    output.facts(facts)
    return DONE


def _seconds_of(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
