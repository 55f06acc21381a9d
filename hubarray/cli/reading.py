"""Commands about epochs: how fast a source is read, and the metadata of Petastorm datasets."""

from __future__ import annotations

import resource
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

import hubarray as hub
from hubarray.cli.command import DONE, argument, command, count
from hubarray.cli.output import Output
from hubarray.errors import ConfigError
from hubarray.interop.notebook.html import human_bytes


@command(
    "throughput",
    "Measure how fast training can read epochs of a dataset.",
    examples=(
        "hubarray throughput lab/drives:v1 --fields camera.image",
        "hubarray throughput s3://bucket/train --batches --shuffle-rows --workers 8 --json",
    ),
    arguments=(
        argument("source", help="a name, or a path or URL of Parquet or a Petastorm dataset"),
        argument("--fields", nargs="+", help="names and patterns of the fields to read; all by default"),
        argument("--pool", choices=("thread", "process", "dummy"), default="thread"),
        argument("--workers", type=count, help="threads or processes of the pool"),
        argument("--batches", action="store_true", help="read batches of columns instead of rows"),
        argument("--shuffle-rows", action="store_true", help="shuffle single rows, not only row groups"),
        argument("--cache", action="store_true", help="keep row groups of Parquet on this machine"),
        argument("--seconds", type=count, default=10, help="how long to measure after the first item (default: 10)"),
    ),
)
def throughput(arguments: Namespace, output: Output) -> int:
    """``hubarray throughput``."""
    make = hub.make_batch_reader if arguments.batches else hub.make_reader
    with make(
        arguments.source, arguments.fields, reader_pool_type=arguments.pool, workers_count=arguments.workers,
        shuffle_rows=arguments.shuffle_rows, num_epochs=None, seed=0, root=arguments.root,
        cache_type="local-disk" if arguments.cache else "null",
    ) as reader:  # fmt: skip
        began, before = time.monotonic(), hub.stats()
        next(reader)
        first_seconds = time.monotonic() - began
        waits, samples, size, seconds = _measured(reader, arguments.seconds)
        diagnostics, used = reader.diagnostics, hub.stats() - before
    # Of tables and arrays what the block caches had; of Parquet, row groups.
    had = used.memory_hits + used.disk_hits + diagnostics["cache_hits"]
    looked_up = had + used.memory_misses + used.disk_misses + diagnostics["cache_misses"]
    facts = {
        "samples_per_second": samples / seconds,
        "bytes_per_second": size / seconds,
        "first_item_seconds": first_seconds,
        "wait_p50_seconds": float(np.percentile(waits, 50)),
        "wait_p99_seconds": float(np.percentile(waits, 99)),
        "epochs": diagnostics["epoch"] + 1,
        "pool": diagnostics["pool"],
        "workers": diagnostics["workers"],
        # Processes of a pool have requests and block caches of their own, which are not counted here.
        "requests": None if arguments.pool == "process" else used.requests,
        "cache_hits": had / looked_up if looked_up else None,
        "memory_bytes": _memory_bytes(),
        "shuffled_together": diagnostics["shuffled_together"],
    }
    hits = facts["cache_hits"]
    shown: dict[str, Any] = {
        "samples/s": f"{facts['samples_per_second']:,.0f}",
        "data/s": human_bytes(size / seconds),
        "first item": f"{first_seconds * 1000:,.0f} ms",
        "wait p50, p99": f"{facts['wait_p50_seconds'] * 1000:,.2f}, {facts['wait_p99_seconds'] * 1000:,.2f} ms",
        "epochs": facts["epochs"],
        "pool": f"{diagnostics['pool']}, {diagnostics['workers']} workers",
        "requests": "-" if facts["requests"] is None else f"{used.requests:,}",
        "cache hits": "-" if hits is None else f"{hits:.0%}",
        "memory": human_bytes(_memory_bytes()),
        "shuffled together": f"{diagnostics['shuffled_together']:.2%} of the rows",
    }
    output.facts(facts, shown.items())
    return DONE


