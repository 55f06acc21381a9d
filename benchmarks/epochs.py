"""Epochs over the same samples by every source and its peers: images of 197 KB, shuffled, 32 in a batch, into PyTorch.

Petastorm wants an environment of its own: ``HUBARRAY_PETASTORM_PYTHON`` names its interpreter.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import obstore

import hubarray as hub
from benchmarks import data, limits, places
from benchmarks.harness import Bar, Row, measure
from benchmarks.loader import BATCH, MAKERS, SIDE, _checked_epoch, _samples, _seconds
from benchmarks.observed import beside
from benchmarks.ours import NAME, OURS, cold, root_of
from benchmarks.places import Place
from hubarray import config

Epoch = Callable[[], Iterator[Any]]
TABLE, ARRAY, PARQUET = "hubarray, table", "hubarray, array", "hubarray, Parquet"
MAPPED = "HF datasets"
_PARQUET_PEERS = (MAPPED, "pyarrow loop", "Petastorm")
_ROW_GROUP_ROWS = 32
_PETASTORM = """
import sys
from petastorm import make_reader
import numpy as np
for line in sys.stdin:
    total = 0
    with make_reader("file://" + sys.argv[1], workers_count=2, shuffle_row_groups=True) as reader:
        rows = []
        for row in reader:
            rows.append(row.x)
            if len(rows) == 32:
                total += int(np.stack(rows)[:, 128, 128, 0].astype("i8").sum())
                rows = []
        total += sum(int(row[128, 128, 0]) for row in rows)
    print(total, flush=True)
