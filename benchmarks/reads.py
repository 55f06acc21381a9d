"""Reading: random samples and bulk, from a local folder, the caches, and S3."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.ours import NAME, OURS, cold, root_of
from benchmarks.peers import peers
from benchmarks.places import Place

SAMPLE_SIDE = 256
SAMPLES_A_CALL = 50
SAMPLES_A_BATCH = 32


def _stored(
    kind: str, base: Place, values: np.ndarray, chunks: tuple[int, ...]
) -> tuple[dict[str, Any], Place, dict[str, str]]:
    """Every contender's reader over the same values; why some have none."""
    readers: dict[str, Any] = {}
    failed: dict[str, str] = {}
    ours = base.corner("hubarray")
    OURS.create(ours, values, chunks)
    readers["hubarray"] = OURS.open(ours)
    contenders, absent = peers(kind)
    failed |= dict.fromkeys(absent, "is not installed")
    for peer in contenders:
        place = base.corner(peer.name.replace(" ", "-").replace("(", "").replace(")", ""))
        try:
            peer.create(place, values, chunks)
            readers[peer.name] = peer.open(place)
        except Exception as error:
            failed[peer.name] = f"{type(error).__name__}: {str(error)[:150]}"
    return readers, ours, failed


def _note(failed: dict[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in failed.items())


def _in_turn(reader: Callable[[Any], np.ndarray], order: list[Any]) -> Callable[[], np.ndarray]:
    def work() -> np.ndarray:
        result = None
        for i in order:
            result = reader(i)
        return np.asarray(result)

    return work


def samples(megabytes: int) -> list[Row]:
    """One random 196 KB sample at a time: local root, warm disk cache, memory cache."""
    count = max(64, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    values = data.photographs(count, SAMPLE_SIDE)
    chunks = (1, SAMPLE_SIDE, SAMPLE_SIDE, 3)
    order = random.Random(0).sample(range(count), min(count, SAMPLES_A_CALL))
    size = len(order) * values[0].nbytes
    rows = []
    with places.local() as base:
        hub.configure(memory_cache_bytes=64 << 20)
        readers, ours, failed = _stored("local", base, values, chunks)
        first = hub.load(NAME, root=root_of(ours))

        def forget_chunks() -> None:
            cold()
            first[[0], :1, :1]

        blobs = OURS.blobs(ours)
        contenders = {name: _in_turn(reader, order) for name, reader in readers.items()}
        contenders["limit: open, pread, decode"] = _in_turn(
            lambda i: limits.local_read(ours, [blobs[i]], values.shape[1:], values.dtype), order
        )
        bars = [
            Bar("limit: open, pread, decode", "at most", 1.3),
            Bar("tensorstore", "at least", 2),
            Bar("zarr", "at least", 6),
        ]
        rows.append(
            measure(f"{len(order)} random samples of 197 KB, local root", contenders, size_bytes=size,
                    expected=values[order[-1]], bars=bars, before=forget_chunks, note=_note(failed))
        )  # fmt: skip
        hub.configure(memory_cache_bytes=1 << 30)
        array = hub.load(NAME, root=root_of(ours))
        for _ in range(3):
            _in_turn(array.__getitem__, order)()
        copies = {
            "hubarray": _in_turn(array.__getitem__, order),
            "limit: NumPy copy": _in_turn(lambda i: values[i].copy(), order),
        }
        note = ""
        installed = {peer.name for peer in peers("local")[0]}
        if "tensorstore" in installed:
            from benchmarks.peers.tensorstore import TensorStore

            pooled = TensorStore(cache_bytes=1 << 30)
            place = base.corner("pool")
            pooled.create(place, values, chunks)
            copies["tensorstore (cache pool)"] = _in_turn(pooled.open(place), order)
        row = measure(f"{len(order)} random samples of 197 KB, memory cache", copies, size_bytes=size,
                      expected=values[order[-1]], bars=[Bar("tensorstore (cache pool)", "at least", 1.0)], note=note)  # fmt: skip
        extra = (row.timings["hubarray"].median - row.timings["limit: NumPy copy"].median) / len(order) * 1e6
        row.note = f"{extra:.1f} us a sample over a NumPy copy (must be at most 15)"
        rows.append(row)
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, cache_dir=base.folder / "cache", disk_cache_bytes=4 << 30)
        ours = base.corner("hubarray")
        OURS.create(ours, values, chunks)
        array = hub.load(NAME, root=root_of(ours)).snapshot()
        _in_turn(array.__getitem__, order)()

        def forget_chunks_again() -> None:
            cold()
            array[[0], :1, :1]

        files = _as_files(base.folder / "files", ours, [OURS.blobs(ours)[i] for i in order])
        contenders = {
            "hubarray": _in_turn(array.__getitem__, order),
            "limit: open, read, decode": _in_turn(lambda n: _file_sample(files[n], values), list(range(len(order)))),
        }
        rows.append(
            measure(f"{len(order)} random samples of 197 KB, warm disk cache", contenders, size_bytes=size,
                    expected=values[order[-1]], bars=[Bar("limit: open, read, decode", "at most", 1.3)],
                    before=forget_chunks_again)
        )  # fmt: skip
    return rows


def batches(megabytes: int) -> list[Row]:
    """Batches of 32 random samples of 197 KB, from a folder and from S3, nothing cached but the manifest."""
    count = max(320, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    values = data.photographs(count, SAMPLE_SIDE)
    draw = random.Random(2)
    orders = [draw.sample(range(count - 1), SAMPLES_A_BATCH) for _ in range(4)]
    rows = []
    for kind, place in (("local", places.local), ("s3", places.s3)):
        with place() as base:
            hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
            readers, ours, failed = _stored(kind, base, values, (1, SAMPLE_SIDE, SAMPLE_SIDE, 3))
            array, blobs = hub.load(NAME, root=root_of(ours)).snapshot(), OURS.blobs(ours)
            dataset = hub.dataset({"x": array}, "bench/batches:v0", root=root_of(ours)).snapshot()
            readers["hubarray, dataset"] = lambda order, dataset=dataset: dataset.rows(order)["x"]
            try:
                samples_of = array.to_pytorch()
                readers["hubarray, to_pytorch"] = lambda order, samples_of=samples_of: np.stack(
                    [sample.numpy() for sample in samples_of.__getitems__(order)]
                )
            except ImportError:
                failed["to_pytorch"] = "PyTorch is not installed"

            bare: Any = (
                partial(limits.local_read, ours) if kind == "local" else partial(limits.s3_read, limits.s3_store(ours))
            )

            def limit(order: list[int], bare: Any = bare, blobs: list[Any] = blobs) -> np.ndarray:
                read: np.ndarray = bare([blobs[i] for i in order], (len(order), *values.shape[1:]), values.dtype)
                return read

            def warm_manifest(array: hub.Array = array) -> None:
                cold()
                array[[20, count - 1], :1, :1]

            name = "limit: pread, decode" if kind == "local" else "limit: GET, decode"
            contenders = {each: _in_turn(read, orders) for each, read in readers.items()} | {
                name: _in_turn(limit, orders)
            }
            bars = [Bar("tensorstore", "at least", 1.0)] if kind == "local" else [Bar(name, "at least", 0.97)]
            row = measure(
                f"batches of 32 random samples of 197 KB from {'a folder' if kind == 'local' else 'S3'}", contenders,
                before=warm_manifest, size_bytes=len(orders) * SAMPLES_A_BATCH * values[0].nbytes,
                expected=values[orders[-1]], bars=bars, note=_note(failed),
                server=base.server if kind == "s3" else None,
            )  # fmt: skip
            rows.append(row)
            for way in (each for each in readers if each.startswith("hubarray, ")):
                timings = {each: row.timings[each] for each in (way, "hubarray")}
                rows.append(Row(f"{row.case}: {way}", way, row.bytes, timings, [Bar("hubarray", "at most", 1.05)]))
    return rows


def _as_files(folder: Path, place: Place, blobs: list[Any]) -> list[Path]:
    store = root_of(place).store
    folder.mkdir()
    for i, blob in enumerate(blobs):
        (folder / str(i)).write_bytes(bytes(store.get(blob.key, blob.offset, blob.length)))
    return [folder / str(i) for i in range(len(blobs))]


def _file_sample(path: Path, values: np.ndarray) -> np.ndarray:
    out = np.empty(values.shape[1:], values.dtype)
    with open(path, "rb") as file:
        limits.blosc.decompress(file.read(), out.reshape(-1).view("u1"))
    return out


def bulk_local(megabytes: int) -> list[Row]:
    """Everything at once from a local root: samples, large chunks, and a float32 volume."""
    rows = []
    for what, values, chunks in _bulk_data(megabytes):
        with places.local() as base:
            hub.configure(memory_cache_bytes=64 << 20)
            readers, ours, failed = _stored("local", base, values, chunks)
            contenders = {name: (lambda reader=reader: reader(...)) for name, reader in readers.items()}
            blobs = OURS.blobs(ours)
            contenders["limit: pread, decode"] = partial(
                limits.local_read, ours, blobs, values.shape, values.dtype, chunks
            )
            bars = [Bar("limit: pread, decode", "at least", 0.9), Bar("best peer", "at least", 1.3)]
            rows.append(
                measure(f"bulk, local, {what}", contenders, size_bytes=values.nbytes, expected=values, bars=bars,
                        before=cold, note=_note(failed))
            )  # fmt: skip
    rows.append(_raw(megabytes))
    return rows


def _raw(megabytes: int) -> Row:
    values = data.noise((max(8, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3)), SAMPLE_SIDE, SAMPLE_SIDE, 3))
    with places.local() as base:
        hub.configure(memory_cache_bytes=64 << 20)
        ours = base.corner("hubarray")
        OURS.create(ours, values, (1, *values.shape[1:]), codec="none")
        from benchmarks.peers.memmap import PEER as MEMMAP

        MEMMAP.create(base, values, values.shape)
        contenders = {
            "hubarray": partial(OURS.open(ours), ...),
            "memmap (raw)": partial(MEMMAP.open(base), ...),
            "limit: open, readinto": partial(
                limits.local_readinto, ours, OURS.blobs(ours), values.shape, values.dtype
            ),
        }  # fmt: skip
        bars = [Bar("limit: open, readinto", "at least", 0.9)]
        return measure("bulk, local, 197 KB chunks, not encoded", contenders, size_bytes=values.nbytes,
                       expected=values, bars=bars, before=cold)  # fmt: skip


def _bulk_data(megabytes: int) -> Any:
    count = max(8, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    yield "197 KB chunks", data.photographs(count, SAMPLE_SIDE), (1, SAMPLE_SIDE, SAMPLE_SIDE, 3)
    count = max(8, megabytes * 1_000_000 // (1024**2 * 3))
    yield "3 MB chunks", data.photographs(count, 1024), (1, 1024, 1024, 3)
    depth = max(1, megabytes * 1_000_000 // (128 * 512 * 512 * 4)) * 128
    yield "a float32 volume, cubes of 8 MB", data.volume((depth, 512, 512)), (128, 128, 128)
    count = max(8, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    yield "197 KB chunks that do not compress", data.noise((count, SAMPLE_SIDE, SAMPLE_SIDE, 3)), (1, 256, 256, 3)


def bulk_s3(megabytes: int) -> list[Row]:
    """Everything at once from S3, hashes checked, caches off."""
    rows = []
    for what, values, chunks in _bulk_data(megabytes):
        # Enough for what every contender stores: else who reads after whom would tell, not who is fast.
        with places.s3(cache_megabytes=max(2048, 7 * megabytes)) as base:
            hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
            readers, ours, failed = _stored("s3", base, values, chunks)
            blobs, store = OURS.blobs(ours), limits.s3_store(ours)
            contenders = {name: (lambda reader=reader: reader(...)) for name, reader in readers.items()}
            contenders["limit: GET, decode"] = partial(limits.s3_read, store, blobs, values.shape, values.dtype, chunks)
            to_limit, to_peer = (0.8, 3.0) if "197 KB" in what else (0.85, 1.5)
            bars = [Bar("limit: GET, decode", "at least", to_limit), Bar("best peer", "at least", to_peer)]
            rows.append(
                measure(f"bulk, S3, {what}", contenders, size_bytes=values.nbytes, expected=values, bars=bars,
                        before=cold, note=_note(failed), server=base.server)
            )  # fmt: skip
    return rows


def random_s3(megabytes: int) -> list[Row]:
    """Random samples and a small slice from S3, nothing cached, one and sixteen threads."""
    count = max(200, min(megabytes, 400) * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    values = data.photographs(count, SAMPLE_SIDE)
    rows = []
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
        ours = base.corner("hubarray")
        OURS.create(ours, values, (1, SAMPLE_SIDE, SAMPLE_SIDE, 3))
        array, blobs, store = hub.load(NAME, root=root_of(ours)).snapshot(), OURS.blobs(ours), limits.s3_store(ours)
        order = random.Random(1).sample(range(count - 1), 100)

        def bare(i: int) -> np.ndarray:
            return limits.s3_read(store, [blobs[i]], values.shape[1:], values.dtype)

        def warm_manifest() -> None:
            cold()
            array[[20, count - 1], :1, :1]

        for threads in (1, 16):

            def together(read: Any, threads: int = threads) -> Callable[[], Any]:
                def work() -> Any:
                    if threads == 1:
                        return _in_turn(read, order)()
                    with ThreadPoolExecutor(threads) as pool:
                        return list(pool.map(read, order))[-1]

                return work

            rows.append(
                measure(f"100 random samples of 197 KB from S3, cold, {threads} threads",
                        {"hubarray": together(array.__getitem__), "limit: GET, decode": together(bare)},
                        size_bytes=100 * values[0].nbytes, expected=values[order[-1]], before=warm_manifest,
                        server=base.server, bars=[Bar("limit: GET, decode", "at least", 0.9)])
            )  # fmt: skip

        def bare_slice() -> np.ndarray:
            return limits.s3_read(store, blobs[:10], (10, *values.shape[1:]), values.dtype)[:, 100:200, 100:200]

        rows.append(
            measure("a[0:10, 100:200, 100:200] from S3, cold",
                    {"hubarray": lambda: array[0:10, 100:200, 100:200], "limit: the GETs it needs": bare_slice},
                    size_bytes=300_000, expected=values[0:10, 100:200, 100:200], before=warm_manifest, repeat=1,
                    bars=[Bar("limit: the GETs it needs", "at most", 1.3)], rounds=15)
        )  # fmt: skip
    return rows


def loop_s3(megabytes: int) -> list[Row]:
    """``for sample in a`` over an array in S3, nothing cached, beside reading it all at once."""
    count = max(200, megabytes * 1_000_000 // (SAMPLE_SIDE**2 * 3))
    values = data.photographs(count, SAMPLE_SIDE)
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
        ours = base.corner("hubarray")
        OURS.create(ours, values, (1, SAMPLE_SIDE, SAMPLE_SIDE, 3))
        array = hub.load(NAME, root=root_of(ours)).snapshot()

        def loop() -> np.ndarray:
            last = np.empty(0)
            for sample in array:
                last = sample
            return last

        def by_index() -> np.ndarray:
            sample = np.empty(0)
            for i in range(len(array)):
                sample = array[i]
            return sample

        contenders = {
            "hubarray": loop,
            "hubarray: a[0], a[1], ...": by_index,
            "at once: a[...]": lambda: array[...][-1],
        }
        return [
            measure("for sample in a, S3, 197 KB chunks", contenders, size_bytes=values.nbytes, expected=values[-1],
                    before=cold, bars=[Bar("at once: a[...]", "at least", 0.8)], server=base.server)
        ]  # fmt: skip
