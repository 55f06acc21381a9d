"""Tables: random rows, windows and batches of frames from S3 and a folder, beside bare GETs and what else one would use.

And what a request costs beside the bytes it brings, by which a loader chooses groups.
"""

from __future__ import annotations

import io
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.ours import cold, root_of
from benchmarks.peers import peers
from benchmarks.places import Place
from hubarray.blobs.ref import BlobPlace, blob_place
from hubarray.handles.table import Table
from hubarray.tables.read.group_reads import REQUEST_BYTES
from hubarray.tables.read.row_fetch import located
from hubarray.tables.snapshot.snapshot import TableSnapshot

SIDE = 224
WINDOW = 10
BATCH = 32
CALLS = 20
PARQUET_ROWS = 50
NAME = "bench/frames:v1"

Read = Callable[[Sequence[int]], np.ndarray]


def tables(megabytes: int) -> list[Row]:
    """Rows of 150 KB: one, ten in sequence, 32 at random; locations are at hand, and nothing is cached."""
    count = max(200, min(2000, megabytes * 1_000_000 // (SIDE**2 * 3)))
    # As dense as JPEG: SeaweedFS compresses what lets itself, and unpacks it for every range.
    values = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)
    rows = []
    # Nothing of the bytes is kept; locations are, in the memory cache.
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=64 << 20)
    for kind, where in (("S3", places.s3), ("a folder", places.local)):
        with where() as base:
            rows += _of(kind, base, values)
            rows.append(_jpeg(kind, base, min(count, 400)))
    return rows