"""


def epochs(megabytes: int) -> list[Row]:
    """From a folder, warm and cold, and from S3 with nothing cached and with what fits cached on disk."""
    values = _samples(megabytes)
    with places.local() as base:
        hub.configure(memory_cache_bytes=64 << 20)
        made = _made(base, values, PEERS)
        rows = _judged("epochs from a folder", made, values)
        contenders, notes, seen = made
        # A file that is mapped stays in the page cache whoever asks.
        contenders.pop(MAPPED, None)
        seen.pop(MAPPED, None)
        made = contenders, [*notes, f"{MAPPED} maps its file, which the page cache keeps"], seen
        rows += _judged("epochs from a folder that was forgotten", made, values, before=partial(_forget, base))
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
        rows += _judged("epochs from S3, cold", _made(base, values, FROM_S3), values, before=cold)
    with places.s3() as base:
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=8 << 30)
        rows += _judged("epochs from S3, cached on disk", _made(base, values, FROM_S3), values)
    return rows


def forked_workers(megabytes: int) -> list[Row]:
    """Four workers that PyTorch forks, as it does by itself here, and four of its forkserver, cold from S3."""
    values = _samples(megabytes)
    rows = []
    # As variables, for workers of a forkserver inherit nothing else; too small to keep an epoch's samples for the next.
    variables = {"HUBARRAY_MEMORY_CACHE_BYTES": str(1 << 20), "HUBARRAY_DISK_CACHE_BYTES": "0"}
    with patch.dict(os.environ, variables), places.s3() as base:
        hub.configure(memory_cache_bytes=1 << 20, disk_cache_bytes=0)
        place = base.corner("array")
        OURS.create(place, values, (1, *values.shape[1:]))
        array = hub.load(NAME, root=root_of(place))
        # Used before the fork, as it is by whoever looks at the data first.
        array[0]
        for case, make in (("by index", _by_index), ("stream", _streamed)):
            contenders = {
                name: partial(_checked_epoch, make(array, method), values)
                for name, method in (("hubarray", "fork"), ("forkserver", "forkserver"))
            }
            rows.append(measure(f"4 forked workers, {case}", contenders, size_bytes=values.nbytes, before=cold,
                                bars=[Bar("forkserver", "at least", 0.9)], one_process=False))  # fmt: skip
    return rows


def _by_index(array: hub.Array, method: str) -> Epoch:
    from torch.utils.data import DataLoader

    dataset = array.to_pytorch()
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=4, collate_fn=dataset.collate,
                        multiprocessing_context=method, persistent_workers=True)  # fmt: skip
    return lambda: iter(loader)


def _streamed(array: hub.Array, method: str) -> Epoch:
    stream = array.to_pytorch(iterable=True, batch_size=BATCH)
    loader = stream.loader(num_workers=4, multiprocessing_context=method, persistent_workers=True)
    return lambda: iter(loader)


def _made(
    base: Place, values: np.ndarray, peers: dict[str, Any]
) -> tuple[dict[str, Callable[[], Any]], list[str], dict[str, dict[str, float]]]:
    """Contenders, notes on them, and what was seen beside their time."""
    contenders: dict[str, Callable[[], Any]] = {}
    notes, seen = [], {}
    for name, make in (OURS_BY_SOURCE | peers).items():
        try:
            made = make(base, values)
        except ImportError:
            notes.append(f"{name} is not installed")
            continue
        # LitData changes it for the whole process.
        multiprocessing.set_start_method(None, force=True)
        if callable(made):
            contenders[name] = partial(_checked_epoch, made, values)
            if name != "Petastorm":
                seen[name] = beside(len(values), _alone, name, None, base, len(values))
            continue
        best = min(made, key=lambda workers: _seconds(made[workers]))
        notes.append(f"{name}: {best} workers")
        contenders[name] = partial(_checked_epoch, made[best], values)
        seen[name] = beside(len(values), _alone, name, best, base, len(values))
    return contenders, notes, seen


@contextlib.contextmanager
def _alone(name: str, workers: int | None, base: Place, count: int) -> Iterator[Epoch]:
    """An epoch of one contender, made anew in another process."""
    hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0 if base.kind == "s3" else None)
    values = data.photographs(count, SIDE)
    made = (OURS_BY_SOURCE | (FROM_S3 if base.kind == "s3" else PEERS))[name](base.corner("alone"), values)
    if not name.startswith("in memory"):
        del values
    yield made if workers is None else made[workers]


def _forget(base: Place) -> None:
    """Have the page cache forget the files of a folder; what waits to be written is written first."""
    os.sync()
    for folder, _, names in os.walk(base.folder):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _judged(
    case: str,
    made: tuple[dict[str, Callable[[], Any]], list[str], dict[str, dict[str, float]]],
    values: np.ndarray,
    before: Callable[[], None] | None = None,
) -> list[Row]:
    """One measurement, and a row for each of our sources with its own bars."""
    contenders, notes, seen = made
    whole = measure(case, contenders, size_bytes=values.nbytes, before=before, note="; ".join(notes), one_process=False,
                    ours=TABLE)  # fmt: skip
    for name, what in seen.items():
        whole.timings[name].beside = what
    rows = []
    for ours in (TABLE, ARRAY, PARQUET):
        others = [name for name in contenders if not name.startswith("hubarray") and "(raw)" not in name]
        bars = []
        if ours == PARQUET:
            bars += [
                Bar(name, "at least", 3.0 if name == "Petastorm" else 1.2) for name in others if name in _PARQUET_PEERS
            ]
        else:
            bars += [Bar(name, "at least", 1.2) for name in others]
            if "one .npy a sample (raw)" in contenders:
                bars.append(Bar("one .npy a sample (raw)", "at least", 0.95))
        timings = {
            name: timing for name, timing in whole.timings.items() if name == ours or not name.startswith("hubarray")
        }
        rows.append(Row(f"{case}: {ours}", ours, values.nbytes, timings, bars, note=whole.note))
    return rows


def _table(base: Place, values: np.ndarray) -> dict[int, Epoch]:
    root = root_of(base.corner("table"))
    # Plain bytes, as a field has them by default, would be compressed by SeaweedFS, whose ranges then take five times as
    # long: that would measure the server.
    codec = "blosc" if base.kind == "s3" else None
    schema = hub.Schema({"x": hub.Field("u1", values.shape[1:], codec=codec)})
    with hub.table_writer("bench/epochs:v1", schema, root=root) as writer, writer.partition("all") as partition:
        for value in values:
            partition.append({"x": value})
    stream = hub.load("bench/epochs:v1", root=root).to_pytorch(iterable=True, batch_size=BATCH)

    def epoch(workers: int) -> Epoch:
        made = stream.loader(num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(made)

    return {workers: epoch(workers) for workers in (0, 2)}


def _array(base: Place, values: np.ndarray) -> dict[int, Epoch]:
    place = base.corner("array")
    OURS.create(place, values, (1, *values.shape[1:]))
    stream = hub.load(NAME, root=root_of(place)).to_pytorch(iterable=True, batch_size=BATCH)

    def epoch(workers: int) -> Epoch:
        made = stream.loader(num_workers=workers, persistent_workers=workers > 0)
        return lambda: iter(made)

    return {workers: epoch(workers) for workers in (0, 2)}


def _dataset(base: Place, values: np.ndarray) -> tuple[str, dict[str, Any]]:
    """The Parquet dataset that all readers of Parquet share, written once."""
    place = base.corner("parquet")
    url = place.url if place.url.startswith("s3://") else str(place.folder)
    options = dict(place.options)
    schema = hub.petastorm.Unischema(
        "Rows", [hub.petastorm.UnischemaField("x", np.uint8, values.shape[1:], hub.petastorm.NdarrayCodec())]
    )
    try:
        with hub.parquet_writer(url, schema, rows_per_row_group=_ROW_GROUP_ROWS, rows_per_file=40 * _ROW_GROUP_ROWS,
                                storage_options=options) as writer:  # fmt: skip
            for value in values:
                writer.write({"x": value})
    except hub.errors.AlreadyExistsError:
        pass
    return url, options


def _parquet(base: Place, values: np.ndarray) -> Epoch:
    from hubarray.interop.torch import BatchedDataLoader

    url, options = _dataset(base, values)
    # HF datasets reads everything once, and keeps it beside the dataset as it is in memory; so may ours.
    keep = {} if base.kind == "s3" and not config.current().disk_cache_bytes else {
        "cache_type": "local-disk", "cache_location": str(base.corner("kept").folder)
    }  # fmt: skip

    def epoch() -> Iterator[Any]:
        reader = hub.make_batch_reader(url, shuffle_rows=True, storage_options=options, **keep)
        with BatchedDataLoader(reader, BATCH) as batches:
            for batch in batches:
                yield batch["x"]

    return epoch


def _pyarrow_loop(base: Place, values: np.ndarray) -> Epoch:
    """Row groups in random order, by a few threads, decoded as Petastorm's codec stores them."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow.parquet as pq
    import torch

    from hubarray.readers.parquet.files import listed, located

    url, options = _dataset(base, values)
    location = located(url, options)
    filesystem = location.client.filesystem
    files = [pq.ParquetFile(filesystem.open_input_file(file.path)) for file in listed(location)]
    groups = [(file, group) for file in files for group in range(file.num_row_groups)]

    def read(chosen: tuple[Any, int]) -> Any:
        cells = chosen[0].read_row_group(chosen[1], columns=["x"]).column("x").to_pylist()
        return np.stack([np.load(io.BytesIO(cell)) for cell in cells])

    def epoch() -> Iterator[Any]:
        order = np.random.permutation(len(groups))
        with ThreadPoolExecutor(1) as ahead:
            for rows in ahead.map(read, [groups[i] for i in order]):
                shuffled = torch.from_numpy(rows[np.random.permutation(len(rows))])
                yield from shuffled.split(BATCH)

    return epoch


