"""Tables as columns: writing, scanning, one column of several, and the index of many rows."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import hubarray as hub
from benchmarks import places
from benchmarks.harness import Bar, Row, measure
from benchmarks.ours import root_of
from benchmarks.places import Place
from benchmarks.table_peers import STEP_ROWS, Lance, Parquet, scanners

OURS = "hubarray"

Work = Callable[[], Any]


def table_scans(megabytes: int) -> list[Row]:
    """Rows of 1 KB, of 100 bytes, and of 900 bytes and a text: written, scanned, and one column of two read."""
    count = max(2 * STEP_ROWS, min(400_000, megabytes * 1000))
    rows: list[Row] = []
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    for kind, where in (("S3", places.s3), ("a folder", places.local)):
        with where() as base:
            rows += _fixed(kind, base.corner("kilobyte"), count, 800, 200)
            rows += _fixed(kind, base.corner("small"), 2 * count, 80, 20)
            rows += _text(kind, base.corner("text"), count)
            rows += _text_apart(kind, base.corner("apart"), count)
    return rows


def _fixed(kind: str, base: Place, count: int, wide: int, narrow: int) -> list[Row]:
    rng = np.random.default_rng(0)
    columns = {"a.v": rng.integers(0, 256, (count, wide), "u1"), "b.v": rng.integers(0, 256, (count, narrow), "u1")}
    schema = hub.Schema({name: hub.Field("u1", column.shape[1:]) for name, column in columns.items()})
    return _cases(kind, base, f"{count:,} rows of {wide + narrow:,} bytes", schema, columns, "a.v")


def _text(kind: str, base: Place, count: int) -> list[Row]:
    rng = np.random.default_rng(1)
    columns = {"g.v": rng.integers(0, 256, (count, 900), "u1"), "g.s": _texts(count)}
    schema = hub.Schema({"g.v": hub.Field("u1", (900,)), "g.s": hub.Field(str)}, rows_per_block=64)
    return _cases(kind, base, f"{count:,} rows of 1 KB with a text", schema, columns, None)


def _text_apart(kind: str, base: Place, count: int) -> list[Row]:
    rng = np.random.default_rng(1)
    columns = {"g.v": rng.integers(0, 256, (count, 900), "u1"), "s.s": _texts(count)}
    schema = hub.Schema({"g.v": hub.Field("u1", (900,)), "s.s": hub.Field(str)}, rows_per_block=64)
    rows = _cases(kind, base, f"{count:,} rows of 1 KB with a text apart", schema, columns, "s.s")
    return [row for row in rows if row.case.startswith("one column")]


def _texts(count: int) -> list[str]:
    return [f"frame {i} of a drive through the rain; " * 3 for i in range(count)]


def _list(column: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def _cases(
    kind: str, base: Place, what: str, schema: hub.Schema, columns: dict[str, Any], column: str | None
) -> list[Row]:
    arrow = pa.table(
        {name: _list(column) if isinstance(column, np.ndarray) else column for name, column in columns.items()}
    )
    root = root_of(base.corner("hubarray"))
    written = iter(range(1000))
    names: list[str] = []

    def write() -> None:
        names.append(f"bench/rows:v{next(written)}")
        with hub.table_writer(names[-1], schema, root=root) as w, w.partition("all") as p:
            p.extend(columns)

    write()
    table: Any = hub.load(names[0], root=root)
    loader = table.loader()

    def scan(column: str | None, as_: str) -> Iterator[Any]:
        for batch in loader.iter_columns(column, rows=STEP_ROWS, as_=as_):
            yield batch if as_ == "numpy" else dict(zip(batch.column_names, batch.columns, strict=True))

    contenders, absent = scanners(base, columns, arrow)
    for peer in contenders.values():
        peer.write()
    note = f"not installed: {', '.join(absent)}" if absent else ""
    bars = [Bar(name, "at least", 1.0) for name in contenders if name in ("lance", "parquet")]
    to_write = [Bar("lance", "at least", 0.95)] if "lance" in contenders else []
    writers: dict[str, Work] = {OURS: write} | {name: peer.write for name, peer in contenders.items()}

    def scans(column: str | None, as_: str) -> dict[str, Work]:
        columns_read = None if column is None else [column]
        others: dict[str, Work] = {
            name: (lambda peer=peer: _sum(peer.scan(columns_read, as_)))
            for name, peer in contenders.items()
            if as_ == "numpy" or name in ("lance", "parquet")
        }
        return {OURS: lambda: _sum(scan(column, as_)), **others}

    size = arrow.nbytes
    rows = [measure(f"writing {what} to {kind}", writers, size_bytes=size, bars=to_write, note=note, rounds=3)]
    for as_, suffix in (("numpy", ""), ("arrow", ", as Arrow")):
        rows.append(measure(f"a full scan of {what} from {kind}{suffix}", scans(None, as_), size_bytes=size, bars=bars,
                            note=note, rounds=3))  # fmt: skip
        if column is not None:
            rows.append(measure(f"one column of two of {what} from {kind}{suffix}", scans(column, as_),
                                size_bytes=int(arrow.column(column).nbytes), bars=bars, note=note, rounds=3))  # fmt: skip
    return rows


def _sum(batches: Iterator[Any]) -> int:
    """All rows as a trainer gets them: arrays of NumPy and text of Python."""
    total = 0
    for batch in batches:
        for column in batch.values():
            total += len(column)
    return total


def _and_megabytes(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and by how many MB the process grew on the way at most."""

    def held() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def watch() -> None:
        while not ended.wait(0.002):
            seen.append(held())

    seen, ended = [held()], threading.Event()
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        rows_read = work()
    finally:
        ended.set()
        watching.join()
    return rows_read, (max(seen) - seen[0]) / 1e6