def _measured(reader: hub.Reader, max_seconds: float) -> tuple[list[float], int, int, float]:
    """Waits for each item, samples, bytes, and seconds in all."""
    waits: list[float] = []
    samples = size = 0
    start = time.monotonic()
    while True:
        began = time.monotonic()
        item = next(reader)
        now = time.monotonic()
        waits.append(now - began)
        samples += len(item[0]) if reader.batched_output else 1
        size += sum(_bytes_of(value) for value in item)
        if now - start >= max_seconds:
            return waits, samples, size, now - start


def _bytes_of(value: Any) -> int:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return sum(_bytes_of(item) for item in value.tolist())
    if isinstance(value, (list, tuple)):
        return sum(_bytes_of(item) for item in value)
    return int(getattr(value, "nbytes", 0)) or (len(value) if isinstance(value, (str, bytes)) else 8)


def _memory_bytes() -> int:
    """The most memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


@command(
    "petastorm",
    "Show a Parquet or Petastorm dataset, write its summary, or copy a part of it.",
    examples=(
        "hubarray petastorm metadata s3://bucket/train",
        "hubarray petastorm metadata s3://bucket/train --write",
        "hubarray petastorm copy s3://bucket/train /data/small --fields id 'camera_.*' --not-null image",
    ),
    arguments=(
        argument("action", choices=("metadata", "copy")),
        argument("source", help="a path or URL of a folder"),
        argument("target", nargs="?", help="for copy: a folder without Parquet files"),
        argument("--write", action="store_true", help="for metadata: write a summary, for fast opening"),
        argument("--fields", nargs="+", help="for copy: names and patterns of fields"),
        argument("--not-null", nargs="+", default=[], help="for copy: only rows in which these fields are not null"),
        argument("--partition-by", nargs="+", default=[], help="for copy: fields that become folders (name=value)"),
        argument("--row-group-mb", type=float, default=32, help="for copy: size of row groups"),
    ),
)
def petastorm(arguments: Namespace, output: Output) -> int:
    """``hubarray petastorm``."""
    from hubarray.readers.parquet.finishing import read_metadata, write_metadata

    if arguments.action == "metadata":
        if arguments.target is not None:
            raise ConfigError("petastorm metadata takes one folder")
        if arguments.write:
            write_metadata(arguments.source)
        facts = read_metadata(arguments.source)
        shown = {key: f"{value:,}" for key, value in facts.items() if isinstance(value, int)}
        fields = (facts["schema"] or {}).get("fields")
        shown["schema"] = "a Unischema" if fields else "plain Parquet"
        if arguments.write:
            shown["summary"] = "written"
        columns = facts["columns"] | {name: f"{kind}, of folders" for name, kind in facts["partition_columns"].items()}
        output.facts(facts, [*shown.items(), *((f"  {name}", kind) for name, kind in columns.items())])
        return DONE
    if arguments.target is None:
        raise ConfigError("petastorm copy takes a folder to copy, and one to copy it to")
    rows = _copied(arguments)
    output.value({"rows": rows}, [f"{rows:,} rows copied"])
    return DONE


def _copied(arguments: Namespace) -> int:
    rows = 0
    options: dict[str, Any] = {"shuffle_row_groups": False, "seed": 0}
    with hub.make_reader(arguments.source, arguments.fields, **options) as reader:
        names, schema = list(reader.schema.fields), reader.schema
        unknown = [name for name in arguments.not_null if name not in names]
        if unknown:
            raise ConfigError(f"--not-null {unknown[0]}: is not among the fields that are copied")
        with hub.parquet_writer(
            arguments.target, schema, partition_by=arguments.partition_by, row_group_size_mb=arguments.row_group_mb
        ) as writer:
            for row in _rows_with_values(reader, names, arguments.not_null):
                writer.write(row)
                rows += 1
    return rows


def _rows_with_values(reader: hub.Reader, names: list[str], not_null: list[str]) -> Iterator[dict[str, Any]]:
    for item in reader:
        row = dict(zip(names, item, strict=True))
        if all(row[name] is not None for name in not_null):
            yield row