def _stacked(rows: list[Any]) -> Any:
    import torch

    return torch.from_numpy(np.stack([np.load(io.BytesIO(row["x"])) for row in rows]))


def _hf_datasets(base: Place, values: np.ndarray) -> dict[int, Epoch]:
    import datasets
    from torch.utils.data import DataLoader

    url, _ = _dataset(base, values)
    cache = str(base.corner("hf").folder)
    loaded = datasets.load_dataset("parquet", data_files=f"{url}/**/*.parquet", split="train", cache_dir=cache)

    def epoch(workers: int) -> Epoch:
        keep = {"persistent_workers": True} if workers else {}
        made = DataLoader(loaded, batch_size=BATCH, shuffle=True, num_workers=workers, collate_fn=_stacked, **keep)
        return lambda: iter(made)

    return {workers: epoch(workers) for workers in (0, 2)}


def _hf_streaming(base: Place, values: np.ndarray) -> Epoch:
    """As they read a bucket: row groups in their order, shuffled in a buffer."""
    import datasets
    from torch.utils.data import DataLoader

    url, options = _dataset(base, values)
    client_options = {"key": options["key"], "secret": options["secret"], "endpoint_url": options["endpoint_url"]}
    loaded = datasets.load_dataset(
        "parquet", data_files=f"{url}/*.parquet", split="train", streaming=True, storage_options=client_options
    ).shuffle(buffer_size=256)
    made = DataLoader(loaded, batch_size=BATCH, num_workers=0, collate_fn=_stacked)
    return lambda: iter(made)