def table_index(megabytes: int) -> list[Row]:
    """Opening the index of many rows in six groups: 10 million at the full size, with blocks of many rows."""
    count = max(100_000, min(10_000_000, megabytes * 10_000))
    fields = {"t": hub.Field("i8", index=True), "speed": hub.Field("f4", index=True)}
    schema = hub.Schema({**fields, **{f"g{i}.v": hub.Field("f4") for i in range(6)}})
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=256 << 20)
    with places.s3() as base:
        root = root_of(base.corner("hubarray"))
        began = time.perf_counter()
        with hub.table_writer("bench/many:v1", schema, root=root) as w:
            for part in range(10):
                with w.partition(part) as p:
                    for first in range(0, count // 10, 100_000):
                        rows = min(100_000, count // 10 - first)
                        t = np.arange(first, first + rows) + part * (count // 10)
                        values = t.astype("f4")
                        p.extend({"t": t, "speed": values, **{f"g{i}.v": values for i in range(6)}})
        wrote = time.perf_counter() - began
        index = pa.table({"t": np.arange(count), "speed": np.arange(count, dtype="f4")})
        parquet, lance = Parquet(base, index), Lance.of(base, index)
        parquet.write()
        if lance is not None:
            lance.write()
        before, sent = root.store.stats.requests, root.store.stats.counts()["read_bytes"]
        frame, grown = _and_megabytes(lambda: hub.read_index("bench/many:v1", root=root))
        requests, read = root.store.stats.requests - before, root.store.stats.counts()["read_bytes"] - sent
        taken = int(frame.memory_usage(deep=True).sum())
        contenders: dict[str, Work] = {
            OURS: lambda: len(hub.read_index("bench/many:v1", root=root)),
            "parquet": lambda: len(parquet.table().to_pandas()),
        }
        if lance is not None:
            contenders["lance"] = lambda: _sum(lance.scan(None))
        peers = {name: _and_megabytes(work)[1] for name, work in contenders.items() if name != OURS}
        megabytes_text = "".join(f", {name} {megabytes:.0f}" for name, megabytes in peers.items())
        note = (
            f"{requests} requests, {read / 1e6:.0f} MB read; the DataFrame takes {taken / count:.1f} bytes a row, and "
            f"reading it {grown:.0f} MB at most{megabytes_text}; written in {wrote:.0f} s"
        )
        return [
            measure(f"the index of {count:,} rows from S3", contenders, size_bytes=index.nbytes, note=note, rounds=3)
        ]
