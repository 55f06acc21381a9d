"""How large packs should be: random ranges and bulk reads over packs of several sizes and over objects of their own."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import hubarray as hub
from benchmarks import data, places
from benchmarks.harness import Row, measure
from benchmarks.ours import NAME, OURS, Blob, cold
from benchmarks.places import Place
from hubarray.blobs import pack
from hubarray.storage.base import Store
from tests import servers

SIDE = 256
DRAWN = 128
IN_FLIGHT = 32
SIZES = {"packs of 1 MiB": 1 << 20, "packs of 4 MiB": 4 << 20, "packs of 16 MiB": 16 << 20}
OBJECTS = "an object for each chunk"


def packs(megabytes: int) -> list[Row]:
    """Random ranges of 170 KB, one after the other and 32 in flight, and bulk reads, of an S3 and a GCS server.

    Beside each time stand the objects, the requests that wrote them, and those of a dry collection of garbage.
    """
    count = max(2 * DRAWN, megabytes * 1_000_000 // (SIDE * SIDE * 3))
    values = data.photographs(count, SIDE)
    hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
    rows = []
    for server, place in (("SeaweedFS", _s3), ("fake-gcs-server", _gcs)):
        with place() as root_of:
            layouts = {name: _written(root_of(name.replace(" ", "-")), values, size) for name, size in SIZES.items()}
            layouts[OBJECTS] = _written(root_of("objects"), values, None)
            ways: dict[str, Callable[[hub.Array, list[Blob]], Callable[[], Any]]] = {
                "128 random ranges, one after the other": partial(_ranges, in_flight=1),
                "128 random ranges, 32 in flight": partial(_ranges, in_flight=IN_FLIGHT),
                f"a bulk read of {values.nbytes / 1e6:.0f} MB": lambda array, blobs: partial(array.__getitem__, ...),
            }
            for way, work_of in ways.items():
                row = measure(
                    f"{server}: {way}",
                    {name: work_of(array, blobs) for name, (array, blobs, _) in layouts.items()},
                    before=cold, size_bytes=values.nbytes if "bulk" in way else DRAWN * values[0].nbytes,
                    ours="packs of 16 MiB",
                )  # fmt: skip
                for name, (_, _, counts) in layouts.items():
                    row.timings[name].beside = counts
                rows.append(row)
    return rows


def _written(
    root: hub.Root, values: np.ndarray, pack_bytes: int | None
) -> tuple[hub.Array, list[Blob], dict[str, Any]]:
    """An array whose packs have a size, or whose chunks are packs by themselves; its chunks; what it costs."""
    constants = {"OWN_PACK_BYTES": 1} if pack_bytes is None else {"PACK_BYTES": pack_bytes}
    with mock.patch.multiple(pack, **constants):
        array = hub.array(values.shape, NAME, values.dtype, chunks=(1, SIDE, SIDE, 3), root=root)
        before = array.stats
        with array.transaction() as t:
            t[...] = values
    spent = array.stats - before
    objects = sum(info.key.startswith(f"{array.name}/packs/") for info in root.store.list(""))
    before = array.stats
    hub.collect_garbage(array.name, dry_run=True, root=root)
    counts = {"objects": objects, "PUTs": spent.puts, "collection requests": (array.stats - before).requests}
    return array.snapshot(), OURS.blobs_of(array), counts


def _ranges(array: hub.Array, blobs: list[Blob], *, in_flight: int) -> Callable[[], None]:
    store: Store = array.root.store
    drawn = random.Random(0).sample(blobs, DRAWN)
    pool = ThreadPoolExecutor(in_flight)

    def get(blob: Blob) -> int:
        return len(store.get(blob.key, blob.offset, blob.length))

    def read() -> None:
        assert list(pool.map(get, drawn)) == [blob.length for blob in drawn]

    return read


@contextlib.contextmanager
def _s3() -> Iterator[Callable[[str], hub.Root]]:
    with places.s3() as place:
        yield lambda name: _root(place.corner(name))


def _root(place: Place) -> hub.Root:
    return hub.Root(place.url, storage_options=place.options)


@contextlib.contextmanager
def _gcs() -> Iterator[Callable[[str], hub.Root]]:
    with tempfile.TemporaryDirectory(prefix="hubarray-bench-") as folder, servers.fake_gcs(Path(folder)) as server:
        yield lambda name: hub.Root(f"{server.url}/{name}", storage_options=server.options)