def _webdataset_s3(base: Place, values: np.ndarray) -> Epoch:
    """Shards through curl, as its documentation has it, by signed addresses."""
    import webdataset
    from torch.utils.data import DataLoader

    store, shards, addresses = limits.s3_store(base), 8, []
    for shard in range(shards):
        tar = io.BytesIO()
        with webdataset.TarWriter(tar) as sink:
            for i in range(shard, len(values), shards):
                sink.write({"__key__": f"{i:06d}", "npy": values[i]})
        key = f"{base.corner('wds').prefix}/{shard:03d}.tar"
        obstore.put(store, key, tar.getvalue())
        addresses.append(f"pipe:curl -s '{obstore.sign(store, 'GET', key, timedelta(hours=6))}'")
    stages = webdataset.WebDataset(addresses, shardshuffle=shards).shuffle(256).decode().to_tuple("npy").batched(BATCH)
    made = DataLoader(stages, batch_size=None, num_workers=2, persistent_workers=True)
    return lambda: (batch[0] for batch in made)


def _petastorm(base: Place, values: np.ndarray) -> Epoch:
    """An epoch in a process of the environment that has Petastorm; told by the sum that is looked at."""
    interpreter = os.environ.get("HUBARRAY_PETASTORM_PYTHON")
    if not interpreter:
        raise ImportError("HUBARRAY_PETASTORM_PYTHON names no interpreter")
    folder = base.corner("petastorm").folder
    # Without our summary and with its own schema: written by the same environment.
    subprocess.run(
        [interpreter, "-W", "ignore", "-c", _WRITE, str(folder), *map(str, values.shape)],
        input=values.tobytes(),
        check=True,
    )
    process = subprocess.Popen(
        [interpreter, "-W", "ignore", "-c", _PETASTORM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def epoch() -> Iterator[Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        # It prints words of its own, too.
        total = int(next(line for line in process.stdout if line.strip().isdigit()))
        zeros = np.zeros((2, 129, 129, 1), np.int64)
        zeros[0, 128, 128, 0] = total
        yield zeros

    return epoch


# Spark is not needed for rows: pyarrow writes what Petastorm's codec stores, and its metadata is written after.
_WRITE = """
import io, os, pickle, json, sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from petastorm.codecs import NdarrayCodec
from petastorm.unischema import Unischema, UnischemaField
folder, count, *shape = sys.argv[1], *map(int, sys.argv[2:])
values = np.frombuffer(sys.stdin.buffer.read(), "u1").reshape(count, *shape)
os.makedirs(folder, exist_ok=True)
schema = Unischema("Rows", [UnischemaField("x", np.uint8, tuple(shape), NdarrayCodec(), False)])
field = schema.fields["x"]
files = {}
for n, first in enumerate(range(0, count, 1280)):
    some = [bytes(field.codec.encode(field, value)) for value in values[first:first + 1280]]
    pq.write_table(pa.table({"x": pa.array(some, pa.binary())}), f"{folder}/{n:04d}.parquet", row_group_size=32)
    files[f"{n:04d}.parquet"] = -(-len(some) // 32)
told = {b"dataset-toolkit.unischema.v1": pickle.dumps(schema, 2),
        b"dataset-toolkit.num_row_groups_per_file.v1": json.dumps(files).encode()}
pq.write_metadata(pa.schema([("x", pa.binary())]).with_metadata(told), f"{folder}/_common_metadata")
"""


def _mosaic(base: Place, values: np.ndarray) -> dict[int, Epoch]:
    import streaming
    from torch.utils.data import DataLoader

    folder = str(base.corner("mosaic").folder)
    with streaming.MDSWriter(out=folder, columns={"x": "ndarray"}) as out:
        for value in values:
            out.write({"x": value})
    dataset = streaming.StreamingDataset(local=folder, shuffle=True, batch_size=BATCH)

    def epoch(workers: int) -> Epoch:
        made = DataLoader(dataset, batch_size=BATCH, num_workers=workers)
        return lambda: (batch["x"] for batch in made)

    return {workers: epoch(workers) for workers in (0, 2)}


OURS_BY_SOURCE: dict[str, Any] = {TABLE: _table, ARRAY: _array, PARQUET: _parquet}
PEERS: dict[str, Any] = {
    "in memory (raw)": MAKERS["in memory (raw)"],
    "one .npy a sample (raw)": MAKERS["one .npy a sample (raw)"],
    "lance": MAKERS["lance"],
    "webdataset": MAKERS["webdataset"],
    "litdata": MAKERS["litdata"],
    "MosaicML streaming": _mosaic,
    "HF datasets": _hf_datasets,
    "pyarrow loop": _pyarrow_loop,
    "Petastorm": _petastorm,
}
# Those that read S3 by themselves, batch by batch. Of Lance's plain bytes this measures the server, as above.
FROM_S3: dict[str, Any] = {
    "lance": MAKERS["lance"],
    "webdataset": _webdataset_s3,
    "HF datasets": _hf_streaming,
    "pyarrow loop": _pyarrow_loop,
}
