"""Batches for training: samples of 197 KB, 32 in a batch, shuffled, into PyTorch; from memory, files, peers, and S3."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.observed import beside
from benchmarks.ours import NAME, OURS, Blob, cold, root_of
from benchmarks.places import Place

SIDE, BATCH = 256, 32
WORKERS = (0, 1, 2)


def loader(megabytes: int) -> list[Row]:
    """An epoch, each contender with its best worker count; then cold from S3."""
    values = _samples(megabytes)
    return [_warm(values), _cold(values)]


def _samples(megabytes: int) -> np.ndarray:
    count = max(4 * BATCH, megabytes * 1_000_000 // (SIDE**2 * 3)) // BATCH * BATCH
    return data.photographs(count, SIDE)


def _warm(values: np.ndarray) -> Row:
    with places.local() as base:
        hub.configure(memory_cache_bytes=64 << 20)
        contenders: dict[str, Callable[[], Any]] = {}
        chosen, absent, seen_of = [], [], {}
        for name, make in MAKERS.items():
            try:
                loaders = make(base, values)
            except ImportError:
                absent.append(name)
                continue
            best = min(loaders, key=lambda workers: _seconds(loaders[workers]))
            chosen.append(f"{name}: {best} workers")
            contenders[name] = partial(_checked_epoch, loaders[best], values)
            seen_of[name] = beside(len(values), _made, name, best, len(values))
        bars = [Bar("one .npy a sample (raw)", "at least", 0.95), Bar("best peer", "at least", 1.2)]
        note = "; ".join([*chosen, *(f"{name} is not installed" for name in absent)])
        row = measure(
            f"an epoch of {len(values)} samples, warm",
            contenders,
            size_bytes=values.nbytes,
            bars=bars,
            note=note,
            one_process=False,
        )
        for name, seen in seen_of.items():
            row.timings[name].beside = seen
        return row


@contextlib.contextmanager
def _made(name: str, workers: int, count: int) -> Iterator[Callable[[], Iterator[Any]]]:
    with places.local() as base:
        hub.configure(memory_cache_bytes=64 << 20)
        values = data.photographs(count, SIDE)
        epoch = MAKERS[name](base, values)[workers]
        if not name.startswith("in memory"):
            del values
        yield epoch


def _seconds(epoch: Callable[[], Iterator[Any]]) -> float:
    """The best of three epochs after a first one."""
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        for _ in epoch():
            pass
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def _checked_epoch(epoch: Callable[[], Iterator[Any]], values: np.ndarray) -> None:
    """An epoch, of which every sample has to come once: told by the sum of one pixel of each."""
    total = sum(int(np.asarray(batch)[:, 128, 128, 0].astype(np.int64).sum()) for batch in epoch())
    if total != int(values[:, 128, 128, 0].astype(np.int64).sum()):
        raise ValueError("other samples came than were stored")


def _torch_loaders(dataset: Any, **options: Any) -> dict[int, Callable[[], Iterator[Any]]]:
    from torch.utils.data import DataLoader

    def epochs(workers: int) -> Callable[[], Iterator[Any]]:
        keep = {"persistent_workers": True} if workers else {}
        made = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers, **keep, **options)
        return lambda: iter(made)

    return {workers: epochs(workers) for workers in WORKERS}


def _ours(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    place = base.corner("hubarray")
    OURS.create(place, values, (1, *values.shape[1:]))
    stream = hub.load(NAME, root=root_of(place)).to_pytorch(iterable=True, batch_size=BATCH)

    def epochs(workers: int) -> Callable[[], Iterator[Any]]:
        made = stream.loader(num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(made)

    return {workers: epochs(workers) for workers in WORKERS}


def _ours_by_index(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    place = base.corner("hubarray")
    OURS.create(place, values, (1, *values.shape[1:]))
    dataset = hub.load(NAME, root=root_of(place)).to_pytorch()
    return _torch_loaders(dataset, collate_fn=dataset.collate)


class Indexed:
    """A map-style dataset of anything that is read by index."""

    def __init__(self, open_: Callable[[], Callable[[int], np.ndarray]], count: int) -> None:
        self._open, self._count = open_, count
        self._read: Callable[[int], np.ndarray] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> Any:
        import torch

        if self._read is None:
            self._read = self._open()
        return torch.from_numpy(np.ascontiguousarray(self._read(i)))


def _npy_reader(folder: Path) -> Callable[[int], np.ndarray]:
    return lambda i: np.load(folder / f"{i}.npy")


def indexed_files(base: Place, values: np.ndarray) -> Indexed:
    """A map-style dataset of one .npy a sample."""
    folder = base.corner("npy").folder
    folder.mkdir(parents=True)
    for i, sample in enumerate(values):
        np.save(folder / f"{i}.npy", sample)
    return Indexed(partial(_npy_reader, folder), len(values))


def _npy(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    return _torch_loaders(indexed_files(base, values))


def _memory(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    return {0: _torch_loaders(Indexed(lambda: values.__getitem__, len(values)))[0]}


def _peer(module: str, base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    importlib.import_module(module)
    peer = importlib.import_module(f"benchmarks.peers.{module}").PEER
    place = base.corner(module)
    peer.create(place, values, (1, *values.shape[1:]))
    return _torch_loaders(Indexed(partial(peer.open, place), len(values)))


def _lance_rows(where: dict[str, Any], shape: tuple[int, ...]) -> Any:
    import lance
    import torch

    class Table(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return lance.dataset(**where).count_rows()

        def __getitems__(self, indices: list[int]) -> Any:
            if not hasattr(self, "rows"):
                self.rows = lance.dataset(**where)
            column = self.rows.take(indices, columns=["x"]).column("x").combine_chunks()
            return np.asarray(column.flatten()).reshape(len(indices), *shape)

    return Table()


def _lance(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    import lance
    import pyarrow as pa
    import torch

    where = importlib.import_module("benchmarks.peers.lance").PEER._where(base.corner("lance"))
    kind = pa.list_(pa.uint8(), values[0].size)
    flat = pa.array(values.reshape(-1))
    lance.write_dataset(pa.table({"x": pa.FixedSizeListArray.from_arrays(flat, type=kind)}), where["uri"],
                        storage_options=where.get("storage_options"))  # fmt: skip
    dataset = _lance_rows(where, values.shape[1:])
    options = {"collate_fn": torch.from_numpy}
    return {0: _torch_loaders(dataset, **options)[0]}


def _webdataset(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    import webdataset
    from torch.utils.data import DataLoader

    folder = base.corner("wds").folder
    folder.mkdir(parents=True)
    shards = 8
    for shard in range(shards):
        with webdataset.TarWriter(str(folder / f"{shard:03d}.tar")) as sink:
            for i in range(shard, len(values), shards):
                sink.write({"__key__": f"{i:06d}", "npy": values[i]})
    url = f"{folder}/{{000..{shards - 1:03d}}}.tar"

    def epochs(workers: int) -> Callable[[], Iterator[Any]]:
        stages = webdataset.WebDataset(url, shardshuffle=shards).shuffle(256).decode().to_tuple("npy").batched(BATCH)
        keep = {"persistent_workers": True} if workers else {}
        made = DataLoader(stages, batch_size=None, num_workers=workers, **keep)
        return lambda: (batch[0] for batch in made)

    return {workers: epochs(workers) for workers in WORKERS}


def _as_item(folder: str, i: int) -> Any:
    return {"x": np.load(f"{folder}/{i}.npy")}


def _litdata(base: Place, values: np.ndarray) -> dict[int, Callable[[], Iterator[Any]]]:
    import litdata

    folder = base.corner("litdata").folder
    (folder / "raw").mkdir(parents=True)
    for i, sample in enumerate(values):
        np.save(folder / "raw" / f"{i}.npy", sample)
    litdata.optimize(
        partial(_as_item, str(folder / "raw")), list(range(len(values))), str(folder / "out"), chunk_bytes="64MB",
        num_workers=1,
    )  # fmt: skip

    def epochs(workers: int) -> Callable[[], Iterator[Any]]:
        dataset = litdata.StreamingDataset(str(folder / "out"), shuffle=True)
        made = litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers)
        return lambda: (batch["x"] for batch in made)

    return {workers: epochs(workers) for workers in WORKERS}


MAKERS: dict[str, Callable[[Place, np.ndarray], dict[int, Callable[[], Iterator[Any]]]]] = {
    "hubarray": _ours,
    "hubarray, by index (raw)": _ours_by_index,
    "one .npy a sample (raw)": _npy,
    "in memory (raw)": _memory,
    "zarr": partial(_peer, "zarr"),
    "deeplake": partial(_peer, "deeplake"),
    "lance": _lance,
    "webdataset": _webdataset,
    "litdata": _litdata,
}


def _cold(values: np.ndarray) -> Row:
    """Nothing cached, from S3, beside bare GETs with the decode, put together in batches."""
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
        place = base.corner("hubarray")
        OURS.create(place, values, (1, *values.shape[1:]))
        array = hub.load(NAME, root=root_of(place)).snapshot()
        stream = array.to_pytorch(iterable=True, batch_size=BATCH)
        blobs, store = OURS.blobs(place), limits.s3_store(place)

        bare = "limit: GET, decode, collate"
        contenders = {
            "hubarray": partial(_checked_epoch, stream.__iter__, values),
            bare: partial(_checked_epoch, partial(_bare_batches, store, blobs), values),
        }
        row = measure("an epoch cold from S3", contenders, size_bytes=values.nbytes, bars=[Bar(bare, "at least", 0.85)],
                      before=cold, one_process=False)  # fmt: skip
        for name in contenders:
            row.timings[name].beside = beside(len(values), _opened, name, place)
        return row


def _bare_batches(store: Any, blobs: list[Blob]) -> Iterator[Any]:
    import torch

    def batch(first: int) -> Any:
        chosen = blobs[first : first + BATCH]
        return torch.from_numpy(limits.s3_read(store, chosen, (len(chosen), SIDE, SIDE, 3), np.dtype("u1")))

    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(batch, range(0, len(blobs), BATCH))


@contextlib.contextmanager
def _opened(name: str, place: Place) -> Iterator[Callable[[], Iterator[Any]]]:
    hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
    if name == "hubarray":
        array = hub.load(NAME, root=root_of(place))
        yield lambda: iter(array.to_pytorch(iterable=True, batch_size=BATCH))
    else:
        store, blobs = limits.s3_store(place), OURS.blobs(place)
        yield lambda: _bare_batches(store, blobs)