def table_costs(megabytes: int) -> list[dict[str, Any]]:
    """What a request costs, in the bytes that it could have read meanwhile: ``REQUEST_BYTES`` of the loader."""
    size = max(4, min(64, megabytes)) << 20
    rows = []
    for kind, where in (("S3", places.s3), ("a folder", places.local)):
        with where() as base:
            store = root_of(base.corner("costs")).store
            store.put("costs/packs/x", data.noise((size,)).tobytes())
            draw = random.Random(0)

            def seconds(length: int, store: Any = store, draw: random.Random = draw) -> float:
                timings = []
                for _ in range(200 if length < 1 << 20 else 20):
                    began = time.perf_counter()
                    store.get("costs/packs/x", draw.randrange(size - length + 1), length)
                    timings.append(time.perf_counter() - began)
                return statistics.median(timings)

            seconds(1 << 12)
            small, large = seconds(1 << 12), seconds(size // 4)
            per_byte = (large - small) / (size // 4 - (1 << 12))
            rows.append(
                {
                    "from": kind,
                    "4 KiB, ms": small * 1e3,
                    f"{size >> 22} MiB, ms": large * 1e3,
                    "a request costs as much as so many KiB": small / per_byte / 1024,
                    "the loader's constant, KiB": REQUEST_BYTES[kind == "S3"] / 1024,
                }
            )
    return rows


def _jpeg(kind: str, base: Place, count: int) -> Row:
    """A random photograph as a JPEG: the whole, and its parts, the bare GET and the decoding."""
    import imagecodecs

    root = root_of(base.corner("jpeg"))
    field = hub.Field("uint8", (SIDE, SIDE, 3), codec="jpeg")
    with hub.table_writer(NAME, field, root=root) as w, w.partition("all") as p:
        p.extend({"value": value} for value in data.photographs(count, SIDE))
    table: Any = hub.load(NAME, root=root)
    loader = table.loader()
    files = [row["value"] for row in loader.get_batch(range(count), encoded=True)]
    expected = loader.get_row(0)["value"]
    state = TableSnapshot.of(table._version, table._record())
    (group,) = table.schema.groups.values()
    block_locations, chunks = located(state, group, np.arange(count))
    spots = [blob_place(ref) for ref in state.block_refs(group, chunks, block_locations)]
    draw = random.Random(0)
    positions = [*(draw.randrange(count) for _ in range(CALLS - 1)), 0]

    def bare() -> np.ndarray:
        for i in positions:
            root.store.get(spots[i].key, spots[i].offset, spots[i].length)
        return expected

    def decoded() -> np.ndarray:
        for i in positions:
            image = imagecodecs.jpeg_decode(files[i])
        return image

    def rows() -> np.ndarray:
        for i in positions:
            row = loader.get_row(i)
        return row["value"]

    return measure(
        f"a random row that is a JPEG of {len(files[0]) / 1000:.0f} KB from {kind}",
        {"hubarray": rows, "limit: GET": bare, "limit: decoding": decoded},
        size_bytes=CALLS * expected.nbytes, expected=expected, rounds=3,
        note="the two limits are the parts of the work, one after the other",
    )  # fmt: skip


def _of(kind: str, base: Place, values: np.ndarray) -> list[Row]:
    table = _written(base.corner("hubarray"), values)
    loader = table.loader()
    contenders: dict[str, Read] = {
        "hubarray": lambda positions: np.stack([row["value"] for row in loader.get_batch(positions)]),
        "limit: GET": _bare(table, values),
        "parquet (row groups of 50)": _parquet(table.root, values),
    }
    expected_peers = ("lance",) if base.kind == "s3" else ("lance", "h5py", "deeplake (raw)")
    installed, absent = peers(base.kind)
    for peer in installed:
        if peer.name in expected_peers:
            corner = base.corner(peer.name.split()[0])
            peer.create(corner, values, (1, *values.shape[1:]))
            contenders[peer.name] = _sorted(peer.open(corner)) if peer.name == "h5py" else peer.open(corner)
    note = "; ".join(
        f"{name} is not installed" for name in absent if any(peer.startswith(name) for peer in expected_peers)
    )
    requests = _requests(table)
    draw = random.Random(0)
    singles = [[draw.randrange(len(values))] for _ in range(CALLS)]
    windows = [
        list(range(first, first + WINDOW)) for first in (draw.randrange(len(values) - WINDOW) for _ in range(CALLS))
    ]
    batches = [[draw.randrange(len(values)) for _ in range(BATCH)] for _ in range(CALLS // 4)]
    bars = [
        Bar("limit: GET", "at most", 1.2),
        Bar("lance", "at least", 1.4),
        Bar("parquet (row groups of 50)", "at least", 3.0),
    ]
    cases = (
        ("a random row", singles, bars),
        (f"{WINDOW} rows in sequence", windows, bars),
        (f"a random batch of {BATCH}", batches, [Bar("lance", "at least", 1.0)]),
    )
    return [
        measure(
            f"{what} of {SIDE**2 * 3 / 1000:.0f} KB from {kind}",
            {name: _all(read, orders) for name, read in contenders.items()},
            size_bytes=sum(map(len, orders)) * values[0].nbytes, expected=values[orders[-1]],
            note="; ".join(filter(None, (requests.get(what, ""), note))),
            bars=[bar for bar in positions if bar.other in contenders], rounds=3,
        )
        for what, orders, positions in cases
    ]  # fmt: skip


def _sorted(read: Read) -> Read:
    """h5py takes rows in rising order, each once."""

    def in_order(positions: Sequence[int]) -> np.ndarray:
        distinct, inverse = np.unique(np.asarray(positions), return_inverse=True)
        return read(distinct)[inverse]

    return in_order


def _requests(table: Table) -> dict[str, str]:
    """How many requests a row takes at the first touch and later, and a window."""
    loader, stats = table.loader(), table.root.store.stats

    def requests(call: Callable[[], Any]) -> int:
        before = stats.requests
        call()
        return int(stats.requests - before)

    loader.get_row(0)
    cold()
    first, later = (requests(lambda i=i: loader.get_row(i)) for i in (1, 2))
    windows = [requests(lambda i=i: loader.get_rows(i, offsets=range(WINDOW))) for i in range(len(loader) - WINDOW)]
    if max(windows) > 2 or windows.count(2) > len(windows) / 10:
        raise AssertionError(
            f"{windows.count(2):,} of {len(windows):,} windows take two requests, {max(windows)} the most"
        )
    shares = ", ".join(f"{100 * windows.count(n) / len(windows):.1f} % take {n}" for n in sorted(set(windows)))
    return {
        "a random row": f"{first} requests at the first touch of its slab and group, then {later}",
        f"{WINDOW} rows in sequence": f"of all {len(windows):,} windows {shares} requests",
    }


def _all(read: Read, orders: Sequence[Sequence[int]]) -> Callable[[], np.ndarray]:
    def work() -> np.ndarray:
        for order in orders:
            rows_read = read(order)
        return rows_read

    return work


def _written(place: Place, values: np.ndarray) -> Table:
    root = root_of(place)
    field = hub.Field(values.dtype, values.shape[1:])
    with hub.table_writer(NAME, field, root=root) as w, w.partition("all") as p:
        p.extend({"value": value} for value in values)
    table: Any = hub.load(NAME, root=root)
    table.loader().get_row(0)
    return table


def _bare(table: Table, values: np.ndarray) -> Read:
    """Ranged GETs of the same bytes: neighbours of one pack by one, the others by threads."""
    from concurrent.futures import ThreadPoolExecutor

    state = TableSnapshot.of(table._version, table._record())
    (group,) = table.schema.groups.values()
    block_locations, chunks = located(state, group, np.arange(len(values)))
    spots = [blob_place(ref) for ref in state.block_refs(group, chunks, block_locations)]
    pool = ThreadPoolExecutor(BATCH)
    store = table.root.store
    size = values[0].nbytes

    def get(run: Sequence[BlobPlace]) -> list[np.ndarray]:
        begin = run[0].offset
        blob = memoryview(store.get(run[0].key, begin, run[-1].offset + run[-1].length - begin))
        ends = [spot.offset - begin + spot.length for spot in run]
        return [np.frombuffer(blob[end - size : end], values.dtype).reshape(values.shape[1:]) for end in ends]

    def read(positions: Sequence[int]) -> np.ndarray:
        runs: list[list[BlobPlace]] = []
        for spot in (spots[i] for i in positions):
            if runs and runs[-1][-1].key == spot.key and runs[-1][-1].offset + runs[-1][-1].length == spot.offset:
                runs[-1].append(spot)
            else:
                runs.append([spot])
        parts = map(get, runs) if len(runs) < 3 else pool.map(get, runs)
        return np.stack([values_of_row for part in parts for values_of_row in part])

    return read


def _parquet(root: hub.Root, values: np.ndarray) -> Read:
    """A Parquet file in the same store, whose footer is at hand: a row group is fetched by one request."""
    width = values[0].nbytes
    plain = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(values.tobytes())])
    out = io.BytesIO()
    pq.write_table(
        pa.table({"x": plain}), out, row_group_size=PARQUET_ROWS, compression="none", use_dictionary=False,
        write_statistics=False,
    )  # fmt: skip
    key, store = "peers/parquet/packs/x", root.store
    store.put(key, out.getvalue())
    footer = pq.read_metadata(io.BytesIO(out.getvalue()))

    class Remote(io.RawIOBase):
        """The file, read by ranges."""

        at = 0

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            self.at = (0, self.at, len(out.getbuffer()))[whence] + offset
            return self.at

        def tell(self) -> int:
            return self.at

        def read(self, size: int = -1) -> bytes:
            data = bytes(store.get(key, self.at, size if size >= 0 else len(out.getbuffer()) - self.at))
            self.at += len(data)
            return data

    file = pq.ParquetFile(pa.PythonFile(Remote(), "r"), metadata=footer, pre_buffer=True)

    def read(positions: Sequence[int]) -> np.ndarray:
        groups = sorted({i // PARQUET_ROWS for i in positions})
        column = file.read_row_groups(groups, columns=["x"])["x"].combine_chunks()
        places = [groups.index(i // PARQUET_ROWS) * PARQUET_ROWS + i % PARQUET_ROWS for i in positions]
        taken = np.frombuffer(column.buffers()[1], values.dtype).reshape(-1, *values.shape[1:])
        return taken[places]

    return read
