"""Tables as columns: writing, scanning, one column of several, the index of many rows, and what a second version costs."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Bar, Row, Timing, measure
from benchmarks.ours import root_of
from benchmarks.peers import peers
from benchmarks.places import Place

STEP_ROWS = 16_384
WIDE = 1000
OURS = "hubarray"

Work = Callable[[], Any]


def table_scans(megabytes: int) -> list[Row]:
    """Rows of 1 KB, and of 900 bytes and a text: written, scanned, and one column of two read."""
    count = max(2 * STEP_ROWS, min(400_000, megabytes * 1000))
    rows: list[Row] = []
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    for kind, where in (("S3", places.s3), ("a folder", places.local)):
        with where() as base:
            rows += _fixed(kind, base, count)
            rows += _text(kind, base, count)
    return rows


def _fixed(kind: str, base: Place, count: int) -> list[Row]:
    rng = np.random.default_rng(0)
    columns = {"a.v": rng.integers(0, 256, (count, WIDE), "u1"), "b.v": rng.integers(0, 256, (count, 250), "u1")}
    schema = hub.Schema({name: hub.Field("u1", column.shape[1:]) for name, column in columns.items()})
    arrow = pa.table({name: _list(column) for name, column in columns.items()})
    return _cases(kind, base, f"{count:,} rows of 1.25 KB", schema, columns, arrow, "a.v")


def _text(kind: str, base: Place, count: int) -> list[Row]:
    rng = np.random.default_rng(1)
    columns = {
        "g.v": rng.integers(0, 256, (count, 900), "u1"),
        "g.s": [f"frame {i} of a drive through the rain; " * 3 for i in range(count)],
    }
    schema = hub.Schema({"g.v": hub.Field("u1", (900,)), "g.s": hub.Field(str)}, rows_per_block={"g": 64})
    arrow = pa.table({"g.v": _list(columns["g.v"]), "g.s": columns["g.s"]})
    return _cases(kind, base, f"{count:,} rows of 1 KB with a text", schema, columns, arrow, None)


def _list(column: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def _cases(
    kind: str, base: Place, what: str, schema: hub.Schema, columns: dict[str, Any], arrow: pa.Table, one: str | None
) -> list[Row]:
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

    def scan(wanted: str | None) -> Iterator[Any]:
        for first in range(0, len(loader), STEP_ROWS):
            yield loader.get_columns(range(first, min(len(loader), first + STEP_ROWS)), wanted)

    parquet = _Parquet(base, arrow)
    writers: dict[str, Work] = {OURS: write, "parquet": parquet.write}
    scans: dict[str, Work] = {OURS: lambda: _sum(scan(None)), "parquet": lambda: _sum(parquet.scan(None))}
    singles: dict[str, Work] = {OURS: lambda: _sum(scan(one)), "parquet": lambda: _sum(parquet.scan([one]))}
    lance = _lance(base, arrow)
    if lance is not None:
        writers["lance"], scans["lance"] = lance.write, lambda: _sum(lance.scan(None))
        singles["lance"] = lambda: _sum(lance.scan([one]))
        lance.write()
    note = "" if lance is not None else "lance is not installed"
    size = arrow.nbytes
    bars = [Bar(peer, "at least", 1.0) for peer in scans if peer != OURS]
    to_write = [Bar("lance", "at least", 0.95)] if lance is not None else []
    rows = [
        measure(f"writing {what} to {kind}", writers, size_bytes=size, bars=to_write, note=note, rounds=3),
        measure(f"a full scan of {what} from {kind}", scans, size_bytes=size, bars=bars, note=note, rounds=3),
    ]
    if one is not None:
        read = int(columns[one].nbytes)
        rows.append(measure(f"one column of two of {what} from {kind}", singles, size_bytes=read, bars=bars, note=note,
                            rounds=3))  # fmt: skip
    return rows


def _sum(batches: Iterator[Any]) -> int:
    """All rows as a trainer gets them: arrays of NumPy and text of Python."""
    total = 0
    for batch in batches:
        for column in batch.values():
            total += len(column)
    return total


def _plain(batch: pa.RecordBatch) -> dict[str, Any]:
    found = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_fixed_size_list(column.type):
            found[name] = column.flatten().to_numpy().reshape(len(column), -1)
        else:
            found[name] = column.to_pylist()
    return found


class _Parquet:
    """One Parquet file in the same store, row groups of 16,384 rows, without compression."""

    def __init__(self, base: Place, table: pa.Table) -> None:
        place = base.corner("parquet")
        if base.kind == "s3":
            options: dict[str, Any] = dict(place.options)
            self._files: Any = pafs.S3FileSystem(
                access_key=options["key"], secret_key=options["secret"], scheme="http", region="us-east-1",
                endpoint_override=place.endpoint.removeprefix("http://"),
            )  # fmt: skip
            self._path = f"{place.url.removeprefix('s3://')}/rows.parquet"
        else:
            self._files, self._path = pafs.LocalFileSystem(), f"{place.folder}/rows.parquet"
            place.folder.mkdir(parents=True)
        self._table, self._local = table, base.kind == "local"
        self.write()

    def write(self) -> None:
        pq.write_table(self._table, self._path, filesystem=self._files, row_group_size=STEP_ROWS, compression="none",
                       use_dictionary=False)  # fmt: skip
        if self._local:
            # As ours, on the disk when it returns.
            os.sync()

    def table(self) -> pa.Table:
        return pq.read_table(self._path, filesystem=self._files)

    def scan(self, columns: Any) -> Iterator[Any]:
        file = pq.ParquetFile(self._path, filesystem=self._files, pre_buffer=True)
        for batch in file.iter_batches(STEP_ROWS, columns=columns):
            yield _plain(batch)


def _lance(base: Place, table: pa.Table) -> Any:
    found = [peer for peer in peers(base.kind)[0] if peer.name == "lance"]
    if not found:
        return None
    import lance

    peer: Any = found[0]
    where = peer._where(base.corner("lance"))
    options = {key: value for key, value in where.items() if key != "uri"}
    plain = table.rename_columns([name.replace(".", "_") for name in table.column_names])

    class Lance:
        def write(self) -> None:
            lance.write_dataset(plain, where["uri"], mode="overwrite", **options)
            if base.kind == "local":
                # As ours, on the disk when it returns.
                os.sync()

        def scan(self, columns: Any) -> Iterator[Any]:
            names = None if columns is None else [name.replace(".", "_") for name in columns]
            for batch in lance.dataset(**where).to_batches(columns=names, batch_size=STEP_ROWS):
                yield _plain(batch)

    return Lance()


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
        found = work()
    finally:
        ended.set()
        watching.join()
    return found, (max(seen) - seen[0]) / 1e6


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
        parquet = _Parquet(base, index)
        lance = _lance(base, index)
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
        told = "".join(f", {name} {megabytes:.0f}" for name, megabytes in peers.items())
        note = (
            f"{requests} requests, {read / 1e6:.0f} MB read; the DataFrame takes {taken / count:.1f} bytes a row, and "
            f"reading it {grown:.0f} MB at most{told}; written in {wrote:.0f} s"
        )
        return [
            measure(f"the index of {count:,} rows from S3", contenders, size_bytes=index.nbytes, note=note, rounds=3)
        ]


def table_sharing(megabytes: int) -> list[Row]:
    """A drive of 2,000 rows, extracted again with other labels: how many new bytes its second version stores."""
    count = max(200, min(2000, megabytes * 10))
    schema = hub.Schema(
        {
            "time": hub.Field("i8", index=True),
            "camera.image": hub.Field("u1", (None, None, 3), codec="jpeg"),
            "lidar": hub.Field("f4", (None, 4)),
            "radar": hub.Field("f4", (None, 3)),
            "labels.boxes": hub.Field("f4", (None, 4)),
            "labels.text": hub.Field(str),
        }
    )
    frames = data.photographs(min(count, 200), 224)

    def drive(version: int) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(0)
        labels = np.random.default_rng(version)
        for i in range(count):
            yield {
                "time": i * 100,
                "camera.image": frames[i % len(frames)] ^ np.uint8(i % 7),
                "lidar": rng.random((2000 + i % 50, 4), "f4"),
                "radar": rng.random((60 + i % 9, 3), "f4"),
                "labels.boxes": labels.random((i % 8, 4), "f4"),
                "labels.text": f"{version}: {i}",
            }

    with places.local() as base:
        root = root_of(base.corner("hubarray"))
        seconds = {}
        for version, reference in ((1, None), (2, "bench/drive:v1")):
            began = time.perf_counter()
            writer = hub.table_writer(f"bench/drive:v{version}", schema, reference=reference, root=root)
            with writer as w, w.partition("monday") as p:
                p.extend(drive(version))
            seconds[version] = time.perf_counter() - began
        first, second = (hub.du(f"bench/drive:v{version}", root=root) for version in (1, 2))
        table: Any = hub.load("bench/drive:v2", root=root)
        first_table: Any = hub.load("bench/drive:v1", root=root)
        for i in range(0, count, 97):
            expected = next(row for j, row in enumerate(drive(2)) if j == i)
            found, before = table[i], first_table[i]
            for name in expected:
                # JPEG changes what it stores, and stores it once for both.
                wanted = before[name] if name == "camera.image" else expected[name]
                assert np.array_equal(found[name], wanted), name
    share = second.own / second.logical
    return [
        Row(
            f"a drive of {count:,} rows again, with other labels", OURS, second.logical,
            {OURS: Timing([seconds[2]]), "the first version": Timing([seconds[1]])},
            note=f"{second.own / 1e6:.1f} MB are new of {second.logical / 1e6:.0f} MB: {100 * share:.2f} %, "
            f"{100 * (1 - share):.1f} % saved; {first.own / 1e6:.1f} MB are the first version's alone",
        )
    ]  # fmt: skip
